"""Starts a command of the compiler that is under test: start.py compile|runner ARGUMENTS."""

import os
import sys
from importlib import import_module

sys.path[0] = os.environ["E2E_SOURCE"]
sys.exit(import_module(f"ci_compiler.cli.{sys.argv.pop(1)}").main())

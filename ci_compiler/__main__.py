"""`python -m ci_compiler` is `ci-compile`."""

from __future__ import annotations

from ci_compiler.cli.compile import main

raise SystemExit(main())

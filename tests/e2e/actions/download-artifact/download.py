"""Copies artifacts of the run: the files of one by name, or a folder for each that a pattern matches (v4 and later)."""

import os
import shutil
import sys
from fnmatch import fnmatchcase
from pathlib import Path

store, target = Path(os.environ["E2E_ARTIFACTS"]), Path(os.environ["TARGET"])
names = sorted(path.name for path in store.iterdir()) if store.is_dir() else []
if wanted := os.environ["NAME"]:
    if wanted not in names:
        sys.exit(f"Error: Unable to download artifact(s): Artifact not found for name: {wanted}")
    shutil.copytree(store / wanted, target, dirs_exist_ok=True)
else:
    for name in (name for name in names if fnmatchcase(name, os.environ["PATTERN"] or "*")):
        shutil.copytree(store / name, target / name, dirs_exist_ok=True)

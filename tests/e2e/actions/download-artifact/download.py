"""Copies artifacts of a run: one by name, or those of a pattern into folders, a single match without one (v5)."""

import os
import re
import shutil
import sys
from fnmatch import fnmatchcase
from pathlib import Path

store, target = Path(os.environ["E2E_ARTIFACTS"]), Path(os.environ["TARGET"])
if of_run := os.environ["OF_RUN"]:  # the artifacts of run 7 are beside those of this run
    store = store.parents[1] / f"of-run-{of_run}"
names = sorted(path.name for path in store.iterdir()) if store.is_dir() else []
if wanted := os.environ["NAME"]:
    if wanted not in names:
        sys.exit(f"Error: Unable to download artifact(s): Artifact not found for name: {wanted}")
    shutil.copytree(store / wanted, target, dirs_exist_ok=True)
else:
    pattern = os.environ["PATTERN"] or "*"
    braces = re.fullmatch(r"(.*?)\{(.*)\}(.*)", pattern)  # as minimatch knows them
    patterns = [f"{braces[1]}{one}{braces[3]}" for one in braces[2].split(",")] if braces else [pattern]
    found = [name for name in names if any(fnmatchcase(name, one) for one in patterns)]
    for name in found:
        apart = len(found) > 1 and os.environ.get("MERGE") != "true"
        shutil.copytree(store / name, target / name if apart else target, dirs_exist_ok=True)

"""Stores a folder or a file as an immutable artifact with a valid name that is unique in the run (v4 and later).

https://github.com/actions/upload-artifact, README; @actions/artifact, path-and-artifact-name-validation.
"""

import os
import shutil
import sys
from pathlib import Path

FORBIDDEN = '":<>|*?\\/\r\n'
LIMIT = 500  # artifacts per job


def main() -> str:
    """What is wrong; '' for nothing."""
    name, wanted = os.environ["NAME"], os.environ["FILES"].strip()
    if not name or any(char in FORBIDDEN for char in name):
        return f"the artifact name {name!r} is not valid"
    source = Path(wanted)
    files = [path for path in source.rglob("*") if path.is_file()] if source.is_dir() else [source]
    if "*" in wanted:  # the paths begin below what all files have in common (README, "Upload using multiple paths")
        files = sorted(Path().glob(wanted))
        source = Path(os.path.commonpath([path.parent for path in files])) if files else source
    # Hidden files are left out unless include-hidden-files says otherwise.
    files = [path for path in files if path.is_file() and not any(part.startswith(".") for part in path.parts)]
    if not files:
        print(f"no files were found at {wanted}; no artifact is uploaded")
        return "no files" if os.environ["IF_NONE"] == "error" else ""
    store = Path(os.environ["E2E_ARTIFACTS"])
    target = store / name
    if os.environ.get("OVERWRITE") == "true":
        shutil.rmtree(target, ignore_errors=True)
    try:
        target.mkdir(parents=True)
    except FileExistsError:
        return f"409 Conflict: an artifact with the name {name} already exists on the workflow run"
    if len(list(store.iterdir())) > LIMIT:
        return "too many artifacts"
    base = source if source.is_dir() else source.parent
    for path in files:
        kept = target / path.relative_to(base)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, kept)
    print(f"uploaded {name}: {len(files)} files")
    return ""


sys.exit(f"Error: {problem}" if (problem := main()) else 0)

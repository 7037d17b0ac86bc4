"""The checkers that are JavaScript: `ask` runs one `.mjs` file of this folder, a JSON value in and one out.

`npm ci` in this folder installs their packages; the bundles are built by `npm run build`, or here on first use.
"""

import json
from pathlib import Path
from typing import Any

from .tools import require, run, unavailable

HERE = Path(__file__).parent
PACKAGES = HERE / "node_modules"
BUNDLES = PACKAGES / ".cache" / "checkers"


def ask(script: str, question: object, *, bundled: bool = True) -> Any:
    """The answer of `script`, from one process for any number of files or expressions in the question."""
    node = require("node")
    if not (PACKAGES / ".package-lock.json").is_file():
        unavailable("the checkers' npm packages are not installed: (cd tests/checkers && npm ci)")
    program = _bundle(node, script) if bundled else HERE / f"{script}.mjs"
    return json.loads(run([node, program], stdin=json.dumps(question)).stdout)


def _bundle(node: str, script: str) -> Path:
    """The bundle of a script, rebuilt if it is older than one of its sources."""
    bundle = BUNDLES / f"{script}.cjs"
    newest = max(source.stat().st_mtime for source in HERE.glob("*.mjs"))
    if not bundle.is_file() or bundle.stat().st_mtime < newest:
        run([node, HERE / "build.mjs"])
    return bundle

"""The checkers that are JavaScript: `ask` sends a JSON value to one `.mjs` file of this folder, which answers with one.

Each checker is started once, on its first question, and ends with this process. `npm ci` in this folder installs their
packages; the bundles are built by `npm run build`, or here on first use.
"""

import atexit
import json
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from .tools import require, run, unavailable

HERE = Path(__file__).parent
PACKAGES = HERE / "node_modules"
BUNDLES = PACKAGES / ".cache" / "checkers"


def ask(script: str, question: object, *, bundled: bool = True) -> Any:
    """The answer of `script`, for any number of files or expressions in the question.

    Raises RuntimeError, with what the checker wrote to standard error, if it ends without an answer.
    """
    checker, errors = _started(script, bundled=bundled)
    assert checker.stdin
    assert checker.stdout
    try:
        checker.stdin.write(json.dumps(question) + "\n")
        checker.stdin.flush()
        answer = checker.stdout.readline()
    except BrokenPipeError:
        answer = ""
    if not answer:
        _started.cache_clear()
        status = checker.wait()
        raise RuntimeError(f"{script} ended with {status}: {Path(errors.name).read_text('utf-8')}")
    return json.loads(answer)


@cache
def _started(script: str, *, bundled: bool) -> tuple[subprocess.Popen[str], Any]:
    """The process of a checker, and the file of its standard error."""
    node = require("node")
    if not (PACKAGES / ".package-lock.json").is_file():
        unavailable("the checkers' npm packages are not installed: (cd tests/checkers && npm ci)")
    program = _bundle(node, script) if bundled else HERE / f"{script}.mjs"
    errors = tempfile.NamedTemporaryFile(mode="w")  # noqa: SIM115 - as long as the process
    pipe = subprocess.PIPE
    process = subprocess.Popen([node, program], stdin=pipe, stdout=pipe, stderr=errors, encoding="utf-8")
    atexit.register(_end, process)
    return process, errors


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a checker by the end of its input."""
    with process:
        pass


def _bundle(node: str, script: str) -> Path:
    """The bundle of a script, rebuilt if it is older than one of its sources."""
    bundle = BUNDLES / f"{script}.cjs"
    newest = max(source.stat().st_mtime for source in HERE.glob("*.mjs"))
    if not bundle.is_file() or bundle.stat().st_mtime < newest:
        run([node, HERE / "build.mjs"])
    return bundle

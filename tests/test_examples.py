"""Golden folders: small specs with the tree that they compile to. The wrong ones are in `test_wrong.py`.

`python -m tests.test_examples` rewrites the expected files; read the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM

EXAMPLES = Path(__file__).parent / "examples"
GOOD = sorted(EXAMPLES.glob("good/*"))


def compiled(case: Path, root: Path) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of compiling the case's spec into `root`."""
    (root / ".github").mkdir(parents=True)
    shutil.copy(case / "ci-matrix.yaml", root / ".github/ci-matrix.yaml")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(PROGRAM, ["--root", str(root)])
    return code, out.getvalue().replace(str(root), "ROOT"), err.getvalue().replace(str(root), "ROOT")


def tree(root: Path) -> dict[str, str]:
    """The files under `root` with their text, without the spec."""
    files = (path for path in root.rglob("*") if path.is_file() and path.name != "ci-matrix.yaml")
    return {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in files}


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
def test_a_spec_compiles_to_its_expected_tree(case: Path, tmp_path: Path) -> None:
    code, out, err = compiled(case, tmp_path / "root")
    expected = tree(case / "expected")
    found = tree(tmp_path / "root")
    assert code == 0, err
    assert sorted(found) == sorted(path for path in expected if path.startswith("."))
    for path, text in found.items():
        assert text == expected[path], path
    assert out == expected["stdout.txt"]
    assert err == expected["stderr.txt"]


def _regenerate(scratch: Path) -> None:
    for case in GOOD:
        code, out, err = compiled(case, scratch / case.name)
        assert code == 0, (case.name, err)
        shutil.rmtree(case / "expected", ignore_errors=True)
        for path, text in {**tree(scratch / case.name), "stdout.txt": out, "stderr.txt": err}.items():
            (case / "expected" / path).parent.mkdir(parents=True, exist_ok=True)
            (case / "expected" / path).write_text(text, "utf-8")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        _regenerate(Path(folder))

"""Golden folders: small specs with the trees that they compile to. The wrong ones are in `test_wrong.py`.

`WHOLE` are there as a whole. Every other case has what differs from them, so that a change of what all have is small
here too: `files.txt` lists all files; of one that is not equal there is the difference, or the text where that is
shorter.

`python -m tests.test_examples` rewrites the expected files; read the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from collections import Counter
from collections.abc import Collection, Mapping
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path, PureWindowsPath
from tempfile import TemporaryDirectory

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM

EXAMPLES = Path(__file__).parent / "examples"
GOOD = sorted(EXAMPLES.glob("good/*"))
WHOLE = ("smallest", "everything", "pytorch-linux")
"""The cases that others are compared with: each file with the one that is most like it."""


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


_OTHERS = re.compile(r"(?<=GPUs that are known and that the spec does not select: ).*")
"""A list that grows with the hardware tables."""


def outcome(case: Path, root: Path) -> dict[str, str]:
    """The files that the case's spec compiles to, and what was printed."""
    code, out, err = compiled(case, root)
    assert code == 0, (case.name, err)
    files = {path: _OTHERS.sub("…", text) for path, text in tree(root).items()}
    return {**files, "stdout.txt": out, "stderr.txt": err}


@cache
def of_example(name: str) -> Mapping[str, str]:
    """The files that an example compiles to, and what was printed."""
    with TemporaryDirectory() as scratch:
        return outcome(EXAMPLES / "good" / name, Path(scratch, "root"))


@cache
def whole() -> Mapping[str, Mapping[str, str]]:
    """The files of the cases of `WHOLE`, by the name of the case."""
    return {name: of_example(name) for name in WHOLE}


WORKSPACE = PureWindowsPath(r"C:\actions-runner\_work", "r" * 40, "r" * 40)
"""Where actions/runner checks a repository out, with a long name of that."""


def unfit_for_windows(paths: Collection[str]) -> list[str]:
    """The paths from the root of a repository that Windows does not have, or takes for another one."""
    counts = Counter(str(PureWindowsPath(path)).casefold() for path in paths)
    return [
        path
        for path in paths
        if counts[str(PureWindowsPath(path)).casefold()] > 1
        or len(str(WORKSPACE / path)) >= 260
        or any(
            re.search(r'[<>:"|?*\\\x00-\x1f]|[. ]$', part) or part.partition(".")[0].upper() in DEVICES
            for part in path.split("/")
        )
    ]


DEVICES = {"CON", "PRN", "AUX", "NUL", *(f"{name}{digit}" for name in ("COM", "LPT") for digit in "123456789")}
"""Microsoft, Naming Files, Paths, and Namespaces, which has the characters and the length too."""

UNFIT = [["a/Con.yml"], ["nul"], ["a:b"], ["a/b."], ["a /b"], ["A/x.nix", "a/x.nix"], [f"{'x' * 90}/{'y' * 90}"]]


@pytest.mark.parametrize("paths", UNFIT)
def test_a_path_that_windows_lacks_is_found(paths: list[str]) -> None:
    assert unfit_for_windows(["fit.yml", *paths]) == paths


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
def test_a_checkout_of_what_is_compiled_fits_windows(case: Path) -> None:
    assert unfit_for_windows(of_example(case.name)) == []


def test_a_checkout_of_this_repository_fits_windows() -> None:
    root = Path(__file__).parents[1]
    paths = [path.relative_to(root).as_posix() for name in (".flox", ".github") for path in (root / name).rglob("*")]
    assert len(paths) > 200
    assert unfit_for_windows(paths) == []


def difference(one: str, other: str) -> str:
    """What two texts have otherwise, in the form of `diff -u`, without the numbers of lines."""
    old, new = one.splitlines(keepends=True), other.splitlines(keepends=True)
    found = []
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(1):
        found.append("@@\n")
        for tag, start, end, from_, to in group:
            found += [f" {line}" for line in old[start:end] if tag == "equal"]
            found += [f"-{line}" for line in old[start:end] if tag in {"replace", "delete"}]
            found += [f"+{line}" for line in new[from_:to] if tag in {"replace", "insert"}]
    return "".join(found)


def golden(case: Path, root: Path) -> dict[str, str]:
    """What the folder of the case must have."""
    found = outcome(case, root)
    if case.name in WHOLE:
        return found
    kept: dict[str, str] = {}
    listed = []
    for path, text in sorted(found.items()):
        by_name = {name: difference(files[path], text) for name, files in whole().items() if path in files}
        name = min(by_name, key=lambda name: len(by_name[name]), default="")
        if not name or len(by_name[name]) >= len(text):
            kept[path] = text
            listed.append(path)
        elif by_name[name]:
            kept[f"{path}.diff"] = by_name[name]
            listed.append(f"{path}: as in {name}, but")
        else:
            listed.append(f"{path}: as in {name}")
    return {**kept, "files.txt": "\n".join(listed) + "\n"}


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
def test_a_spec_compiles_to_its_expected_tree(case: Path, tmp_path: Path) -> None:
    expected = tree(case / "expected")
    found = golden(case, tmp_path / "root")
    for path, text in found.items():
        assert text == expected.get(path), path
    assert found.keys() == expected.keys()


def _regenerate(scratch: Path) -> None:
    for case in GOOD:
        files = golden(case, scratch / case.name)
        shutil.rmtree(case / "expected", ignore_errors=True)
        for path, text in files.items():
            (case / "expected" / path).parent.mkdir(parents=True, exist_ok=True)
            (case / "expected" / path).write_text(text, "utf-8")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        _regenerate(Path(folder))

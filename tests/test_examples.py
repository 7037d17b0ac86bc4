"""Golden folders: small specs with the trees that they compile to. The wrong ones are in `test_wrong.py`.

`smallest` is there as a whole. Every other example shows what is its own: `expected.txt` lists its files, each with its
digest unless `smallest` has the same one, and the lines that neither `smallest` nor a file above has. An ellipsis
stands for other lines.

`python -m tests.test_examples` rewrites the expected files; read the difference before you commit it. With a folder, it
writes all files there instead: `diff -r` shows what a change does to them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path, PureWindowsPath
from tempfile import TemporaryDirectory

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM

EXAMPLES = Path(__file__).parent / "examples"
GOOD = sorted(EXAMPLES.glob("good/*"))
BASE, ELLIPSIS = "smallest", "    …"


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


def own(found: Mapping[str, str], base: Mapping[str, str]) -> dict[str, list[str]]:
    """What the files show that differ from those of the base: their digest, and the lines that are not shown yet."""
    known = {line for text in base.values() for line in text.splitlines()}
    shown = {}
    for path, text in sorted(found.items()):
        if base.get(path) == text:
            shown[path] = [f"{path}: as in {BASE}"]
            continue
        shown[path] = lines = [f"{path}: {hashlib.sha256(text.encode()).hexdigest()[:16]}"]
        for line in text.splitlines():
            if line not in known:
                known.add(line)
                lines.append(f"    {line}".rstrip())
            elif lines[-1] != ELLIPSIS:
                lines.append(ELLIPSIS)
    return shown


def golden(name: str) -> dict[str, str]:
    """What the folder of the example must have, apart from the spec."""
    found = of_example(name)
    if name == BASE:
        return {f"expected/{path}": text for path, text in found.items()}
    return {"expected.txt": "".join(f"{line}\n" for lines in own(found, of_example(BASE)).values() for line in lines)}


def by_path(text: str) -> dict[str, str]:
    """What `expected.txt` shows of each file."""
    return {shown.partition(":")[0]: shown for shown in re.split(r"^(?! )", text, flags=re.MULTILINE) if shown}


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
def test_a_spec_compiles_to_its_expected_tree(case: Path) -> None:
    expected, found = tree(case), golden(case.name)
    if case.name != BASE:
        expected, found = by_path(expected.pop("expected.txt")) | expected, by_path(found["expected.txt"])
    assert found.keys() == expected.keys()
    for path, text in found.items():
        assert text == expected[path], f"{path}; `python -m tests.test_examples FOLDER` writes what is compiled"


def test_an_example_shows_each_change_of_what_is_compiled() -> None:
    base, files = {"a": "1\n2\n", "b": "3\n"}, {"a": "1\n2\n", "b": "3\n4\n1\n5\n", "c": "4\n6\n4\n"}
    shown = own(files, base)
    assert [line for lines in shown.values() for line in lines] == [
        "a: as in smallest",
        "b: 4f5c46b59fe7ee3e",
        *(ELLIPSIS, "    4", ELLIPSIS, "    5"),
        "c: dbb8c40f5dcf9358",
        *(ELLIPSIS, "    6", ELLIPSIS),
    ]
    for path, old in files.items():
        for text in ("", "1\n", f"{old}\n", old.rstrip("\n"), old[2:] + old[:2] + "6\n"):
            assert own(files | {path: text}, base)[path] != shown[path], (path, text)


def _regenerate() -> None:
    for case in GOOD:
        files = golden(case.name)
        shutil.rmtree(case / "expected", ignore_errors=True)
        _write(case, files)


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for example in GOOD:
            _write(Path(argument, example.name), of_example(example.name))
    if not sys.argv[1:]:
        _regenerate()

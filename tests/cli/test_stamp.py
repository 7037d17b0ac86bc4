"""A check of what has not changed since it was green ends before anything is imported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_compiler import __main__, checkout
from ci_compiler.cli import compile as command
from ci_compiler.cli import stamp
from tests.processes import until
from tests.specs import small

pytestmark = pytest.mark.slow

WORKED = 77
"""The exit code of a check that did its work, in these tests."""

TEMPLATE = small(packages={"pytorch": {"recipes": "template", "template": "nix/torch.nix"}, "torchvision": {}})


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(root), *who, *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a compiled spec and recipes, whose branch is committed."""
    root = tmp_path_factory.mktemp("compiled")
    git(root, "init", "--quiet", "--initial-branch", "main")
    (root / "nix").mkdir()
    (root / "nix/torch.nix").write_text("{ @name@ }", "utf-8")
    (root / ".github").mkdir()
    (root / ".github/ci-matrix.yaml").write_text(json.dumps(small(toolkit="./tool")), "utf-8")
    (root / "tool").mkdir()
    (root / "tool/pyproject.toml").touch()
    for words in (["recipes"], []):
        subprocess.run([sys.executable, "-m", "ci_compiler", *words], cwd=root, check=True, capture_output=True)
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "compile")
    return root


@pytest.fixture
def stamped(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it with a stamp, as the working directory."""
    root = tmp_path / "stack"
    shutil.copytree(compiled, root, symlinks=True)
    monkeypatch.chdir(root)
    leave_stamp(root, monkeypatch)
    return root


def leave_stamp(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks `root` as if its files, which are new, were older than a second."""
    with monkeypatch.context() as patched:
        patched.setattr(stamp, "_RACE", 0)
        until(lambda: check(patched) == 0 and (root / ".git" / stamp.NAME).exists())
    monkeypatch.setattr(command, "main", lambda: WORKED)


def check(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["ci-compile", "--check", *words])
    return __main__.main()


def test_a_second_check_prints_the_same_and_imports_nothing(stamped: Path) -> None:
    show = "import sys\nfrom ci_compiler.__main__ import main\ncode = main()\n"
    show += "print(*sorted(name for name in sys.modules if name.startswith('ci_compiler')))\nraise SystemExit(code)"
    again = subprocess.run([sys.executable, "-c", show, "--check"], capture_output=True, text=True, check=True)
    assert again.stdout.split() == [
        "ci_compiler",
        "ci_compiler.__main__",
        "ci_compiler.checkout",
        "ci_compiler.cli",
        "ci_compiler.cli.stamp",
    ]
    (stamped / ".git" / stamp.NAME).unlink()
    first = subprocess.run([sys.executable, "-m", "ci_compiler", "--check"], capture_output=True, text=True, check=True)
    assert first.stderr == again.stderr
    assert "[no-cache]" in first.stderr


def append(path: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        with (root / path).open("a", encoding="utf-8") as file:
            file.write("# edited\n")

    return change


def same_size(root: Path) -> None:
    """Changes a byte of a workflow, and sets its times to what they were."""
    path = root / ".github/workflows/cell.yml"
    before = path.stat()
    path.write_text(path.read_text("utf-8").replace("a", "b", 1), "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def link(root: Path) -> None:
    path = root / ".github/workflows/cell.yml"
    path.rename(root / "elsewhere.yml")
    path.symlink_to(root / "elsewhere.yml")


def pipe(root: Path) -> None:
    os.mkfifo(root / ".github/workflows/pipe.yml")


def nested(root: Path) -> None:
    (root / ".github/actions/mine").mkdir(parents=True)
    (root / ".github/actions/mine/action.yml").touch()


CHANGES: dict[str, Callable[[Path], object]] = {
    "spec": append(".github/ci-matrix.yaml"),
    "workflow": append(".github/workflows/cell.yml"),
    "workflow-of-the-same-size-and-time": same_size,
    "workflow-removed": lambda root: (root / ".github/workflows/cell.yml").unlink(),
    "workflow-added": lambda root: (root / ".github/workflows/other.yml").touch(),
    "workflow-is-a-link": link,
    "workflow-is-a-pipe": pipe,
    "workflows-are-a-link": lambda root: (
        (root / ".github/workflows").rename(root / "w") or (root / ".github/workflows").symlink_to(root / "w")
    ),
    "action-added": nested,
    "document": append(".github/BUILD_MATRIX.md"),
    "recipe": append(".flox/pkgs/pytorch-python313-cpu-avx2.nix"),
    "recipe-removed": lambda root: (root / ".flox/pkgs/pytorch-python313-cpu-avx2.nix").unlink(),
    "toolkit-removed": lambda root: (root / "tool/pyproject.toml").unlink(),
    "other-branch": lambda root: git(root, "checkout", "--quiet", "-b", "other"),
    "commit": lambda root: git(root, "commit", "--quiet", "--allow-empty", "--message", "more"),
    "fetched": lambda root: git(root, "update-ref", "refs/remotes/origin/main", "HEAD"),
    "packed": lambda root: git(root, "pack-refs", "--all"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_checked(stamped: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]) -> None:
    assert check(monkeypatch) == 0
    change(stamped)
    assert check(monkeypatch) == WORKED


def test_other_words_are_checked(stamped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(monkeypatch, "--branch", "main") == WORKED
    assert check(monkeypatch, "--diff") == WORKED
    monkeypatch.setattr(sys, "argv", ["ci-compile", "upgrade", "--check"])
    assert __main__.main() == WORKED
    monkeypatch.chdir(stamped / ".github")
    assert check(monkeypatch) == WORKED


@pytest.mark.usefixtures("stamped")
def test_another_compiler_checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "ci_compiler"
    shutil.copytree(Path(__main__.__file__).parent, package)
    monkeypatch.setattr(stamp, "__file__", str(package / "cli/stamp.py"))
    assert check(monkeypatch) == WORKED


@pytest.mark.usefixtures("stamped")
def test_another_version_of_a_dependency_or_of_python_checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "site/pyyaml-99.0.dist-info").mkdir(parents=True)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])
        assert check(monkeypatch) == WORKED
    assert check(monkeypatch) == 0
    monkeypatch.setattr(sys, "version", "3.99")
    assert check(monkeypatch) == WORKED


def test_templates_of_the_spec_are_checked(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "stack"
    shutil.copytree(compiled, root, symlinks=True)
    monkeypatch.chdir(root)
    (root / ".github/ci-matrix.yaml").write_text(json.dumps(TEMPLATE), "utf-8")
    monkeypatch.setattr(sys, "argv", ["ci-compile"])
    assert __main__.main() == 0
    leave_stamp(root, monkeypatch)
    assert check(monkeypatch) == 0
    append("nix/torch.nix")(root)
    assert check(monkeypatch) == WORKED


@pytest.mark.parametrize("text", ["", "no stamp", "\0\0" * 4, "said\0\0read\0\0" + "0" * 32])
def test_what_is_no_stamp_is_checked(stamped: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (stamped / ".git" / stamp.NAME).write_text(text, "utf-8")
    assert check(monkeypatch) == WORKED


@pytest.fixture
def fresh(compiled: Path, tmp_path: Path) -> Path:
    """A copy without a stamp, all of whose files are older than a second."""
    root = tmp_path / "fresh"
    shutil.copytree(compiled, root, symlinks=True)
    time.sleep(1.1)
    until(lambda: is_stamped(root, root))
    (root / ".git" / stamp.NAME).unlink()
    return root


def is_stamped(root: Path, folder: Path, *words: str, stdin: str = "") -> bool:
    """Whether a check in `folder`, which is green, leaves a stamp."""
    call = [sys.executable, "-m", "ci_compiler", "--check", *words]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False, input=stdin)
    assert done.returncode == 0, done.stderr
    return (root / ".git" / stamp.NAME).is_file()


def test_there_is_no_stamp_of_a_file_that_may_change_during_the_check(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fresh)
    started = time.time_ns()
    (fresh / ".github/workflows/own.yml").write_text("on: push\n", "utf-8")
    stamp.keep(["--check"], fresh, [], "", started)
    assert not (fresh / ".git" / stamp.NAME).exists()
    stamp.keep(["--check"], fresh, [], "", time.time_ns() + 3600 * 10**9)
    assert (fresh / ".git" / stamp.NAME).exists()


def test_there_is_no_stamp_where_the_git_folder_cannot_be_written(fresh: Path) -> None:
    (fresh / ".git" / stamp.NAME).mkdir()
    assert not is_stamped(fresh, fresh)


def test_there_is_no_stamp_of_standard_input(fresh: Path) -> None:
    spec = (fresh / ".github/ci-matrix.yaml").read_text("utf-8")
    subprocess.run([sys.executable, "-m", "ci_compiler", "--spec", "-"], cwd=fresh, check=True, input=spec, text=True)
    time.sleep(1.1)  # the files are old enough for a stamp
    assert not is_stamped(fresh, fresh, "--spec", "-", stdin=spec)


def test_there_is_no_stamp_of_another_repository(fresh: Path, tmp_path: Path) -> None:
    (tmp_path / "other/.git").mkdir(parents=True)
    assert not is_stamped(fresh, tmp_path / "other", "--root", str(fresh))


def test_a_worktree_has_a_stamp_of_its_own(fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(fresh, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    other = Path(checkout.git_folder(tmp_path / "side"))
    until(lambda: is_stamped(fresh, tmp_path / "side", "--branch", "main") or (other / stamp.NAME).exists())
    assert not (fresh / ".git" / stamp.NAME).exists()
    monkeypatch.chdir(tmp_path / "side")
    monkeypatch.setattr(command, "main", lambda: WORKED)
    assert check(monkeypatch, "--branch", "main") == 0
    git(fresh, "commit", "--quiet", "--allow-empty", "--message", "more")
    assert check(monkeypatch, "--branch", "main") == WORKED

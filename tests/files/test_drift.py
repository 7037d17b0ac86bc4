"""Compiled files: what is written, removed and never touched, all in one step."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import socket
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ci_compiler.errors import InputError
from ci_compiler.files.atomic import _exchange, write_file, write_text
from ci_compiler.files.drift import (
    FLOX,
    GITHUB,
    MARK,
    ChangeKind,
    Territory,
    apply,
    compare,
    differences,
    holds_ours,
    is_ours,
)

OURS = f"# {MARK} from s. Do not edit.\nname: a\n"
A, B = ".github/workflows/a.yml", ".github/workflows/b.yml"


def write(root: Path, path: str, text: str = OURS) -> Path:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
    return target


def compile_into(root: Path, files: dict[str, str]) -> list[tuple[str, ChangeKind]]:
    changes = compare(root, files, [GITHUB])
    apply(root, files, changes, [GITHUB])
    return [(change.path, change.kind) for change in changes]


def snapshot(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_files_are_added_changed_and_removed_and_then_nothing_differs(tmp_path: Path) -> None:
    assert compile_into(tmp_path, {A: OURS, B: OURS}) == [(A, "added"), (B, "added")]
    assert compile_into(tmp_path, {A: OURS, B: OURS}) == []
    assert compile_into(tmp_path, {A: OURS + "x: 1\n"}) == [(A, "changed"), (B, "removed")]
    assert snapshot(tmp_path) == {A: (OURS + "x: 1\n").encode()}


def test_foreign_files_keep_their_bytes_inode_and_mode(tmp_path: Path) -> None:
    foreign = write(tmp_path, ".github/workflows/mine.yml", "name: mine\n")
    funding = write(tmp_path, ".github/FUNDING.yml", "github: me\n")
    foreign.chmod(0o640)
    (tmp_path / ".github/link").symlink_to("FUNDING.yml")
    before = {path: path.stat() for path in (foreign, funding)}
    compile_into(tmp_path, {A: OURS, B: OURS})
    for path, found in before.items():
        assert (path.stat().st_ino, path.stat().st_mode) == (found.st_ino, found.st_mode)
    assert (tmp_path / ".github/link").readlink() == Path("FUNDING.yml")


def test_a_foreign_file_in_the_way_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    write(tmp_path, B, "name: mine\n")
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=r"b\.yml: was not written by ci-compile"):
        compile_into(tmp_path, {A: OURS, B: OURS})
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("folder", "is a directory"),
        ("link", "is a symbolic link, which ci-compile does not write through"),
        ("dangling", "is a symbolic link, which ci-compile does not write through"),
        ("linked-folder", "its folder .github/workflows is a symbolic link, which ci-compile does not write through"),
        ("linked-root", "its folder .github is a symbolic link, which ci-compile does not write through"),
        ("file-for-a-folder", "its folder .github/workflows is a file"),
        ("pipe", "is a special file"),
    ],
)
def test_anything_else_in_the_way_is_an_error(tmp_path: Path, kind: str, said: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "root"
    target = root / A
    target.parent.mkdir(parents=True)
    match kind:
        case "folder":
            target.mkdir()
        case "link":
            write(outside, "x.yml")
            target.symlink_to(outside / "x.yml")
        case "dangling":
            target.symlink_to(outside / "nowhere.yml")
        case "linked-folder":
            target.parent.rmdir()
            target.parent.symlink_to(outside)
        case "linked-root":
            target.parent.rmdir()
            target.parent.parent.rmdir()
            target.parent.parent.symlink_to(outside)
        case "pipe":
            os.mkfifo(target)
        case "file-for-a-folder":
            target.parent.rmdir()
            target.parent.write_text("x", "utf-8")
    before = snapshot(outside)
    with pytest.raises(InputError) as raised:
        compile_into(root, {A: OURS, B: OURS})
    assert str(raised.value.findings[0]) == f"{A}: {said} [in-the-way]"
    assert snapshot(outside) == before


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(path: Path) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    write(tmp_path, A)
    monkeypatch.setattr(Path, "read_bytes", unreadable)
    with pytest.raises(InputError) as raised:
        compare(tmp_path, {A: OURS}, [GITHUB])
    assert list(map(str, raised.value.findings)) == [f"{A}: cannot be read: Input/output error [in-the-way]"]


def test_a_comparison_of_a_tree_that_changed_meanwhile_writes_nothing(tmp_path: Path) -> None:
    """Without locks, another compile may exchange the folder during the comparison."""
    mine, theirs = {A: OURS, B: OURS}, {A: OURS + "x: 1\n", B: OURS + "x: 1\n"}
    compile_into(tmp_path, theirs)
    seen = [change for change in compare(tmp_path, mine, [GITHUB]) if change.path == B]
    with pytest.raises(InputError) as raised:
        apply(tmp_path, mine, seen, [GITHUB])
    said = "was changed during this compile; run it again"
    assert list(map(str, raised.value.findings)) == [f"{A}: {said} [in-the-way]"]
    assert snapshot(tmp_path) == {path: text.encode() for path, text in theirs.items()}


def test_changes_that_another_compile_made_meanwhile_are_not_repeated(tmp_path: Path) -> None:
    files = {A: OURS, B: OURS}
    changes = compare(tmp_path, files, [GITHUB])
    compile_into(tmp_path, {A: OURS})
    node = (tmp_path / A).stat().st_ino
    apply(tmp_path, files, changes, [GITHUB])
    assert snapshot(tmp_path) == {path: text.encode() for path, text in files.items()}
    assert (tmp_path / A).stat().st_ino == node


def test_an_unreadable_path_is_not_a_compiled_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert not is_ours(tmp_path / "pipe")
    assert not is_ours(Path("/proc/self/mem"))  # a file whose start cannot be read
    (tmp_path / ".github").mkdir()
    os.mkfifo(tmp_path / ".github/x.yml")
    (tmp_path / ".github/y.yml").symlink_to(write(tmp_path, "elsewhere/ours.yml"))
    assert compare(tmp_path, {}, [GITHUB]) == ()
    assert not holds_ours(tmp_path, GITHUB)


def test_a_compiled_file_that_is_not_utf_8_is_repaired_and_shown(tmp_path: Path) -> None:
    for path in (A, B):
        write(tmp_path, path).write_bytes(OURS.encode() + b"\xff\n")
    changes = compare(tmp_path, {A: OURS}, [GITHUB])
    assert [change.before for change in changes] == [f"{OURS}\ufffd\n"] * 2
    assert list(differences(changes[:1])) == [
        f"--- a/{A}",
        f"+++ b/{A}",
        "@@ -1,3 +1,2 @@",
        *(f" {line}" for line in OURS.splitlines()),
        "-\ufffd",
    ]


def test_a_territory_without_changes_is_not_created(tmp_path: Path) -> None:
    files = {A: OURS, B: OURS}
    apply(tmp_path, files, compare(tmp_path, files, [GITHUB, FLOX]), [GITHUB, FLOX])
    assert sorted(path.name for path in tmp_path.iterdir()) == [".github"]


def test_a_comparison_waits_for_a_running_compile(tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(compare, tmp_path, {A: OURS}, [GITHUB])
        time.sleep(0.2)  # a comparison that did not wait would be done by now
        write(tmp_path, A)
        os.close(handle)
        assert seen.result() == ()


def test_a_working_directory_stays_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_into(tmp_path, {A: OURS, B: OURS})
    monkeypatch.chdir(tmp_path / A.rpartition("/")[0])
    compile_into(tmp_path, {A: OURS + "x: 1\n", ".github/actions/c/action.yml": OURS})
    assert sorted(Path().iterdir()) == [Path("a.yml")]
    assert Path("a.yml").samefile(tmp_path / A)
    assert Path("a.yml").read_text("utf-8") == OURS + "x: 1\n"
    assert Path("../actions/c/action.yml").exists()


def test_if_the_old_folder_cannot_be_exchanged_back_the_new_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_into(tmp_path, {A: OURS, B: OURS})
    calls: list[Path] = []

    def once(one: Path, other: Path) -> bool:
        calls.append(one)
        if len(calls) > 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return _exchange(one, other)

    monkeypatch.setattr("ci_compiler.files.atomic._exchange", once)
    compile_into(tmp_path, {A: OURS + "x: 1\n", B: OURS + "x: 1\n"})
    assert snapshot(tmp_path) == {path: (OURS + "x: 1\n").encode() for path in (A, B)}
    assert not list(tmp_path.glob(".ci-compile-*"))


@pytest.mark.parametrize("when", [1, 2])
def test_files_written_meanwhile_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: int) -> None:
    """An editor saves by renaming: it puts a new file into the folder that is about to be exchanged."""
    calls: list[Path] = []
    mine, deep, link = (tmp_path / ".github" / name for name in ("CODEOWNERS", "deep/er/new.md", "link"))
    compile_into(tmp_path, {A: OURS, B: OURS})
    mine.write_text("* @me\n", "utf-8")
    link.symlink_to("CODEOWNERS")

    def late(one: Path, other: Path) -> bool:
        calls.append(one)
        if len(calls) == when:
            (tmp_path / "saved").write_text("* @you\n", "utf-8")
            (tmp_path / "saved").replace(mine)
            write(tmp_path, ".github/deep/er/new.md", "new\n")
        return _exchange(one, other)

    monkeypatch.setattr("ci_compiler.files.atomic._exchange", late)
    compile_into(tmp_path, {A: OURS + "x: 1\n"})
    assert (mine.read_text("utf-8"), deep.read_text("utf-8")) == ("* @you\n", "new\n")
    assert link.readlink() == Path("CODEOWNERS")
    assert not (tmp_path / B).exists()
    assert not list(tmp_path.glob(".ci-compile-*"))


def test_without_an_exchange_of_folders_files_change_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_compiler.files.atomic._exchange", lambda *_: False)
    action = ".github/actions/c/action.yml"
    compile_into(tmp_path, {A: OURS, B: OURS})
    foreign = write(tmp_path, ".github/CODEOWNERS", "* @me\n").stat().st_ino
    compile_into(tmp_path, {A: OURS + "x: 1\n", action: OURS})
    assert snapshot(tmp_path).keys() == {A, action, ".github/CODEOWNERS"}
    assert (tmp_path / ".github/CODEOWNERS").stat().st_ino == foreign


def test_files_that_cannot_be_linked_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_into(tmp_path, {A: OURS, B: OURS})
    write(tmp_path, ".github/CODEOWNERS", "* @me\n").chmod(0o640)
    monkeypatch.setattr("os.link", lambda *_, **__: (_ for _ in ()).throw(OSError(errno.EPERM, "no links")))
    compile_into(tmp_path, {A: OURS + "x: 1\n"})
    assert snapshot(tmp_path) == {A: (OURS + "x: 1\n").encode(), ".github/CODEOWNERS": b"* @me\n"}


def test_an_exchange_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        _exchange(tmp_path / "one", tmp_path / "other")
    assert raised.value.filename == str(tmp_path / "other")


def test_a_folder_stays_when_its_last_files_go(tmp_path: Path) -> None:
    out = Territory(folder="out", patterns=("*",))
    files = {"out/a": OURS, "out/b": OURS}
    apply(tmp_path, files, compare(tmp_path, files, [out]), [out])
    apply(tmp_path, {}, compare(tmp_path, {}, [out]), [out])
    assert list((tmp_path / "out").iterdir()) == []


def test_a_single_file_is_written_with_its_folder(tmp_path: Path) -> None:
    action = ".github/actions/c/action.yml"
    compile_into(tmp_path, {A: OURS})
    assert compile_into(tmp_path, {A: OURS, action: OURS}) == [(action, "added")]
    assert snapshot(tmp_path).keys() == {A, action}


def test_folders_above_a_territory_are_created(tmp_path: Path) -> None:
    files = {".flox/pkgs/a.nix": OURS}
    apply(tmp_path, files, compare(tmp_path, files, [FLOX]), [FLOX])
    assert snapshot(tmp_path) == {".flox/pkgs/a.nix": OURS.encode()}


def test_a_write_error_has_the_systems_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(number: int, *names: str) -> Callable[..., None]:
        def fail(*_: object) -> None:
            raise OSError(number, os.strerror(number), *names)

        return fail

    for fail, said in (
        (failing(errno.ENOSPC), ".github: cannot be written: No space left on device"),
        (failing(errno.EROFS, "/a/b"), "/a/b: cannot be written: Read-only file system"),
    ):
        monkeypatch.setattr("ci_compiler.files.atomic._put", fail)
        with pytest.raises(InputError) as raised:
            compile_into(tmp_path, {A: OURS, B: OURS})
        assert list(map(str, raised.value.findings)) == [f"{said} [cannot-write]"]


def test_of_many_files_that_cannot_be_copied_the_first_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_into(tmp_path, {A: OURS, B: OURS})

    def full(source: str, _: str) -> str:
        raise OSError(errno.ENOSPC, f"no space for {Path(source).name}")

    monkeypatch.setattr("ci_compiler.files.atomic._link", full)
    with pytest.raises(InputError, match=r"\.github: cannot be written: .*no space for [ab]\.yml \[cannot-write\]$"):
        compile_into(tmp_path, {A: OURS + "x: 1\n", B: OURS + "x: 1\n"})


def test_territories_change_independently(tmp_path: Path) -> None:
    near, beside = Territory(folder="out", patterns=("*",)), Territory(folder="out2", patterns=("*",))
    files = {"out/a": OURS, "out/b": OURS, "out2/a": OURS, "out2/b": OURS}
    apply(tmp_path, files, compare(tmp_path, files, [near, beside]), [near, beside])
    assert snapshot(tmp_path) == {path: OURS.encode() for path in files}
    untouched = (tmp_path / "out").stat().st_ino
    more = {path: text + "x: 1\n" if path.startswith("out2/") else text for path, text in files.items()}
    apply(tmp_path, more, compare(tmp_path, more, [near, beside]), [near, beside])
    assert snapshot(tmp_path) == {path: text.encode() for path, text in more.items()}
    assert (tmp_path / "out").stat().st_ino == untouched


@pytest.mark.parametrize(
    ("path", "held"),
    [
        (".github/actionlint.yaml", True),
        (".github/workflows/a.yml", True),
        (".github/workflows/a.yaml", False),
        (".github/workflows/deep/a.yml", False),
        (".github/actions/a/action.yml", True),
        (".github/actions/action.yml", False),
        (".github/README.md", True),
        ("README.md", False),
        ("sub/.github/README.md", False),
        (".flox/pkgs/a.nix", False),
    ],
)
def test_a_territory_knows_the_paths_of_its_files(path: str, *, held: bool) -> None:
    assert GITHUB.may_hold(path) is held


def test_one_file_is_written_whole_despite_leftovers_of_a_dead_run(tmp_path: Path) -> None:
    target = tmp_path / "spec.yaml"
    dead, alive = tmp_path / ".ci-compile-spec.yaml-999999999-x", tmp_path / f".ci-compile-spec.yaml-{os.getpid()}-x"
    other = tmp_path / ".ci-compile-other-999999999-x"
    nobody = tmp_path / ".ci-compile-spec.yaml-x"
    for folder in (dead, alive, other, nobody):
        folder.mkdir()
    target.symlink_to(write(tmp_path, "elsewhere"))
    write_file(target, "a: 1\n")
    assert (target.is_symlink(), target.read_text("utf-8")) == (False, "a: 1\n")
    assert (tmp_path / "elsewhere").read_text("utf-8") == OURS
    assert sorted(path.name for path in tmp_path.glob(".ci-*")) == sorted([alive.name, other.name])
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "nowhere/spec.yaml", "a: 1\n")


def test_a_pipe_or_socket_is_never_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
    for name, mode in (("pipe", stat.S_IFIFO), ("socket", stat.S_IFSOCK)):
        with pytest.raises(InputError, match=f"{name}: cannot be written: this is not a regular file"):
            write_text(tmp_path / name, "a: 1\n")
        assert stat.S_IFMT((tmp_path / name).stat().st_mode) == mode


def test_a_mark_below_the_first_line_does_not_count(tmp_path: Path) -> None:
    kept = write(tmp_path, B, f"name: x\n# {MARK} from s\n")
    compile_into(tmp_path, {A: OURS})
    assert kept.exists()


@pytest.mark.parametrize("files", [{A: OURS + "x: 1\n"}, {A: OURS + "x: 1\n", B: OURS}], ids=["one file", "two files"])
def test_a_full_disk_leaves_the_old_tree(tmp_path: Path, files: dict[str, str]) -> None:
    compile_into(tmp_path, {A: OURS})
    before = snapshot(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # writes fail from here on, as on a full disk
    try:
        with pytest.raises(InputError, match="cannot be written: File too large"):
            compile_into(tmp_path, files)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("call", ["link", "write_text", "renameat2"])
def test_a_compile_that_dies_leaves_the_old_tree_and_the_next_one_finishes(
    tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ".github/FUNDING.yml", "github: me\n")
    compile_into(tmp_path, {A: OURS, B: OURS})
    before = {path: data for path, data in snapshot(tmp_path).items() if ".ci-compile-" not in path}
    pid = os.fork()
    if pid == 0:  # the child ends like a killed process: without cleaning up
        if call == "link":
            monkeypatch.setattr("os.link", lambda *_args, **_options: os._exit(9))
        elif call == "write_text":
            monkeypatch.setattr("pathlib.Path.write_text", lambda *_args, **_options: os._exit(9))
        else:
            monkeypatch.setattr("ci_compiler.files.atomic._exchange", lambda *_: os._exit(9))
        compile_into(tmp_path, {A: OURS + "x: 1\n", B: OURS + "x: 1\n"})
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    after = {path: data for path, data in snapshot(tmp_path).items() if ".ci-compile-" not in path}
    assert after == before
    compile_into(tmp_path, {A: OURS + "x: 1\n", B: OURS + "x: 1\n"})
    assert snapshot(tmp_path).keys() == before.keys()
    assert not list(tmp_path.glob(".ci-compile-*"))


def test_the_diff_names_both_sides(tmp_path: Path) -> None:
    write(tmp_path, A)
    gone = ".github/workflows/c.yml"
    write(tmp_path, gone)
    first, second = OURS.splitlines()
    assert list(differences(compare(tmp_path, {A: OURS + "x: 1\n", B: OURS}, [GITHUB]))) == [
        *(f"--- a/{A}", f"+++ b/{A}", "@@ -1,2 +1,3 @@", f" {first}", f" {second}", "+x: 1"),
        *("--- /dev/null", f"+++ b/{B}", "@@ -0,0 +1,2 @@", f"+{first}", f"+{second}"),
        *(f"--- a/{gone}", "+++ /dev/null", "@@ -1,2 +0,0 @@", f"-{first}", f"-{second}"),
    ]


@pytest.mark.parametrize(
    ("path", "territory"),
    [
        (".github/actionlint.yaml", GITHUB),
        (".github/zizmor.yml", GITHUB),
        (".github/BUILD_MATRIX.md", GITHUB),
        (".github/.gitattributes", GITHUB),
        (".github/workflows/build-main-sm61.yml", GITHUB),
        (".github/actions/setup/action.yml", GITHUB),
        (".flox/pkgs/pytorch.nix", FLOX),
        (".flox/pkgs/.gitattributes", FLOX),
    ],
)
def test_a_stale_compiled_file_is_removed_only_inside_a_territory(
    tmp_path: Path, path: str, territory: Territory
) -> None:
    ours, elsewhere = write(tmp_path, path), write(tmp_path, f"{path}.d/{Path(path).name}")
    assert holds_ours(tmp_path, territory)
    changes = compare(tmp_path, {}, [territory])
    assert [(change.path, change.kind, change.before, change.after) for change in changes] == [
        (path, ChangeKind.REMOVED, OURS, None)
    ]
    apply(tmp_path, {}, changes, [territory])
    assert (ours.exists(), elsewhere.exists()) == (False, True)
    assert not holds_ours(tmp_path, territory)


def test_a_folder_is_removed_with_its_last_file_but_not_with_a_foreign_one(tmp_path: Path) -> None:
    alone, shared = ".github/actions/alone/action.yml", ".github/actions/shared/action.yml"
    compile_into(tmp_path, {A: OURS, alone: OURS, shared: OURS})
    write(tmp_path, ".github/actions/shared/mine.sh", "true\n")
    compile_into(tmp_path, {A: OURS})
    assert sorted(path.name for path in (tmp_path / ".github/actions").iterdir()) == ["shared"]
    assert [path.name for path in (tmp_path / ".github/actions/shared").iterdir()] == ["mine.sh"]


def test_leftovers_are_removed_only_after_other_writers_have_ended(tmp_path: Path) -> None:
    files = {A: OURS, B: OURS}
    left = tmp_path / ".ci-compile-.github-1999999999-x"
    left.mkdir()
    changes = compare(tmp_path, files, [GITHUB])
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(apply, tmp_path, files, changes, [GITHUB])
        time.sleep(0.2)
        kept = left.exists()  # another writer may still use it, in another process namespace
        os.close(handle)
        written.result()
    assert (kept, left.exists()) == (True, False)


def test_if_one_territory_cannot_be_written_the_other_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, rename = ".flox/pkgs/a.nix", Path.rename
    files = {A: OURS, B: OURS, recipe: OURS, ".flox/pkgs/b.nix": OURS}
    for exists in (False, True):
        before, second = snapshot(tmp_path), tmp_path / (".github" if exists else ".flox/pkgs")

        def failing(one: Path, other: Path, refused: Path = second, *, exchanged: bool = exists) -> None:
            if other == refused:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if exchanged:
                _exchange(one, other)
            else:
                rename(one, other)

        changes = compare(tmp_path, files, [GITHUB, FLOX])
        with monkeypatch.context() as patch:
            patch.setattr("ci_compiler.files.atomic._exchange", lambda one, other: failing(one, other) or True)
            patch.setattr(Path, "rename", failing)
            with pytest.raises(InputError, match="Input/output error"):
                apply(tmp_path, files, changes, [GITHUB, FLOX])
        assert snapshot(tmp_path) == before
        apply(tmp_path, files, changes, [GITHUB, FLOX])
        assert snapshot(tmp_path) == {path: text.encode() for path, text in files.items()}
        files = {path: f"{text}x: 1\n" for path, text in files.items()}

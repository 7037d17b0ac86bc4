"""Changes files or folders in one step, so that a process that is killed leaves the old version or the new one.

A copy of each folder is made, in which files that do not change are hard links. One system call exchanges the two.
Several folders are exchanged by a child process, which a signal to this process does not stop. Then the old folders are
updated as well and exchanged back, since they may be the working directories of shells. On a file system that cannot
exchange folders, the files change one by one, each in one step.

A copy is in the git folder of the checkout, or next to its original if there is none or nothing can move from there to
here. Git sees what a process that is killed leaves in neither place. The folder's name contains the process id, so that
a later process can remove what a dead one left.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ci_compiler.checkout import checkout_around, git_folder
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.system import runs

_STAGING = ".ci-compile-"

_CANNOT_EXCHANGE = 255
"""The exit status of the child if folders cannot be exchanged; no error of the system has this number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """The new versions of files of `folder`, in `fresh`: a copy of the whole folder, or only the file `single`.

    `made` are the inodes of the copy's files; `new`: there is no folder yet.
    """

    folder: Path
    texts: Mapping[str, str | None]
    fresh: Path
    made: frozenset[int] = frozenset()
    single: str = ""
    new: bool = False

    @property
    def target(self) -> Path:
        """What is exchanged."""
        return self.folder / self.single

    @property
    def copy(self) -> Path:
        """What it is exchanged for."""
        return self.fresh / self.single


def change_folders(texts: Mapping[Path, Mapping[str, str | None]]) -> None:
    """Writes the texts of each folder (None: removes the file), by path below it, all in one step. Raises OSError.

    A folder may be new. Other files in it, and files that somebody puts there meanwhile, stay. Nothing is changed if
    anything cannot be written.
    """
    some = {folder: changed for folder, changed in texts.items() if changed}
    with ExitStack() as stack:
        staged = {folder: stack.enter_context(_staging(folder)) for folder in some}
        for folder, changed in some.items():
            if len(some) == len(changed) == 1 and folder.is_dir():
                _put({name: text for name, text in changed.items() if text is not None}, staged[folder])
                _move(changed, staged[folder], folder)
                return
        changes = [_prepare(staged[folder], folder, changed) for folder, changed in some.items()]
        if not _exchange_all(changes):
            for change in changes:
                _move(change.texts, change.fresh, change.folder)
            return
        for change in changes:
            if not change.new and not change.single:
                _restore(change)


def write_file(path: Path, text: str) -> None:
    """Writes the file `path`, in a folder that exists, in one step: the old file or the whole new one.

    Raises OSError, also for a pipe or a device. A symbolic link there is replaced, never written through.
    """
    if path.exists() and not (path.is_symlink() or path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "this is not a regular file", os.fspath(path))
    sweep(path)
    with _staging(path) as staging:
        _put({path.name: text}, staging)
        _move({path.name: text}, staging, path.parent)


def write_text(path: Path, text: str) -> None:
    """As `write_file`, for a command. Raises InputError."""
    with reporting(path, always=True):
        write_file(path, text)


def sweep(path: Path) -> None:
    """Removes what killed compiles left of copies of `path`. What a running compile uses stays."""
    mine = f"{_STAGING}{path.name}-"
    try:
        left = [
            other for place in {_place(path), path.parent} for other in place.iterdir() if other.name.startswith(mine)
        ]
    except OSError:
        return
    for one in left:
        pid = one.name.removeprefix(mine).split("-")[0]
        if not pid.isdigit() or not runs(int(pid)):
            _remove(one)


def cannot_write(file: str | os.PathLike[str], error: OSError) -> InputError:
    """The error for the user, with the system's message; of the errors in copying a folder, the first."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        for place in (Path(file), *Path(file).parents):
            if place.exists() and not place.is_dir():
                return wrong(place, Code.CANNOT_WRITE, "cannot be written: this is a file, and a folder must be there")
    why = error.args[0][0][2] if isinstance(error, shutil.Error) else error.strerror
    return wrong(file, Code.CANNOT_WRITE, f"cannot be written: {why}")


@contextmanager
def reporting(file: str | os.PathLike[str], *, always: bool = False) -> Iterator[None]:
    """Turns OSError into that error, about the file that it names, or else (or `always`) about `file`."""
    try:
        yield
    except OSError as error:
        raise cannot_write((not always and error.filename) or file, error) from error


@contextmanager
def _staging(path: Path) -> Iterator[Path]:
    """A new folder for the new version of `path`; `sweep` knows the folder around it by its name."""
    made = Path(tempfile.mkdtemp(prefix=f"{_STAGING}{path.name}-{os.getpid()}-", dir=_place(path)))
    try:
        (made / ".git").mkdir()  # git never adds a file in a folder of this name
        yield made / ".git"
    finally:
        _remove(made)


def _place(path: Path) -> Path:
    """Where a copy of `path` can be: the git folder of the checkout around it, or else the folder that it is in."""
    try:
        own = Path(git_folder(checkout_around(path.parent)))
        if (own / "HEAD").is_file() and os.access(own, os.W_OK) and own.stat().st_dev == path.parent.stat().st_dev:
            (own / _STAGING).rename(path.parent / _STAGING)  # which does not exist
    except FileNotFoundError:  # and not that one is on another mount
        return own
    except (OSError, ValueError):
        pass
    return path.parent


def _remove(folder: Path) -> None:
    """Removes `folder`, including what is in read-only folders."""
    for parent, _, _ in os.walk(folder):
        with suppress(OSError):
            Path(parent).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _prepare(staging: Path, folder: Path, texts: Mapping[str, str | None]) -> _Change:
    """Writes the new versions of files of `folder` to `staging`."""
    for name in texts if folder.exists() else ():
        _may_write(folder / name)
    (single, text), *more = texts.items()
    if not more and text is not None and (folder / single).is_file():
        _put(texts, staging)
        return _Change(folder=folder, texts=texts, fresh=staging, single=single)
    copy, new = staging / folder.name, not folder.exists()
    if not new:
        shutil.copytree(folder, copy, symlinks=True, copy_function=_link)
    _put(texts, copy)
    return _Change(folder=folder, texts=texts, fresh=copy, made=frozenset(_files(copy).values()), new=new)


def _exchange_all(changes: Sequence[_Change]) -> bool:
    """Exchanges every folder for its copy, or none; False if the kernel or a file system cannot. Raises OSError."""
    if sys.platform == "win32":
        return False
    if len(changes) < 2:
        return all(map(_enter, changes))
    child = os.fork()
    if child == 0:
        status = errno.EIO
        with suppress(BaseException):
            os.setsid()  # Ctrl-C reaches the group of this process
            status = _enter_all(changes)
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in {0, _CANNOT_EXCHANGE}:
        code = status if status > 0 else errno.EIO
        raise OSError(code, os.strerror(code))
    return status == 0


def _enter_all(changes: Sequence[_Change]) -> int:
    """Exchanges every folder, or none. Returns 0, `_CANNOT_EXCHANGE`, or the number of the error."""
    status, done = 0, []
    try:
        for change in changes:
            if not _enter(change):
                status = _CANNOT_EXCHANGE
                break
            done.append(change)
    except OSError as error:
        status = error.errno or errno.EIO
    for change in done if status else ():
        if change.new:
            change.folder.rename(change.copy)
        else:
            _exchange(change.copy, change.target)
    return status


def _enter(change: _Change) -> bool:
    """Puts the copy in place of its folder; False if the kernel or the file system cannot."""
    if change.new:
        change.copy.rename(change.folder)
        return True
    return _exchange(change.copy, change.target)


def _restore(change: _Change) -> None:
    """Updates the old folder as well and exchanges it back: shells may be in it."""
    with suppress(OSError):
        _put(change.texts, change.copy)
        _exchange(change.copy, change.folder)
    _keep_late(change.copy, change.folder, change.texts, change.made)


def _may_write(target: Path) -> None:
    """Raises PermissionError if the folder that has, or will have, `target` is not writable."""
    folder = next(parent for parent in target.parents if parent.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(folder))


def _move(texts: Mapping[str, str | None], fresh: Path, folder: Path) -> None:
    """Changes the files of `folder` one by one, each in one step; their new versions are in `fresh`."""
    folder.mkdir(exist_ok=True)
    for name, text in _removed_first(texts):
        target = folder / name
        if text is None:
            target.unlink()
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).replace(target)


def _put(texts: Mapping[str, str | None], folder: Path) -> None:
    """Writes `texts` to `folder`, which is not visible yet; a script becomes executable.

    A folder whose last file is removed is removed too.
    """
    for name, text in _removed_first(texts):
        target = folder / name
        target.unlink(missing_ok=True)
        if text is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8", newline="\n")
            if text.startswith("#!"):
                target.chmod(target.stat().st_mode | 0o111)
        elif target.parent != folder and not any(target.parent.iterdir()):
            target.parent.rmdir()


def _removed_first(texts: Mapping[str, str | None]) -> list[tuple[str, str | None]]:
    """The changes in an order in which a new file may have the name of a removed one in other letters, as on macOS."""
    return sorted(texts.items(), key=lambda one: one[1] is not None)


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target, follow_symlinks=False)
    except (OSError, NotImplementedError):
        shutil.copy2(source, target, follow_symlinks=False)
    return target


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two folders in one step; False if the system or the file system cannot.

    By renameat2(2) on Linux, by renamex_np(2) on macOS.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    names, swap = (os.fsencode(one), os.fsencode(other)), 2  # RENAME_EXCHANGE and RENAME_SWAP alike
    try:
        if sys.platform == "darwin":
            done = libc.renamex_np(*names, swap)
        else:
            at_cwd = -100
            done = libc.renameat2(at_cwd, names[0], at_cwd, names[1], swap)
    except AttributeError:  # another system, or an old C library
        return False
    if done == 0:
        return True
    code = ctypes.get_errno()
    if code in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}:
        return False
    raise OSError(code, os.strerror(code), os.fspath(other))


def _files(folder: Path) -> dict[Path, int]:
    """The inode of every file and symbolic link below `folder`."""
    found = ((path, path.lstat()) for path in sorted(folder.rglob("*")))
    return {path: status.st_ino for path, status in found if not stat.S_ISDIR(status.st_mode)}


def _keep_late(left: Path, folder: Path, texts: Mapping[str, str | None], made: Collection[int]) -> None:
    """Moves to `folder` what somebody put into `left` while it was in place: every file with an inode not in `made`."""
    for late, inode in _files(left).items():
        path = late.relative_to(left)
        if inode not in made and path.as_posix() not in texts:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            late.replace(folder / path)

"""Changes a file or a folder in one step, so that a process that is killed leaves the old version or the new one.

A copy of the folder is made next to it, in which files that do not change are hard links. One system call exchanges the
two. Then the old folder is updated as well and exchanged back, since it may be the working directory of a shell. On a
file system that cannot exchange folders, the files change one by one, each in one step. The copy is in a folder whose
name contains the process id, so that a later process can remove what a dead one left.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong

_STAGING = ".ci-compile-"


def change_folder(folder: Path, texts: Mapping[str, str | None]) -> None:
    """Writes `texts` (None: removes the file), by path below `folder`, in one step. Raises OSError.

    The folder may be new. Other files in it, and files that somebody puts there meanwhile, stay.
    """
    if not texts:
        return
    with _staging(folder) as staging:
        if len(texts) == 1 and folder.is_dir():
            _put({name: text for name, text in texts.items() if text is not None}, staging)
            _move(texts, staging, folder)
        else:
            _change_together(staging / folder.name, folder, texts)


def write_file(path: Path, text: str) -> None:
    """Writes the file `path`, in a folder that exists, in one step: the old file or the whole new one.

    Raises OSError. A symbolic link there is replaced, never written through.
    """
    sweep(path)
    with _staging(path) as staging:
        _put({path.name: text}, staging)
        _move({path.name: text}, staging, path.parent)


def sweep(path: Path) -> None:
    """Removes what killed compiles left next to `path`. What a running compile uses stays."""
    mine = f"{_STAGING}{path.name}-"
    try:
        left = [one for one in path.parent.iterdir() if one.name.startswith(mine)]
    except OSError:
        return
    for one in left:
        pid = one.name.removeprefix(mine).split("-")[0]
        if not pid.isdigit() or not Path(f"/proc/{pid}").exists():
            _remove(one)


def cannot_write(file: str | os.PathLike[str], error: OSError) -> InputError:
    """The error for the user, with the system's message; of the errors in copying a folder, the first."""
    why = error.args[0][0][2] if isinstance(error, shutil.Error) else error.strerror
    return wrong(file, Code.CANNOT_WRITE, f"cannot be written: {why}")


@contextmanager
def _staging(path: Path) -> Iterator[Path]:
    """A new folder next to `path` for its new version; `sweep` knows it by its name."""
    made = Path(tempfile.mkdtemp(prefix=f"{_STAGING}{path.name}-{os.getpid()}-", dir=path.parent))
    try:
        yield made
    finally:
        _remove(made)


def _remove(folder: Path) -> None:
    """Removes `folder`, including what is in read-only folders."""
    for parent, _, _ in os.walk(folder):
        with suppress(OSError):
            Path(parent).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _change_together(copy: Path, folder: Path, texts: Mapping[str, str | None]) -> None:
    if not folder.exists():
        _put(texts, copy)
        copy.rename(folder)
        return
    for name in texts:
        _may_write(folder / name)
    shutil.copytree(folder, copy, symlinks=True, copy_function=_link)
    _put(texts, copy)
    made = set(_files(copy).values())
    if not _exchange(copy, folder):
        _move(texts, copy, folder)
        return
    # The change is made. The old folder gets it as well and is exchanged back: shells may be in it.
    with suppress(OSError):
        _put(texts, copy)
        _exchange(copy, folder)
    _keep_late(copy, folder, texts, made)


def _may_write(target: Path) -> None:
    """Raises PermissionError if the folder that has, or will have, `target` is not writable."""
    folder = next(parent for parent in target.parents if parent.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(folder))


def _move(texts: Mapping[str, str | None], fresh: Path, folder: Path) -> None:
    """Changes the files of `folder` one by one, each in one step; their new versions are in `fresh`."""
    for name, text in texts.items():
        target = folder / name
        if text is None:
            target.unlink()
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).replace(target)


def _put(texts: Mapping[str, str | None], folder: Path) -> None:
    """Writes `texts` to `folder`, which is not visible yet; a folder whose last file is removed is removed too."""
    for name, text in texts.items():
        target = folder / name
        target.unlink(missing_ok=True)
        if text is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8", newline="\n")
        elif target.parent != folder and not any(target.parent.iterdir()):
            target.parent.rmdir()


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
    return target


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two folders in one step (renameat2 of Linux); False if the kernel or the file system cannot."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    at_cwd, exchange = -100, 2
    if libc.renameat2(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
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

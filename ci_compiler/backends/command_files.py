"""The files that a build script makes: collected after the build, verified before each use.

A script can leave anything in the checkout. Only regular files inside it are taken, by their content: a symbolic link
could lead to a secret of the machine, and a strange name could become an option of a command.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ci_compiler.backends.forms import FILE
from ci_compiler.backends.job import JoinedVariant
from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.outside import open_regular
from ci_compiler.system import NO_LINK

FOLDER = "files"
"""Where the files are, from the folder of the manifest."""

_CHUNK = 1 << 20

_SUITABLE = (
    "a file's name has letters, digits and . _ + -, no dot in front or at the end, and is no device of Windows (as con)"
)

State = tuple[int, int, int]
"""What changes when a file is written: its inode, its size and its time of modification."""


def matching(root: Path, patterns: Iterable[str]) -> dict[str, dict[Path, State]]:
    """The paths below `root` that match each of `patterns`, with their states. Links are not followed."""
    return {pattern: {path: _state(path) for path in sorted(root.glob(pattern))} for pattern in patterns}


def _state(path: Path) -> State:
    status = path.lstat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def collect(
    name: str, root: Path, patterns: Iterable[str], before: Mapping[str, Mapping[Path, State]], folder: Path
) -> dict[str, str]:
    """Copies what the build of `name` wrote to `folder`/files; returns the hash of each file by its path there.

    `before` is what matched the patterns before the build. Raises StageError if a pattern matches nothing that the
    build wrote, and for a match that cannot be taken.
    """
    target = folder / FOLDER
    clear(target)
    hashes: dict[str, str] = {}
    for pattern, found in matching(root, patterns).items():
        written = [path for path, state in found.items() if before.get(pattern, {}).get(path) != state]
        if not written:
            message = f"the build succeeded, but wrote no file that matches {pattern}"
            raise failure(name, Code.RESULT_MISSING, message)
        for path in written:
            hashes |= _take(name, root, path, target, hashes)
    return hashes


def check_apart(
    name: str,
    root: Path,
    members: Iterable[JoinedVariant],
    patterns: Iterable[str],
    before: Mapping[str, Mapping[Path, State]],
) -> None:
    """Raises StageError if a file belongs to two of the variants of the build `name`, or to none of them.

    `patterns` are the declared ones, in which placeholders stand for anything; `before` is what matched them.
    """
    owners: dict[Path, str] = {}
    for variant in members:
        for found in matching(root, variant.patterns).values():
            for path in found:
                owner = owners.setdefault(path, variant.name)
                if owner != variant.name:
                    message = (
                        f"{path.relative_to(root).as_posix()} is a file of {owner} as well; give them patterns apart"
                    )
                    raise failure(variant.name, Code.RESULT_MISSING, message)
    for pattern, found in matching(root, map(open_pattern, patterns)).items():
        for path, state in found.items():
            if path not in owners and before.get(pattern, {}).get(path) != state:
                message = f"{path.relative_to(root).as_posix()} is a file of none of its variants"
                raise failure(name, Code.RESULT_MISSING, message)


def open_pattern(pattern: str) -> str:
    """A declared pattern with a wildcard for each placeholder."""
    return _PLACEHOLDER.sub("*", pattern)


def filled(pattern: str, values: Mapping[str, str]) -> str:
    """A declared pattern with the values of a variant; a placeholder without a value stays."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), pattern)


_PLACEHOLDER = re.compile("@([a-z][a-z0-9_-]*)@")


def clear(target: Path) -> None:
    """Makes `target` an empty folder."""
    if target.is_symlink():
        target.unlink()
    elif target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)


def _take(name: str, root: Path, path: Path, target: Path, taken: Mapping[str, str]) -> dict[str, str]:
    """Copies one file; returns its hash by its path. A file that two patterns match is taken once."""
    shown, relative = path.relative_to(root).as_posix(), f"{FOLDER}/{path.name}"
    if path.parent.resolve() != root.resolve() / path.parent.relative_to(root):
        raise failure(name, Code.UNSAFE_FILE, f"{shown} is reached through a symbolic link; declare where it leads to")
    if not re.fullmatch(FILE, relative):
        message = f"{shown!r} has an unsuitable name; {_SUITABLE}"
        raise failure(name, Code.UNSAFE_FILE, message)
    if alike := next((one for one in taken if one != relative and one.casefold() == relative.casefold()), None):
        message = f"{shown} differs from {Path(alike).name} in case alone, which macOS and Windows ignore; rename one"
        raise failure(name, Code.UNSAFE_FILE, message)
    copy = target / path.name
    try:
        digest = _copy(path, copy)
    except OSError:
        raise failure(name, Code.UNSAFE_FILE, f"{shown} is not a regular file; declare a pattern of files") from None
    if taken.get(relative, digest) != digest:
        raise failure(name, Code.UNSAFE_FILE, f"{shown}: another file is also called {path.name}; rename one")
    return {relative: digest}


def _copy(source: Path, target: Path) -> str:
    """Copies the regular file `source`, and returns the hash of what was copied. Raises OSError for anything else."""
    if not NO_LINK and source.is_symlink():
        raise OSError
    digest = hashlib.sha256()
    with open_regular(source, NO_LINK) as file, target.open("wb") as copy:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            copy.write(chunk)
    return f"sha256:{digest.hexdigest()}"


def held(name: str, folder: Path) -> dict[str, str]:
    """The hashes of the files in `folder`/files by their paths. Raises StageError for anything that is not a file."""
    hashes: dict[str, str] = {}
    for path in sorted(_below(folder / FOLDER)):
        relative = f"{FOLDER}/{path.name}"
        if not re.fullmatch(FILE, relative) or not (digest := _digest(path)):
            raise failure(name, Code.UNSAFE_FILE, f"{path.name!r} was fetched, and is not a file with a suitable name")
        hashes[relative] = digest
    if not hashes:
        raise failure(name, Code.CLOSURE_MISSING, "its command `fetch` left no file in `VARIANT_FILES`")
    return hashes


def verify(name: str, folder: Path, hashes: Mapping[str, str]) -> tuple[Path, ...]:
    """The files in `folder`, whose hashes by path are `hashes`.

    Raises StageError for a file that is missing or has another content, and for one that has no hash.
    """
    for path, digest in hashes.items():
        if (found := _digest(folder / path)) != digest:
            how = "is another file than the one that was built" if found else "is missing, or is not a regular file"
            raise failure(name, Code.FILE_DIFFERS, f"{folder / path} {how}; fetch the artifact of the build again")
    known = {folder / path for path in hashes}
    if extra := next((path for path in sorted(_below(folder / FOLDER)) if path not in known), None):
        raise failure(name, Code.FILE_DIFFERS, f"{extra} is not in the manifest; fetch the artifact of the build again")
    return tuple(sorted(known))


def _below(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())


def _digest(path: Path) -> str:
    """The hash of the regular file at `path`; '' if there is none."""
    try:
        return _copy(path, Path(os.devnull)) if not path.parent.is_symlink() else ""
    except OSError:
        return ""

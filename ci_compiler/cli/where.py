"""The repository and the spec that a command works on, found without starting a process."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ci_compiler.codes import Code
from ci_compiler.errors import nearest, wrong

if TYPE_CHECKING:
    from ci_compiler.spec.model import Spec

SPEC = Path(".github/ci-matrix.yaml")
"""The path of the spec in a repository."""

SCHEMA_BESIDE = SPEC.with_name("ci-matrix.schema.json")
"""The path of the schema, for completion in editors."""


def add_root(parser: argparse.ArgumentParser) -> None:
    """Adds `--root`."""
    parser.add_argument(
        "--root", type=Path, metavar="DIR", default=argparse.SUPPRESS, help="the repository (default: this one)"
    )


def add_spec(parser: argparse.ArgumentParser) -> None:
    """Adds `--root` and `--spec`."""
    add_root(parser)
    parser.add_argument(
        "--spec",
        type=Path,
        metavar="FILE",
        default=argparse.SUPPRESS,
        help=f"the spec (default: {SPEC} of the repository, or else the bundled torch stack)",
    )


def add_branch(parser: argparse.ArgumentParser) -> None:
    """Adds `--branch`."""
    parser.add_argument(
        "--branch", metavar="B", default=argparse.SUPPRESS, help="the branch (default: the one that is checked out)"
    )


def add_output(parser: argparse.ArgumentParser, folder: str, content: str) -> None:
    """Adds `--out`, the folder for `content`."""
    text = f"folder for {content} (default: {folder})"
    parser.add_argument("--out", type=Path, metavar="DIR", default=Path(folder), help=text)


def branch_of(arguments: argparse.Namespace, spec: Spec, root: Path) -> str:
    """A branch of the spec: `--branch`, or else the one that is checked out. Raises InputError if it is unknown."""
    from ci_compiler.git import head_branch

    given: str | None = getattr(arguments, "branch", None)
    name = head_branch(root) if given is None else given
    if name in spec.branches:
        return name
    if given is None:
        what = f"{name} is checked out, which is not a branch of the spec" if name else "no branch is checked out here"
        message = f"{what}; give --branch{nearest('', spec.branches)}"
    else:
        message = f"unknown branch {name!r}{nearest(name, spec.branches)}"
    raise wrong("--branch", Code.UNKNOWN_BRANCH, message)


def filter_of(arguments: argparse.Namespace, kind: Literal["branch", "package"], known: Iterable[str]) -> str | None:
    """The value of `--branch` or `--package` where it narrows a list; None for all. Raises InputError if unknown."""
    name: str | None = getattr(arguments, kind)
    names = list(known)
    if name is not None and name not in names:
        code = Code.UNKNOWN_BRANCH if kind == "branch" else Code.UNKNOWN_PACKAGE
        raise wrong(f"--{kind}", code, f"unknown {kind} {name!r}{nearest(name, names)}")
    return name


def root_of(arguments: argparse.Namespace) -> Path:
    """The repository's root: `--root`, or else the nearest checkout upwards, or else this folder."""
    given: Path | None = getattr(arguments, "root", None)
    if given is not None:
        if not given.is_dir():
            raise wrong(given, Code.ROOT_MISSING, "no such folder")
        return given
    return checkout_around(Path.cwd())


def checkout_around(folder: Path) -> Path:
    """The nearest checkout from `folder` upwards; `folder` itself if there is none."""
    whole = folder.resolve()
    return next((one for one in (whole, *whole.parents) if (one / ".git").exists()), folder)


def spec_of(arguments: argparse.Namespace) -> Spec:
    """The spec: `--spec`, or else the repository's, or else the bundled one. Raises InputError."""
    from ci_compiler.spec.build import bundled_spec, load_spec

    root = root_of(arguments)
    given: Path | None = getattr(arguments, "spec", None)
    if given is not None:
        return load_spec(given, shown=_shown(given, root))
    own = root / SPEC
    if own.exists() or own.is_symlink():
        return load_spec(own, shown=SPEC.as_posix())
    other = SPEC.with_suffix(".yml")
    if (root / other).exists():
        raise wrong(other, Code.SPEC_MISSING, f"the spec must be called {SPEC.name}; rename the file, or give --spec")
    if _compiled_from_own(root):
        raise wrong(SPEC, Code.SPEC_MISSING, "the files here are compiled from it; restore it, or give --spec")
    return bundled_spec()


def templates_of(root: Path, spec: Spec) -> dict[str, str]:
    """The texts of the spec's templates that the repository at `root` has, by path. Raises InputError."""
    from ci_compiler.recipes.template import paths

    found = {}
    for path in paths(spec):
        try:
            found[path] = (root / path).read_text("utf-8")
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise wrong(path, Code.TEMPLATE_MISSING, f"cannot be read as UTF-8 text: {error}") from error
    return found


def _compiled_from_own(root: Path) -> bool:
    """Whether the headers of the compiled workflows name a spec at the usual path."""
    from ci_compiler.plan.sharding import FOLDER
    from ci_compiler.workflows.common import VARIANT

    try:
        with (root / FOLDER / VARIANT).open(encoding="utf-8", errors="replace") as file:
            return f" from {SPEC.as_posix()}." in file.readline(1000)
    except OSError:
        return False


def _shown(path: Path, root: Path) -> str:
    """`path` as findings and headers show it: relative to the root, or the bare name if it is outside."""
    full, top = Path(os.path.abspath(path)), Path(os.path.abspath(root))  # noqa: PTH100  (links stay as typed)
    return full.relative_to(top).as_posix() if full.is_relative_to(top) else path.name

"""The repository and the spec that a command works on, found without starting a process."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.checkout import checkout_around, head_branch
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, check_known, nearest, unknown, wrong
from ci_compiler.hardware.families import DEFAULT
from ci_compiler.outside import STANDARD_INPUT, json_of, reading, text_of
from ci_compiler.spec import carried
from ci_compiler.spec.build import bundled_spec, load_spec
from ci_compiler.spec.model import Spec
from ci_compiler.spec.versions import VARIABLE, decides_versions, with_decided

if TYPE_CHECKING:
    from ci_compiler.plan.pipeline import Plan
    from ci_compiler.plan.records import Records
    from ci_compiler.plan.selection import GitHubEvent

SPEC = Path(carried.SPEC)
"""The path of the spec in a repository."""

SCHEMA_BESIDE = SPEC.with_name("ci-matrix.schema.json")
"""The path of the schema, for completion in editors."""

UNKNOWN = {
    "branch": Code.UNKNOWN_BRANCH,
    "package": Code.UNKNOWN_PACKAGE,
    "pool": Code.UNKNOWN_POOL,
    "python": Code.UNKNOWN_PYTHON,
    "shard": Code.UNKNOWN_SHARD,
    "toolkit": Code.UNKNOWN_TOOLKIT,
}
"""The code of an unknown name, by its kind."""


def branch_of(
    arguments: argparse.Namespace, spec: Spec, root: Path, *, source: bool = False, writes: bool = False
) -> str:
    """A branch of the spec: `--branch`, or else the one that is checked out, or else its `source`, if that may be.

    This is the branch that it was branched off. Raises InputError for an unknown branch, and for another one than the
    one that is checked out if the command `writes` the branch's own files.
    """
    given: str | None = getattr(arguments, "branch", None)
    head = head_branch(root)
    name = head if given is None else given
    if writes and name != head and {name, head} <= spec.branches.keys():
        message = f"{head} is checked out, and its files would be replaced by those of {name}; check out {name} first"
        raise wrong("--branch", Code.WRONG_OPTION, f"{message}, or run `ci-compile sync`")
    if name in spec.branches:
        return name
    if given is None and source and (found := _source_branch(spec, root)):
        return found
    message = unknown(Code.UNKNOWN_BRANCH, name, spec.branches)
    if given is None:
        what = f"{name} is checked out, which is not a branch of the spec" if name else "no branch is checked out here"
        message = f"{what}; give --branch{nearest('', spec.branches)}"
    raise wrong("--branch", Code.UNKNOWN_BRANCH, message)


def _source_branch(spec: Spec, root: Path) -> str:
    """The branch of the spec that what is checked out was branched off; '' if that is not known."""
    from ci_compiler.git import Git  # no branch of the spec needs them
    from ci_compiler.sync.landing import source_branch, tips

    try:
        git = Git(root)
        return source_branch(git, spec, tips(git, spec), git.resolve("HEAD"))
    except InputError:  # no repository, or no commit
        return ""


def filter_of(arguments: argparse.Namespace, kind: str, known: Collection[str], *, option: str = "") -> str | None:
    """The value of the option called `kind`, or else `option`; None: not given. Raises InputError if it is unknown."""
    name: str | None = getattr(arguments, kind)
    if name is not None:
        check_known(option or f"--{DEFAULT if kind == 'toolkit' else kind}", UNKNOWN[kind], name, known)
    return name


def profiled(arguments: argparse.Namespace, decided: Plan) -> Plan:
    """`decided`, or what of it the profile of `--profile` builds. Raises InputError if that is nothing."""
    if arguments.profile is None:
        return decided
    from ci_compiler.reports.without import of_profile  # few commands have the option

    return of_profile(decided, arguments.profile)


def chosen_of(arguments: argparse.Namespace, option: str = "chosen") -> dict[str, list[str]]:
    """The names in `--chosen`, by branch: a JSON mapping, or a list, whose branch is ''. Raises InputError.

    `option` is another option with names.
    """
    where = f"--{option}"
    with reading(where, Code.WRONG_VALUE):
        chosen = json_of(getattr(arguments, option) or "[]")
    found = chosen if isinstance(chosen, dict) else {"": chosen}
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in found.values()):
        raise wrong(where, Code.WRONG_VALUE, "is neither a JSON list of names nor a mapping of them by branch")
    return found


def check_branches(spec: Spec, **options: Collection[str]) -> None:
    """Raises InputError for the first value of `options` that is not a branch of the spec."""
    for option, names in options.items():
        for name in names:
            check_known(f"--{option}", Code.UNKNOWN_BRANCH, name, spec.branches)


def root_of(arguments: argparse.Namespace) -> Path:
    """The repository's root: `--root`, or else the nearest checkout upwards, or else this folder."""
    given: Path | None = getattr(arguments, "root", None)
    if given is not None:
        if not given.is_dir():
            raise wrong(given, Code.ROOT_MISSING, "is a file, and no folder" if given.exists() else "no such folder")
        return given
    return Path(checkout_around(Path.cwd()))


def spec_of(arguments: argparse.Namespace, *, compiles: bool = False) -> Spec:
    """The spec: `--spec` (`-`: standard input) or `--bundled`, else the repository's, else the bundled one.

    It has the versions that the run of this job decided on, if it did. A stage has it in `arguments`.

    A command that `compiles` into the repository does not take the bundled one unless it is asked for. Raises
    InputError.
    """
    known: Spec | None = getattr(arguments, "known_spec", None)
    spec = known or _spec_of(arguments, compiles=compiles)
    return with_decided(spec, os.environ.get(VARIABLE, "")) if not known and decides_versions(spec) else spec


def _spec_of(arguments: argparse.Namespace, *, compiles: bool) -> Spec:
    root = root_of(arguments)
    given: Path | None = getattr(arguments, "spec", None)
    if given == STANDARD_INPUT:
        return load_spec(given, shown="standard input")
    if given is not None:
        return load_spec(given, shown=_shown(given, root))
    own, bundled = root / SPEC, getattr(arguments, "bundled", False)
    there = own.exists() or own.is_symlink()
    if there and bundled and compiles:
        message = f"{SPEC} is the spec here, and its compiled files would be replaced; leave the option out"
        raise wrong("--bundled", Code.WRONG_OPTION, message)
    if bundled:
        return bundled_spec()
    if there:
        return load_spec(own, shown=SPEC.as_posix())
    other = SPEC.with_suffix(".yml")
    if (root / other).exists():
        raise wrong(other, Code.SPEC_MISSING, f"the spec must be called {SPEC.name}; rename the file, or give --spec")
    if _compiled_from_own(root):
        raise wrong(SPEC, Code.SPEC_MISSING, "the files here are compiled from it; restore it, or give --spec")
    if compiles:
        message = "no such file; `ci-compile init` writes a first one, and --bundled compiles the bundled torch stack"
        raise wrong(SPEC, Code.SPEC_MISSING, message)
    return bundled_spec()


def editable_spec(arguments: argparse.Namespace, spec: Spec) -> Path:
    """The file of `spec`, for a command that edits it. Raises InputError if there is none, or it is a bundled one."""
    file: Path = getattr(arguments, "spec", None) or root_of(arguments) / SPEC
    if not file.exists() or getattr(arguments, "bundled", False):
        raise wrong(SPEC, Code.SPEC_MISSING, "no such file; `ci-compile init` writes a first one")
    if spec.bundled:
        message = "the bundled stack cannot be edited here; `ci-compile init` writes a spec of your own"
        raise InputError([spec.finding(("bundled",), Code.SPEC_MISSING, message, key=True)])
    return file


def nixpkgs_of(arguments: argparse.Namespace) -> Path | None:
    """The folder that `--nixpkgs` names; None for `real`. Raises InputError if there is no nixpkgs there."""
    from ci_compiler.adoption.real_nixpkgs import REAL

    if arguments.nixpkgs == REAL:
        return None
    folder = Path(arguments.nixpkgs).resolve()
    if not (folder / "default.nix").is_file():
        message = f"there is no nixpkgs here, which has a default.nix; give a folder, or {REAL!r} for the recipes' own"
        raise wrong(arguments.nixpkgs, Code.ROOT_MISSING, message)
    return folder


def templates_of(root: Path, spec: Spec) -> dict[str, str]:
    """The texts of the spec's templates that the repository at `root` has, by path. Raises InputError."""
    return texts_of(root, carried.template_paths(spec))


def texts_of(root: Path, paths: Iterable[str]) -> dict[str, str]:
    """The texts of the files at `paths` that the repository at `root` has, by path. Raises InputError."""
    found = {}
    for path in paths:
        if (root / path).exists():
            with reading(path, Code.TEMPLATE_MISSING):
                found[path] = text_of(root / path)
    return found


def schema_text(root: Path, spec: Spec) -> dict[str, str]:
    """The schema beside the repository's own spec, if there is one, by its path; it is the same on every branch."""
    own = spec.document.file == SPEC.as_posix() and (root / SCHEMA_BESIDE).is_file()
    return texts_of(root, [SCHEMA_BESIDE.as_posix()]) if own else {}


def carried_of(root: Path, spec: Spec) -> dict[str, str]:
    """The texts of the files that `sync` carries to every branch, by path. Raises InputError."""
    return schema_text(root, spec) | texts_of(root, carried.carried_paths(spec))


def event_of_run() -> GitHubEvent:
    """The event in GITHUB_EVENT_NAME and the file at GITHUB_EVENT_PATH. Raises InputError outside a job."""
    from ci_compiler.outside import bytes_of, expected, object_of
    from ci_compiler.plan.selection import GitHubEvent

    name, path = os.environ.get("GITHUB_EVENT_NAME", ""), os.environ.get("GITHUB_EVENT_PATH", "")
    try:
        payload = object_of(bytes_of(path))
        expected(dict, payload.get("inputs") or {})
    except (OSError, TypeError) as error:
        message = f"GITHUB_EVENT_PATH names no event ({error}); only a job of GitHub Actions has one"
        raise wrong("event", Code.NO_EVENT, message) from None
    return GitHubEvent(name=name, payload=payload)


def plan_of(arguments: argparse.Namespace, *, compiles: bool = False) -> Plan:
    """The plan of the spec (`spec_of`). Raises InputError."""
    from ci_compiler.plan.pipeline import plan

    return plan(spec_of(arguments, compiles=compiles))


def _compiled_from_own(root: Path) -> bool:
    """Whether the headers of the compiled workflows name a spec at the usual path."""
    from ci_compiler.plan.sharding import FOLDER
    from ci_compiler.workflows.common import PULL_REQUEST

    try:
        return f" from {SPEC.as_posix()}." in text_of(root / FOLDER / PULL_REQUEST, errors="replace").partition("\n")[0]
    except OSError:
        return False


def _shown(path: Path, root: Path) -> str:
    """`path` as findings and headers show it: relative to the root, or the bare name of a file that is outside."""
    full, top = Path(os.path.abspath(path)), Path(os.path.abspath(root))  # noqa: PTH100  (links stay as typed)
    return full.relative_to(top).as_posix() if full.is_relative_to(top) else path.name if path.is_file() else str(path)


def records_of(arguments: argparse.Namespace) -> Records | None:
    """The results in the file of `--history`; None without it. Raises InputError."""
    if arguments.history is None:
        return None
    from ci_compiler.reports.history import read_records  # most answers have no history

    return read_records(arguments.history)

"""The options that several commands have, and the types of values."""

from __future__ import annotations

import argparse

TYPE_CHECKING = False  # the help of a program does without `typing` and `pathlib`, which are slow to import
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any


def path(text: str) -> Path:
    """The type of a path."""
    from pathlib import Path

    return Path(text)


class _Option:
    """The arguments of `add_argument`."""

    def __init__(self, *flags: str, **keywords: Any) -> None:
        self.flags, self.keywords = flags, keywords


_SHARED: Mapping[str, _Option] = {
    "root": _Option(
        "--root", metavar="DIR", type=path, help="the repository (default: this one)", default=argparse.SUPPRESS
    ),
    "branch": _Option(
        "--branch", metavar="B", help="the branch (default: the one that is checked out)", default=argparse.SUPPRESS
    ),
    "own-branch": _Option(
        "--branch",
        metavar="B",
        help="the branch (default: the one that is checked out, or that it was branched off)",
        default=argparse.SUPPRESS,
    ),
    "only-branch": _Option("--branch", metavar="B", help="only this branch"),
    "only-toolkit": _Option("--cuda", dest="toolkit", metavar="V", help="only this CUDA toolkit"),
    "repository": _Option(
        "--repository",
        metavar="OWNER/NAME",
        default="",
        help="the repository on GitHub (default: GITHUB_REPOSITORY, or else this checkout's remote)",
    ),
    "engine": _Option("--engine", metavar="ENGINE", help="podman or docker (default: the first that is installed)"),
    "host": _Option(
        "--host", metavar="DIR", type=path, help="instead of containers, run the unpacked actions/runner in DIR"
    ),
    "json": _Option("--json", action="store_true", help="print JSON"),
    "quiet": _Option("-q", "--quiet", action="store_true", help="print only the names of the variants, one per line"),
    "diff": _Option("--diff", action="store_true", help="show what changes"),
    "check": _Option("--check", action="store_true", help="write nothing; exit 1 if a file is not as compiled"),
    "results": _Option(
        "--history",
        metavar="FILE",
        type=path,
        help="`history.json` of the site: say when and where each test ran last, in place of what the plan runs",
    ),
    "variant": _Option("name", metavar="NAME", help="the variant"),
    "needs": _Option(
        "--needs",
        metavar="DIR",
        type=path,
        action="append",
        default=[],
        help="a folder with the outputs of the builds that it needs; may be repeated",
    ),
    "chosen": _Option(
        "--chosen",
        metavar="JSON",
        help="the variants that the run builds; what it needs of others is fetched, and of these "
        "only what `--reported` shows counts (default: all that `--needs` has counts)",
    ),
    "reported": _Option(
        "--reported",
        metavar="JSON",
        default="[{}, {}]",
        help="a list of the contexts `needs` of the calling job and of this "
        "one, with the digests that the builds reported",
    ),
    "legs": _Option(
        "--legs",
        metavar="JSON",
        default="[]",
        help="those of `--chosen` that other legs of a matrix build, which report no digests",
    ),
    "patterns": _Option("patterns", metavar="PATTERN", nargs="*", help="names, with the wildcards * ? [] and {a,b}"),
    "unpublished": _Option(
        "--unpublished", action="store_true", help="only what is not published yet when its run begins"
    ),
    "publish": _Option("--publish", action="store_true", help="publish what passes its tests"),
    "night": _Option(
        "--night", metavar="DATE", default="", help="build the versions of the night of this date (20261123)"
    ),
    "report": _Option(
        "--out", metavar="DIR", type=path, default="test-output", help="folder for the report (default: %(default)s)"
    ),
    "if-several": _Option("--branch", metavar="B", default="", help="the branch, if several build the variant"),
    "again": _Option("--again", action="store_true", help="even if it passed before on the same content"),
    "schema": _Option("--schema", action="store_true", help="print the JSON Schema of `--json`, and read no spec"),
    "artifacts": _Option("results", metavar="DIR", type=path, help="the artifacts of the run, one folder each"),
    "of-run": _Option(
        "--chosen",
        metavar="JSON",
        default="[]",
        help="the variants of the run, as a JSON list, or by branch as a JSON mapping",
    ),
    "digest": _Option("--digest", metavar="SHA256", help="the digest of the manifest, as the build reported it"),
}
"""The options by their names, as `add_argument` takes them.

Those with SUPPRESS may also come before the subcommand, which leaves what was given there.
"""


def shared(parser: argparse.ArgumentParser, *names: str) -> None:
    """Declares the options that are called `names`, in this order; `spec` are two, of which one may be given."""
    for name in names:
        if name == "spec":
            _spec(parser)
        elif name == "profile":
            _profile(parser)
        else:
            parser.add_argument(*_SHARED[name].flags, **_SHARED[name].keywords)


def _spec(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--spec",
        metavar="FILE",
        type=path,
        help="the spec (default: .github/ci-matrix.yaml of the repository)",
        default=argparse.SUPPRESS,
    )
    group.add_argument(
        "--bundled",
        action="store_true",
        help="take the bundled torch stack as the spec; commands that "
        "write no compiled files do so where there is none",
        default=argparse.SUPPRESS,
    )


def _profile(parser: argparse.ArgumentParser) -> None:
    from ci_compiler.spec.triggers import NIGHTLY, PULL_REQUEST, PUSH, RELEASE  # commands with this option read a spec

    parser.add_argument(
        "--profile",
        metavar="NAME",
        choices=[PULL_REQUEST, PUSH, NIGHTLY, RELEASE],
        help="only what this profile of the spec builds (%(choices)s)",
    )

"""`ci-compile recall NAME…`: marks published variants as wrong in the spec, and says what else there is to do."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_json, table
from ci_compiler.cli.where import SPEC, root_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.files.atomic import write_text
from ci_compiler.github.dispatch import Terms, orders, start
from ci_compiler.outside import text_of
from ci_compiler.plan.lookup import explain
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.reports.recalls import built_with, recalled_variants, with_recalls
from ci_compiler.spec.build import parse_spec


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("names", metavar="PATTERN", nargs="+", help="names, with the wildcards * ? [] and {a,b}")
    parser.add_argument("--because", metavar="TEXT", required=True, help="what is wrong with them, in a few words")
    parser.add_argument("--branch", metavar="B", help="the branch (default: every branch that has the variant)")
    parser.add_argument("--rebuild", action="store_true", help="start builds of all of them that publish again")
    options.shared(parser, "json", "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Edits the spec; with `--rebuild`, also starts builds that publish again. Raises InputError."""
    spec, root = spec_of(arguments), root_of(arguments)
    file = getattr(arguments, "spec", None) or root / SPEC
    if not file.exists():
        raise wrong(SPEC, Code.SPEC_MISSING, "no such file; the bundled spec cannot be edited")
    decided = plan(spec)
    chosen = [
        (order.shard, name)
        for order in orders(decided, arguments.names, branch=arguments.branch)
        for name in order.chosen
    ]
    wanted = [built for shard, name in chosen for built in explain(decided, name).built if built.shard is shard]
    names = list(dict.fromkeys(name for _, name in chosen))
    text = with_recalls(text_of(file), spec, wanted, arguments.because, arguments.branch)
    write_text(file, text)
    recalled = _recalled(plan(parse_spec(text.encode(), shown=spec.document.file)), set(names))
    derived = built_with(spec, decided.judged.cells, wanted)
    _print(recalled, _derived(decided, root, derived), as_json=arguments.json)
    say = note if arguments.json else print
    say(f"\nto take them back: {spec.backend.withdrawal}")
    say(f"{spec.document.file} is changed: compile, commit it, and run `ci-compile sync`")
    _rebuild(arguments, decided, say, list(dict.fromkeys([*names, *(name for name, _ in derived)])))
    return 0


def _recalled(decided: Plan, names: set[str]) -> list[dict[str, str]]:
    return [
        {
            "name": recall.name,
            "branch": recall.branch,
            "version": recall.version,
            "instead": f"{recall.instead.name} ({recall.instead.branch})" if recall.instead else "nothing",
        }
        for recall in recalled_variants(decided)
        if recall.name in names
    ]


def _derived(decided: Plan, root: Path, derived: dict[tuple[str, str], str]) -> list[dict[str, str]]:
    """The variants that contain a recalled one, which have the same fault, and whether they are published."""
    return [
        {"name": name, "branch": branch, "contains": of, "published": _published(decided, root, branch, name)}
        for (name, branch), of in derived.items()
    ]


def _print(recalled: list[dict[str, str]], derived: list[dict[str, str]], *, as_json: bool) -> None:
    if as_json:
        print_json({"recalled": recalled, "built_with": derived})
        return
    table(["recalled", "branch", "version", "use instead"], (list(row.values()) for row in recalled))
    if derived:
        print()
        table(["built with it", "branch", "contains", "published"], (list(row.values()) for row in derived))
        print("\nrecall those that have the fault too; --rebuild builds all of them again")


def _published(decided: Plan, root: Path, branch: str, name: str) -> str:
    from ci_compiler.errors import StageError
    from ci_compiler.runner.jobs.publish import is_published

    try:
        return "yes" if is_published(decided.spec, root, branch, name, tested=False) else "no"
    except (InputError, StageError):
        return "unknown"


def _rebuild(arguments: argparse.Namespace, decided: Plan, say: Callable[[str], object], names: list[str]) -> None:
    """Starts the builds of `names` with `--rebuild`, else prints the command that does."""
    branch = f" --branch {arguments.branch}" if arguments.branch else ""
    if not arguments.rebuild:
        say(f"once the fault is fixed: ci-compile dispatch --publish --again{branch} {' '.join(names)}")
        return
    from ci_compiler.cli.remote import client_of  # PyGithub is slow to import

    client = client_of(arguments, root_of(arguments))
    for one in start(client, orders(decided, names, branch=arguments.branch), Terms(publish=True, again=True)):
        say(f"{one.order.label} {one.order.shard.branch} {one.url}")
    note("the entry in `recalls` must be removed once these runs have published")

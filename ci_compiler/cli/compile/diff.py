"""`ci-compile diff BASE`: what a change of the spec means: Markdown for the summary of a pull request, or JSON."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_json
from ci_compiler.cli.where import SPEC, event_of_run, records_of, root_of, spec_of
from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.plan.pipeline import plan
from ci_compiler.reports.costs import bill_row
from ci_compiler.reports.diff import ChangeGroup, PlanDifference, diff
from ci_compiler.reports.diff_markdown import markdown
from ci_compiler.reports.profiles import of_profile_in_both, profile_changes
from ci_compiler.spec.revision import base_spec
from ci_compiler.sync.events import request_base, unseen_files
from ci_compiler.units import markdown_text


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("base", metavar="BASE", nargs="?", help="a git revision, or a spec file")
    group.add_argument(
        "--pull-request",
        action="store_true",
        help="what the pull request or the merge group of this run is merged into",
    )
    options.shared(parser, "profile", "results", "json", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Compares the spec with that of the base. Raises InputError if either is wrong or the base has none."""
    after = plan(spec_of(arguments))
    root, given = root_of(arguments), getattr(arguments, "spec", None)
    base = request_base(Git(root), event_of_run()) if arguments.pull_request else arguments.base
    within = _within(given, root) if given is not None else None
    before = plan(base_spec(root, base, within or SPEC.as_posix(), required=within is not None))
    profiles = [change for change in profile_changes(before, after) if arguments.profile in {None, change.name}]
    if name := arguments.profile:
        before, after = of_profile_in_both(before, after, name)
    difference = diff(before, after, records=records_of(arguments))
    unseen = _unseen(root, base)
    if unseen:
        note(unseen)
    if arguments.json:
        print_json(_as_json(difference) | ({"profiles": list(map(asdict, profiles))} if profiles else {}))
    else:
        print(markdown(difference), *([markdown_text(unseen)] if unseen else []), sep="\n")
        if profiles:
            print("\nEach profile, if it builds everything:\n", *(f"- {change}" for change in profiles), sep="\n")
    return 0


def _unseen(root: Path, base: str) -> str:
    """What to say of a change of too many files since the revision `base`; '' where it is a file."""
    try:
        return unseen_files(Git(root), base)
    except InputError:  # no repository, or no revision in its history: the spec is from a file
        return ""


def _as_json(found: PlanDifference) -> dict[str, Any]:
    return {
        "variants": found.variants,
        "added": list(map(_group, found.added)),
        "removed": list(map(_group, found.removed)),
        "rebuilt": list(map(_group, found.rebuilt)),
        "rerouted": [
            {
                "stage": route.stage.name,
                "before": route.before,
                "after": route.after,
                "groups": list(map(_group, route.groups)),
            }
            for route in found.rerouted
        ],
        "resharded": [
            {"before": before, "after": after, "names": names} for (before, after), names in found.resharded.items()
        ],
        "warnings": {"new": found.warnings_new, "gone": found.warnings_gone},
        "settings": [{"key": key, "before": before, "after": after} for key, before, after in found.settings],
        "proved": [
            {"branch": group.branch, "names": group.names, "tests": group.reasons[0], "says": group.reasons[1:]}
            for group in found.proved
        ],
        "costs": list(map(asdict, found.costs)),
        "seconds": found.end,
        "full_build": {"before": found.full_before, "after": found.full_after},
        **({"guessed": found.guessed_full} if found.guessed_full else {}),
        **({"bill": bill_row(found.bill)} if found.bill else {}),
    }


def _group(one: ChangeGroup) -> dict[str, Any]:
    return {"branch": one.branch, "names": one.names, "reasons": one.reasons}


def _within(spec: Path, root: Path) -> str | None:
    """The spec's path from the root; None if it is outside the repository, where no revision has it."""
    full, top = spec.resolve(), root.resolve()
    return full.relative_to(top).as_posix() if full.is_relative_to(top) else None

"""`ci-compile diff BASE`: what a change of the spec means, as Markdown for the summary of a pull request."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci_compiler.cli.where import SPEC, root_of, spec_of
from ci_compiler.plan.pipeline import plan
from ci_compiler.reports.diff import diff
from ci_compiler.reports.diff_markdown import markdown
from ci_compiler.spec.revision import base_spec


def run(arguments: argparse.Namespace) -> int:
    """Compares the spec with that of the base. Raises InputError if either is wrong or the base has none."""
    after = plan(spec_of(arguments))
    root, given = root_of(arguments), getattr(arguments, "spec", None)
    within = _within(given, root) if given is not None else None
    before = plan(base_spec(root, arguments.base, within or SPEC.as_posix(), required=within is not None))
    print(markdown(diff(before, after)))
    return 0


def _within(spec: Path, root: Path) -> str | None:
    """The spec's path from the root; None if it is outside the repository, where no revision has it."""
    full, top = spec.resolve(), root.resolve()
    return full.relative_to(top).as_posix() if full.is_relative_to(top) else None

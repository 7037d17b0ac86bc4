"""What an update leads to, judged before anybody reads it: its recipes compiled, evaluated and audited."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ci_compiler.adoption.audit import audit
from ci_compiler.adoption.audit_real import evaluate_branch
from ci_compiler.adoption.evaluator import written
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, raise_any
from ci_compiler.plan.lookup import built_variants
from ci_compiler.plan.pipeline import Plan
from ci_compiler.recipes.render import recipes
from ci_compiler.recipes.work_arounds import pieces
from ci_compiler.reports.diff_markdown import code
from ci_compiler.units import counted
from ci_compiler.update.changes import Nixpkgs
from ci_compiler.update.updating import Updated
from ci_compiler.variant import recipe_names

_COMMIT = re.compile(r"[0-9a-f]{40}")
_OVERLAID = re.compile(r"\b([\w-]+) = prev\.")


class TrueNixpkgs(NamedTuple):
    """The nixpkgs that a sample of the recipes is evaluated with; `folder` is None for the one that they fetch."""

    folder: Path | None


def judged(decided: Plan, done: Updated, templates: Mapping[str, str], true: TrueNixpkgs | None) -> list[str]:
    """A paragraph of Markdown for each branch of `decided` that `done` changes, on its compiled recipes.

    Without Nix, one says that nothing was evaluated. `true` also evaluates one variant per package and toolkit. Raises
    InputError if one has another version than the spec says.
    """
    if not decided.spec.backend.has_recipes:
        return []
    return [_of_branch(decided, branch, templates, true) for branch in done.branches]


def _of_branch(decided: Plan, branch: str, templates: Mapping[str, str], true: TrueNixpkgs | None) -> str:
    files = recipes(decided.spec, decided.judged, branch, templates)
    count = len(recipe_names(files))
    with written(files) as root:
        try:
            lines = [str(cause.line) for cause in audit(root, decided.spec, branch, templates=templates).defects]
            sample = list(_evaluated(root, decided, branch, true)) if true else []
        except InputError as error:
            return f"{code(branch)}: its {counted(count, 'recipe')} were not evaluated: {code(str(error.findings[0]))}"
    raise_any(line for line in sample if isinstance(line, Finding))
    head = f"{code(branch)}: {counted(count, 'recipe')} compiled and audited, {counted(len(lines), 'defect')}"
    return "\n".join([f"{head}.", "", *(f"- {code(str(line))}" for line in [*lines, *sample])]).rstrip()


def _evaluated(root: Path, decided: Plan, branch: str, true: TrueNixpkgs) -> Iterator[str | Finding]:
    """For each variant of the sample a line: its version with the true nixpkgs, or why it has none.

    A version that is not the declared one is an error instead.
    """
    first: dict[tuple[str, str], str] = {}
    for one in built_variants(decided):
        if one.cell.branch == branch:
            first.setdefault((one.variant.package, one.cell.toolkit), one.variant.name)
    done = evaluate_branch(root, decided, branch, true.folder, list(first.values())).done
    for (package, _), name in first.items():
        wanted, found = decided.spec.branches[branch].versions.get(package, ""), done.derivations.get(name)
        finding: Finding | None = done.findings.get(name)
        if finding:
            yield f"{name}: {finding.message} [{finding.code}]"
        elif found is None:
            yield f"{name}: not evaluated in time"
        elif found.version == wanted:
            yield f"{name}: nixpkgs evaluates to version {wanted}"
        else:
            path = ("branches", branch, "versions", package)
            message = f"{name} evaluates to version {found.version}; {branch} has {package} {wanted}"
            yield decided.spec.finding(path, Code.EVALUATION_DIFFERS, message)


def needless(decided: Plan, done: Updated, nixpkgs: Nixpkgs) -> list[str]:
    """A line for each work-around whose patch the nixpkgs of a changed branch has by itself. Raises InputError."""
    known = {piece.name: piece for piece in pieces()}
    lines = []
    for branch in done.branches:
        row = decided.spec.branches[branch]
        for name in row.work_arounds:
            overlay = known[name].overlay if name in known else decided.spec.work_arounds[name].overlay
            patches, attributes = _COMMIT.findall(overlay), _OVERLAID.findall(overlay)
            texts = [nixpkgs.text(row.nixpkgs, attribute) for attribute in attributes] if patches else []
            if any(patch in text for patch in patches for text in texts):
                lines.append(f"{code(branch)} no longer needs {code(name)}: its nixpkgs has the patch.")
    return lines

"""What the audit sees: defects are planted in a copy of a repository's recipes, each by itself.

The kinds are data (`plants.json` of each family): a pattern in a recipe, or in a shared file that it imports, and what
replaces it. A kind is tried on recipes in turn until it changes what one of them evaluates to. A kind that occurs
nowhere in these recipes is not counted. It is seen if the audit then finds something about that recipe that it did not
find before.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ci_compiler.adoption.audit import BranchAudit, prepared
from ci_compiler.adoption.audit_text import FEWEST
from ci_compiler.adoption.comparison import differences
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import name_of, outcomes_of, text_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.hardware import Hardware, Isa
from ci_compiler.hardware.families import DEFAULT, NONE, facts, files_of, nixpkgs
from ci_compiler.plan.matrix import Cell
from ci_compiler.spec.model import Spec
from ci_compiler.variant import RECIPES, SHARED

_WORD = re.compile(r"@([a-z-]+)@")
MOST_TRIED, MOST_EVALUATED = 12, 12
"""The most recipes in which a kind is tried, and the most that are evaluated again after a shared file has changed."""


class Planted(NamedTuple):
    """A kind of defect: the recipe that it was planted in, '' if it occurs in none, and the codes of what was found."""

    kind: str
    recipe: str
    seen: tuple[str, ...]


class _Edit(NamedTuple):
    recipe: Path
    file: Path
    text: str


def self_test(root: Path, spec: Spec, branch: str, *, timeout: float) -> list[Planted]:
    """Each kind of defect, planted in a copy of the recipes under `root`. `timeout` is in seconds, for each evaluation.

    Raises InputError where there are no recipes or no Nix.
    """
    with tempfile.TemporaryDirectory(prefix="ci-compile-") as folder:
        copy = Path(folder) / "recipes"
        parts = [part for part in (RECIPES, SHARED) if (root / part).is_dir()]
        for part in parts or [""]:
            shutil.copytree(root / part, copy / part, ignore=shutil.ignore_patterns(".git"))
        audit = prepared(copy, spec, branch, timeout)
        before = _findings(audit)
        audit = replace(audit, paths=_typical_first(audit))
        kinds: dict[str, list[Mapping[str, Any]]] = {}
        families = {DEFAULT, *(cell.family for cell in audit.cells.values())}
        for family in files_of("plants.json"):
            for row in facts(family, "plants")["plants"] if family in families else ():
                kinds.setdefault(row["kind"], []).append(row | {"family": family})
        return [_planted(audit, before, kind, rows) for kind, rows in kinds.items()]


def _typical_first(audit: BranchAudit) -> tuple[Path, ...]:
    """The recipes, those with a defect of their own last, and those with a common target first."""
    defective = {file for cause in audit.causes() if len(cause.files) < FEWEST for file in cause.files}
    targets = Counter(cell.target for cell in audit.cells.values() if not cell.listed)
    known = [path for path in audit.paths if name_of(path) in audit.cells]
    return tuple(sorted(known, key=lambda path: (str(path) in defective, -targets[audit.cells[name_of(path)].target])))


def _findings(audit: BranchAudit) -> set[tuple[str, str, str]]:
    return {
        (finding.code, finding.place.file, finding.message) for cause in audit.causes() for finding in cause.findings
    }


def _planted(
    audit: BranchAudit, before: set[tuple[str, str, str]], kind: str, rows: Sequence[Mapping[str, Any]]
) -> Planted:
    """What the audit sees of a kind."""
    for edit in islice((edit for row in rows for edit in _edits(audit, row)), MOST_TRIED):
        original = text_of(edit.file)
        edit.file.write_text(edit.text, "utf-8")
        importing = (evaluation.path for evaluation in audit.found.values() if edit.file in evaluation.imports)
        affected = list(dict.fromkeys([edit.recipe, *importing]))[:MOST_EVALUATED]
        outcomes = outcomes_of(audit.root, affected, timeout=audit.timeout)
        changed = _is_changed(audit, edit.recipe, outcomes)
        codes = _seen(audit, before, edit, outcomes) if changed else ()
        edit.file.write_text(original, "utf-8")
        fails = edit.recipe not in audit.failed and isinstance(outcomes[edit.recipe], Finding)
        if Code.RECIPE_SYNTAX not in codes and (codes or (changed and not fails)):
            return Planted(kind, name_of(edit.recipe), codes)
    return Planted(kind, "", ())


def _edits(audit: BranchAudit, row: Mapping[str, Any]) -> Iterator[_Edit]:
    """The recipes in which a row's pattern occurs, directly or in a file that they import, with the text after it."""
    for path in audit.paths:
        cell, name = audit.cells.get(name_of(path)), name_of(path)
        if cell is None or cell.listed or not _fits(row, cell, audit.spec.hardware):
            continue
        words = _words(audit, cell, path)
        pattern = re.compile(_filled(row["pattern"], words, re.escape))
        replacement = _filled(row["replacement"], words, lambda word: word.replace("\\", r"\\"))
        evaluation = audit.found.get(name)
        imported = [file for file in evaluation.imports if file not in audit.paths] if evaluation else []
        for file in imported if row.get("shared") else [path]:
            text = text_of(file)
            matches = list(pattern.finditer(text))
            for match in {"all": matches[::-1], "last": matches[-1:]}.get(row.get("which", ""), matches[:1]):
                text = text[: match.start()] + match.expand(replacement) + text[match.end() :]
            if matches:
                yield _Edit(path, file, text)


def _filled(text: str, words: Mapping[str, str], quoted: Callable[[str], str]) -> str:
    return _WORD.sub(lambda match: quoted(words.get(match[1], match[0])), text)


def _fits(row: Mapping[str, Any], cell: Cell, hardware: Hardware) -> bool:
    """Whether a row is about recipes such as that of `cell`: of GPUs, only those of its own family."""
    gpu, isa = cell.family == row["family"] and cell.target in hardware.gpus, hardware.isas.get(cell.isa)
    others = bool(isa and isa.flags and _more(isa, hardware) and _lower(isa, hardware))
    return {"gpu": gpu, "cpu": cell.target == NONE, "isa": others}.get(row.get("cells", ""), True)


def _more(isa: Isa, hardware: Hardware) -> list[str]:
    """Flags of an ISA that has all that `isa` has, and more."""
    above = (other for other in hardware.isas.values() if isa.name in other.includes)
    return [flag for other in above for flag in other.flags if flag not in isa.flags]


def _lower(isa: Isa, hardware: Hardware) -> list[Isa]:
    """The ISAs with flags that `isa` includes, the nearest first."""
    return [hardware.isas[name] for name in isa.includes if name in hardware.isas and hardware.isas[name].flags]


def _words(audit: BranchAudit, cell: Cell, path: Path) -> dict[str, str]:
    """What stands for the words between `@` in patterns and replacements."""
    hardware = audit.spec.hardware
    gpu = next(one for one in hardware.gpus.values() if one.name != cell.target and one.products)
    words = {"isa": cell.isa, "other-capability": str(gpu.capability), "other-digits": gpu.name.removeprefix("sm")}
    others = (one for one in nixpkgs(cell.family)["default"] if one != cell.target)
    words |= {"other-product": gpu.products[0], "other-target": next(others, "")}
    words |= {"other-system": next(system for system in hardware.systems if system != cell.system)}
    if (isa := hardware.isas.get(cell.isa)) and isa.flags:
        more, lower = _more(isa, hardware), _lower(isa, hardware)
        words |= {"last-flag": isa.flags[-1], "more-flag": more[0] if more else ""}
        if lower:
            words |= {"lower": lower[0].name, "lower-flags": " ".join(f'"{flag}"' for flag in lower[0].flags)}
    siblings = [other for other in audit.paths if other != path and name_of(other) in audit.cells]
    sibling = next((one for one in siblings if audit.cells[name_of(one)].target != cell.target), path)
    words |= {"sibling": name_of(sibling), "sibling-text": text_of(sibling)}
    return words


def _is_changed(audit: BranchAudit, recipe: Path, outcomes: Mapping[Path, Evaluation | Finding]) -> bool:
    """Whether a recipe evaluates to something else than before."""
    before, after = audit.found.get(name_of(recipe)), outcomes[recipe]
    return not before or not isinstance(after, Evaluation) or _shown(before) != _shown(after)


def _shown(one: Evaluation) -> list[Evaluation]:
    return [replace(node, places={}, torch=None, inner=()) for node in one.nodes]


def _seen(
    audit: BranchAudit,
    before: set[tuple[str, str, str]],
    edit: _Edit,
    outcomes: Mapping[Path, Evaluation | Finding],
) -> tuple[str, ...]:
    """The codes of what is found with `outcomes` in the edited files that was not found `before`."""
    done = {name_of(path): one for path, one in outcomes.items() if isinstance(one, Evaluation)}
    failed = {path: one for path, one in outcomes.items() if isinstance(one, Finding)}
    rest = {name: one for name, one in audit.found.items() if one.path not in outcomes}
    files = {str(path) for path in (edit.file, *outcomes)}
    now = _findings(replace(audit, found=rest | done, failed=dict(audit.failed) | failed))
    codes = {code for code, file, message in now - before if file in files}
    name = name_of(edit.recipe)
    if not audit.is_own(edit.recipe) and name in done and differences(done[name], audit.found[name]):
        codes.add(Code.RECIPE_DIFFERS)
    return tuple(sorted(codes))

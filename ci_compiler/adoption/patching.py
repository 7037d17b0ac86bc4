"""Whether the text that a recipe takes over still fits its source: patches, and replacements in `postPatch`.

nixpkgs' `postPatch` and patches belong to nixpkgs' version of a package. Where a recipe builds another version with
them, the build fails in its first minute, after hours of waiting for a machine. Here the source of each recipe is
unpacked and patched, once for all recipes that patch the same source in the same way, and nothing is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ci_compiler.adoption.audit_real import BranchEvaluation
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import evaluate, name_of
from ci_compiler.adoption.real_nixpkgs import Derivation, NixpkgsSource, patch
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, about
from ci_compiler.plan.pipeline import Plan
from ci_compiler.process import Ended
from ci_compiler.units import counted, grouped

_READ = ("src", "srcs", "sourceRoot", "patchFlags", "postUnpack", "prePatch", "patchPhase", "postPatch")
"""What decides how a source is patched, with `patches`."""

_REPLACED = re.compile(r"(ERROR|WARNING): pattern (.+) doesn't match anything in (?:file )?'?([^']+)")
_NO_FILE = re.compile(r"ERROR: file '(.+)' does not exist")
"""What `substituteInPlace` says (nixpkgs, pkgs/stdenv/generic/setup.sh, `substituteStream`)."""

_PATCH = re.compile(r"applying patch (?:\S*/)?(?:[0-9a-z]{32}-)?(\S+)")
_FILE = re.compile(r"patching file '?([^']+)'?$")
_HUNK = re.compile(r"Hunk #\d+ FAILED at|can't find file to patch")
"""What `patchPhase` (the same file) and GNU patch say."""

_NOT_AN_INPUT = re.compile(r"nothing called \S+ is among its inputs")
"""What `real/evaluate.nix` says."""

_DECIDE = {*_READ, "version", "patches"}

_OF_THE_SUMMARY = re.compile(
    r"\s+>|\s*error:|\s*last \d+ log lines|\s*For full logs|these \d+ derivations|/nix/store/\S+$"
)
"""What Nix says once the builder has ended."""


class Patched(NamedTuple):
    """How patching a source ended for `recipes`: what is wrong, and what does nothing any more.

    It is that of `package` inside them, or else their own. `left_out`: why something was not patched.
    """

    recipes: tuple[str, ...]
    problems: tuple[str, ...]
    idle: tuple[str, ...]
    package: str = ""
    left_out: str = ""

    def finding(self, path: Path) -> Finding:
        """What is wrong, at the recipe of `path`, which stands for all."""
        more = f" ({counted(len(self.recipes) - 1, 'more recipe')} too)" if self.recipes[1:] else ""
        name = f"{self.package}: " if self.package else ""
        return about(path, Code.PATCH_FAILS, f"{name}{'; '.join(self.problems)}{more}")


def alike(derivations: Mapping[str, Derivation]) -> list[tuple[str, ...]]:
    """The names of the recipes that patch the same source in the same way."""

    def key(name: str) -> tuple[str, ...]:
        derivation = derivations[name]
        has = derivation.attributes
        return (derivation.system, has.get("patches", derivation.path), *(has.get(one, "") for one in _READ))

    return [tuple(names) for names in grouped(derivations, key).values()]


def patched(root: Path, plan: Plan, real: BranchEvaluation, branch: str, folder: Path | None) -> Iterator[Patched]:
    """Patches each source of the recipes that were evaluated, and of the packages that they change.

    `folder` is as there. Raises InputError.
    """
    own = [(names, "") for names in alike(real.done.derivations)]
    standin, failed = evaluate(root, [real.paths[name] for name in real.done.derivations])
    for names, inside in (*own, *alike_inside(standin)):
        cell = real.built[names[0]].cell
        source = NixpkgsSource(folder=folder, pin=plan.spec.branches[branch].pin(cell.toolkit), system=cell.system)
        ended = patch(root, names[0], real.paths, source, inside=inside)
        if _NOT_AN_INPUT.search(ended.err):
            yield Patched(names, (), (), left_out=f"{inside} is not among its inputs, and was not patched")
        else:
            yield read(names, ended, inside)
    for finding in failed:
        name = name_of(Path(finding.place.file))
        yield Patched((name,), (), (), left_out=f"what it changes was not patched: {finding.message}")


def alike_inside(evaluations: Iterable[Evaluation]) -> list[tuple[tuple[str, ...], str]]:
    """The names of the recipes inside which the same package is changed in the same way, with the package's name.

    A package is one of them if the recipe sets what decides its source, or how that is patched.
    """

    def key(pair: tuple[str, Evaluation]) -> tuple[str, ...]:
        node = pair[1]
        origin = (node.version, node.pin, node.system, node.override, node.sources, node.patches)
        return (node.pname, *map(str, origin), *(str(node.attributes.get(name)) for name in _READ))

    changed = [
        (name_of(recipe.path), node)
        for recipe in evaluations
        for node in recipe.nodes[1:]
        if not _DECIDE.isdisjoint(node.sets)
    ]
    groups = grouped(changed, key).values()
    return [(tuple(dict.fromkeys(name for name, _ in pairs)), pairs[0][1].pname) for pairs in groups]


def read(names: Collection[str], ended: Ended, package: str = "") -> Patched:
    """What the output of a builder says, which patched the source of the recipes `names`, or of one inside them."""
    name = file = ""
    problems: list[str] = []
    idle: list[str] = []
    last = ""
    for line in ended.err.splitlines():
        if _OF_THE_SUMMARY.match(line):
            continue
        last = line.strip() or last
        if match := _PATCH.search(line):
            name, file = match[1], ""
        elif match := _FILE.search(line):
            file = match[1]
        elif match := _REPLACED.search(line):
            option, said = ("fail", problems) if match[1] == "ERROR" else ("warn", idle)
            said.append(f"`--replace-{option}` finds no {match[2]} in {match[3]}")
        elif match := _NO_FILE.search(line):
            problems.append(f"it edits {match[1]}, which the source does not have")
        elif "previously applied" in line:
            problems.append(f"the source has {name} already, in {file}")
        elif _HUNK.search(line):
            problems.append(f"{name} does not apply{f' to {file}' if file else ''}")
    if ended.status != 0 and not problems:
        problems.append(f"unpacking or patching fails: {last or ended.said}")
    failed = problems if ended.status != 0 else []
    return Patched(tuple(names), tuple(dict.fromkeys(failed)), tuple(dict.fromkeys(idle)), package)

"""Whether a derivation is its variant's: the version, the GPU architectures and the CPU flags.

`ci-runner build` judges the derivation that it is about to build, `ci-compile audit --nixpkgs` those that the recipes
evaluate to. A recipe of the repository's own is judged by what its derivation states; a derivation that states nothing
of the kind passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ci_compiler.hardware.families import nixpkgs
from ci_compiler.hardware.features import UnknownFlagError, features, least
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.recipes import shell_variables as shell
from ci_compiler.recipes.capabilities import capabilities_of
from ci_compiler.spec.model import RecipeKind, Spec

_FLAGS = ("CXXFLAGS", "CFLAGS")


def differences(spec: Spec, built: BuiltVariant, attributes: Mapping[str, str]) -> Iterator[str]:
    """Each way in which `attributes`, those of the derivation, are not the variant's."""
    before = {name: value for name, value in attributes.items() if re.fullmatch("[A-Z][A-Z0-9_]*", name)}
    environment = shell.exported("\n".join(attributes.get(phase, "") for phase in shell.PHASES), before)
    yield from another_version(built.cell.branch, built.variant.package, built.version, attributes.get("version", ""))
    yield from _architectures(spec, built, environment.get(nixpkgs(built.cell.family)["architectures"], ""))
    for name in _FLAGS:
        yield from _flags(spec, built, name, environment.get(name, ""))


def another_version(branch: str, package: str, stated: str, version: str) -> Iterator[str]:
    """What is wrong if a recipe evaluates to `version` and the spec has `stated`; '' if either is not known."""
    if version and stated and version != stated:
        yield f"evaluates to version {version}; {branch} has {package} {stated}"


def _architectures(spec: Spec, built: BuiltVariant, value: str) -> Iterator[str]:
    listed = [word for word in re.split("[; ,]+", value) if word]
    noise = nixpkgs(built.cell.family)["noise"]
    found = {re.sub(noise, "", word) for word in listed}
    wanted = () if built.cell.listed else capabilities_of(spec.hardware, built.cell)
    right = {re.sub(noise, "", name) for name in wanted}
    if listed and "$" not in value and not built.cell.listed and found != right:
        shown = ", ".join(wanted) or "no GPU"
        yield f"builds for {nixpkgs(built.cell.family)['architectures']}={value}; {built.variant.name} is for {shown}"


def _flags(spec: Spec, built: BuiltVariant, name: str, value: str) -> Iterator[str]:
    isa = spec.hardware.isa(built.cell.isa)
    given = tuple(word for word in shell.words(value) if word.startswith("-m"))
    if not given:
        return
    try:
        here, wanted = features(given), features(isa.flags)
    except UnknownFlagError as error:
        yield f"{name}: {error}"
        return
    own = spec.packages[built.variant.package].kind_of(built.variant.name) is RecipeKind.OWN
    lacking = frozenset() if own else wanted - here  # what an own recipe leaves out is its own matter
    for which, verb in ((here - wanted, "turns on"), (lacking, "does not turn on")):
        if which:
            wants = f"{built.variant.name} is for {isa.name} ({' '.join(isa.flags)})"
            yield f"{name} {verb} {', '.join(least(which))}; {wants}"

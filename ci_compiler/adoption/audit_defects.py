"""Defects of a recipe: where it builds something else than its name and the spec say, or what cannot work.

A defect is wrong in itself, whoever wrote the recipe. Another style is none. What depends on a nixpkgs that is not
known, or that only the build shows, is left open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ci_compiler.adoption.audit_flags import machine_flags, wrong_flags
from ci_compiler.adoption.evaluation import Evaluation, texts
from ci_compiler.adoption.evaluator import name_of
from ci_compiler.adoption.known_pins import known_pins
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.hardware import ALL, CPU, Version
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.rules import hardware_problems
from ci_compiler.recipes.judged import another_version
from ci_compiler.spec.model import RecipeKind, Spec
from ci_compiler.variant import VariantName

_TARGET = re.compile(r"(?:sm_?|compute_)?(?P<major>\d{1,2})\.?(?P<minor>\d)[af]?(?:-real|-virtual)?(?:\+PTX)?")
_CAPABILITY = re.compile(r"\d+\.\d+[af]?(\+PTX)?")
_ARCHITECTURES = re.compile(r"-DCMAKE_CUDA_ARCHITECTURES(?::\w+)?=(.+)")
_CMAKE = "cmakeFlags"
_PYTHON = re.compile(r"-python\d{2,}-")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRecipe:
    """A recipe of the variant `name` in `cell`, and what it evaluates to."""

    spec: Spec
    cell: Cell
    name: str
    one: Evaluation

    @property
    def package(self) -> str:
        """The package of the variant."""
        return next(variant.package for variant in self.cell.variants if variant.name == self.name)

    @property
    def own(self) -> bool:
        """Whether the recipe is the repository's own."""
        return self.spec.packages[self.package].kind_of(self.name) is RecipeKind.OWN

    @property
    def torch(self) -> Evaluation:
        """The torch that the recipe builds or uses; the package itself if there is none."""
        return self.one.torch or self.one

    @property
    def parts(self) -> tuple[tuple[str, Evaluation], ...]:
        """What the file itself defines, each with the beginning of a message: the package, and a torch inside it."""
        torch = self.one.torch
        nested = (("its torch: ", torch),) if torch and torch.path == self.one.path else ()
        return (("", self.one), *nested)


def defects(recipe: AuditedRecipe, others: Mapping[str, Evaluation]) -> Iterator[Finding]:
    """The defects of a recipe whose variant fits the axes; `others` are the evaluations of all recipes by name."""
    yield from _wrong_name(recipe)
    yield from _wrong_nixpkgs(recipe)
    yield from _wrong_platforms(recipe)
    yield from _wrong_gpu(recipe)
    yield from _wrong_toolkit(recipe)
    yield from wrong_flags(recipe.one, recipe.spec.hardware.isa(recipe.cell.isa), recipe.spec.hardware)
    yield from _wrong_torch(recipe, others)


def at(one: Evaluation, where: str, code: Code, message: str) -> Finding:
    """A finding about a recipe, at the place of its attribute `where`."""
    place = one.places.get(where) or Place(file=str(one.path), line=1, column=1)
    return Finding(place=place, code=code, message=message)


def impossible(name: str, path: Path, spec: Spec) -> Iterator[Finding]:
    """Why Flox cannot address, or nothing can build, what the recipe at `path` is called."""
    hardware, said = spec.hardware, VariantName.parse(name)
    place = Place(file=str(path), line=1, column=1)
    if "." in name:
        right = str(said.spelled(hardware)) if said else name
        message = f"{name!r} contains a dot, and a Flox attribute path contains none; call it {right.replace('.', '_')}"
        yield Finding(place=place, code=Code.DOTTED_NAME, message=message)
    if said is None:
        return
    isa, gpu = hardware.isas.get(said.spelled(hardware).isa), hardware.gpus.get(said.target)
    toolkit = hardware.toolkits.get(said.toolkit)
    if isa and gpu and toolkit:
        for code, problem in hardware_problems(gpu, toolkit, isa.system):
            yield Finding(place=place, code=code, message=problem)


# The name and the nixpkgs.


def _wrong_name(recipe: AuditedRecipe) -> Iterator[Finding]:
    """A `pname` that is the name of a variant in another cell, and another Python than the name's."""
    cell, one = recipe.cell, recipe.one
    if _PYTHON.search(one.pname) and one.pname != recipe.name and not one.pname.endswith(f"-{cell.suffix}"):
        message = f"pname is {one.pname!r}, which is not the variant {recipe.name}"
        yield at(one, "pname", Code.PNAME_DIFFERS, message)
    plain = one.attribute.startswith(("python3Packages.", "pythonPackages."))
    if one.python and one.python != cell.python and (_is_known(one) or not plain):
        message = f"its name says Python {cell.python}; it builds with {one.python}"
        yield at(one, "", Code.WRONG_PYTHON, message)


def _wrong_nixpkgs(recipe: AuditedRecipe) -> Iterator[Finding]:
    """Another nixpkgs or version than the spec's, and attributes that are only aliases."""
    cell, one = recipe.cell, recipe.one
    branch = recipe.spec.branches[cell.branch]
    pin = branch.pin(cell.toolkit).nixpkgs
    if pin and one.pin != pin and not (recipe.own and not one.pin):
        taken = f"takes nixpkgs {one.pin}" if one.pin else "takes the nixpkgs that it is called with"
        yield at(one, "nixpkgs", Code.WRONG_PIN, f"{taken}; {branch.name} is pinned to {pin}")
    version = branch.versions.get(recipe.package, "")
    known = "version" in one.sets or not (recipe.own or "release" in one.unknown)  # own recipes may have further pins
    suffixed = re.match(rf"{re.escape(version)}[^\d.]", one.version)
    for message in another_version(branch.name, recipe.package, version, one.version if known and not suffixed else ""):
        yield at(one, "version", Code.EVALUATION_DIFFERS, message)
    for whose, part in recipe.parts:
        if part.attribute.endswith(".pytorch"):
            message = f"{whose}{part.attribute} is an alias; take {part.attribute[:-7]}torch"
            yield at(part, "", Code.PYTORCH_ALIAS, message)


def _is_known(one: Evaluation) -> bool:
    """Whether the facts about the recipe's nixpkgs are known."""
    return one.pin in known_pins().versions


def _wrong_platforms(recipe: AuditedRecipe) -> Iterator[Finding]:
    """A system that is not the variant's, and another system for which the compiler refuses the recipe's flags."""
    cell, one, hardware = recipe.cell, recipe.one, recipe.spec.hardware
    if one.platforms and cell.system not in one.platforms:
        shown = ", ".join(one.platforms)
        yield at(one, "meta.platforms", Code.WRONG_PLATFORMS, f"meta.platforms is {shown}, not {cell.system}")
        return
    flags = [flag for _, part in recipe.parts for name in part.flags for flag in machine_flags(part, name)]
    cpu = cell.system.partition("-")[0]
    others = [system for system in hardware.systems if system in one.platforms and not system.startswith(f"{cpu}-")]
    if flags and others and hardware.isa(cell.isa).flags:
        message = f"meta.platforms has {', '.join(others)} too, for which {flags[0]!r} does not compile"
        yield at(one, "meta.platforms", Code.WRONG_PLATFORMS, message)


# The GPU and the toolkit.


def _wrong_gpu(recipe: AuditedRecipe) -> Iterator[Finding]:
    """CUDA where it does not belong or is missing, and another architecture than the name's; one finding at most."""
    cell, one, torch = recipe.cell, recipe.one, recipe.torch
    stated = torch.override.get("cudaSupport")
    if cell.target == CPU:
        if torch.cuda_support and (torch.pin or stated):
            where = "override.cudaSupport" if stated else "config.cudaSupport"
            yield at(torch, where, Code.CUDA_IN_CPU_RECIPE, "CUDA is turned on, but the recipe is for CPUs only")
        elif one.config.get("cudaSupport"):
            message = "config.cudaSupport is set, but the recipe is for CPUs only"
            yield at(one, "config.cudaSupport", Code.CUDA_IN_CPU_RECIPE, message)
        return
    if stated is False or (torch.package == "torch" and torch.pin and not torch.cuda_support):
        yield at(torch, "override.cudaSupport", Code.CUDA_OFF, "CUDA is turned off, but the recipe is for a GPU")
        return
    if cell.target == ALL.name:
        return
    wanted = recipe.spec.hardware.gpu(cell.target).capability
    asked = [(where, targets) for where, targets in _targets(one, torch) if targets]
    for where, targets in asked:
        if finding := _wrong_target(torch, where, targets, wanted, cell.target):
            yield finding
            return
    if not asked and torch.package == "torch" and (torch is one or torch.override):
        message = (
            f"gpuTargets is not set, so that torch has nixpkgs' default architectures, and {cell.target} is {wanted}"
        )
        yield at(torch, "override.gpuTargets", Code.WRONG_GPU, message)


def _wrong_target(torch: Evaluation, where: str, targets: tuple[str, ...], wanted: Version, gpu: str) -> Finding | None:
    """What is wrong with the architectures `targets` that a recipe asks for; None if nothing is."""
    said = where.rsplit(".", 1)[-1]
    for target in targets if where != _CMAKE else ():
        if _TARGET.fullmatch(target) and not _CAPABILITY.fullmatch(target):
            message = f"{said} contains {target!r}; torch takes '{wanted}'"
            return at(torch, where, Code.GPU_TARGET_NOTATION, message)
    built = {version for target in targets if (version := _capability(target))}
    if built and built != {wanted}:
        return at(torch, where, Code.WRONG_GPU, f"{said} is {', '.join(targets)}, and {gpu} is {wanted}")
    return None


def _targets(one: Evaluation, torch: Evaluation) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The GPUs that a recipe asks for, as written, in each way in which it does."""
    yield "override.gpuTargets", torch.gpu_targets
    yield "config.cudaCapabilities", texts(one.config.get("cudaCapabilities"))
    for each in (one, torch):
        yield "exports.TORCH_CUDA_ARCH_LIST", _list(each.exports.get("TORCH_CUDA_ARCH_LIST", ""))
        for flag in each.cmake_flags:
            if found := _ARCHITECTURES.fullmatch(flag):
                yield _CMAKE, _list(found[1])


def _list(value: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[;,\s]+", value) if word)


def _capability(target: str) -> Version | None:
    found = _TARGET.fullmatch(target)
    return Version(int(found["major"]), int(found["minor"])) if found else None


def _wrong_toolkit(recipe: AuditedRecipe) -> Iterator[Finding]:
    torch, cuda = recipe.torch, recipe.cell.toolkit
    told = _is_known(recipe.one) or torch.cuda_attribute != "cudaPackages"
    if cuda and torch.cuda_support and told and torch.cuda_version not in {"", cuda}:
        plain = torch.cuda_attribute == "cudaPackages"
        why = ", since no overlay replaces the cudaPackages of its nixpkgs" if plain else ""
        message = f"its name says CUDA {cuda}; it builds with {torch.cuda_version}{why}"
        yield at(recipe.one, "nixpkgs.overlays", Code.CUDA_IN_NAME, message)


# The torch of a package.


def _wrong_torch(recipe: AuditedRecipe, others: Mapping[str, Evaluation]) -> Iterator[Finding]:
    """A torch that the builder cannot fit, that users do not get, or that is not the cell's."""
    one = recipe.one
    for whose, part in recipe.parts:
        replaces = part.package == "torch" and "requiredSystemFeatures" in part.sets
        if replaces and "big-parallel" not in part.required_system_features:
            message = f'{whose}requiredSystemFeatures replaces nixpkgs\' "big-parallel"'
            yield at(part, "requiredSystemFeatures", Code.BIG_PARALLEL_MISSING, message)
    if one.package in {"torchvision", "torchaudio"} and "out" not in one.propagated_outputs:
        message = "propagates torch without its output `out`, which has site-packages; add torch.out"
        yield at(one, "propagatedBuildInputs", Code.TORCH_NOT_PROPAGATED, message)
    for variant in recipe.cell.variants if one.torch else ():
        other = others.get(variant.name)
        is_torch = recipe.spec.packages[variant.package].attribute == "torch"
        if is_torch and other is not None and one.torch and one.torch.drv_path != other.drv_path:
            message = f"its torch is not the derivation that {name_of(other.path)} builds; import that recipe"
            yield at(one, "override.torch", Code.ANOTHER_TORCH, message)

"""The identity of a recipe: its package and the cell that it builds for, as it evaluates.

The recipe's name is used only for what depends on the nixpkgs that the recipe is called with (the Python of plain
`python3Packages`, the CUDA of plain `cudaPackages`), since nothing else states it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ci_compiler.adoption.evaluation import Evaluation, texts
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.hardware import CPU, Gpu, Hardware, Isa, Version
from ci_compiler.hardware.features import UnknownFlagError, declaration, exceeds, features, least, refined
from ci_compiler.variant import VariantName, cell_suffix

TORCH = "torch"
"""The attribute of PyTorch in nixpkgs' Python package set. The other packages are built with it."""

_PACKAGE = re.compile(r"python3?\d*Packages\.(?P<name>[A-Za-z_][A-Za-z0-9_-]*)")
_BUILDERS = frozenset({"buildPythonPackage", "buildPythonApplication", "buildEnv", "withPackages"})
_TARGET = re.compile(r"(?:sm_|compute_)?(?P<major>\d{1,2})\.?(?P<minor>\d)[af]?(?:\+PTX)?")
_FLAGS = ("CXXFLAGS", "CFLAGS", "NIX_CFLAGS_COMPILE")


class MisfitError(Exception):
    """A recipe that no spec can express; `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(str(finding))


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A package's attribute and the cell that it is built for; `cuda` is '' for a CPU variant.

    `by_name` holds "python" and "cuda" where only the recipe's name states them; `warnings` what is odd but adopted.
    """

    attribute: str
    python: str
    cuda: str
    gpu: str
    isa: str
    system: str
    by_name: frozenset[str]
    warnings: tuple[Finding, ...]

    @property
    def suffix(self) -> str:
        """What follows the package in the recipe's right name."""
        return cell_suffix(python=self.python, cuda=self.cuda, gpu=self.gpu, isa=self.isa)


def identify(recipe: Evaluation, name: str, hardware: Hardware, pins: Iterable[str]) -> Identity:
    """What `recipe`, called `name`, builds; `pins` are the nixpkgs revisions that are known. Raises MisfitError."""
    attribute = _attribute(recipe)
    isa = _isa(recipe, hardware)
    by_name: set[str] = set()
    warnings: tuple[Finding, ...] = ()
    cuda, gpu = "", CPU
    subject = recipe.torch or recipe
    named = VariantName.parse_start(name)
    if subject.cuda_support:
        target, warnings = _gpu(recipe, hardware)
        gpu, cuda = target.name, subject.cuda_version
        if subject.cuda_attribute == "cudaPackages" and subject.pin not in pins and named and named.cuda:
            cuda = named.cuda
            by_name.add("cuda")
        if cuda not in hardware.toolkits:
            known = ", ".join(hardware.toolkits)
            raise misfit(
                recipe, Code.UNKNOWN_CUDA, f"it builds with CUDA {cuda}; known are {known}", "nixpkgs.overlays"
            )
    python = recipe.python
    plain = recipe.attribute.startswith(("python3Packages.", "pythonPackages."))
    if plain and recipe.pin not in pins and named:
        python = named.python
        by_name.add("python")
    return Identity(
        attribute=attribute,
        python=python,
        cuda=cuda,
        gpu=gpu,
        isa=isa.name,
        system=isa.system,
        by_name=frozenset(by_name),
        warnings=warnings,
    )


def misfit(recipe: Evaluation, code: Code, message: str, where: str = "") -> MisfitError:
    """The error that refuses `recipe`, at the place of its attribute `where`."""
    return MisfitError(at(recipe, code, message, where))


def at(recipe: Evaluation, code: Code, message: str, where: str = "", *, tolerated: bool = False) -> Finding:
    """A finding about `recipe`, at the place of its attribute `where`."""
    place = recipe.places.get(where) or Place(file=str(recipe.path))
    return Finding(place=place, code=code, message=message, tolerated=tolerated)


def _attribute(recipe: Evaluation) -> str:
    """The package's attribute in nixpkgs' Python set; aliases of torch are torch."""
    if recipe.package != "other":
        return recipe.package
    found = _PACKAGE.fullmatch(recipe.attribute)
    if found is None or found["name"] in _BUILDERS or not recipe.python:
        made = f"made with {recipe.attribute}" if recipe.attribute else "not a package of nixpkgs"
        raise misfit(recipe, Code.ONE_OFF, f"it is {made}; a spec's packages are overrides of nixpkgs' Python packages")
    return found["name"]


# The GPU.


def _gpu(recipe: Evaluation, hardware: Hardware) -> tuple[Gpu, tuple[Finding, ...]]:
    """The one GPU that a recipe builds for; for a package that is built with torch, the GPU of its torch."""
    torch = recipe.torch
    targets = _targets(torch or recipe)
    if len(targets) != 1:
        several = f"for {len(targets)} GPUs ({', '.join(targets)})" if targets else "for whatever GPUs nixpkgs chooses"
        message = f"CUDA is on, and it builds {several}; a variant is for one GPU (gpuTargets)"
        raise misfit(torch or recipe, Code.GPU_TARGETS, message, "override.gpuTargets")
    gpu = _gpu_of(targets[0], hardware)
    if gpu is None:
        known = ", ".join(str(one.capability) for one in hardware.gpus.values())
        message = f"no known GPU has the compute capability {targets[0]}; known are {known}"
        raise misfit(torch or recipe, Code.UNKNOWN_GPU, message, "override.gpuTargets")
    own = _list(recipe.exports.get("TORCH_CUDA_ARCH_LIST", ""))
    if torch is not None and any(_gpu_of(target, hardware) not in {None, gpu} for target in own):
        message = f"its own kernels are for {', '.join(own)}, but its torch is for {targets[0]}"
        raise misfit(recipe, Code.TORCH_DIFFERS, message, "preConfigure")
    if targets[0] == str(gpu.capability):
        return gpu, ()
    message = f"gpuTargets is {targets[0]}, read as {gpu.name}; a compiled recipe has {gpu.capability}"
    return gpu, (at(torch or recipe, Code.GPU_TARGET_NOTATION, message, "override.gpuTargets", tolerated=True),)


def _targets(recipe: Evaluation) -> tuple[str, ...]:
    """The GPUs that a recipe asks for, as written: in the override, the configuration or the build."""
    wanted = recipe.gpu_targets or texts(recipe.config.get("cudaCapabilities"))
    return wanted or _list(recipe.exports.get("TORCH_CUDA_ARCH_LIST", ""))


def _list(value: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[;\s]+", value) if word)


def _gpu_of(target: str, hardware: Hardware) -> Gpu | None:
    found = _TARGET.fullmatch(target)
    if found is None:
        return None
    capability = Version(int(found["major"]), int(found["minor"]))
    return next((gpu for gpu in hardware.gpus.values() if gpu.capability == capability), None)


# The ISA.


def _isa(recipe: Evaluation, hardware: Hardware) -> Isa:
    """The instruction set of the compiler flags; those of its torch, if the recipe has none of its own."""
    own = _machine_flags(recipe)
    torch = _machine_flags(recipe.torch) if recipe.torch else ()
    flags = own or torch
    if not flags:
        raise misfit(recipe, Code.UNKNOWN_ISA, "no compiler flag says which CPUs it is for", "preConfigure")
    subject = recipe if own else recipe.torch or recipe
    turned_on = _features(subject, flags)
    known = [one for one in hardware.isas.values() if one.flags]
    isa = min(known, key=lambda one: len(turned_on ^ features(one.flags)))
    if extra := exceeds(flags, isa):
        message = (
            f"its compiler flags match no known ISA; the nearest is {isa.name}, which lacks {', '.join(least(extra))}: "
            f"declare it so ({declaration(refined(isa, flags))}), or remove the flags"
        )
        raise misfit(subject, Code.UNKNOWN_ISA, message, "preConfigure")
    if lacking := features(isa.flags) - turned_on:
        message = f"its compiler flags match no known ISA; the nearest is {isa.name}, with {', '.join(least(lacking))}"
        raise misfit(subject, Code.UNKNOWN_ISA, message, "preConfigure")
    if own and torch and turned_on != _features(recipe, torch):
        raise misfit(recipe, Code.TORCH_DIFFERS, f"it is for {isa.name}, but its torch is for {' '.join(torch)}")
    if recipe.platforms and isa.system not in recipe.platforms:
        shown = ", ".join(recipe.platforms)
        message = f"its compiler flags are {isa.name}'s, of {isa.system}, but meta.platforms is {shown}"
        raise misfit(recipe, Code.ISA_SYSTEM, message, "meta.platforms")
    return isa


def _features(recipe: Evaluation, flags: tuple[str, ...]) -> frozenset[str]:
    """The CPU features that `flags` turn on. Raises MisfitError for a flag whose features are unknown."""
    try:
        return features(flags)
    except UnknownFlagError as error:
        raise misfit(recipe, Code.UNKNOWN_FLAG, str(error), "preConfigure") from None


def _machine_flags(recipe: Evaluation) -> tuple[str, ...]:
    """The flags that choose instructions. Raises MisfitError if their features differ from language to language."""
    found = {name: tuple(filter(_chooses_instructions, recipe.flags.get(name, ()))) for name in _FLAGS}
    distinct = {_features(recipe, flags): name for name, flags in found.items() if flags}
    if len(distinct) > 1:
        names = " and ".join(distinct.values())
        raise misfit(recipe, Code.UNKNOWN_ISA, f"{names} choose different instructions", "preConfigure")
    return next(filter(None, found.values()), ())


def _chooses_instructions(flag: str) -> bool:
    return flag.startswith("-m") and not flag.startswith("-mtune=")

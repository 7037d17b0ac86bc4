"""What is wrong in a recipe of the repository's own: where it builds something else than its name tells.

Another style is no defect. Compared are the GPU, the instruction set, the toolkit, the Python and the system. What
depends on the nixpkgs that a recipe is called with, or that only its build tells, is left open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ci_compiler.adoption.evaluation import Evaluation, texts
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.hardware import ALL, CPU, Hardware, Isa, Version
from ci_compiler.hardware.features import UnknownFlagError, declaration, features, least, refined
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.rules import RULES
from ci_compiler.variant import VariantName

_TARGET = re.compile(r"(?:sm_?|compute_)?(?P<major>\d{1,2})\.?(?P<minor>\d)[af]?(?:-real|-virtual)?(?:\+PTX)?")
_ARCHITECTURES = re.compile(r"-DCMAKE_CUDA_ARCHITECTURES(?::\w+)?=(.+)")
_FLAGS = ("CXXFLAGS", "CFLAGS", "NIX_CFLAGS_COMPILE")


def wrong_in_itself(cell: Cell, one: Evaluation, hardware: Hardware, pins: Iterable[str]) -> Iterator[Finding]:
    """Where the recipe of the variant in `cell` builds something else; `pins` are the known revisions of nixpkgs."""
    if one.platforms and cell.system not in one.platforms:
        shown = ", ".join(one.platforms)
        yield at(one, "meta.platforms", Code.WRONG_PLATFORMS, f"meta.platforms is {shown}, not {cell.system}")
    if cell.listed:
        return
    known = one.pin in set(pins)
    yield from _wrong_gpu(cell, one, hardware)
    subject = one.torch or one
    told = known or subject.cuda_attribute != "cudaPackages"
    if cell.cuda and subject.cuda_support and told and subject.cuda_version not in {"", cell.cuda}:
        message = f"its name says CUDA {cell.cuda}; it builds with {subject.cuda_version}"
        yield at(one, "nixpkgs.overlays", Code.CUDA_IN_NAME, message)
    plain = one.attribute.startswith(("python3Packages.", "pythonPackages."))
    if one.python and one.python != cell.python and (known or not plain):
        message = f"its name says Python {cell.python}; it builds with {one.python}"
        yield at(one, "", Code.WRONG_PYTHON, message)
    yield from _wrong_flags(cell, one, hardware)
    yield from hands_on_no_torch(one)


def hands_on_no_torch(one: Evaluation) -> Iterator[Finding]:
    """A finding if users of a package do not get the output of its torch that Python imports from."""
    if one.package in {"torchvision", "torchaudio"} and "out" not in one.propagated_outputs:
        message = "propagates torch without its output `out`, which has site-packages; add torch.out"
        yield at(one, "propagatedBuildInputs", Code.TORCH_NOT_PROPAGATED, message)


def impossible(name: str, path: Path, hardware: Hardware) -> Iterator[Finding]:
    """Why nothing can build what the recipe at `path` is called; nothing if `name` tells of no GPU and toolkit."""
    said = VariantName.parse(name)
    if said is None:
        return
    place = Place(file=str(path), line=1, column=1)
    if said != (right := said.spelled(hardware)):
        message = f"{name!r} contains a dot, and a Flox attribute path contains none; call it {right}"
        yield Finding(place=place, code=Code.DOTTED_NAME, message=message)
    isa, gpu, toolkit = hardware.isas.get(right.isa), hardware.gpus.get(said.gpu), hardware.toolkits.get(said.cuda)
    for rule in RULES:
        if isa and gpu and toolkit and (problem := rule.problem(gpu, toolkit, isa.system)):
            yield Finding(place=place, code=rule.code, message=problem)


def at(one: Evaluation, where: str, code: Code, message: str) -> Finding:
    """A finding about a recipe, at the place of its attribute `where`."""
    place = one.places.get(where) or Place(file=str(one.path), line=1, column=1)
    return Finding(place=place, code=code, message=message)


# The GPU.


def _wrong_gpu(cell: Cell, one: Evaluation, hardware: Hardware) -> Iterator[Finding]:
    subject = one.torch or one
    stated = subject.override.get("cudaSupport")
    if cell.gpu == CPU:
        if subject.cuda_support and (subject.pin or stated):
            where = "override.cudaSupport" if stated else "config.cudaSupport"
            yield at(subject, where, Code.CUDA_IN_CPU_RECIPE, "CUDA is turned on, but the recipe is for CPUs only")
        return
    if stated is False or (subject.package == "torch" and subject.pin and not subject.cuda_support):
        yield at(subject, "override.cudaSupport", Code.CUDA_OFF, "CUDA is turned off, but the recipe is for a GPU")
        return
    wanted = None if cell.gpu == ALL.name else hardware.gpu(cell.gpu).capability
    for where, targets in _targets(one, subject):
        built = {version for target in targets if (version := _capability(target))}
        if wanted and built and built != {wanted}:
            shown, said = ", ".join(targets), where.rsplit(".", 1)[-1]
            yield at(subject, where, Code.WRONG_GPU, f"{said} is {shown}, and {cell.gpu} is {wanted}")
            return


def _targets(one: Evaluation, subject: Evaluation) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The GPUs that a recipe asks for, as written, in each way in which it does."""
    yield "override.gpuTargets", subject.gpu_targets
    yield "config.cudaCapabilities", texts(one.config.get("cudaCapabilities"))
    for each in (one, subject):
        yield "exports.TORCH_CUDA_ARCH_LIST", _list(each.exports.get("TORCH_CUDA_ARCH_LIST", ""))
        for flag in each.cmake_flags:
            if found := _ARCHITECTURES.fullmatch(flag):
                yield "cmakeFlags", _list(found[1])


def _list(value: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[;,\s]+", value) if word)


def _capability(target: str) -> Version | None:
    found = _TARGET.fullmatch(target)
    return Version(int(found["major"]), int(found["minor"])) if found else None


# The instruction set.


def _wrong_flags(cell: Cell, one: Evaluation, hardware: Hardware) -> Iterator[Finding]:
    """Flags that turn on more than the ISA in the name, or less."""
    isa = hardware.isa(cell.isa)
    subjects = [each for each in (one, one.torch) if each and any(_machine_flags(each, name) for name in _FLAGS)]
    if one.package == "torch" and not subjects and isa.flags:
        yield at(one, "preConfigure", Code.WRONG_CPU_FLAGS, f"no compiler flag turns on {isa.title}")
    for each in subjects:
        for name in _FLAGS:
            if not (given := _machine_flags(each, name)):
                continue
            try:
                here, wanted = features(given), features(isa.flags)
            except UnknownFlagError as error:
                yield at(each, "preConfigure", Code.UNKNOWN_FLAG, f"{name}: {error}")
                continue
            if here - wanted:
                message = (
                    f"{name} turns on {', '.join(least(here - wanted))}, which {isa.name} does not have: declare it so "
                    f"({declaration(refined(isa, given))}), or remove the flags"
                )
                yield at(each, "preConfigure", Code.FLAGS_EXCEED_ISA, message)
            if (lower := _lower(isa, here, hardware)) is not None:
                message = f"{name} turns on no more than {lower}; {isa.name} has {', '.join(least(wanted - here))} too"
                yield at(each, "preConfigure", Code.WRONG_CPU_FLAGS, message)


def _lower(isa: Isa, here: frozenset[str], hardware: Hardware) -> str | None:
    """The lower ISA that features belong to; None if they go beyond each that `isa` includes."""
    lower = [hardware.isa(name) for name in hardware.runs(isa.includes)]
    return next((one.title for one in lower if here <= features(one.flags)), None) if isa.flags else None


def _machine_flags(one: Evaluation, name: str) -> tuple[str, ...]:
    return tuple(flag for flag in one.flags.get(name, ()) if flag.startswith("-m") and not flag.startswith("-mtune="))

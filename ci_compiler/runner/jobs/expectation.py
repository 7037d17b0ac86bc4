"""What a test expects of a variant, from the spec, the hardware tables and `checks.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ci_compiler.hardware import ALL, CPU, Gpu, Hardware
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.hardware.families.machines import machines_of
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.proof import checks, module_of
from ci_compiler.spec.model import Spec
from ci_compiler.stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The input of the probe: the module, the checks and numerical tests to run, and the expected results.

    `toolkit` is its version, and `architectures` are in PyTorch's form; '' and () for a CPU-only build. `dnn`: the
    vendor's library for neural networks is in it, always if the family has no rule of which targets it supports.
    `dispatch` lists the levels that PyTorch may choose (() for unknown). `targets` are those of which the GPU to test
    on runs one, in PyTorch's form (() for no GPU, '' for any). `script` is a Python file to run; `module` is then ''.
    `paths` are added to the import path. The module must be in `store_path`, unless that is ''. `device_kind` is what
    PyTorch calls the family's devices, and `probe` a file with what is known of the family ('': nothing).
    """

    module: str
    version: str
    toolkit: str
    architectures: tuple[str, ...]
    dnn: bool
    dispatch: tuple[str, ...]
    targets: tuple[str, ...]
    checks: tuple[str, ...]
    numerics: tuple[str, ...]
    gpu_numerics: tuple[str, ...]
    script: str = ""
    paths: tuple[str, ...] = ()
    store_path: str = ""
    device_kind: str = ""
    probe: str = ""

    def as_json(self) -> str:
        """The JSON that the probe reads."""
        return json.dumps(asdict(self))

    def only_imported(self, paths: tuple[str, ...]) -> Expectation:
        """The expectation of a probe that does nothing but import the module, with another import path."""
        return replace(self, paths=paths, checks=(), numerics=(), gpu_numerics=(), targets=(), script="")


def expectation(spec: Spec, built: BuiltVariant, stage: Stage, **given: Any) -> Expectation:
    """What `stage` expects when it tests `built`. `given` replaces fields of the result."""
    cell, package = built.cell, spec.packages[built.variant.package]
    rows, declared = checks(), package.smoke.on(gpu=stage.needs_gpu) if package.smoke else None
    row = rows["packages"].get(package.attribute) or rows["other"] | {"module": module_of(package)}
    if declared:
        row = rows["declared"]  # in place of what the tool would check
    gpu = None if cell.target == CPU else spec.hardware.gpu(cell.target)
    family = family_of(cell.family if gpu else DEFAULT)
    named = targets_in_pytorch(gpu) if gpu else ()
    on_gpu = stage.needs_gpu and gpu is not None
    wanted = Expectation(
        module=row["module"],
        version=built.version,
        toolkit=cell.toolkit,
        architectures=named,
        dnn=gpu is not None and (gpu.dnn or not family.dnn),
        dispatch=_dispatch(spec.hardware, cell.isa),
        targets=(named or ("",)) if on_gpu and (row["numerics"] or row["gpu-numerics"]) else (),
        checks=tuple(one for one in row["checks"] if one not in _unstated(cell, named)),
        numerics=tuple(row["numerics"]),
        gpu_numerics=(*row["numerics"], *row["gpu-numerics"]) if on_gpu else (),
        script=declared.python if declared else "",
        device_kind=family.device,
        probe=machines_of(family.name).probe,
    )
    return replace(wanted, **given)


def _unstated(cell: Cell, named: Sequence[str]) -> set[str]:
    """The checks of what a build for GPUs does not state: its targets, its toolkit."""
    kit = set() if cell.toolkit else {"toolkit", "extension"}
    return set() if cell.target == CPU else kit | (set() if named else {"architectures"})


def targets_in_pytorch(gpu: Gpu) -> tuple[str, ...]:
    """The targets of a build, as PyTorch spells them; () for a build that names none."""
    return tuple(map(family_of(gpu.family).in_pytorch, targets_of(gpu)))


def targets_of(gpu: Gpu) -> tuple[str, ...]:
    """The targets of a build; () for a build that names none."""
    return () if gpu.name in {ALL.name, gpu.family} else tuple(gpu.name.split(","))


def _dispatch(hardware: Hardware, isa: str) -> tuple[str, ...]:
    """The levels that PyTorch may choose in a build for `isa`: those of the largest ISA in the table that it runs."""
    levels: Mapping[str, list[str]] = checks()["dispatch"]
    known = [name for name in hardware.runs([isa] if isa else []) if name in levels]
    return tuple(levels[max(known, key=lambda name: (len(hardware.runs([name])), name))]) if known else ()

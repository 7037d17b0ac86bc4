"""XPU: Intel's GPUs, by the names that oneAPI's compilers have for them, such as `pvc`, `bmg` and `arl-h`.

Sources: PyTorch, `torch.xpu.get_arch_list` and the values of TORCH_XPU_ARCH_LIST; oneAPI DPC++, `-fsycl-targets`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_compiler.hardware.families import CodeTarget, Family, facts, runs_what_it_is_named

if TYPE_CHECKING:
    from ci_compiler.hardware.families.machines import Machines

_SPIRV = "spir64"
"""SPIR-V, which the driver compiles for the GPU when code is first used."""


def _runs(machine: CodeTarget, built: CodeTarget) -> bool:
    """Whether code for `built` runs on `machine`: the same GPU, or SPIR-V, which runs on each."""
    return built.name == _SPIRV or runs_what_it_is_named(machine, built)


def _machines() -> Machines:
    from ci_compiler.hardware.families.xpu.machines import MACHINES

    return MACHINES


FAMILY = Family(
    name="xpu",
    targets="[a-z][a-z0-9]*(-[a-z0-9]+)*",
    rule=_runs,
    lists_products=True,
    machines=_machines,
    **facts("xpu", "words")["family"],
)

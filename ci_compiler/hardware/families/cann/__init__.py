"""CANN: Huawei's Ascend NPUs. A target is a chip (`ascend910b4`), as SOC_VERSION names it, or a series (`ascend910b`).

What is compiled for a chip is published, and used, for its series. Sources: those of `words.json`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_compiler.hardware.families import CodeTarget, Family, runs_what_it_is_named
from ci_compiler.hardware.families.cann.series import WORDS, series_of

if TYPE_CHECKING:
    from ci_compiler.hardware.families.machines import Machines


def _runs(machine: CodeTarget, built: CodeTarget) -> bool:
    """Whether code for `built` runs on `machine`: they are of one series."""
    return series_of(built.name) == series_of(machine.name) or runs_what_it_is_named(machine, built)


def _machines() -> Machines:
    from ci_compiler.hardware.families.cann.machines import MACHINES

    return MACHINES


FAMILY = Family(
    name="cann",
    rule=_runs,
    lists_products=True,
    machines=_machines,
    **WORDS["family"],
)

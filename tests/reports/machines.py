"""The table of machines (`machines.json`): the question, and the variant that must be the answer.

The expectations are written by hand, from the data of NVIDIA, Intel, AMD and Arm and from the bundled stack. Python and
the page's script are tested against the same table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_compiler.hardware import products, tables
from ci_compiler.hardware.machine import Machine
from ci_compiler.hardware.workloads import Workload
from ci_compiler.reports.offers import Wishes


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One machine: names as people and tools write them. `best` None: nothing fits. `says`: a part of the answer."""

    gpu: str
    cpu: str | None
    driver: str
    best: str | None
    branch: str
    workload: str = "general"
    package: str = "pytorch"
    wished_branch: str = ""
    python: str = ""
    says: str = ""
    impossible: bool = False

    def __str__(self) -> str:
        asked = [self.gpu, self.cpu, self.driver, self.workload, self.package, self.wished_branch]
        return " / ".join(filter(None, asked))

    @property
    def wishes(self) -> Wishes:
        """What is asked for."""
        workload = Workload(self.workload)
        return Wishes(package=self.package, workload=workload, branch=self.wished_branch, python=self.python)

    @property
    def machine(self) -> Machine:
        """The machine that the case describes."""
        return products.machine(tables(), gpu=self.gpu, cpu_name=self.cpu, driver=self.driver, this=_no_machine)


def _no_machine() -> Machine:
    message = "the case leaves something to this machine"
    raise AssertionError(message)


def cases() -> list[Case]:
    """Every case of the table."""
    rows: list[dict[str, Any]] = json.loads(Path(__file__).with_name("machines.json").read_bytes())
    return [Case(**row) for row in rows]

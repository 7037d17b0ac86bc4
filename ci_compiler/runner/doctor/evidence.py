"""The model of the doctor: the work to do on a machine, the evidence gathered there, and the checks that judge it.

Every check is a pure function `(Assignment, Evidence) -> Judgement`; `probes` gathers the evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ci_compiler.hardware import CPU
from ci_compiler.hardware.families import DEFAULT
from ci_compiler.hardware.families.machines import Attempt, Machines, machines_of
from ci_compiler.hardware.machine import Machine
from ci_compiler.hardware.texts import Answer
from ci_compiler.judgement import Judgement
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.spec.model import Package, Pool, Spec
from ci_compiler.stages import Stage

TRIED = 64_000_000
"""The bytes that a deep proof writes to the disk and reads back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The work for the machine. No `stage`: any that it can run; no `subject`: any variant of `cells`.

    With a `subject`, `cells` has only a cell of it. With a `pool`, the work is that of the pool's stages. `deep`: what
    takes seconds and tries the hardware is checked as well.
    """

    spec: Spec
    cells: tuple[Cell, ...]
    stage: Stage | None = None
    subject: Variant | None = None
    pool: Pool | None = None
    deep: bool = False

    @property
    def cell(self) -> Cell:
        """The cell of the subject."""
        return self.cells[0]

    @property
    def packages(self) -> tuple[Package, ...]:
        """The packages to build: the subject's package, or all packages of the cells."""
        variants = [self.subject] if self.subject else [variant for cell in self.cells for variant in cell.variants]
        return tuple(self.spec.packages[name] for name in {variant.package for variant in variants})

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The given stage, or those of the pool; () if neither is given."""
        if self.stage:
            return (self.stage,)
        return self.pool.stages if self.pool else ()

    @property
    def family(self) -> str:
        """The family of the variants for GPUs."""
        return next((cell.family for cell in self.cells if cell.family != CPU), DEFAULT)

    @property
    def machines(self) -> Machines:
        """What that family knows of machines."""
        return machines_of(self.family)

    @property
    def memory(self) -> int:
        """The memory that the largest of the builds needs, in GB."""
        return max(package.memory for package in self.packages)


class ClockReading(NamedTuple):
    """The current time and the time of the newest of some files, in seconds since 1970.

    `synchronised`: None if that is unknown.
    """

    now: int
    newest: int = 0
    newest_file: str = ""
    synchronised: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was gathered. `secret` is the publishing secret, which no message may contain ('': not given).

    `lacks` names the secrets that publishing requires and the environment lacks.

    `attempts` has an entry for each library of the driver that was tried. `tools` are the backend's programs and the
    emulators that are on PATH. `answer` is that of the backend's command that checks the secret, `cache` that of the
    spec's binary cache, `store` that of Nix's own store; None if there is no such command or program. `disk`: why the
    disk does not return what is written to it, or ''. `short_paths`: no file has a path of more than 260 characters.

    `fence`: whether the network of a job is said to be closed here; `reached`: what has a route all the same.

    `runs`: how a GPU of the variant runs the build that is tested, where no machine code for the variant was read.
    """

    machine: Machine
    clock: ClockReading
    attempts: tuple[Attempt, ...] = ()
    runner: str = ""
    tools: frozenset[str] = frozenset()
    secret: str = field(default="", repr=False)
    lacks: tuple[str, ...] = ()
    answer: Answer | None = None
    cache: Answer | None = None
    store: Answer | None = None
    disk: str = ""
    short_paths: bool = False
    fence: bool = False
    reached: tuple[str, ...] = ()
    runs: str = ""


Check = Callable[[Assignment, Evidence], Judgement]
"""A check. Its name in the stages is that of its function, with hyphens."""


def table(*checks: Check) -> dict[str, Check]:
    """The checks by name, in the given order."""
    return {check.__name__.replace("_", "-"): check for check in checks}

"""What the doctor goes by: the work that is asked for, the evidence that was gathered, and how a check judges it.

Every check is a pure function `(Work, Evidence) -> Judgement`; `probes` gathers the evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ci_compiler.hardware import Toolkit, Version
from ci_compiler.hardware.machine import Machine
from ci_compiler.judgement import Judgement
from ci_compiler.plan.matrix import Cell
from ci_compiler.runner.detect.recorded import Answer
from ci_compiler.spec.model import Package, Spec
from ci_compiler.stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedVariant:
    """The variant that the work is on: its package, a cell that holds it, its CUDA toolkit (None: built for no GPU)."""

    name: str
    package: Package
    cell: Cell
    toolkit: Toolkit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the machine shall do. No `stage`: whatever it can; no `subject`: any of the spec's `cells`."""

    spec: Spec
    cells: tuple[Cell, ...]
    stage: Stage | None = None
    subject: AssignedVariant | None = None

    @property
    def packages(self) -> tuple[Package, ...]:
        """What it builds: the subject's package, or all that the cells hold."""
        if self.subject:
            return (self.subject.package,)
        held = {variant.package for cell in self.cells for variant in cell.variants}
        return tuple(package for name, package in self.spec.packages.items() if name in held)

    @property
    def disk(self) -> int:
        """GB of disk that the largest of its builds takes."""
        return max(package.disk for package in self.packages)

    @property
    def memory(self) -> int:
        """GB of memory that the largest of its builds takes."""
        return max(package.memory for package in self.packages)

    @property
    def minutes(self) -> int:
        """Minutes of the longest build that the spec states."""
        return max(max(package.minutes.values()) for package in self.spec.packages.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaDevice:
    """A GPU as CUDA shows it to a process."""

    name: str
    capability: Version


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaAttempt:
    """What a process with a clean environment made of one libcuda: the GPUs that it could use, or the problem.

    `linked`: the library lies where programs of nixpkgs look for it, and not merely in the loader's cache.
    """

    library: str
    linked: bool
    devices: tuple[CudaDevice, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """The time, and that of the newest of some files, in seconds since 1970.

    `synchronised`: None where nobody tells.
    """

    now: int
    newest: int = 0
    newest_file: str = ""
    synchronised: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was gathered. `secret` is the publishing secret, which no message may contain ('': not given).

    `cuda` has an entry for each libcuda that was tried. `tools` are the backend's programs that are on PATH. `answer`
    is that of the backend's command that checks the secret.
    """

    machine: Machine
    clock: ClockReading
    cuda: tuple[CudaAttempt, ...] = ()
    runner: str = ""
    tools: frozenset[str] = frozenset()
    secret: str = field(default="", repr=False)
    answer: Answer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check by its name, which the stages that need it list, and how it judges."""

    name: str
    judge: Callable[[Assignment, Evidence], Judgement]

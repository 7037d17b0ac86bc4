"""The table of the stages of a variant.

Routing, the workflows, the doctor, the forecast, the documents and the spec's schema read the table; to add a stage,
add a row. `stages()` returns the rows in the order in which the stages run and are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StageKind(StrEnum):
    """What a stage does to a variant."""

    BUILD = "build"
    TEST = "test"
    PUBLISH = "publish"


class Axis(StrEnum):
    """An axis of the matrix along which a cell can have a neighbour."""

    GPU = "gpu"
    ISA = "isa"


class TestPolicy(StrEnum):
    """What happens to a test that no pool can run."""

    __test__ = False  # pytest takes the name for a test class

    REQUIRED = "required"
    WHERE_ROUTED = "where-routed"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: what it needs, what it waits for, and its defaults in a spec.

    `name` is its name in specs, job names and artifacts. `needs_gpu`: only variants for a GPU have it, and it runs on
    one. `takes_gpu`: all variants have it, and it runs on a GPU if the variant is for one. `follows` lists the stages
    of the same variant that it waits for in addition to the build.

    `neighbours` are the axes of the second build that the stage uses on the same machine, the preferred one first: the
    variant with the next smaller ISA, or for an older GPU whose code the machine also runs. Without a neighbour, it
    takes another second build, or none.

    `proves`: it shows that a variant works. `in_requests`: pull requests and merge groups run it. `on_cpu_pools` and
    `on_gpu_pools` say which pools run the stage by default. `minutes` and `timeout` are in minutes; the minutes of a
    build come from its package. `checks` names the doctor's checks for the stage. `command` is what a test job runs;
    its environment has `NAME` and, with `neighbours`, `BESIDE`, the name of the second variant ('' for none).
    """

    name: str
    kind: StageKind
    needs_gpu: bool = False
    takes_gpu: bool = False
    needs_isa: bool = False
    neighbours: tuple[Axis, ...] = ()
    follows: tuple[str, ...] = ()
    proves: bool = True
    in_requests: bool = True
    policy: TestPolicy = TestPolicy.WHERE_ROUTED
    on_cpu_pools: bool = False
    on_gpu_pools: bool = False
    minutes: int = 0
    timeout: int
    checks: tuple[str, ...]
    command: str = 'ci-runner smoke "$NAME" --stage {stage} --manifest {manifest} --out test-output'

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Stage({self.name!r})"

    @property
    def is_test(self) -> bool:
        """Whether the stage tests what was built."""
        return self.kind is StageKind.TEST

    @property
    def is_optional(self) -> bool:
        """Whether it is off until a spec switches it on. Where it is off, no output mentions it."""
        return self.policy is TestPolicy.NEVER

    def runs_on_gpu(self, *, of_gpu: bool) -> bool:
        """Whether it runs on a GPU for a variant that is for a GPU or not."""
        return self.needs_gpu or (self.takes_gpu and of_gpu)

    def checks_of(self, *, of_gpu: bool) -> tuple[str, ...]:
        """The doctor's checks for a variant that is for a GPU or not."""
        return tuple(check for check in self.checks if check not in _ON_GPU or self.runs_on_gpu(of_gpu=of_gpu))


_ANY_MACHINE = ("clock", "runner", "system", "tools", "work-space")
_CPU_TEST = (*_ANY_MACHINE, "store", "store-space", "nix-holes", "instructions")
USABLE = "gpu-usable"
"""The check that a process uses a GPU."""

_ON_GPU = ("gpu", "gpu-health", "gpu-code", "driver", USABLE)

BUILD = Stage(
    name="build",
    kind=StageKind.BUILD,
    on_cpu_pools=True,
    timeout=480,
    checks=(
        *_ANY_MACHINE, "token", "store", "store-space", "build-space", "build-folder", "memory", "sandbox", "nix-holes",
        "big-parallel",
    ),
)  # fmt: skip

CPU_TEST = Stage(
    name="cpu-test",
    kind=StageKind.TEST,
    needs_isa=True,
    on_cpu_pools=True,
    on_gpu_pools=True,
    minutes=5,
    timeout=60,
    checks=(*_CPU_TEST, "emulator"),
)

GPU_TEST = Stage(
    name="gpu-test",
    kind=StageKind.TEST,
    needs_gpu=True,
    needs_isa=True,
    on_gpu_pools=True,
    minutes=10,
    timeout=60,
    checks=(*_CPU_TEST, *_ON_GPU),
)

BENCHMARK = Stage(
    name="benchmark",
    kind=StageKind.TEST,
    takes_gpu=True,
    needs_isa=True,
    neighbours=(Axis.ISA, Axis.GPU),
    follows=(CPU_TEST.name, GPU_TEST.name),
    proves=False,
    in_requests=False,
    policy=TestPolicy.NEVER,
    on_cpu_pools=True,
    on_gpu_pools=True,
    minutes=15,
    timeout=60,
    checks=(*_CPU_TEST, *_ON_GPU),
    command='ci-runner benchmark "$NAME" --manifest {manifest} --beside-manifest {beside} --out test-output',
)

PUBLISH = Stage(
    name="publish",
    kind=StageKind.PUBLISH,
    on_cpu_pools=True,
    minutes=5,
    timeout=120,
    checks=(*_ANY_MACHINE, "token", "store", "nix-holes", "cache"),
)

STAGES = (BUILD, CPU_TEST, GPU_TEST, BENCHMARK, PUBLISH)
"""The table."""


def stages() -> tuple[Stage, ...]:
    """Every stage."""
    return STAGES


def stages_that_test() -> tuple[Stage, ...]:
    """The stages that test what was built."""
    return tuple(stage for stage in STAGES if stage.is_test)


def default_stages(*, gpu: bool) -> tuple[Stage, ...]:
    """The stages that a pool with or without GPUs runs by default."""
    return tuple(stage for stage in STAGES if (stage.on_gpu_pools if gpu else stage.on_cpu_pools))


def stage_of(name: str) -> Stage:
    """The stage called `name`. Raises KeyError."""
    return {stage.name: stage for stage in STAGES}[name]

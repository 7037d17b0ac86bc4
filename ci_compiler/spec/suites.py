"""Keys of the spec about what proves a package: smoke test, suites, expected failures, and benchmark."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Annotated, Any, Literal

from ci_compiler.backends.command import SCRIPT
from ci_compiler.spec.axes import Accelerator, ValuesByAxis, value_lists
from ci_compiler.spec.command import FilePattern, Line
from ci_compiler.spec.declare import declared, form, key
from ci_compiler.spec.forms import LINE, BranchNames, Day, Minutes, Reason, VariantPattern
from ci_compiler.spec.patterns import matcher
from ci_compiler.stages import Stage, stages_that_test

ScriptPath = Annotated[str, form(title="the path of a file in the repository", pattern=f"^{SCRIPT}$")]

ProgramLine = Annotated[
    str,
    form(
        title="a program and its arguments (one line; the program is a path inside the package)",
        pattern=r"^(?![/~-])(?!\S*\.\.)[^\x00-\x1f\x7f]{1,500}$",
    ),
]

Expression = Annotated[str, form(title="a regular expression (one line)", minLength=1, maxLength=500, pattern=LINE)]


@declared()
class SmokeTest:
    """What proves a package: either `python` or `run`."""

    python: ScriptPath = key(
        "A Python file of the repository, which the built interpreter runs; the package passes if it ends without an "
        "error.",
        default="",
        examples=["tests/smoke.py"],
    )
    run: ProgramLine = key(
        "A program of the package, by its path below the package's root, with arguments; the package passes if it "
        "ends with status 0 and `expect` matches.",
        default="",
        examples=["bin/llama-cli --version"],
    )
    expect: Expression = key(
        "A regular expression that must match somewhere in what `run` prints; `@version@` and the variant's other "
        "values are filled in. Left out: the status alone decides.",
        default="",
        examples=["version: @version@"],
    )


@declared()
class Smoke(SmokeTest):
    """What proves a package, in place of an import: either `python` or `run`, for every test stage or for one kind."""

    cpu: SmokeTest | None = key("What proves it in a stage without a GPU.", default=None)
    gpu: SmokeTest | None = key("What proves it in a stage on a GPU.", default=None)

    def on(self, *, gpu: bool) -> SmokeTest | None:
        """What proves the package in a stage with or without a GPU; None if nothing is declared for it."""
        own = self.gpu if gpu else self.cpu
        return own or (self if self.python or self.run else None)


FEWEST_RUNS = 5
"""The fewest runs from which the error of a gain is estimated."""


@declared()
class DeclaredBenchmark:
    """What measures a package, in place of the bundled measurements: either `python` or `run`. It prints its
    measurements as lines of JSON.
    """

    python: ScriptPath = key(
        "A Python file of the repository, which the built interpreter runs.",
        default="",
        examples=["benchmarks/attention.py"],
    )
    run: ProgramLine = key(
        "A program of the package, by its path below the package's root, with arguments.",
        default="",
        examples=["bin/llama-bench -o jsonl"],
    )


@declared()
class Benchmark:
    """How the stage `benchmark` measures, and when it fails. `tests` switches the stage on."""

    floor: int | None = key(
        "The stage fails if a build is slower than its last publication by more than this many percent, beyond the "
        "error of the measurement. With a floor, every build is compared with its last publication; without one, with "
        "its neighbour where it has one, and the stage never fails for what it measures.",
        title="a number of percent from 1 to 99",
        minimum=1,
        maximum=99,
        default=None,
        examples=[5],
    )
    runs: int = key(
        "Number of processes in which each build is measured.",
        title=f"a number of runs from {FEWEST_RUNS} to 50",
        minimum=FEWEST_RUNS,
        maximum=50,
        default=7,
    )


SuiteName = Annotated[
    str,
    form(
        "suite-name",
        title="a name of a test suite (lower-case letters, digits and -, up to 40)",
        pattern="^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$",
    ),
]


_Test = Annotated[str, form(title="the name of a test (one line)", minLength=1, maxLength=500, pattern=LINE)]


@declared()
class ExpectedFailure:
    """A test that fails for a known reason. If it passes, or after `until`, the suite fails."""

    test: _Test = key(
        "The test as JUnit names it: the class name, a dot and the name. `*` stands for any text.",
        examples=["tests.test_ops.TestMatmul.test_fp8"],
    )
    because: str = key(
        "The reason.",
        title="a reason (one line)",
        minLength=1,
        maxLength=300,
        pattern=LINE,
        examples=["FP8 needs a driver of version 580 or newer."],
    )
    until: Day = key("The last day on which the failure is accepted.", examples=["2027-03-31"])


@declared("suite-matrix", anyOf=[{"required": ["values"]}, {"required": ["rows"]}])
class SuiteMatrix:
    """The rows that a suite runs for, in the same form as those of a package's matrix.

    Their axes are its own, or those of variants: a row runs for the variants that have or serve it.
    """

    values: Mapping[str, tuple[str, ...]] = key(
        "The values of any axes, which the command gets as `SUITE_AXIS`. An `accelerator` with a target is the GPU of "
        "the machine. A row with values of the variants' axes runs for the nearest variants that serve them.",
        written=ValuesByAxis,
        convert=value_lists,
        default={},
        published=False,
        examples=[{"dependencies": ["oldest", "latest"], "driver": ["earliest", "latest"]}],
    )
    rows: tuple[Mapping[str, tuple[str, ...]], ...] = key(
        "Combinations of values, each multiplied with `values`; a row's own values take the place of those.",
        written=tuple[ValuesByAxis, ...],
        convert=lambda rows: tuple(map(value_lists, rows)),
        minItems=1,
        default=(),
        published=False,
    )

    @property
    def combinations(self) -> Iterator[Mapping[str, str]]:
        """Each row of the suite, once."""
        seen: list[Mapping[str, str]] = []
        for row in self.rows or ({},):
            axes = {**self.values, **row}
            for values in product(*axes.values()):
                one = dict(zip(axes, values, strict=True))
                if one not in seen:
                    seen.append(one)
                    yield one


@declared()
class Suite:
    """A test suite of a package: a command that runs in each shard after the smoke test of its stage has passed.

    The command runs in the root of the repository, with the built interpreter first on PATH and the values of the
    variant in its environment, and with the number of the shard as `SHARD` and the number of all shards as `SHARDS`.
    """

    name: str
    command: Line = key(
        "The command. It fails if it ends with another status than 0, unless the JUnit files say that only expected "
        "failures occurred.",
        examples=['python -m pytest --junitxml=report.xml --group="$SHARD" --splits="$SHARDS"'],
    )
    shards: int = key(
        "Number of jobs among which the suite is divided.", title="a number of shards", minimum=1, maximum=64, default=1
    )
    minutes: Minutes = key("Minutes after which a shard is ended; the forecast counts them for each shard.")
    on: Literal["cpu", "gpu"] = key("The kind of test stage that the suite belongs to.", default="cpu")
    gpus: int = key(
        "Number of GPUs that a machine must have for a suite on `gpu`.",
        title="a number of GPUs",
        minimum=1,
        maximum=64,
        default=1,
    )
    junit: FilePattern = key(
        "Pattern of the JUnit XML files that the command writes. Left out: the status of the command alone decides.",
        default="",
        examples=["reports/*.xml"],
    )
    network: bool = key(
        "Whether the command may use the network. If so, it can also read the files of the job that hold tokens.",
        default=False,
    )
    expected_failures: tuple[ExpectedFailure, ...] = key("Tests that fail for known reasons.", default=())
    matrix: SuiteMatrix | None = key("Rows that the suite runs for, each in jobs of its own.", default=None)

    declared_as: str = ""
    """The key in the spec of a suite that is a row of a matrix."""

    installs: frozenset[tuple[str, str]] | None = None
    """The variants that it runs for, as branch and name; None for all of the package. The plan fills it in."""

    def runs_for(self, branch: str, name: str) -> bool:
        """Whether it runs for the variant `name` of its package on `branch`."""
        return self.installs is None or (branch, name) in self.installs

    @property
    def values(self) -> Mapping[str, str]:
        """The values of its row; {} for a suite without a matrix."""
        return next(self.matrix.combinations) if self.matrix else {}

    @property
    def target(self) -> str:
        """The GPU that its machines must have; '' for any that runs the variant."""
        text = self.values.get("accelerator", "")
        return Accelerator.parse(text).target if text else ""

    @property
    def stage(self) -> Stage:
        """The test stage that the suite belongs to."""
        return next(stage for stage in stages_that_test() if stage.needs_gpu == (self.on == "gpu"))


def each_row(suites: Mapping[str, Any]) -> Mapping[str, Suite]:
    """The suites of a package, with one for each row of those with a matrix, called by its values."""
    found: dict[str, Suite] = {}
    for suite in suites.values():
        for values in suite.matrix.combinations if suite.matrix else ():
            words = (re.sub("[^a-z0-9]+", "-", value.lower()) for value in values.values())
            name = "-".join((suite.name, *words))
            alike = sum(other == name or other.startswith(f"{name}-x") for other in found)
            called = f"{name}-x{alike + 1}" if alike else name
            row = SuiteMatrix(values={axis: (value,) for axis, value in values.items()})
            found[called] = replace(suite, name=called, declared_as=suite.name, matrix=row)
        if not suite.matrix:
            found[suite.name] = suite
    return found


@declared()
class ExpectedStageFailure:
    """Variants whose test stage fails for a known reason. The job stays red, and the verdict of its run accepts it."""

    index: int
    pattern: VariantPattern = key(
        "Variants by name, with * ? [] and {a,b}.", name="variants", examples=["torchaudio-*-sm61-*"]
    )
    branches: BranchNames = key(default=(), published=False)
    stage: Annotated[Stage, form(enum=list(map(str, stages_that_test())))] = key(
        "The test stage that fails.", examples=["gpu-test"]
    )
    because: Reason = key(
        "The reason.",
        examples=["cuDNN 9.11 has no kernels for this GPU."],
    )
    until: Day = key("The last day on which the failure is accepted.", examples=["2027-03-31"])
    issue: str = key(
        "The address of the issue about it.",
        title="an https:// address",
        pattern="^https://[A-Za-z0-9./_~%?=&#:+-]+$",
        maxLength=300,
        examples=["https://github.com/my-org/build-pytorch/issues/7"],
        default="",
    )

    def concerns(self, name: str, branch: str, stage: Stage) -> bool:
        """Whether it is about `stage` of the variant `name` on `branch`."""
        here = not self.branches or branch in self.branches
        return stage is self.stage and here and matcher(self.pattern)(name)

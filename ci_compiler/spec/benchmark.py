"""Keys of the spec about the stage that measures what was built."""

from ci_compiler.spec.declare import declared, key
from ci_compiler.spec.smoke import ProgramLine, ScriptPath

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
        published=False,
        examples=["benchmarks/attention.py"],
    )
    run: ProgramLine = key(
        "A program of the package, by its path below the package's root, with arguments.",
        default="",
        published=False,
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
        published=False,
        examples=[5],
    )
    runs: int = key(
        "Number of processes in which each build is measured.",
        title=f"a number of runs from {FEWEST_RUNS} to 50",
        minimum=FEWEST_RUNS,
        maximum=50,
        default=7,
    )

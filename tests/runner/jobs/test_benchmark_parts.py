"""The parts of the benchmark: what processes may print, the statistics, the cores, the clock of a measurement."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ci_compiler.runner.jobs.benchmark import cores
from ci_compiler.runner.jobs.benchmark.lines import MOST_BYTES, read_output
from ci_compiler.runner.jobs.benchmark.results import Gain, deviation, gain, overall
from ci_compiler.runner.jobs.smoke_probe.timing import measure

pytestmark = pytest.mark.slow

# What a process printed.


def row(**changes: Any) -> str:
    line = {"name": "gemm", "device": "cpu", "first": 0.5, "seconds": [0.2, 0.1, 0.4]} | changes
    return json.dumps({key: value for key, value in line.items() if value is not ...})


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (row(name="a b"), "a name has at most 64 small letters"),
        (row(name="x" * 65), "a name has at most 64 small letters"),
        (row(name=["gemm"]), "a name has at most 64 small letters"),
        (row(name="<script>"), "a name has at most 64 small letters"),
        (row(device="gpu"), "it ran to measure on the cpu"),
        (row(device=...), "it has no 'device'"),
        (row(seconds=...), "it has no 'seconds'"),
        (row(seconds=[]), "`seconds` is a number, or a list of 1 to 10,000 numbers"),
        (row(seconds=[0.1] * 10_001), "`seconds` is a number, or a list of 1 to 10,000 numbers"),
        (row(seconds={"a": 1}), "`seconds` is a number, or a list"),
        (row(seconds=[0.1, "0.1"]), "seconds are numbers between 1e-09 and 100,000"),
        (row(seconds=[True]), "seconds are numbers"),
        (row(seconds=[0]), "seconds are numbers"),
        (row(seconds=[-1]), "seconds are numbers"),
        (row(seconds=[1e9]), "seconds are numbers"),
        ('{"name": "gemm", "device": "cpu", "seconds": [NaN]}', "a line has the number NaN, which is out of range"),
        (
            '{"name": "gemm", "device": "cpu", "seconds": [Infinity]}',
            "a line has the number Infinity, which is out of range",
        ),
        (row(first="soon"), "seconds are numbers"),
        ('{"import": 1, "size": -1}', "the size is no number of bytes"),
        ('{"import": 1, "size": 1e400}', "a line has the number 1e400, which is out of range"),
        ('{"import": 1, "dispatch": "\\u001b[31m"}', "the level of the dispatch is none"),
        ('{"import": 1, "dispatch": 7}', "string"),
        ('{"import": -1}', "seconds are numbers"),
    ],
)
def test_a_line_that_is_not_as_the_protocol_says_is_a_problem_and_no_result(line: str, problem: str) -> None:
    found = read_output(f"{line}\n{row(name='other')}\n".encode(), "cpu")
    assert ([*found.readings], found.imported) == (["other"], None)
    (text,) = found.problems
    assert problem in text


def test_other_output_is_ignored() -> None:
    noise = "\n".join(["hello", "[1, 2]", "{}", '{"x": 1}', "[" * 100_000, "7", row(), '{"import": 2.5, "size": 9}'])
    found = read_output(noise.encode() + b"\n\xff\xfe\n", "cpu")
    assert (found.problems, found.imported, found.size, found.dispatch) == ((), 2.5, 9, "")
    assert (found.readings["gemm"].steady, found.readings["gemm"].first) == (0.2, 0.5)
    assert read_output(row(seconds=3).encode(), "cpu").readings["gemm"].steady == 3
    assert read_output(row(first=...).encode(), "cpu").readings["gemm"].first is None


def test_what_a_process_says_is_bounded() -> None:
    lines = "\n".join([row(), row(seconds=[9]), *(row(name=f"n{number}") for number in range(120))])
    found = read_output(lines.encode(), "cpu")
    assert (len(found.readings), found.readings["gemm"].steady) == (100, 0.2)
    assert found.problems[0] == "gemm is measured twice, or after 100 others"
    (flood,) = read_output(b"x" * (MOST_BYTES + 1), "cpu").problems
    assert flood == "it printed more than 1 MiB"
    reason = read_output(row(skipped="a\nb\x1b[31m" * 1000).encode(), "cpu").readings["gemm"].skipped
    assert (len(reason), reason.isprintable()) == (200, True)


# Gains.


def test_a_build_beside_itself_gains_nothing() -> None:
    times = [1.0, 1.1, 0.9, 1.05, 1.0]
    assert gain(times, times) == Gain(percent=0, error=0)
    assert deviation(times) == pytest.approx(0.05)


def test_a_gain_is_the_median_of_the_rounds_with_the_distance_of_the_farthest() -> None:
    found = gain([1.0] * 5, [1.10, 1.12, 1.10, 1.09, 1.10])
    assert found.percent == pytest.approx(10)
    assert found.error == pytest.approx(2)
    assert str(found) == "+10.0 % ± 2.0"
    assert str(gain([1.0] * 5, [0.9] * 5)) == "-10.0 % ± 0.0"


def test_a_machine_that_becomes_slower_changes_both_builds() -> None:
    drift = [1.0, 1.3, 1.7, 2.2, 2.9]
    found = gain(drift, [1.05 * one for one in drift])
    assert (round(found.percent, 6), round(found.error, 6)) == (5, 0)


def test_one_disturbed_round_widens_the_error_and_not_the_gain() -> None:
    found = gain([1.0] * 5, [1.01, 1.0, 1.02, 1.01, 1.8])
    assert found.percent == pytest.approx(1)
    assert found.error == pytest.approx(79)
    many = gain([1.0] * 9, [1.01, 1.0, 1.02, 1.01, 1.8, 1.01, 1.0, 1.02, 1.01])
    assert many.error == pytest.approx(1.01)  # from nine rounds on, the farthest on either side is left out


@pytest.mark.parametrize(("rounds", "covered"), [(5, 0.973), (7, 0.995), (12, 0.98)])
@pytest.mark.parametrize("slow", [0.0, 0.1])
def test_equal_builds_differ_by_less_than_the_error(rounds: int, covered: float, slow: float) -> None:
    """With noise of 1 %, and again with every tenth process several percent slower."""
    random = Random(7)  # noqa: S311  (an experiment)

    def times() -> list[float]:
        noise = (
            random.gauss(0, 0.01) + (random.expovariate(20) if random.random() < slow else 0) for _ in range(rounds)
        )
        return [math.exp(one) for one in noise]

    found = [gain(times(), times()) for _ in range(1000)]
    inside = sum(abs(one.percent) <= one.error for one in found) / len(found)
    assert inside >= covered - 0.012
    assert sum(one.error for one in found) / len(found) < (10 if slow else 3)  # and the error says something


def test_the_overall_gain_is_that_of_the_geometric_mean() -> None:
    twice, half = ([1.0] * 5, [2.0] * 5), ([1.0] * 5, [0.5] * 5)
    assert overall([twice, half]) == Gain(percent=0, error=0)
    found = overall([twice, ([3.0] * 5, [1.5 * 4.0] * 5)])
    assert found is not None
    assert found.percent == pytest.approx(100)
    assert overall([]) is None


# Cores.


def machine(
    root: Path, cpus: int, *, threads: int = 1, sockets: int = 1, clocks: tuple[int, int] | None = None
) -> Path:
    """The description of `cpus` CPUs as Linux writes it."""
    for cpu in range(cpus):
        folder = root / f"cpu{cpu}"
        (folder / "topology").mkdir(parents=True)
        first = cpu - cpu % threads
        siblings = ",".join(map(str, range(first, first + threads)))
        (folder / "topology/thread_siblings_list").write_text(f"{siblings}\n", "ascii")
        (folder / "topology/physical_package_id").write_text(f"{cpu * sockets // cpus}\n", "ascii")
        if clocks:
            (folder / "cpufreq").mkdir()
            for end, rate in zip(("min", "max"), clocks, strict=True):
                (folder / f"cpufreq/scaling_{end}_freq").write_text(f"{rate}\n", "ascii")
    return root


def test_the_cores_are_one_thread_each_of_the_last_socket(tmp_path: Path) -> None:
    root = machine(tmp_path, 16, threads=2, sockets=2)
    assert cores.chosen(range(16), root=root) == (9, 11, 13, 15)
    assert cores.chosen(range(12), root=root) == (9, 11)
    assert cores.chosen(range(8, 16), root=root) == (11, 13, 15)  # one core is left to others
    assert cores.chosen(range(16), 3, root) == (13, 15)
    assert cores.chosen([3], 0, root) == (3,)
    assert cores.chosen(range(16), root=tmp_path / "nothing") == (12, 13, 14, 15)


def test_whether_the_clock_is_fixed_is_reported(tmp_path: Path) -> None:
    assert cores.clocks([0, 1], machine(tmp_path / "a", 2, clocks=(2_000_000, 2_000_000))) == "locked"
    said = cores.clocks([0, 1], machine(tmp_path / "b", 2, clocks=(800_000, 3_500_000)))
    assert said == "not locked: CPU 0 may run at 0.8 to 3.5 GHz"
    said = cores.clocks([0], machine(tmp_path / "c", 1))
    assert said == "not locked: the machine does not show the clocks of its CPU"


def test_a_machine_that_was_busy_is_reported() -> None:
    assert cores.disturbed(2.0, 4) == ""
    assert cores.disturbed(2.5, 4) == "the machine was busy when it began: its load was 2.5 with 4 CPUs"


def test_programs_are_pinned_only_while_they_are_measured() -> None:
    before = os.sched_getaffinity(0)
    one = max(before)
    with cores.pinned([one]):
        assert os.sched_getaffinity(0) == {one}
    assert os.sched_getaffinity(0) == before
    with cores.pinned([4095]):  # no such core
        assert os.sched_getaffinity(0) == before


# The clock of a measurement.


class Device:
    """A device whose calls take 8 s at first, and then `step` seconds, on a clock of its own."""

    def __init__(self, step: float) -> None:
        self.now, self.step, self.calls, self.waits = 0.0, step, 0, 0

    def call(self) -> None:
        self.now += self.step if self.calls else 8.0
        self.calls += 1

    def finish(self) -> None:
        self.waits += 1

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize(("step", "samples", "batch"), [(1.0, 3, 1), (0.25, 4, 1), (0.002, 166, 3)])
def test_the_first_call_and_the_warm_up_are_apart_from_the_steady_state(step: float, samples: int, batch: int) -> None:
    device = Device(step)
    first, seconds = measure(device.call, device.finish, 1.0, device.clock)
    assert first == 8
    assert len(seconds) == pytest.approx(samples, abs=1)
    assert seconds == pytest.approx([step] * len(seconds))
    warm_up = max(2, round(0.5 / step))
    assert device.calls == pytest.approx(1 + warm_up + batch * len(seconds), abs=1)
    assert device.waits == pytest.approx(1 + warm_up + len(seconds), abs=1)


def test_a_device_wakes_up_during_a_longer_warm_up() -> None:
    short, long = Device(0.25), Device(0.25)
    measure(short.call, short.finish, 1.0, short.clock)
    measure(long.call, long.finish, 1.0, long.clock, awake=2.0)
    assert long.calls - short.calls == 8

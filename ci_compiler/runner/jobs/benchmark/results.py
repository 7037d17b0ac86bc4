"""The results of a benchmark, from what the processes printed: the times of each arm, and the gains.

The gain of one build over another is that of the median of the rounds' ratios. Both builds of a ratio ran in the same
round, one shortly after the other, so a machine that becomes slower during the benchmark changes both.

Its error is a confidence interval of that median by order statistics (the sign test turned around), which assumes
nothing about the distribution of the noise: for n rounds, the interval from the k-th smallest to the k-th largest ratio
contains the true median with the probability 1 - 2 P(B < k), where B is binomial (n, 1/2). k is the largest for which
this is at least 93.75 %, what the whole range of five rounds gives: k = 1 up to eight rounds, 2 from nine. The error
is the distance from the median to the farther end. Because it reaches as far to the other side, it covers more: with
normal noise 97 % for five rounds, 98.8 % for six and 99.5 % for seven (400,000 simulated experiments each). A single
disturbed round makes the error larger, and moves the gain little. Nothing is random.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from statistics import fmean, median
from typing import NamedTuple

from ci_compiler.plan.benchmarks import Gain
from ci_compiler.runner.jobs.benchmark.lines import Output
from ci_compiler.spec.suites import FEWEST_RUNS

_CONFIDENCE = 1 - 2 * 0.5**FEWEST_RUNS


def deviation(values: Sequence[float]) -> float:
    """The median absolute deviation from the median."""
    middle = median(values)
    return median(abs(value - middle) for value in values)


def gain(own: Sequence[float], beside: Sequence[float]) -> Gain:
    """The gain of `own` over `beside`, the seconds of a call in each round."""
    return _gain(_logarithms(own, beside))


def overall(pairs: Iterable[tuple[Sequence[float], Sequence[float]]]) -> Gain | None:
    """The gain in the geometric mean over several measurements; None for none."""
    rounds = list(zip(*(_logarithms(own, beside) for own, beside in pairs), strict=True))
    return _gain([fmean(one) for one in rounds]) if rounds else None


def _logarithms(own: Sequence[float], beside: Sequence[float]) -> list[float]:
    return [math.log(other / one) for one, other in zip(own, beside, strict=True)]


def _gain(ratios: Sequence[float]) -> Gain:
    ordered, middle = sorted(ratios), median(ratios)
    rank = _rank(len(ordered))
    far = max(ordered[-1 - rank] - middle, middle - ordered[rank])
    return Gain(percent=100 * math.expm1(middle), error=100 * math.exp(middle) * math.expm1(far))


def _rank(rounds: int) -> int:
    """How many of the smallest and of the largest ratios the interval leaves out."""
    outside = accumulate(2 * math.comb(rounds, rank) * 0.5**rounds for rank in range(rounds))
    return max(0, sum(1 for one in outside if one <= 1 - _CONFIDENCE) - 1)


OWN, BESIDE = "own", "beside"
"""The names of the arms."""

DEVICES = CPU, GPU = "cpu", "gpu"
"""The devices."""

Outputs = Mapping[str, Sequence[Output]]
"""What the processes of each arm printed on one device, in the order of the rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTimes:
    """The seconds of one arm: of the first call (the median of the rounds; None: unknown), and of each round."""

    first: float | None
    steady: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return median(self.steady)

    @property
    def deviation(self) -> float:
        """The median absolute deviation of the rounds."""
        return deviation(self.steady)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measurement on a device, by arm."""

    name: str
    device: str
    arms: Mapping[str, ArmTimes]

    @property
    def gain(self) -> Gain | None:
        """The gain of the own build over the second; None if either was not measured."""
        own, beside = self.arms.get(OWN), self.arms.get(BESIDE)
        return gain(own.steady, beside.steady) if own and beside else None


class Skipped(NamedTuple):
    """A measurement that an arm could not make."""

    name: str
    device: str
    because: str


@dataclass(frozen=True, kw_only=True)
class Results:
    """What was measured. `imports` are the seconds of each import by arm, `sizes` the bytes of each build.

    `dispatch` is the level of ATen's kernels by arm.
    """

    runs: int
    devices: Mapping[str, Outputs]
    imports: Mapping[str, ArmTimes]
    sizes: Mapping[str, int]
    dispatch: Mapping[str, str]

    @cached_property
    def measurements(self) -> tuple[Measurement, ...]:
        """The measurements that the own arm made in every round."""
        found = chain.from_iterable(_measurements(device, outputs) for device, outputs in self.devices.items())
        return tuple(measurement for measurement in found if OWN in measurement.arms)

    @cached_property
    def skipped(self) -> tuple[Skipped, ...]:
        """The measurements that an arm left out, the first of its reasons each."""
        return tuple(chain.from_iterable(_skipped(device, outputs) for device, outputs in self.devices.items()))

    def overall(self, device: str) -> Gain | None:
        """The gain over all measurements on a device that both builds made."""
        both = [
            measurement.arms for measurement in self.measurements if measurement.device == device and measurement.gain
        ]
        return overall((arms[OWN].steady, arms[BESIDE].steady) for arms in both)


def import_times(prime: Output, outputs: Iterable[Output]) -> ArmTimes | None:
    """The times of the import: `first` is that of the first process, for which files may be read from disk."""
    steady = [output.imported for output in outputs if output.imported is not None]
    return ArmTimes(first=prime.imported, steady=tuple(steady)) if steady else None


def _names(outputs: Outputs) -> list[str]:
    return list(dict.fromkeys(name for output in chain.from_iterable(outputs.values()) for name in output.readings))


def _measurements(device: str, outputs: Outputs) -> Iterable[Measurement]:
    for name in _names(outputs):
        found = {arm: _times(name, rounds) for arm, rounds in outputs.items()}
        yield Measurement(name=name, device=device, arms={arm: times for arm, times in found.items() if times})


def _times(name: str, rounds: Sequence[Output]) -> ArmTimes | None:
    """The times of an arm; None if it did not make the measurement in every round."""
    readings = [output.readings.get(name) for output in rounds]
    made = [reading for reading in readings if reading and not reading.skipped]
    if not made or len(made) < len(readings):
        return None
    firsts = [reading.first for reading in made if reading.first is not None]
    return ArmTimes(first=median(firsts) if firsts else None, steady=tuple(reading.steady for reading in made))


def _skipped(device: str, outputs: Outputs) -> Iterable[Skipped]:
    for name in _names(outputs):
        for arm, rounds in outputs.items():
            readings = [output.readings.get(name) for output in rounds]
            reasons = [
                reading.skipped if reading else "it printed no result"
                for reading in readings
                if not reading or reading.skipped
            ]
            if reasons:
                yield Skipped(name=name, device=device, because=f"{arm}: {reasons[0]}")
                break

"""The statistics of the benchmark: medians of rounds, and the gain of one build over another with its error.

The gain is that of the median of the rounds' ratios. Both builds of a ratio ran in the same round, one shortly after
the other, so a machine that becomes slower during the benchmark changes both.

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
from collections.abc import Iterable, Sequence
from itertools import accumulate
from statistics import fmean, median

from ci_compiler.plan.benchmarks import Gain
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

"""What a benchmark found, as its file `benchmark.json` states it.

The file comes from a machine that ran the package that it measures, so that nothing in it is believed before it was
read: a value of another form than a benchmark writes counts as none, and every text is short and printable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ci_compiler.record import record
from ci_compiler.variant import ATTRIBUTE, VariantName

SCHEMA = 1
"""The version of the file's form."""

PUBLICATION = "publication"
"""What the file calls a second build that is the last publication of the same variant."""

DEVICES: Mapping[str, str] = {"cpu": "CPU", "gpu": "GPU", "cpu-held": "CPU, equal dispatch"}
"""What is measured, by its key in the file: `cpu-held` has PyTorch's choice of instructions at run time held equal."""

_MOST, _LONGEST = 1_000_000.0, 200


class Gain(NamedTuple):
    """By how many percent one build is faster than another, with the error in percent."""

    percent: float
    error: float

    def __str__(self) -> str:
        return f"{self.percent:+.1f} % ± {self.error:.1f}"


@record
class BenchmarkResult:
    """The result of a variant: its gain over the second build `beside`, for each of `DEVICES` that was measured.

    `beside` is '' if it was measured alone, and `published` says that it is the last publication of the variant itself.
    `machine` names the CPU and the GPU ('' for none).
    """

    name: str
    branch: str
    beside: str
    published: bool
    gains: Mapping[str, Gain]
    machine: str

    @property
    def over(self) -> str:
        """The two builds in words: `avx512 over avx2`; '' if it was measured alone."""
        if self.published:
            return "this build over the last publication"
        own, other = VariantName.parse(self.name), VariantName.parse(self.beside)
        if own is None or other is None:
            return f"{self.name} over {self.beside}" if self.beside else ""
        pairs = [pair for pair in zip((own.isa, own.gpu), (other.isa, other.gpu), strict=True) if pair[0] != pair[1]]
        return " over ".join(pairs[0]) if len(pairs) == 1 else f"{own.suffix} over {other.suffix}"

    def __str__(self) -> str:
        if not self.gains:
            return "measured alone"
        shown = {DEVICES[device]: gain for device, gain in self.gains.items()}
        if len(shown) == 1:
            return f"{self.over}: {next(iter(shown.values()))}"
        return f"{self.over}: {'; '.join(f'{device} {gain}' for device, gain in shown.items())}"


def read_benchmark(content: Any) -> BenchmarkResult | None:
    """The result that the JSON value `content` states; None if it is not that of a benchmark."""
    try:
        if content["schema"] != SCHEMA:
            return None
        name, beside, machine = content["name"], content.get("beside") or "", content["machine"]
        overall = content.get("overall") or {}
        if not all(ATTRIBUTE.fullmatch(one) for one in (name, *filter(None, [beside]))):
            return None
        return BenchmarkResult(
            name=_text(name),
            branch=_text(content["branch"]),
            beside=_text(beside),
            published=bool(beside) and content.get("beside-is") == PUBLICATION,
            gains={device: _gain(overall[device]) for device in DEVICES if beside and overall.get(device)},
            machine=", ".join(filter(None, (_text(machine.get(part) or "") for part in ("cpu", "gpu")))),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _gain(value: Any) -> Gain:
    percent, error = (_number(value[key]) for key in ("percent", "error"))
    return Gain(percent, abs(error))


def _number(value: Any) -> float:
    if type(value) not in {int, float} or not math.isfinite(value) or abs(value) > _MOST:
        raise ValueError
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not (value.isprintable() and len(value) <= _LONGEST):
        raise ValueError
    return value

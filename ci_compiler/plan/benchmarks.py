"""What a benchmark found, as its file `benchmark.json` states it.

The file comes from a machine that ran the package that it measures, so that nothing in it is believed before it was
read: a value of another form than a benchmark writes counts as none, and every text is short and printable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ci_compiler.variant import ATTRIBUTE, VariantName

SCHEMA = 1
"""The version of the file's form."""

DEVICES: Mapping[str, str] = {"cpu": "CPU", "gpu": "GPU"}
"""What is measured, by its key in the file."""

_MOST, _LONGEST = 1_000_000.0, 200


class Gain(NamedTuple):
    """By how many percent one build is faster than another, with the error in percent."""

    percent: float
    error: float

    def __str__(self) -> str:
        return f"{self.percent:+z.1f} % ± {self.error:.1f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResult:
    """The result of a variant: its gain over the second build `beside`, for each of `DEVICES` that was measured.

    `beside` is '' if it was measured alone, and `name` itself for its last publication. `machine` names the CPU and the
    GPU.
    """

    name: str
    branch: str
    beside: str
    gains: Mapping[str, Gain]
    machine: str

    @property
    def over(self) -> str:
        """The two builds in words: `avx512 over avx2`; '' if it was measured alone."""
        return over(self.name, self.beside) if self.beside else ""

    def __str__(self) -> str:
        return in_words(self.over, self.gains) or "measured alone"


def over(name: str, beside: str) -> str:
    """Two builds in words: `avx512 over avx2`. A build beside one of the same name is the last publication."""
    if name == beside:
        return "this build over the last publication"
    own, other = VariantName.parse(name), VariantName.parse(beside)
    if own is None or other is None:
        return f"{name} over {beside}"
    parts = ((one.package, one.python, one.toolkit, one.target, one.isa) for one in (own, other))
    apart = [pair for pair in zip(*parts, strict=True) if pair[0] != pair[1]]
    return " over ".join(" ".join(filter(None, side)) for side in zip(*apart, strict=True))


def in_words(title: str, gains: Mapping[str, object]) -> str:
    """The line for people: `avx512 over avx2: CPU +0.4 % ± 0.6, GPU +0.1 % ± 0.2`; '' without a gain."""
    shown = {name: gains[device] for device, name in DEVICES.items() if device in gains}
    if len(shown) == 1:
        return f"{title}: {next(iter(shown.values()))}"
    return f"{title}: {', '.join(f'{name} {gain}' for name, gain in shown.items())}" if shown else ""


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
            gains={device: _gain(overall[device]) for device in DEVICES if beside and overall.get(device)},
            machine=", ".join(filter(None, (_text(machine.get(part) or "") for part in ("cpu", "gpu")))),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def kept(result: BenchmarkResult) -> dict[str, Any]:
    """What the history keeps of the result of a variant: its gains in hundredths of a percent, and what they are of."""
    gains = {device: [round(one, 2) for one in gain] for device, gain in result.gains.items()}
    return {"over": result.beside, "machine": result.machine, **gains}


def of_kept(name: str, branch: str, value: Mapping[str, Any]) -> BenchmarkResult:
    """The result that `kept` made `value` of. Raises ValueError, KeyError and TypeError."""
    if not ATTRIBUTE.fullmatch(value["over"]):
        raise ValueError
    found = {device: dict(zip(Gain._fields, value[device], strict=True)) for device in DEVICES if device in value}
    return BenchmarkResult(
        name=name,
        branch=branch,
        beside=_text(value["over"]),
        gains={device: _gain(gain) for device, gain in found.items()},
        machine=_text(value["machine"], 2 * _LONGEST + 2),
    )


def _gain(value: Any) -> Gain:
    percent, error = (_number(value[key]) for key in Gain._fields)
    return Gain(percent, abs(error))


def _number(value: Any) -> float:
    if type(value) not in {int, float} or not math.isfinite(value) or abs(value) > _MOST:
        raise ValueError
    return float(value)


def _text(value: Any, longest: int = _LONGEST) -> str:
    if not isinstance(value, str) or not (value.isprintable() and len(value) <= longest):
        raise ValueError
    return value

"""The report of a benchmark: the JSON file, the table, the line for people, and the judgement against the floor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ci_compiler.plan.benchmarks import SCHEMA, Gain, in_words, over
from ci_compiler.runner.jobs.benchmark.results import BESIDE, CPU, DEVICES, OWN, ArmTimes, Measurement, Results
from ci_compiler.runner.jobs.subject import SmokeSubject
from ci_compiler.units import size

NEIGHBOUR, PUBLICATION = "neighbour", "publication"
"""What the second build is: another variant, or the last publication of the same one."""

HEADERS = ("measurement", "device", OWN, BESIDE, "gain")
"""The columns of the table."""


class Circumstances(NamedTuple):
    """The machine: its CPU and GPU ('': not used), the cores that were used, and whether their clock is fixed."""

    cpu: str
    gpu: str
    cores: tuple[int, ...]
    clocks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A benchmark of a build, beside another one if there is one, with its circumstances.

    `ran` says how isolated it ran.
    """

    own: SmokeSubject
    beside: SmokeSubject | None
    machine: Circumstances
    results: Results
    ran: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def beside_is(self) -> str:
        """What the second build is; '' for none."""
        if self.beside is None:
            return ""
        return PUBLICATION if self.beside.name == self.own.name else NEIGHBOUR

    @property
    def title(self) -> str:
        """What is compared, in words; '' for one build alone."""
        return over(self.own.name, self.beside.name) if self.beside else ""

    @property
    def gains(self) -> dict[str, Gain]:
        """The gains over all measurements, by device."""
        return {device: one for device in DEVICES if (one := self.results.overall(device))}

    def __str__(self) -> str:
        """The line for people: `avx512 over avx2: CPU +0.4 % ± 0.6, GPU +0.1 % ± 0.5`."""
        return in_words(self.title, self.gains) or f"{len(self.results.measurements)} measurements"


def remarks(report: Report) -> list[str]:
    """What is notable apart from the results: the report's remarks, and the measurements that were left out."""
    left_out = (
        f"{skipped.name} was left out on the {skipped.device}: {skipped.because}" for skipped in report.results.skipped
    )
    return [*report.remarks, *left_out]


def slower(report: Report, floor: float) -> Iterator[str]:
    """Why the build is slower than the last publication by more than `floor` percent, beyond the error, by device."""
    if report.beside_is != PUBLICATION:
        return
    for device, one in report.gains.items():
        if one.percent + one.error < -floor:
            worst = min(_of_device(report.results, device), key=lambda pair: pair[1].percent)
            yield (
                f"on the {device.upper()}, the build is slower than the last publication by more than {floor:g} %: "
                f"{one}, most of all in {worst[0]}, {worst[1]}"
            )


def _of_device(results: Results, device: str) -> Iterator[tuple[str, Gain]]:
    for measurement in results.measurements:
        if measurement.device == device and measurement.gain:
            yield measurement.name, measurement.gain


# The table.


def rows(report: Report) -> Iterator[tuple[str, ...]]:
    """The rows of the table, by the columns of `HEADERS`."""
    results = report.results
    for measurement in results.measurements:
        arms = (_times(measurement.arms.get(arm)) for arm in (OWN, BESIDE))
        yield measurement.name, measurement.device, *arms, str(measurement.gain or "")
    for device in results.devices:
        if overall := results.overall(device):
            yield "all (geometric mean)", device, "", "", str(overall)
    yield "import", CPU, *(_times(results.imports.get(arm)) for arm in (OWN, BESIDE)), ""
    sizes = (size(results.sizes[arm]) if results.sizes.get(arm) else "" for arm in (OWN, BESIDE))
    yield "size", "", *sizes, ""


def _times(times: ArmTimes | None) -> str:
    """A median with its deviation: `2.31 ms ± 0.02`."""
    if times is None:
        return ""
    factor, unit = next((one for one in _UNITS if times.median * one[0] >= 1), _UNITS[-1])
    return f"{times.median * factor:.3g} {unit} ± {times.deviation * factor:.2g}"


_UNITS = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns"))


# The file.


def as_json(report: Report) -> dict[str, Any]:
    """The content of the file."""
    own, results = report.own, report.results
    return {
        "schema": SCHEMA,
        "name": own.name,
        "branch": own.built.cell.branch,
        "beside": report.beside.name if report.beside else "",
        "beside-is": report.beside_is,
        "title": report.title,
        "commit": own.build.commit if own.build else "",
        "content": own.content,
        "machine": report.machine._asdict(),
        "ran": report.ran,
        "runs": results.runs,
        "dispatch": dict(results.dispatch),
        "measurements": [_measurement_json(measurement) for measurement in results.measurements],
        "skipped": [skipped._asdict() for skipped in results.skipped],
        "import": _arms_json(results.imports),
        "size": dict(results.sizes),
        "overall": {device: _gain_json(gain) for device, gain in report.gains.items()},
        "remarks": list(report.remarks),
    }


def _measurement_json(one: Measurement) -> dict[str, Any]:
    gain = {"gain": _gain_json(one.gain)} if one.gain else {}
    return {"name": one.name, "device": one.device, "unit": "s", "arms": _arms_json(one.arms)} | gain


def _arms_json(arms: Mapping[str, ArmTimes]) -> dict[str, Any]:
    return {
        arm: {
            "first": None if times.first is None else _rounded(times.first),
            "steady": [*map(_rounded, times.steady)],
            "median": _rounded(times.median),
            "mad": _rounded(times.deviation),
        }
        for arm, times in arms.items()
    }


def _gain_json(gain: Gain) -> dict[str, float]:
    return {"percent": round(gain.percent, 2), "error": round(gain.error, 2)}


def _rounded(seconds: float) -> float:
    """`seconds` with six significant digits."""
    return float(f"{seconds:.6g}")

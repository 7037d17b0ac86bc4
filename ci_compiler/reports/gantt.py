"""The forecast as a chart: what every machine does during a full build, in one self-contained HTML file.

The chart has one lane per machine and one bar per job. The colour shows the package, the shade shows the stage, and a
tooltip names the job. There is no script: the page zooms with CSS only, and its policy forbids any request.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from string import Template

from ci_compiler.reports.forecast import HOSTED_SECONDS, Forecast, PoolForecast, pool_table
from ci_compiler.stages import BUILD, stages
from ci_compiler.units import counted, duration, guess, machine_hours

PAGE = Path(__file__).with_suffix(".html")
STYLE = PAGE.with_suffix(".css")

_HUES = 8
_STEPS = (600, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600, 48 * 3600, 168 * 3600)
_MOST_TICKS = 14
_LANE_PIXELS, _LEAST_POOL_PIXELS = 22, 34


def gantt(forecast: Forecast) -> str:
    """The whole page."""
    packages = list(dict.fromkeys(job.variant.package for job in forecast.jobs))
    hues = {package: index % _HUES for index, package in enumerate(packages)}
    rules = (f".hue-{hue} {{ fill: var(--hue-{hue}); background: var(--hue-{hue}); }}\n" for hue in set(hues.values()))
    parts = {
        "facts": _facts(forecast),
        "legend": _legend(forecast, hues),
        "chart": _chart(forecast, hues),
        "pools": _table(forecast),
        "path": _path(forecast),
    }
    return Template(PAGE.read_text("utf-8")).substitute(
        {name: "\n".join(lines) for name, lines in parts.items()},
        title=f"A full build of {forecast.variants:,} variants{escape(guess(forecast.guessed))}",
        end=_in_waves(forecast) if forecast.overdue else duration(forecast.end),
        critical=duration(sum(job.seconds for job in forecast.path)),
        style=STYLE.read_text("utf-8") + "".join(sorted(rules)),
    )


def _facts(forecast: Forecast) -> Iterator[str]:
    above = forecast.end / forecast.lower_bound - 1
    pull = forecast.pull_request
    saved = machine_hours(forecast.alone_seconds - forecast.seconds)
    facts = [
        ("work", f"{machine_hours(forecast.seconds)} h", f"of machines, in {len(forecast.jobs):,} jobs"),
        ("lower bound", duration(forecast.lower_bound), f"all shards at once are {above:.1%} above it"),
        ("bottleneck", forecast.bound.pool or "the longest chain", "what sets the lower bound"),
        ("one shard", f"up to {duration(max(forecast.shards.values()))}", f"the slowest of {len(forecast.shards):,}"),
        ("a pull request", f"up to {duration(pull.seconds)}", f"{len(pull.cells)} cells of {pull.branch}"),
        (
            "shared builds save",
            f"{saved} h",
            f"of machines, and end {duration(forecast.alone_end - forecast.end)} sooner",
        ),
    ]
    if forecast.overdue:
        remark = f"as in the chart; {forecast.overdue:,} jobs would queue for longer than GitHub allows"
        facts.append(("all shards at once", duration(forecast.end), remark))
    for name, value, remark in facts:
        yield f"<div><dt>{name}</dt><dd>{escape(value)}<small>{escape(remark)}</small></dd></div>"


def _in_waves(forecast: Forecast) -> str:
    return f"{duration(forecast.in_waves)} in {counted(len(forecast.waves), 'wave')}"


def _legend(forecast: Forecast, hues: dict[str, int]) -> Iterator[str]:
    for package, hue in hues.items():
        yield f'<span><i class="hue-{hue}"></i>{escape(package)}</span>'
    ran = {job.stage for job in forecast.jobs}
    for stage in (one for one in stages() if one in ran or not one.is_optional):
        apart = ' class="apart"' if stage is BUILD else ""
        yield f'<span{apart}><i class="stage {stage}"></i>{stage}</span>'


def _chart(forecast: Forecast, hues: dict[str, int]) -> Iterator[str]:
    lanes = _bars(forecast, hues)
    yield from _axis(forecast)
    for pool in forecast.pools:
        busiest = " busiest" if pool.pool.name == forecast.bound.pool else ""
        machines = f"{pool.pool.count:,} machine{'s' if pool.pool.count > 1 else ''}"
        yield f'<div class="pool{busiest}"><b>{escape(pool.pool.name)}</b>'
        yield f"<small>{machines}, {pool.busy:.0%}&nbsp;busy</small></div>"
        yield from _lanes(forecast, pool, lanes[pool.pool.name])
    yield from _axis(forecast)


def _lanes(forecast: Forecast, one: PoolForecast, bars: list[str]) -> Iterator[str]:
    """The lanes of a pool: one unit of height per machine, one unit of width per second."""
    count, end = one.pool.count, forecast.end
    height = max(_LEAST_POOL_PIXELS, count * _LANE_PIXELS)
    label = f"{one.pool.name}: {one.jobs} jobs, {one.busy:.0%} busy"
    yield (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {end} {count}" preserveAspectRatio="none" '
        f'style="height:{height}px">'
    )
    for tick in _ticks(end):
        yield f'<line class="grid" x1="{tick}" x2="{tick}" y1="0" y2="{count}"/>'
    yield from bars
    bound = forecast.lower_bound
    yield f'<line class="bound-line" x1="{bound}" x2="{bound}" y1="0" y2="{count}"/>'
    yield "</svg>"


def _bars(forecast: Forecast, hues: dict[str, int]) -> dict[str, list[str]]:
    """The bars of each pool."""
    bars: dict[str, list[str]] = {pool.pool.name: [] for pool in forecast.pools}
    schedule = forecast.schedule
    for job, start, machine in zip(forecast.jobs, schedule.starts, schedule.machines, strict=True):
        begin = start + HOSTED_SECONDS
        when = f"from {duration(begin)} on, {duration(job.seconds)}"
        bars[job.pool].append(
            f'<rect class="hue-{hues[job.variant.package]} {job.stage}" x="{begin}" y="{machine}.08" '
            f'width="{job.seconds}" height=".84"><title>'
            f"{escape(job.variant.name)} on {escape(job.cell.branch)}\n{job.stage}, {when}</title></rect>"
        )
    return bars


def _axis(forecast: Forecast) -> Iterator[str]:
    yield '<div class="pool"></div><div class="axis">'
    for tick in _ticks(forecast.end):
        last = ' class="last"' if tick > 0.97 * forecast.end else ""
        said = duration(tick) if tick else "0"
        yield f'<span{last} style="left:{100 * tick / forecast.end:.3f}%">{said}</span>'
    yield "</div>"


def _ticks(end: int) -> list[int]:
    step = next((step for step in _STEPS if end / step <= _MOST_TICKS), 0) or -(-end // _MOST_TICKS // 3600) * 3600
    return list(range(0, end + 1, step))


def _table(forecast: Forecast) -> Iterator[str]:
    headers, rows = pool_table(forecast)
    yield "".join(f'<th scope="col">{header}</th>' for header in headers)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"


def _path(forecast: Forecast) -> Iterator[str]:
    for job in forecast.path:
        said = f"{job.variant.name} {job.stage} on {job.pool}, {duration(job.seconds)}"
        yield f"<li>{escape(said)}</li>"

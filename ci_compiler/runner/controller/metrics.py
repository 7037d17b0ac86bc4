"""What is on a machine and on GitHub, in Prometheus' text format.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ci_compiler.runner.controller.prune import Leftover, LeftoverKind
from ci_compiler.runner.controller.runner_names import QUARANTINED


def metrics(items: Iterable[Leftover], *, lost: int) -> str:
    """The number of items by kind, pool and state, of slots in quarantine, and of lost runners whose logs are kept."""
    items = list(items)
    counts = Counter((item.kind.value, item.pool, item.state, str(bool(item.left_over)).lower()) for item in items)
    lines = [
        "# HELP ci_runner_items What `ci-runner start` made: registrations, containers, stores, roots.",
        "# TYPE ci_runner_items gauge",
    ]
    for values, count in sorted(counts.items()):
        labels = ",".join(
            f'{name}="{_escaped(value)}"'
            for name, value in zip(("kind", "pool", "state", "left_over"), values, strict=True)
        )
        lines.append(f"ci_runner_items{{{labels}}} {count}")
    lines += [
        "# HELP ci_runner_quarantined_slots Slots that failed a proof of health, or whose runners keep failing.",
        "# TYPE ci_runner_quarantined_slots gauge",
    ]
    sick = Counter({item.pool: 0 for item in items if item.kind is LeftoverKind.REGISTRATION})
    sick.update(item.pool for item in items if item.state == QUARANTINED)
    lines += [f'ci_runner_quarantined_slots{{pool="{_escaped(pool)}"}} {sick[pool]}' for pool in sorted(sick)]
    lines += [
        "# HELP ci_runner_lost_logs Logs that are kept of lost runners.",
        "# TYPE ci_runner_lost_logs gauge",
        f"ci_runner_lost_logs {lost}",
    ]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

"""What the controller calls what it makes, so that it, `list` and `prune` know their own again.

A registration is known by its name alone (GitHub keeps nothing else for us); containers and volumes bear labels too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ci_compiler.hardware import Hardware
from ci_compiler.spec.model import Pool

PREFIX = "ci-runner"
"""How every name of ours begins."""

MOST_NAME = 64
"""Characters of a runner's name at the most (actions/runner, its check of `--name`)."""

LABEL = "io.github.ci-compiler"
"""What the labels of our containers and volumes begin with; alone, it marks them as ours."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NAME = re.compile(
    rf"{PREFIX}-(?P<host>[a-z0-9]+(?:-[a-z0-9]+)*)-(?P<slot>[0-9]+)-(?P<made>[0-9a-z]{{6,8}})-(?P<pool>[a-z0-9-]+)"
)

_OPERATING_SYSTEM = {"linux": "Linux", "darwin": "macOS"}
"""The label of GitHub's own that tells an operating system, by the end of a Nix system's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerName:
    """What the name of a registration tells: its machine, place there, second of birth, and pool (maybe cut short)."""

    host: str
    slot: int
    made: int
    pool: str

    def __str__(self) -> str:
        return f"{PREFIX}-{self.host}-{self.slot}-{_in_36(self.made)}-{self.pool}"[:MOST_NAME].rstrip("-")


def read_name(text: str) -> RunnerName | None:
    """What `text` tells; None where it is no name of ours."""
    found = _NAME.fullmatch(text)
    if found is None:
        return None
    return RunnerName(host=found["host"], slot=int(found["slot"]), made=int(found["made"], 36), pool=found["pool"])


def host_tag(hostname: str, machine_id: str = "") -> str:
    """A machine in the names of its runners: its host name's beginning, and a digest of that and `/etc/machine-id`."""
    begin = re.sub(r"[^a-z0-9]+", "-", hostname.lower())[:10].strip("-")
    digest = hashlib.sha256(f"{hostname} {machine_id}".encode()).hexdigest()[:4]
    return f"{begin}-{digest}" if begin else digest


def labels_of(hardware: Hardware, pool: Pool) -> tuple[str, ...]:
    """The labels that a runner of `pool` registers with: the pool's, and GitHub's own, which JIT runners lack."""
    system = hardware.systems[pool.system]
    own = ("self-hosted", _OPERATING_SYSTEM[pool.system.rpartition("-")[2]], system.label)
    taken = {label.lower() for label in pool.runs_on.labels}
    return (*(label for label in own if label.lower() not in taken), *pool.runs_on.labels)


def marks(values: Mapping[str, object]) -> dict[str, str]:
    """The labels of a container or volume that say `values`, and that it is ours."""
    return {LABEL: "runner"} | {f"{LABEL}.{key}": str(value) for key, value in values.items()}


def mark(labels: Mapping[str, str], key: str) -> str:
    """What `labels` say of `key`; '' for nothing."""
    return labels.get(f"{LABEL}.{key}", "")


def _in_36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"

"""The names and labels of what the controller creates, by which it, `list` and `prune` recognise it.

A registration is recognised by its name alone, since GitHub stores nothing else; containers and volumes have labels.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

PREFIX = "ci-runner"
"""The prefix of every name."""

MOST_NAME = 64
"""The most characters of a runner's name (actions/runner, its check of `--name`)."""

LABEL = "io.github.ci-compiler"
"""The label that marks a container or volume as the controller's, and the prefix of its other labels."""

QUARANTINED = "quarantined"
"""The label of a registration that only shows that a slot of its machine is in quarantine."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NAME = re.compile(
    rf"{PREFIX}-(?P<host>[a-z0-9]+(?:-[a-z0-9]+)*)-(?P<slot>[0-9]+)-(?P<made>[0-9a-z]{{6,8}})-(?P<pool>[a-z0-9-]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerName:
    """The parts of a registration's name: machine, slot, time of creation in seconds since 1970, pool (maybe cut)."""

    host: str
    slot: int
    made: int
    pool: str

    def __str__(self) -> str:
        return f"{PREFIX}-{self.host}-{self.slot}-{_in_36(self.made).zfill(6)}-{self.pool}"[:MOST_NAME].rstrip("-")


def read_name(text: str) -> RunnerName | None:
    """The parts of the name `text`; None if the controller did not make it."""
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    return RunnerName(host=match["host"], slot=int(match["slot"]), made=int(match["made"], 36), pool=match["pool"])


def host_tag(hostname: str, machine_id: str = "") -> str:
    """A machine in the names of its runners: the start of its host name, and a digest of name and `/etc/machine-id`."""
    begin = re.sub(r"[^a-z0-9]+", "-", hostname.lower())[:10].strip("-")
    digest = hashlib.sha256(f"{hostname} {machine_id}".encode()).hexdigest()[:4]
    return f"{begin}-{digest}" if begin else digest


def marks(values: Mapping[str, object]) -> dict[str, str]:
    """The labels of a container or volume of the controller, with `values`."""
    return {LABEL: "runner"} | {f"{LABEL}.{key}": str(value) for key, value in values.items()}


def mark(labels: Mapping[str, str], key: str) -> str:
    """The value of `key` among `labels`; '' if it has none."""
    return labels.get(f"{LABEL}.{key}", "")


def _in_36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"

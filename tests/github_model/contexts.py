"""The contexts of expressions, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from tests.github_model.expressions import shown
from tests.github_model.state import Event

OWN = "my-org/stack"
"""The repository."""

STALE = "0123" * 10
"""The commit that the event of a pull request names as its base, where the base branch no longer is."""


@cache
def told(result: str, outputs: str) -> str:
    """What the contexts `needs` and `jobs` tell of a job, as JSON."""
    return f'{{"result": "{result}", "outputs": {outputs}}}'


@cache
def github(event: Event, number: int, attempt: int, file: str) -> str:
    payload = {"repository": {"fork": False, "default_branch": "main"}, **json.loads(event.payload)}
    context = {
        "event_name": event.name,
        "ref": event.ref,
        "ref_name": event.branch,
        "base_ref": payload.get("pull_request", {}).get("base", {}).get("ref", ""),
        "sha": event.sha,
        "repository": OWN,
        "run_id": str(number),
        "run_attempt": str(attempt),
        "workflow": file,
        "token": "token",
        "event": payload,
    }
    return json.dumps(context)


@cache
def variables(pause: str) -> str:
    return json.dumps({"CI_PAUSED": pause} if pause else {})


def default_of(one: Mapping[str, Any]) -> Any:
    return one.get("default", False if one.get("type") == "boolean" else "")


def typed(one: Mapping[str, Any], value: Any) -> Any:
    """The value of an input of a called workflow."""
    if value is None:
        return default_of(one)
    return value if one["type"] in {"boolean", "number"} else shown(value)

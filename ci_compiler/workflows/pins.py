"""The commits that actions are pinned to, read from `pins.json`. The `pins` of a spec take their place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, nearest
from ci_compiler.workflows.writer import Node, Remarked, Spaced

if TYPE_CHECKING:
    from ci_compiler.spec.model import Spec
    from ci_compiler.spec.upstream import ActionPin


@cache
def action_pins() -> dict[str, dict[str, str]]:
    """The bundled `tag` and `commit` of each action."""
    pins: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("pins.json").read_bytes())["pins"]
    return pins


@cache
def pinned(action: str) -> Remarked:
    """The `uses:` of `action`, or of an action in a folder of its repository, at its pinned commit.

    Its tag is the remark. Raises KeyError if it has no pin.
    """
    pin = action_pins()[_repository(action)]
    return Remarked(f"{action}@{pin['commit']}", pin["tag"])


def _repository(action: str) -> str:
    return "/".join(action.split("/")[:2])


def overruled(node: Node, pins: Mapping[str, ActionPin]) -> Node:
    """`node` in which the actions of `pins` are at the commits given there."""
    if isinstance(node, Remarked):
        action = node.partition("@")[0]
        pin = pins.get(_repository(action))
        return Remarked(f"{action}@{pin.commit}", pin.tag) if pin else node
    if isinstance(node, Mapping):
        made = {key: overruled(value, pins) for key, value in node.items()}
        return Spaced(made) if isinstance(node, Spaced) else made
    if isinstance(node, str | int | None):
        return node
    return [overruled(item, pins) for item in node]


def unknown_pins(spec: Spec) -> Iterable[Finding]:
    """An error for each action in the spec's `pins` that no compiled workflow uses."""
    for action in spec.pins:
        if action not in action_pins():
            message = f"no compiled workflow uses {action!r}{nearest(action, action_pins())}"
            yield spec.finding(("pins", action), Code.UNKNOWN_KEY, message, key=True)

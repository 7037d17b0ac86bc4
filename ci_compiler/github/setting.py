"""One setting of a repository: what is expected, what GitHub says, and the calls that would set it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from shlex import quote as in_shell
from typing import Any, NamedTuple

from ci_compiler.github.client import Client
from ci_compiler.github.errors import GitHubError
from ci_compiler.github.inventory import UNSEEN


class SettingState(StrEnum):
    """What the comparison says of a setting."""

    RIGHT = "right"
    WRONG = "wrong"
    UNREAD = "not readable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting: what the compiled workflows expect and why, what GitHub says, and the calls that would set it."""

    name: str
    state: SettingState
    expected: str
    found: str
    because: str
    calls: tuple[str, ...] = ()


class Answer(NamedTuple):
    """What GitHub says of a setting, whether that is right, and what would set it."""

    found: str
    right: bool
    calls: tuple[str, ...] = ()


class UnknownError(Exception):
    """GitHub does not say what decides; the text says what."""


def call(client: Client, verb: str, path: str, body: Mapping[str, Any] | None = None) -> str:
    """A call of `gh api`; a `path` without a slash at its beginning is below that of the repository."""
    full = path[1:] if path.startswith("/") else f"repos/{client.access.repository}/{path}"
    words = f"gh api --method {verb} {in_shell(full)}"
    return words if body is None else f"{words} --input - <<'END'\n{json.dumps(body, indent=2)}\nEND"


def to_set(client: Client, secret: str, more: str = "") -> str:
    """A remark that says how to set a secret, whose value is not known here."""
    return f"# gh secret set {secret} --repo {client.access.repository}{more}"


def setting(name: str, expected: str, because: str, ask: Callable[[], Answer]) -> Setting:
    """The setting of which GitHub answers `ask`. Raises GitHubError, but not for a lack of rights."""
    try:
        answer = ask()
    except UnknownError as error:
        state, answer = SettingState.UNREAD, Answer(str(error), right=False)
    except GitHubError as error:
        if error.trouble not in UNSEEN:
            raise
        state, answer = SettingState.UNREAD, Answer(error.line, right=False)
    else:
        state = SettingState.RIGHT if answer.right else SettingState.WRONG
    calls = answer.calls if state is SettingState.WRONG else ()
    return Setting(name=name, state=state, expected=expected, found=answer.found, because=because, calls=calls)


def listed(names: Iterable[str], none: str = "none") -> str:
    """`names` in one line, sorted; `none` without any."""
    return ", ".join(sorted(names)) or none

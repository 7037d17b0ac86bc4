"""Failures of GitHub by kind; each becomes one finding that says what was asked, what went wrong and what helps.

Statuses and headers: GitHub Docs, "Troubleshooting the REST API" and "Rate limits for the REST API".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

import requests
from github import BadAttributeException, GithubException, IncompletableObject
from github.Requester import Requester

from ci_compiler.clock import time_of_day
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, about
from ci_compiler.units import duration

NOT_UNDERSTOOD = (
    BadAttributeException,
    IncompletableObject,
    AssertionError,
    AttributeError,
    KeyError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What PyGithub raises if a response is not GitHub's: the page of a proxy, truncated JSON, a foreign redirect."""

TROUBLES = (GithubException, requests.RequestException, *NOT_UNDERSTOOD)
"""Everything that a call of PyGithub raises for reasons outside this program."""

LONGEST_WAIT = 3660.0
"""The most seconds to wait for a rate limit: its window is one hour (GitHub Docs), whatever a response says."""

SECONDARY_WAIT = 60.0
"""Seconds to wait for a rate limit without a time (GitHub Docs: at least one minute)."""


class Trouble(StrEnum):
    """The kinds of trouble, by the codes of their findings."""

    TOKEN = Code.GITHUB_TOKEN
    RATE = Code.GITHUB_RATE_LIMIT
    FORBIDDEN = Code.GITHUB_FORBIDDEN
    MISSING = Code.GITHUB_NOT_FOUND
    CONFLICT = Code.GITHUB_CONFLICT
    REFUSED = Code.GITHUB_REFUSED
    SERVER = Code.GITHUB_SERVER
    CONNECTION = Code.GITHUB_UNREACHABLE
    GARBLED = Code.GITHUB_GARBLED


PASSING = frozenset({Trouble.RATE, Trouble.SERVER, Trouble.CONNECTION, Trouble.GARBLED})
"""Failures that go away by themselves; the others stay until someone changes something."""


class GitHubError(InputError):
    """GitHub could not be reached, or refused a request; exit code 2.

    `said`: GitHub's own message. `wait`: the seconds that GitHub asks to wait, or 0. `uncertain`: the request may have
    taken effect, since only the response was lost.
    """

    def __init__(
        self, host: str, message: str, *, trouble: Trouble, said: str, wait: float = 0.0, uncertain: bool
    ) -> None:
        super().__init__([about(host, Code(trouble), message)])
        self.trouble = trouble
        self.said = said
        self.wait = wait
        self.uncertain = uncertain

    @property
    def line(self) -> str:
        """The message of the finding, without place and code."""
        return self.findings[0].message


def understood(error: Exception, *, what: str, host: str, now: float) -> GitHubError:
    """The GitHubError for `error`, one of `TROUBLES`. `what` was asked (`start FILE`)."""
    if isinstance(error, GithubException) and not isinstance(error, IncompletableObject):
        return _answered(error, what, host, now)
    if isinstance(error, requests.RequestException):
        trouble, said = Trouble.CONNECTION, _connection(error)
        message = f"{what}: {host} cannot be reached: {said}"
        uncertain = not _never_sent(error)
    else:
        trouble, said = Trouble.GARBLED, " ".join(str(error).split())[:120]
        message = f"{what}: {host} sent a response that is not GitHub's ({said or type(error).__name__})"
        uncertain = True
    return GitHubError(host, message, trouble=trouble, said=said, uncertain=uncertain)


def _answered(error: GithubException, what: str, host: str, now: float) -> GitHubError:
    headers = {key.lower(): str(value) for key, value in (error.headers or {}).items()}
    said = _said(error.data)
    trouble = _trouble(error.status, headers, said)
    wait = _wait(headers, now) if trouble is Trouble.RATE else 0.0
    hint = {
        Trouble.TOKEN: "GitHub refused the token, which expired, was revoked or is mistyped; create a new one",
        Trouble.RATE: f"GitHub's rate limit is used up until {time_of_day(now + wait)} (for {duration(wait)})",
        Trouble.FORBIDDEN: "the token may not do this" + _permissions(headers),
        Trouble.MISSING: "it does not exist, or the token may not see it",
        Trouble.CONFLICT: "it conflicts with the current state on GitHub",
        Trouble.SERVER: f"GitHub failed ({error.status})",
    }.get(trouble, f"GitHub refused it ({error.status})")
    message = f"{what}: {hint}" + (f": {said}" if said else "")
    return GitHubError(host, message, trouble=trouble, said=said, wait=wait, uncertain=trouble is Trouble.SERVER)


_BY_STATUS = {401: Trouble.TOKEN, 403: Trouble.FORBIDDEN, 404: Trouble.MISSING, 409: Trouble.CONFLICT}


def _trouble(status: int, headers: Mapping[str, str], said: str) -> Trouble:
    limited = Requester.isRateLimitError(said) or "retry-after" in headers or headers.get(_REMAINING) == "0"
    if status == 429 or (status == 403 and limited):
        return Trouble.RATE
    return _BY_STATUS.get(status, Trouble.SERVER if status >= 500 else Trouble.REFUSED)


_REMAINING = "x-ratelimit-remaining"
_RESET = "x-ratelimit-reset"
_SECONDS = re.compile("[0-9]{1,11}")


def _wait(headers: Mapping[str, str], now: float) -> float:
    """The seconds until GitHub answers again, by its own clock if it states that too; at most `LONGEST_WAIT`."""
    after, reset = headers.get("retry-after", ""), headers.get(_RESET, "")
    if _SECONDS.fullmatch(after):
        return min(float(after), LONGEST_WAIT)
    if headers.get(_REMAINING, "0") != "0" or not _SECONDS.fullmatch(reset):
        return SECONDARY_WAIT
    with suppress(KeyError, ValueError, OverflowError):
        now = parsedate_to_datetime(headers["date"]).timestamp()
    return min(max(float(reset) - now, 0.0) + 1, LONGEST_WAIT)


def _permissions(headers: Mapping[str, str]) -> str:
    """What the token lacks, from GitHub's headers for fine-grained and for classic tokens."""
    if needed := headers.get("x-accepted-github-permissions"):
        return f"; it needs {needed.replace('=', ': ').replace(';', ' or')}"
    if needed := headers.get("x-accepted-oauth-scopes"):
        return f"; it needs one of the scopes {needed}"
    return ""


def _said(data: Any) -> str:
    """GitHub's own message on one line, without repetitions."""
    if not isinstance(data, Mapping):
        return ""
    errors = data.get("errors")
    details = [data, *(errors if isinstance(errors, list) else [errors])]
    words = (detail.get("message") if isinstance(detail, Mapping) else detail for detail in details)
    texts = [" ".join(str(word).split()) for word in words if word]
    return "; ".join(dict.fromkeys(texts))


def _connection(error: requests.RequestException) -> str:
    kinds = {
        requests.Timeout: "no answer in time",
        requests.exceptions.SSLError: "this machine does not trust its certificate",
        requests.exceptions.ProxyError: "the proxy refused",
        requests.ConnectionError: _unconnected(error) or "the connection was cut",
        requests.exceptions.ChunkedEncodingError: "the connection was cut",
    }
    return next((words for kind, words in kinds.items() if isinstance(error, kind)), type(error).__name__)


def _never_sent(error: requests.RequestException) -> bool:
    """Whether there was no connection, so that the request cannot have taken effect."""
    never = requests.exceptions.SSLError | requests.exceptions.ProxyError | requests.ConnectTimeout
    return isinstance(error, never) or bool(_unconnected(error))


def _unconnected(error: requests.RequestException) -> str:
    """That no connection was made, and why: this machine may lack a route, or descriptors; '' if one was made."""
    from urllib3.exceptions import MaxRetryError, NewConnectionError

    cause = error.args[0] if error.args else None
    reason = cause.reason if isinstance(cause, MaxRetryError) else cause
    if not isinstance(reason, NewConnectionError):
        return ""
    why = reason.__cause__.strerror if isinstance(reason.__cause__, OSError) else ""
    return f"no connection ({why})" if why else "no connection"

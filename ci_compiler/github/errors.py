"""GitHub's troubles, told apart: each becomes one finding that says what was asked, what went wrong and what helps.

Statuses and headers: GitHub Docs, "Troubleshooting the REST API" and "Rate limits for the REST API".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

import requests
from github import BadAttributeException, GithubException, IncompletableObject
from github.Requester import Requester

from ci_compiler.clock import span, time_of_day
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place

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
"""What PyGithub raises where an answer is none of GitHub's: a proxy's page, half a JSON, a redirection elsewhere."""

TROUBLES = (GithubException, requests.RequestException, *NOT_UNDERSTOOD)
"""Everything that a call of PyGithub raises for a reason outside of this program."""

SECONDARY_WAIT = 60.0
"""Seconds to wait for a rate limit that names no time (GitHub Docs: at least one minute)."""


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
"""Troubles that go away by themselves; the others come back until someone changes something."""


class GitHubError(InputError):
    """GitHub could not be asked, or refused; exit code 2.

    `wait`: the seconds that GitHub asks to wait, if it does. `uncertain`: what was asked may have been done all the
    same, since the answer, not the request, was lost.
    """

    def __init__(self, finding: Finding, *, trouble: Trouble, said: str, wait: float = 0.0, uncertain: bool) -> None:
        super().__init__([finding])
        self.trouble = trouble
        self.said = said
        self.wait = wait
        self.uncertain = uncertain

    @property
    def line(self) -> str:
        """The finding's message alone."""
        return self.findings[0].message


def understood(error: Exception, *, what: str, host: str, now: float) -> GitHubError:
    """`error`, one of `TROUBLES`, as it is told: `what` is what was asked (`start build-main-sm90.yml`)."""
    if isinstance(error, GithubException) and not isinstance(error, IncompletableObject):
        return _answered(error, what, host, now)
    if isinstance(error, requests.RequestException):
        trouble, said = Trouble.CONNECTION, _connection(error)
        message = f"{what}: {host} cannot be reached: {said}"
        uncertain = not _never_sent(error)
    else:
        trouble, said = Trouble.GARBLED, " ".join(str(error).split())[:120]
        message = f"{what}: {host} gave an answer that is not GitHub's ({said or type(error).__name__})"
        uncertain = True
    finding = Finding(place=Place(file=host), code=Code(trouble), message=message)
    return GitHubError(finding, trouble=trouble, said=said, uncertain=uncertain)


def _answered(error: GithubException, what: str, host: str, now: float) -> GitHubError:
    headers = {key.lower(): str(value) for key, value in (error.headers or {}).items()}
    said = _said(error.data)
    trouble = _trouble(error.status, headers, said)
    wait = _wait(headers, now) if trouble is Trouble.RATE else 0.0
    hint = {
        Trouble.TOKEN: "GitHub refused the token; it expired, was revoked or is mistyped: make a new one",
        Trouble.RATE: f"GitHub's rate limit is used up until {time_of_day(now + wait)} (for {span(wait)})",
        Trouble.FORBIDDEN: "the token may not do this" + _permissions(headers),
        Trouble.MISSING: "GitHub knows no such thing, or the token may not see it",
        Trouble.CONFLICT: "GitHub is in a state that this conflicts with",
        Trouble.SERVER: f"GitHub is in trouble itself ({error.status})",
    }.get(trouble, f"GitHub refused it ({error.status})")
    finding = Finding(
        place=Place(file=host), code=Code(trouble), message=f"{what}: {hint}" + (f": {said}" if said else "")
    )
    return GitHubError(finding, trouble=trouble, said=said, wait=wait, uncertain=trouble is Trouble.SERVER)


def _trouble(status: int, headers: Mapping[str, str], said: str) -> Trouble:
    limited = Requester.isRateLimitError(said) or "retry-after" in headers or headers.get(_REMAINING) == "0"
    if status == 429 or (status == 403 and limited):
        return Trouble.RATE
    known = {401: Trouble.TOKEN, 403: Trouble.FORBIDDEN, 404: Trouble.MISSING, 409: Trouble.CONFLICT}
    if status in known:
        return known[status]
    return Trouble.SERVER if status >= 500 else Trouble.REFUSED


_REMAINING = "x-ratelimit-remaining"
_RESET = "x-ratelimit-reset"
_SECONDS = re.compile("[0-9]{1,11}")


def _wait(headers: Mapping[str, str], now: float) -> float:
    """The seconds until GitHub answers again; its own clock counts, where its answer tells it."""
    after = headers.get("retry-after", "")
    if _SECONDS.fullmatch(after):
        return float(after)
    reset = headers.get(_RESET, "")
    if headers.get(_REMAINING, "0") == "0" and _SECONDS.fullmatch(reset):
        return max(float(reset) - _moment(headers, now), 0.0) + 1
    return SECONDARY_WAIT


def _moment(headers: Mapping[str, str], now: float) -> float:
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return now


def _permissions(headers: Mapping[str, str]) -> str:
    """What the token lacks, as GitHub's headers tell it for fine-grained and for classic tokens."""
    if needed := headers.get("x-accepted-github-permissions"):
        return f"; it needs {needed.replace('=', ': ').replace(';', ' or')}"
    if needed := headers.get("x-accepted-oauth-scopes"):
        return f"; it needs one of the scopes {needed}"
    return ""


def _said(data: Any) -> str:
    """GitHub's own words, on one line, without what is the same for all."""
    if not isinstance(data, Mapping):
        return ""
    errors = data.get("errors")
    details = errors if isinstance(errors, list) else [errors]
    words = [data.get("message"), *(one.get("message") if isinstance(one, Mapping) else one for one in details)]
    texts = [" ".join(str(word).split()) for word in words if word]
    return "; ".join(dict.fromkeys(texts))


def _connection(error: requests.RequestException) -> str:
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted here"
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy does not let through"
    if _never_sent(error):
        return "no connection"
    if isinstance(error, requests.exceptions.ChunkedEncodingError | requests.ConnectionError):
        return "the connection was cut"
    return type(error).__name__


def _never_sent(error: requests.RequestException) -> bool:
    """Whether there was no connection at all, so that nothing can have been done."""
    from urllib3.exceptions import MaxRetryError, NewConnectionError

    if isinstance(error, requests.exceptions.SSLError | requests.exceptions.ProxyError | requests.ConnectTimeout):
        return True
    cause = error.args[0] if error.args else None
    reason = cause.reason if isinstance(cause, MaxRetryError) else cause
    return isinstance(reason, NewConnectionError)

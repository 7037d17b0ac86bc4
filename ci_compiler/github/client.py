"""Calls to GitHub through PyGithub: retried where that helps, delayed if GitHub asks for it, else one-line errors.

PyGithub's own retries are off: they sleep silently, repeat requests that may have taken effect, and have no limit.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from queue import Empty, SimpleQueue
from threading import Thread, local
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import requests
from github import Auth, Github, GithubException, GithubIntegration
from jwt import PyJWTError

from ci_compiler import __version__
from ci_compiler.clock import Clock, back_off, time_of_day
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.github.access import Access, AppKey
from ci_compiler.github.errors import PASSING, TROUBLES, GitHubError, Trouble, understood
from ci_compiler.outside import expected
from ci_compiler.units import duration

Answer = TypeVar("Answer")

WRITE_PAUSE = 1.0
"""Seconds between two requests that change something (GitHub Docs, "Best practices for using the REST API")."""

REDIRECTS = 5
"""The most redirects of a request: those of GitHub for a repository that was renamed."""

_TIMEOUT = 30
PER_PAGE = 100
"""Entries per page; GitHub's maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The most attempts per call, and in seconds: the longest wait for a rate limit, the limit of one attempt.

    The limit holds for whole responses. The timeout of the connection does not: each byte that trickles in resets it.
    """

    attempts: int = 4
    longest_wait: float = 900.0
    limit: float = 300.0


PATIENT = Patience()
AT_ONCE = Patience(attempts=1, longest_wait=0.0, limit=60.0)
"""For callers that do not block and retry by themselves."""


class DescribedRepository(NamedTuple):
    """What GitHub says of a repository: its name, whether an organisation owns it, whether only some may read it."""

    full_name: str
    in_organisation: bool
    private: bool


class DescribedWorkflow(NamedTuple):
    """What GitHub says of a workflow."""

    id: int
    state: str


_follows = local()


def _followed(record: logging.LogRecord) -> bool:
    """Ends a loop of redirects, which PyGithub follows hundreds of times. It announces each, which nobody reads.

    `_in_time` makes each attempt in a thread of its own.
    """
    _follows.count = getattr(_follows, "count", 0) + (redirected := "redirection" in record.getMessage())
    if _follows.count > REDIRECTS:
        raise RuntimeError("redirects without end")
    return not redirected


class Client:
    """GitHub, for one repository. `say` receives a line for people whenever a call has to wait.

    `renewed` reads the access again. It is called when GitHub refuses the credential, which may have been replaced.
    """

    def __init__(
        self,
        access: Access,
        *,
        say: Callable[[str], None],
        clock: Clock | None = None,
        patience: Patience = PATIENT,
        renewed: Callable[[], Access] | None = None,
    ) -> None:
        # At level DEBUG, PyGithub logs whole responses, including a runner's configuration.
        logger = logging.getLogger("github.Requester")
        logger.setLevel(logging.INFO)
        logger.addFilter(_followed)
        self.access = access
        self.clock = clock or Clock()
        self.say = say
        self._patience = patience
        self._renewed = renewed
        self._next_write = 0.0

    @cached_property
    def github(self) -> Github:
        """PyGithub, authenticated. Raises GitHubError, or InputError if the App's key is wrong."""
        return Github(auth=self._auth(), **self._settings())

    def _auth(self) -> Auth.Auth:
        credential = self.access.credential
        if not isinstance(credential, AppKey):
            return Auth.Token(credential.reveal())
        try:
            app = Auth.AppAuth(credential.app, credential.key.reveal())
            app.create_jwt()
        except (ValueError, TypeError, PyJWTError) as error:
            message = f"is not a private key that a GitHub App can sign with ({type(error).__name__})"
            raise wrong("GITHUB_APP_PRIVATE_KEY", Code.NO_TOKEN, message) from None
        owner, _, name = self.access.repository.partition("/")
        integration = GithubIntegration(auth=app, **self._settings())
        what = f"find the App's installation for {self.access.repository}"
        installation = self.call(what, lambda: integration.get_repo_installation(owner, name).id)
        return app.get_installation_auth(installation)

    def git_environment(self) -> dict[str, str]:
        """The variables with which git on https uses a token of the App; {} for other credentials. Raises GitHubError.

        The header is that of actions/checkout. It is passed in the environment, which other users cannot read.
        """
        if not isinstance(self.access.credential, AppKey):
            return {}
        auth = self.github.requester.auth
        token = self.call("create a token of the App", lambda: str(auth.token) if auth else "")
        basic = b64encode(f"x-access-token:{token}".encode()).decode()
        return {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"http.https://{self.access.web_host}/.extraHeader",
            "GIT_CONFIG_VALUE_0": f"AUTHORIZATION: basic {basic}",
        }

    @cached_property
    def repository(self) -> DescribedRepository:
        """The repository. Raises GitHubError."""

        def read(answer: Mapping[str, Any]) -> DescribedRepository:
            if not answer.get("id"):
                raise ValueError("no repository")
            owned = answer["owner"]["type"] == "Organization"
            return DescribedRepository(str(answer["full_name"]), owned, expected(bool, answer["private"]))

        return self.request(f"read {self.access.repository}", "GET", f"/repos/{self.access.repository}", read=read)

    @cached_property
    def workflows(self) -> Mapping[str, DescribedWorkflow]:
        """The workflows of the default branch, by path. Raises GitHubError: about the repository, if it is missing."""

        def read(entry: Mapping[str, Any]) -> tuple[str, DescribedWorkflow]:
            return str(entry["path"]), DescribedWorkflow(int(entry["id"]), str(entry.get("state")))

        what = f"list the workflows of {self.repository.full_name}"
        return dict(self.pages(what, "actions/workflows", "workflows", read))

    def call(self, what: str, ask: Callable[[], Answer], *, write: bool = False, again: bool = True) -> Answer:
        """Returns the result of `ask`. `what` describes the call in a few words, for findings.

        A call that did not reach GitHub, or that GitHub could not serve, is retried with growing pauses. One that may
        have taken effect is retried only if doing it twice is harmless (`again`). Raises GitHubError.
        """
        attempt = 0
        while True:
            if write:
                self._pace()
            try:
                return self._in_time(ask)
            except TROUBLES as error:
                trouble = understood(error, what=what, host=self.access.host, now=self.clock.now())
                if trouble.trouble is Trouble.TOKEN and self._renew():
                    continue
                pause = self._pause(trouble, attempt, again=again)
                if pause is None:
                    raise trouble from error
                until = f", until {time_of_day(self.clock.now() + pause)}" if trouble.trouble is Trouble.RATE else ""
                self.say(f"{trouble.line}; waiting {duration(pause)}{until}")
                self.clock.sleep(pause)
                attempt += 1

    def request(
        self,
        what: str,
        verb: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        read: Callable[[Any], Answer],
        again: bool = True,
        absent: Answer | None = None,
    ) -> Answer:
        """Applies `read` to the JSON response of a request that PyGithub lacks. Raises GitHubError.

        A `path` without a slash at its beginning is below that of the repository. `absent` is returned if nothing is
        there, unless it is None.
        """
        given = dict(body) if body is not None else None

        def ask() -> Answer:
            return read(self.github.requester.requestJsonAndCheck(verb, self._address(path), input=given)[1])

        try:
            return self.call(what, ask, write=verb != "GET", again=again)
        except GitHubError as error:
            if absent is None or error.trouble is not Trouble.MISSING:
                raise
            return absent

    def conditional(
        self, what: str, path: str, tag: str, *, read: Callable[[Any], Answer]
    ) -> tuple[str, Answer | None]:
        """The entity tag of `path`, and `read` applied to its content; None if that still has the `tag`.

        Raises GitHubError.
        """

        def ask() -> tuple[str, Answer | None]:
            given = {"If-None-Match": tag} if tag else {}
            headers, answer = self.github.requester.requestJsonAndCheck("GET", path, headers=given)
            if tag and answer is None:
                return tag, None
            return headers.get("etag", ""), read(answer)

        return self.call(what, ask)

    def download(self, what: str, path: str, *, most: int) -> bytes:
        """The file that `path` of the repository redirects to, at most `most` bytes. Raises GitHubError.

        The file is in a storage that is not GitHub's own, so that the credential is not sent there.
        """
        headers = {"User-Agent": f"ci-compiler/{__version__}", "Accept": "application/vnd.github+json"}
        requester, api, address = self.github.requester, self.access.api, self._address(path)

        def ask() -> bytes:
            signed = dict(headers)
            if requester.auth:
                requester.auth.authentication(signed)
            response = requests.get(f"{api}{address}", headers=signed, timeout=_TIMEOUT, allow_redirects=False)
            where = response.headers.get("Location", "")
            if response.status_code != requests.codes.found or urlsplit(where).scheme != urlsplit(api).scheme:
                raise GithubException(response.status_code, _json(response), dict(response.headers))
            with requests.get(where, headers=headers, timeout=_TIMEOUT, stream=True) as answer:
                if answer.status_code != requests.codes.ok:
                    raise GithubException(answer.status_code, None, {})
                content = bytearray()
                for part in answer.iter_content(1 << 16):
                    content += part
                    if len(content) > most:
                        raise ValueError(f"a file of more than {most:,} bytes")
                return bytes(content)

        return self.call(what, ask)

    def pages(self, what: str, path: str, item: str, read: Callable[[Mapping[str, Any]], Answer]) -> Iterator[Answer]:
        """Applies `read` to the entries of the list `item` on every page of `path`. Raises GitHubError.

        `item` is '' where a page is the list itself, which says nothing of the number of all entries.
        """
        joint = "&" if "?" in path else "?"

        def page(answer: Any) -> tuple[list[Answer], bool]:
            entries = list(map(read, answer[item] if item else answer))
            more = seen + len(entries) < int(answer["total_count"]) if item else len(entries) == PER_PAGE
            return entries, bool(entries) and more

        seen = 0
        for number in count(1):
            entries, more = self.request(what, "GET", f"{path}{joint}per_page={PER_PAGE}&page={number}", read=page)
            yield from entries
            seen += len(entries)
            if not more:
                return

    def _address(self, path: str) -> str:
        return path if path.startswith("/") else f"/repos/{self.access.repository}/{path}"

    def _in_time(self, ask: Callable[[], Answer]) -> Answer:
        """The result of `ask`. Raises requests.Timeout after the limit of an attempt, and what `ask` raises."""
        answers: SimpleQueue[tuple[Answer | None, BaseException | None]] = SimpleQueue()

        def work() -> None:
            try:
                answers.put((ask(), None))
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
                answers.put((None, error))

        Thread(target=work, name="request", daemon=True).start()
        try:
            answer, error = answers.get(timeout=self._patience.limit)
        except Empty:
            self.__dict__.pop("github", None)  # the thread may use its connection for a long time
            raise requests.Timeout from None
        if error is not None:
            raise error
        return answer  # type: ignore[return-value]

    def _renew(self) -> bool:
        """Reads the access again; returns whether the credential changed."""
        if self._renewed is None:
            return False
        try:
            access = self._renewed()
        except InputError:  # it is being replaced right now
            return False
        if access.credential == self.access.credential:
            return False
        self.access = access
        self.__dict__.pop("github", None)
        self.say("GitHub refused the credential; using the new one")
        return True

    def _settings(self) -> dict[str, Any]:
        return {
            "base_url": self.access.api,
            "timeout": _TIMEOUT,
            "user_agent": f"ci-compiler/{__version__}",
            "per_page": PER_PAGE,
            "retry": None,
            "seconds_between_requests": None,
            "seconds_between_writes": None,
        }

    def _pace(self) -> None:
        pause = self._next_write - self.clock.passed()
        if pause > 0:
            self.clock.sleep(pause)
        self._next_write = self.clock.passed() + WRITE_PAUSE

    def _pause(self, trouble: GitHubError, attempt: int, *, again: bool) -> float | None:
        """The seconds to wait before the next attempt; None if there must be none."""
        if trouble.trouble not in PASSING or attempt + 1 >= self._patience.attempts:
            return None
        if trouble.trouble is Trouble.RATE:
            return trouble.wait if trouble.wait <= self._patience.longest_wait else None
        if trouble.uncertain and not again:
            return None
        return back_off(attempt, first=2.0, most=60.0, seed=self.access.repository)


def url_in(answer: Any) -> str:
    """The address of the page of what GitHub describes."""
    return str(answer["html_url"])


def _json(answer: requests.Response) -> Any:
    """The body of an answer as JSON; None if it is none."""
    try:
        return answer.json()
    except ValueError:
        return None

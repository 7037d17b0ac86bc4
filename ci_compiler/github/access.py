"""Access to GitHub: API address, repository and credential, from the environment, gh's login and .git/config.

No process is started, and nothing is sent before all three are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from ci_compiler.checkout import git_folder, shared_git_folder
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.outside import bytes_of, reading, text_of
from ci_compiler.secret import Secret
from ci_compiler.spec.load import parse_document
from ci_compiler.workflows.common import WORKFLOW_TOKEN

API = "https://api.github.com"
"""GitHub's own API (GitHub Docs, "Getting started with the REST API")."""

TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
"""Environment variables that may hold a token; the first that is set is used."""

APP = ("GITHUB_APP_ID", "GITHUB_APP_PRIVATE_KEY", "GITHUB_APP_PRIVATE_KEY_FILE")
"""Environment variables of a GitHub App: its id, and its private key or the path of a file with it."""

CREDENTIALS = (*TOKENS, *APP, WORKFLOW_TOKEN)
"""Every environment variable that may hold a GitHub credential; none of them is passed to a runner."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_SCP = re.compile(r"(?:[^@/]+@)?(?P<host>[^:/]+):(?P<path>[^/].*)")
_SECTION = re.compile(r'\[\s*remote\s+"(?P<name>[^"]+)"\s*\]')
_URL = re.compile(r'url\s*=\s*"?(?P<url>[^"#;\s]+)')
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AppKey:
    """A GitHub App; tokens of its installation are created when they are needed."""

    app: str
    key: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A repository (`owner/name`), the address of its API, and the credential: a token, or the key of an App."""

    api: str
    repository: str
    credential: Secret | AppKey

    @property
    def host(self) -> str:
        """The host of the API, as findings show it."""
        return urlsplit(self.api).hostname or self.api

    @property
    def web_host(self) -> str:
        """The host of its web pages and of git."""
        return _web_host(self.api)

    @property
    def owner(self) -> str:
        """The repository's owner: a person or an organisation."""
        return self.repository.partition("/")[0]


def access(environment: Mapping[str, str], root: Path, repository: str = "") -> Access:
    """The access that `environment` and the checkout at `root` give to `repository` (`''`: that of the checkout).

    Raises InputError if the token or the repository is missing, or the address of the API is wrong.
    """
    api, name = _api(environment), repository_of(environment, root, repository)
    return Access(api=api, repository=name, credential=_credential(environment, _web_host(api)))


def address_of(environment: Mapping[str, str], root: Path, repository: str = "") -> str:
    """The URL of `repository` (`''`: that of the checkout) for git. Needs no token. Raises InputError."""
    return f"https://{_web_host(_api(environment))}/{repository_of(environment, root, repository)}"


def repository_of(environment: Mapping[str, str], root: Path, repository: str = "") -> str:
    """`repository`, or that of the environment or the checkout (`''`), as OWNER/NAME. Needs no token."""
    host = _web_host(_api(environment))
    name = repository or environment.get("GITHUB_REPOSITORY", "") or _of_checkout(root, host)
    if not _REPOSITORY.fullmatch(name):
        whence = "--repository" if repository else "GITHUB_REPOSITORY"
        raise wrong(whence, Code.WRONG_REPOSITORY, f"{name!r} is not OWNER/NAME")
    return name


# The address of the API.


def _api(environment: Mapping[str, str]) -> str:
    url = environment.get("GITHUB_API_URL", "").rstrip("/") or API
    parts = _parts(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.query:
        raise wrong("GITHUB_API_URL", Code.WRONG_ADDRESS, f"{url!r} is not the address of an API; it looks like {API}")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise wrong("GITHUB_API_URL", Code.WRONG_ADDRESS, f"{url!r} would send the token unencrypted; use https")
    return url


def _parts(url: str) -> SplitResult:
    """The parts of a URL; all are empty if it is malformed (`https://[x`)."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _web_host(api: str) -> str:
    """The web host that belongs to the host of an API (`github.com` for `api.github.com`)."""
    return (urlsplit(api).hostname or "").removeprefix("api.")


# The repository.


def _of_checkout(root: Path, host: str) -> str:
    try:
        config = Path(shared_git_folder(git_folder(root)), "config")
        remotes = dict(_remotes(text_of(config, errors="replace")))
    except (OSError, ValueError):
        message = "GITHUB_REPOSITORY is not set and this is not a git checkout; give --repository OWNER/NAME"
        raise wrong(root, Code.NO_REPOSITORY, message) from None
    url = remotes.get("origin") or next(iter(remotes.values()), "")
    if not url:
        raise wrong(config, Code.NO_REPOSITORY, "the checkout has no remote; give --repository OWNER/NAME")
    theirs, path = _host_and_path(url)
    if not theirs or ("." in theirs and theirs.removeprefix("ssh.") != host):
        where = theirs or "this machine"
        message = f"the remote is on {where}, not on {host}; set GITHUB_API_URL, or give --repository OWNER/NAME"
        raise wrong(config, Code.FOREIGN_REMOTE, message)
    return "/".join(path.removesuffix("/").removesuffix(".git").split("/")[-2:])


def _remotes(text: str) -> Iterator[tuple[str, str]]:
    """The name and URL of each remote in a git configuration, in its order."""
    name = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = _SECTION.match(line)
            name = section["name"] if section else ""
        elif name and (match := _URL.match(line)):
            yield name, match["url"]


def _host_and_path(url: str) -> tuple[str, str]:
    if "://" in url:
        parts = _parts(url)
        return parts.hostname or "", parts.path
    scp = _SCP.fullmatch(url)
    return (scp["host"], scp["path"]) if scp else ("", url)


# The credential.


def _credential(environment: Mapping[str, str], host: str) -> Secret | AppKey:
    if app := environment.get("GITHUB_APP_ID", "").strip():
        return AppKey(app=app, key=_app_key(environment))
    for name in TOKENS:
        if text := environment.get(name, "").strip():
            return _token(text, name)
    file = _gh_folder(environment) / "hosts.yml"
    login = _gh_login(file, host)
    if text := str(login.get("oauth_token") or "").strip():
        return _token(text, str(file))
    if login:
        message = f"gh keeps its token for {host} in the keyring; run with GITHUB_TOKEN=$(gh auth token)"
        raise wrong(file, Code.NO_TOKEN, message)
    message = f"neither {' nor '.join(TOKENS)} is set and gh is not logged in; set one, or run `gh auth login`"
    raise wrong("GITHUB_TOKEN", Code.NO_TOKEN, message)


def _token(text: str, whence: str) -> Secret:
    if not text.isascii() or not text.isprintable() or " " in text:
        raise wrong(whence, Code.WRONG_TOKEN, "its value is not a token: it contains blanks or control characters")
    return Secret(text)


def _app_key(environment: Mapping[str, str]) -> Secret:
    if text := environment.get("GITHUB_APP_PRIVATE_KEY", "").strip():
        return Secret(text)
    name = environment.get("GITHUB_APP_PRIVATE_KEY_FILE", "")
    if not name:
        message = "GITHUB_APP_ID is set; set GITHUB_APP_PRIVATE_KEY or GITHUB_APP_PRIVATE_KEY_FILE too"
        raise wrong("GITHUB_APP_PRIVATE_KEY", Code.NO_TOKEN, message)
    with reading(name, Code.NO_TOKEN):
        return Secret(text_of(name))


def _gh_folder(environment: Mapping[str, str]) -> Path:
    """The folder in which gh stores its logins (`gh help environment`)."""
    if own := environment.get("GH_CONFIG_DIR"):
        return Path(own)
    if base := environment.get("XDG_CONFIG_HOME"):
        return Path(base) / "gh"
    return Path(environment.get("HOME", "/")) / ".config" / "gh"


def _gh_login(file: Path, host: str) -> Mapping[str, Any]:
    """gh's entry for `host`; empty if it has none."""
    try:
        hosts = parse_document(bytes_of(file), shown=str(file)).value
    except FileNotFoundError:
        return {}
    except (OSError, InputError):
        raise wrong(file, Code.NO_TOKEN, "gh's logins cannot be read") from None
    entry = hosts.get(host) if isinstance(hosts, Mapping) else None
    return entry if isinstance(entry, Mapping) else {}

"""Who asks GitHub, where, and about which repository: from the environment, gh's login and .git/config.

No process is started, and nothing is sent anywhere before all three are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.secret import Secret

API = "https://api.github.com"
"""GitHub's own API (GitHub Docs, "Getting started with the REST API")."""

TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
"""Environment variables that hold a token, in the order in which they are looked at."""

APP = ("GITHUB_APP_ID", "GITHUB_APP_PRIVATE_KEY", "GITHUB_APP_PRIVATE_KEY_FILE")
"""Environment variables of a GitHub App: its id, and its private key or a file that holds it."""

CREDENTIALS = (*TOKENS, *APP)
"""Every environment variable that may hold a credential of GitHub's; none of them goes on to a runner."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_SCP = re.compile(r"(?:[^@/]+@)?(?P<host>[^:/]+):(?P<path>[^/].*)")
_SECTION = re.compile(r'\[\s*remote\s+"(?P<name>[^"]+)"\s*\]')
_URL = re.compile(r'url\s*=\s*"?(?P<url>[^"#;\s]+)')
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token: a person's, an installation's, or a workflow's own."""

    secret: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class AppKey:
    """A GitHub App, whose installation's tokens are made when they are needed."""

    app: str
    key: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A repository (`owner/name`) at an API's address, and who asks."""

    api: str
    repository: str
    credential: Token | AppKey

    @property
    def host(self) -> str:
        """The API's host, as findings name it."""
        return urlsplit(self.api).hostname or self.api

    @property
    def owner(self) -> str:
        """The repository's owner: a person or an organisation."""
        return self.repository.partition("/")[0]


def access(environment: Mapping[str, str], root: Path, repository: str = "") -> Access:
    """The access that `environment` and the checkout at `root` give to `repository` (`''`: the checkout's own).

    Raises InputError for what is missing: the token, the repository; or wrong: the API's address.
    """
    api = _api(environment)
    name = repository or environment.get("GITHUB_REPOSITORY", "") or _of_checkout(root, _web_host(api))
    if not _REPOSITORY.fullmatch(name):
        whence = "--repository" if repository else "GITHUB_REPOSITORY"
        raise wrong(whence, Code.WRONG_REPOSITORY, f"{name!r} is not OWNER/NAME")
    return Access(api=api, repository=name, credential=_credential(environment, _web_host(api)))


# Where.


def _api(environment: Mapping[str, str]) -> str:
    url = environment.get("GITHUB_API_URL", "").rstrip("/") or API
    parts = _parts(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.query:
        raise wrong("GITHUB_API_URL", Code.WRONG_ADDRESS, f"{url!r} is not the address of an API, as {API}")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise wrong("GITHUB_API_URL", Code.WRONG_ADDRESS, f"{url!r} would send the token unencrypted; use https")
    return url


def _parts(url: str) -> SplitResult:
    """The parts of an address, none of them where it is no address (`https://[x`)."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _web_host(api: str) -> str:
    """The host of repositories and logins that belongs to an API's (`github.com` for `api.github.com`)."""
    return (urlsplit(api).hostname or "").removeprefix("api.")


# Which repository.


def _of_checkout(root: Path, host: str) -> str:
    config = _git_folder(root) / "config"
    try:
        remotes = dict(_remotes(config.read_text("utf-8", errors="replace")))
    except OSError:
        message = "no GITHUB_REPOSITORY in the environment and no git checkout here; give --repository OWNER/NAME"
        raise wrong(root, Code.NO_REPOSITORY, message) from None
    url = remotes.get("origin") or next(iter(remotes.values()), "")
    if not url:
        raise wrong(config, Code.NO_REPOSITORY, "the checkout has no remote; give --repository OWNER/NAME")
    theirs, path = _host_and_path(url)
    if not theirs or ("." in theirs and theirs.removeprefix("ssh.") != host):
        where = theirs or "this machine"
        message = f"the remote lies on {where}, not on {host}; set GITHUB_API_URL, or give --repository OWNER/NAME"
        raise wrong(config, Code.FOREIGN_REMOTE, message)
    return "/".join(path.removesuffix("/").removesuffix(".git").split("/")[-2:])


def _git_folder(root: Path) -> Path:
    """Where the checkout's configuration lies: `.git`, or what a worktree's or submodule's file of that name says."""
    dot = root / ".git"
    try:
        text = dot.read_text("utf-8") if dot.is_file() else ""
        if not text.startswith("gitdir:"):
            return dot
        own = root / text.removeprefix("gitdir:").strip()
        common = own / "commondir"
        return own / common.read_text("utf-8").strip() if common.is_file() else own
    except (OSError, UnicodeDecodeError):
        return dot


def _remotes(text: str) -> Iterator[tuple[str, str]]:
    """The remotes of a git configuration, in its order: name and address."""
    name = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = _SECTION.match(line)
            name = section["name"] if section else ""
        elif name and (found := _URL.match(line)):
            yield name, found["url"]


def _host_and_path(url: str) -> tuple[str, str]:
    if "://" in url:
        parts = _parts(url)
        return parts.hostname or "", parts.path
    scp = _SCP.fullmatch(url)
    return (scp["host"], scp["path"]) if scp else ("", url)


# Who.


def _credential(environment: Mapping[str, str], host: str) -> Token | AppKey:
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
    message = f"no {' or '.join(TOKENS)} in the environment and no login of gh; set one, or run `gh auth login`"
    raise wrong("GITHUB_TOKEN", Code.NO_TOKEN, message)


def _token(text: str, whence: str) -> Token:
    if not text.isascii() or not text.isprintable() or " " in text:
        raise wrong(whence, Code.WRONG_TOKEN, "what it holds is no token: it has blanks or control characters")
    return Token(secret=Secret(text))


def _app_key(environment: Mapping[str, str]) -> Secret:
    if text := environment.get("GITHUB_APP_PRIVATE_KEY", "").strip():
        return Secret(text)
    name = environment.get("GITHUB_APP_PRIVATE_KEY_FILE", "")
    if not name:
        message = "GITHUB_APP_ID is set, and neither GITHUB_APP_PRIVATE_KEY nor GITHUB_APP_PRIVATE_KEY_FILE"
        raise wrong("GITHUB_APP_PRIVATE_KEY", Code.NO_TOKEN, message)
    try:
        return Secret(Path(name).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", "not text")
        raise wrong(name, Code.NO_TOKEN, f"the App's private key cannot be read: {why}") from None


def _gh_folder(environment: Mapping[str, str]) -> Path:
    """Where gh keeps its logins (gh's manual, `gh help environment`)."""
    if own := environment.get("GH_CONFIG_DIR"):
        return Path(own)
    if base := environment.get("XDG_CONFIG_HOME"):
        return Path(base) / "gh"
    return Path(environment.get("HOME", "/")) / ".config" / "gh"


def _gh_login(file: Path, host: str) -> Mapping[str, Any]:
    """gh's entry for `host`; empty where there is none."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        hosts = YAML(typ="safe", pure=True).load(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, YAMLError):
        raise wrong(file, Code.NO_TOKEN, "gh's logins cannot be read") from None
    entry = hosts.get(host) if isinstance(hosts, Mapping) else None
    return entry if isinstance(entry, Mapping) else {}

"""What the tests of a package may reach: neither the network nor the job's tokens, where the kernel allows that."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import NamedTuple

from ci_compiler.github.access import CREDENTIALS
from ci_compiler.process import ask
from ci_compiler.runner.jobs import offline

ISOLATED = "without the network and the job's tokens"
"""How a test ran that reached neither."""

_OF_A_JOB = ("ACTIONS_", "GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
"""How the variables begin that hold the tokens of a job or name the files through which it commands the runner."""

_IN_HOME = (".aws", ".config/flox", ".config/gh", ".config/nix", ".docker", ".netrc", ".ssh")
_OF_RUNNER = (".credentials", ".credentials_rsaparams", ".runner")
_DAEMON = Path("/nix/var/nix/daemon-socket")
"""Where credentials may be, and the socket of Nix's daemon, whose builds can fetch from the network."""

_SECONDS = 20


class Isolation(NamedTuple):
    """The words before a test's command, and what they achieve: `ISOLATED`, or why the test is not isolated."""

    prefix: tuple[str, ...]
    found: str


WITH_NETWORK = Isolation(prefix=(), found="with the network, as the spec says")
"""How a suite runs that declares `network: true`."""


def isolation(environment: Mapping[str, str], *, kept: Iterable[Path] = ()) -> Isolation:
    """How tests are isolated in the job with `environment`. Folders that contain one of `kept` stay visible."""
    needed = [path.resolve() for path in kept]
    hidden = [path for path in _hidden(environment) if not any(other.is_relative_to(path) for other in needed)]
    words = [word for path in hidden for word in ("--hide", os.fspath(path))]
    prefix = (sys.executable, "-I", offline.__file__, *words, "--")
    ended = ask([*prefix, "true"], seconds=_SECONDS)
    if ended.status:
        reason = ended.said.removeprefix("offline: ") or f"status {ended.status}"
        return Isolation(prefix=(), found=f"with the network, since this machine forbids namespaces: {reason}")
    return Isolation(prefix=prefix, found=ISOLATED)


@cache
def isolated_here() -> Isolation:
    """How the smoke tests of this process are isolated; found out once."""
    return isolation(os.environ, kept=(Path(gettempdir()), Path(__file__).parent))


def without_tokens(environment: Mapping[str, str], secrets: Iterable[str]) -> dict[str, str]:
    """`environment` without the tokens of the job; `secrets` are the names of the publishing secrets."""
    names = {*CREDENTIALS, *secrets}
    return {name: value for name, value in environment.items() if name not in names and not name.startswith(_OF_A_JOB)}


def _hidden(environment: Mapping[str, str]) -> list[Path]:
    """The files and folders that exist here and may hold tokens."""
    runner, home, temporary = (environment.get(name) for name in ("RUNNER_HOME", "HOME", "RUNNER_TEMP"))
    places = [_DAEMON]
    places += [Path(home, name) for name in _IN_HOME] if home else []
    places += [Path(runner, name) for name in _OF_RUNNER] if runner else []
    places += [Path(temporary)] if temporary else []
    return [path.resolve() for path in places if path.exists()]

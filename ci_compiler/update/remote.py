"""The upstreams: git repositories and a package index, read with limits of time and size.

Only git's own transfer, `nix-hash` and what the spec declares run. Nothing that is fetched is executed: no hooks, no
filters, no evaluation.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from ci_compiler.adoption.spec_forms import sri
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, wrong
from ci_compiler.github.access import CREDENTIALS
from ci_compiler.outside import object_of, why
from ci_compiler.process import Ended, ask, find_program
from ci_compiler.update import registry
from ci_compiler.update.web import ARCHIVE, Bounds, Server, unreachable

SERVER, SERVER_VARIABLE = "https://github.com", "CI_COMPILE_UPSTREAMS"
"""The address in front of OWNER/NAME, and the environment variable that replaces it."""

INDEX_VARIABLE = "PIP_INDEX_URL"
"""The environment variable with the address of a package index (Simple Repository API, PEP 503 and 691)."""

API, API_VARIABLE = "https://api.github.com", "GITHUB_API_URL"
"""The address of GitHub's API, and the environment variable that replaces it."""

_SIMPLE = "application/vnd.pypi.simple.v1+json"

_SAFE = ("-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", "-c", "protocol.ext.allow=never")

Answer = TypeVar("Answer")

_INSTALL_GIT = "on Debian: `apt-get install git`"
_INSTALL_NIX = "install Nix; see https://nixos.org/download"


LISTING = Bounds(120.0, 32_000_000)
SOURCE = Bounds(3600.0, 8_000_000_000)


@cache
def upstream_facts() -> Mapping[str, Any]:
    """The tables of `upstreams.json`."""
    table: Mapping[str, Any] = json.loads(Path(__file__).with_name("upstreams.json").read_bytes())
    return table


class Remote:
    """The upstreams that `environment` names. Use it in a `with` block, which removes what was fetched.

    Git gets no credential of GitHub.

    Every method raises InputError: `upstream-unreachable` in one line, whatever went wrong. No answer is asked for
    twice.

    Commands that the spec declares run in `folder`.

    `goes_on`: such an error ends no more than the `lookup` that it happens in, and is kept in `unreachable`.
    """

    def __init__(self, environment: Mapping[str, str], *, goes_on: bool = False, folder: Path | None = None) -> None:
        self._folder = folder
        self.unreachable: list[Finding] = []
        self._goes_on = goes_on
        self._server = environment.get(SERVER_VARIABLE, "").rstrip("/") or SERVER
        self._index = environment.get(INDEX_VARIABLE, "").rstrip("/")
        self.api = environment.get(API_VARIABLE, "").rstrip("/") or API
        own = {name: value for name, value in environment.items() if name not in CREDENTIALS}
        self._environment = {**own, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}
        self._stack = ExitStack()
        self._known: dict[tuple[str, ...], Any] = {}
        self.has_index = bool(self._index)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    @contextmanager
    def lookup(self) -> Iterator[None]:
        """One of several lookups, of which each makes sense without the others."""
        try:
            yield
        except InputError as error:
            if not self._goes_on or any(each.code is not Code.UPSTREAM_UNREACHABLE for each in error.findings):
                raise
            self.unreachable += (each for each in error.findings if each not in self.unreachable)

    def output(self, command: Sequence[str]) -> Ended:
        """How `command`, which the spec declares, ends, without a credential of GitHub in its environment."""
        return ask(command, seconds=LISTING.seconds, env=self._environment, folder=self._folder)

    def tags(self, repository: str) -> dict[str, str]:
        """The commit of each tag of `repository`; that of an annotated tag is the commit that it names."""
        listed = self._listed(repository, "--tags")
        peeled = {name.removesuffix("^{}"): commit for name, commit in listed.items() if name.endswith("^{}")}
        return {name: peeled.get(name, commit) for name, commit in listed.items() if not name.endswith("^{}")}

    def heads(self, repository: str, *patterns: str) -> dict[str, str]:
        """The commit of each branch of `repository` that matches one of git's `patterns`."""
        return self._listed(repository, "--heads", *patterns)

    def _listed(self, repository: str, kind: str, *patterns: str) -> dict[str, str]:
        def ask() -> dict[str, str]:
            listed = self._git(repository, "ls-remote", kind, "--", self._address(repository), *patterns)
            rows = (line.split("\t") for line in listed.splitlines() if "\t" in line)
            return {ref.split("/", 2)[-1]: commit for commit, ref in rows}

        return dict(self._once((repository, kind, *patterns), ask))

    def _once(self, key: tuple[str, ...], ask: Callable[[], Answer]) -> Answer:
        """What `ask` returns or raises; it is called once."""
        if key not in self._known:
            try:
                self._known[key] = ask()
            except InputError as error:
                self._known[key] = error
        if isinstance(known := self._known[key], InputError):
            raise known
        answer: Answer = known
        return answer

    def file(self, repository: str, commit: str, path: str) -> str | None:
        """The text of a file of `commit`, without the rest of the repository; None if there is no such file."""
        folder = self._once((repository,), lambda: self._partial(repository))
        fetch = ("fetch", "--quiet", "--depth=1", "--filter=tree:0", "--no-tags", "origin", commit)
        self._once((repository, commit), lambda: self._git(repository, "-C", folder, *fetch))
        if not self._git(repository, "-C", folder, "ls-tree", commit, "--", path).startswith("100"):
            return None
        return self._git(repository, "-C", folder, "cat-file", "blob", f"{commit}:{path}")

    def _partial(self, repository: str) -> str:
        """A bare repository that fetches trees and files of commits when they are read."""
        folder = self._scratch()
        self._git(repository, "init", "--quiet", "--bare", folder)
        settings = {"url": self._address(repository), "promisor": "true", "partialclonefilter": "tree:0"}
        for key, value in settings.items():
            self._git(repository, "-C", folder, "config", f"remote.origin.{key}", value)
        return folder

    def hash(self, repository: str, commit: str, *, submodules: bool) -> str:
        """The hash of the files of `commit`, as nixpkgs' fetchFromGitHub and Nix' fetchTarball want it.

        Without submodules, it is that of the archive, which leaves out files with the git attribute `export-ignore`.
        """

        def ask() -> str:
            folder = Path(self._scratch())
            check_out = self._with_submodules if submodules else self._archived
            content = check_out(repository, commit, folder)
            digest = _nix_hash(content)
            shutil.rmtree(folder, ignore_errors=True)
            return digest

        return self._once((repository, commit, str(submodules)), ask)

    def _fetched(self, repository: str, commit: str, folder: Path) -> Callable[..., str]:
        """Git in a new repository in `folder` that has `commit`."""
        tree, address = os.fspath(folder / "tree"), self._address(repository)

        def git(*words: str) -> str:
            return self._git(repository, "-C", tree, *words, bounds=SOURCE)

        self._git(repository, "init", "--quiet", tree, bounds=SOURCE)
        git("fetch", "--quiet", "--depth=1", "--no-tags", "--", address, commit)
        return git

    def _with_submodules(self, repository: str, commit: str, folder: Path) -> Path:
        git = self._fetched(repository, commit, folder)
        git("remote", "add", "origin", self._address(repository))
        git("checkout", "--quiet", "--detach", commit)
        git("submodule", "--quiet", "update", "--init", "--recursive", "--depth=1")
        for path in list((folder / "tree").rglob(".git")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return folder / "tree"

    def _archived(self, repository: str, commit: str, folder: Path) -> Path:
        file = folder / "archive.tar"
        self._fetched(repository, commit, folder)("archive", "--format=tar", "--output", os.fspath(file), commit)
        with tarfile.open(file) as archive:
            archive.extractall(folder / "content", filter="tar")
        return folder / "content"

    def index_versions(self, project: str) -> dict[str, bool]:
        """Whether each version of `project` in the package index was yanked, as a whole."""
        if not self._index:
            raise unreachable(INDEX_VARIABLE, f"{project} is in a package index; set its address")
        if not self._index.startswith(("https://", "http://")):
            raise unreachable(INDEX_VARIABLE, f"{self._index!r} is no address of a package index")
        url = f"{self._index}/{_plain(project)}/"
        data, _ = Server("the index", project).page(url, headers={"Accept": _SIMPLE})
        try:
            page = object_of(data)
        except OSError as error:
            raise unreachable(project, f"the page of the index {why(error)}") from None
        found: dict[str, bool] = {}
        for file in page.get("files", []):
            version = _version_in(str(file.get("filename", "")), project)
            found[version] = found.get(version, True) and bool(file.get("yanked"))
        return {version: yanked for version, yanked in found.items() if version}

    def digest(self, reference: str) -> str:
        """The digest that the tag of a container image names now."""
        return self._once(("image", reference), lambda: registry.digest(reference))

    def page(self, url: str) -> str:
        """The text at `url`; of a release on GitHub, its notes."""
        text = Server("the server", url).page(url)[0].decode("utf-8", "replace")
        try:
            return str(object_of(text)["body"]) if text.startswith("{") else text
        except (OSError, KeyError):
            raise unreachable(url, "the server sent no release") from None

    def checksum(self, url: str) -> str:
        """The SHA-256 of the file at `url`, which is downloaded and not kept."""
        return Server("the server", url).sha256(url, ARCHIVE)

    def _address(self, repository: str) -> str:
        return f"{self._server}/{repository}"

    def _scratch(self) -> str:
        return self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ci-compile-", ignore_cleanup_errors=True))

    def _git(self, repository: str, *words: str, bounds: Bounds | None = None) -> str:
        """What git prints. Raises InputError if it fails or exceeds the bounds: by default those of `LISTING`."""
        bounds = bounds or LISTING
        program = find_program("git", install=_INSTALL_GIT, code=Code.GIT_MISSING)
        local = ("-c", "protocol.file.allow=always") if self._server.startswith("file:") else ()
        limited = ["sh", "-c", 'ulimit -f "$0"; exec "$@"', str(bounds.bytes // 512)]
        ended = ask([*limited, program, *_SAFE, *local, *words], seconds=bounds.seconds, env=self._environment)
        if not ended.status:
            return ended.out
        reason = ended.said or f"git ended with {ended.status}"
        if "signal 25" in ended.err or ended.status in {-25, 153}:  # SIGXFSZ
            reason = f"it is larger than the limit of {bounds.bytes:,} bytes"
        raise unreachable(repository, f"cannot be read: {reason}")


def nixpkgs_heads(heads: Mapping[str, str], stable: int) -> list[str]:
    """The commits of nixpkgs' branches to look at: the unstable ones, then the newest `stable` releases."""
    releases = sorted((name for name in heads if name[-1].isdigit()), reverse=True)[:stable]
    return list(dict.fromkeys(heads[name] for name in [*(head for head in heads if not head[-1].isdigit()), *releases]))


def _nix_hash(folder: Path) -> str:
    program = find_program("nix-hash", install=_INSTALL_NIX, code=Code.NIX_MISSING)
    ended = ask([program, "--type", "sha256", os.fspath(folder)], seconds=SOURCE.seconds)
    if ended.status:
        raise wrong("nix-hash", Code.NIX_FAILED, ended.said)
    return sri(ended.out.strip())


def _version_in(filename: str, project: str) -> str:
    """The version in the name of a wheel or source archive; '' for another file."""
    match = re.match(r"(?P<name>.+?)-(?P<version>[0-9][^-]*?)(-.*\.whl|\.tar\.gz|\.zip)$", filename)
    return match["version"].partition("+")[0] if match and _plain(match["name"]) == _plain(project) else ""


def _plain(project: str) -> str:
    """The name of a project as an index writes it."""
    return re.sub("[-_.]+", "-", project).lower()

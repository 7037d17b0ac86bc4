"""The upstreams: git repositories and a package index, read with limits of time and size.

Only git's own transfer and `nix-hash` run. Nothing that is fetched is executed: no hooks, no filters, no evaluation.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.request import Request

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, wrong
from ci_compiler.github.access import CREDENTIALS
from ci_compiler.outside import object_of, why
from ci_compiler.process import Ended, ask, find_program
from ci_compiler.update import registry, web
from ci_compiler.update.web import ARCHIVE, PAGE, Bounds

SERVER, SERVER_VARIABLE = "https://github.com", "CI_COMPILE_UPSTREAMS"
"""The address in front of OWNER/NAME, and the environment variable that replaces it."""

INDEX_VARIABLE = "PIP_INDEX_URL"
"""The environment variable with the address of a package index (Simple Repository API, PEP 503 and 691)."""

API, API_VARIABLE = "https://api.github.com", "GITHUB_API_URL"
"""The address of GitHub's API, and the environment variable that replaces it."""

_SIMPLE = "application/vnd.pypi.simple.v1+json"

_SAFE = ("-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", "-c", "protocol.ext.allow=never")

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

    `goes_on`: such an error ends no more than the `lookup` that it happens in, and is kept in `unreachable`.
    """

    def __init__(self, environment: Mapping[str, str], *, goes_on: bool = False) -> None:
        self.unreachable: list[Finding] = []
        self._goes_on = goes_on
        self._server = environment.get(SERVER_VARIABLE, "").rstrip("/") or SERVER
        self._index = environment.get(INDEX_VARIABLE, "").rstrip("/")
        self.api = environment.get(API_VARIABLE, "").rstrip("/") or API
        own = {name: value for name, value in environment.items() if name not in CREDENTIALS}
        self._environment = {**own, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}
        self._stack = ExitStack()
        self._known: dict[tuple[str, ...], Any] = {}
        self._digests: dict[str, str] = {}
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
            if not self._goes_on or any(one.code is not Code.UPSTREAM_UNREACHABLE for one in error.findings):
                raise
            self.unreachable += (one for one in error.findings if one not in self.unreachable)

    def tags(self, repository: str) -> dict[str, str]:
        """The commit of each tag of `repository`; that of an annotated tag is the commit that it names."""
        listed = self._listed(repository, "--tags")
        peeled = {name.removesuffix("^{}"): commit for name, commit in listed.items() if name.endswith("^{}")}
        return {name: peeled.get(name, commit) for name, commit in listed.items() if not name.endswith("^{}")}

    def heads(self, repository: str, *patterns: str) -> dict[str, str]:
        """The commit of each branch of `repository` that matches one of git's `patterns`."""
        return self._listed(repository, "--heads", *patterns)

    def _listed(self, repository: str, kind: str, *patterns: str) -> dict[str, str]:
        key = (repository, kind, *patterns)
        if key not in self._known:
            words = ["ls-remote", kind, "--", self._address(repository), *patterns]
            ended = self._git(words, LISTING)
            rows = (line.split("\t") for line in ended.out.splitlines() if "\t" in line)
            listed = {ref.split("/", 2)[-1]: commit for commit, ref in rows}
            self._known[key] = _unreachable(repository, ended, LISTING) if ended.status else listed
        if isinstance(found := self._known[key], InputError):
            raise found
        return dict(found)

    def file(self, repository: str, commit: str, path: str) -> str | None:
        """The text of a file of `commit`, without the rest of the repository; None if there is no such file."""
        folder = self._partial(repository, commit)
        listed = self._git(["-C", folder, "ls-tree", commit, "--", path], LISTING)
        if listed.status:
            raise _unreachable(repository, listed, LISTING)
        if not listed.out.startswith("100"):
            return None
        shown = self._git(["-C", folder, "cat-file", "blob", f"{commit}:{path}"], LISTING)
        if shown.status:
            raise _unreachable(repository, shown, LISTING)
        return shown.out

    def _partial(self, repository: str, commit: str) -> str:
        """A bare repository that has `commit`, and fetches its trees and files when they are read."""
        if (repository,) not in self._known:
            folder = self._scratch()
            for words in (
                ["init", "--quiet", "--bare", folder],
                ["-C", folder, "config", "remote.origin.url", self._address(repository)],
                ["-C", folder, "config", "remote.origin.promisor", "true"],
                ["-C", folder, "config", "remote.origin.partialclonefilter", "tree:0"],
            ):
                self._git(words, LISTING)
            self._known[repository,] = folder
        folder = str(self._known[repository,])
        if (repository, commit) not in self._known:
            words = ["-C", folder, "fetch", "--quiet", "--depth=1", "--filter=tree:0", "--no-tags", "origin", commit]
            ended = self._git(words, LISTING)
            if ended.status:
                raise _unreachable(repository, ended, LISTING)
            self._known[repository, commit] = True
        return folder

    def hash(self, repository: str, commit: str, *, submodules: bool) -> str:
        """The hash of the files of `commit`, as nixpkgs' fetchFromGitHub and Nix' fetchTarball want it.

        Without submodules, it is that of the archive, which leaves out files with the git attribute `export-ignore`.
        """
        key = (repository, commit, str(submodules))
        if key not in self._known:
            folder = Path(self._scratch())
            self._check_out(repository, commit, folder, submodules=submodules)
            content = folder / "content"
            if submodules:
                content = folder / "tree"
                for one in list(content.rglob(".git")):
                    shutil.rmtree(one) if one.is_dir() else one.unlink()
            self._known[key] = _nix_hash(content)
            shutil.rmtree(folder, ignore_errors=True)
        found: str = self._known[key]
        return found

    def _check_out(self, repository: str, commit: str, folder: Path, *, submodules: bool) -> None:
        tree = os.fspath(folder / "tree")
        steps = [
            ["init", "--quiet", tree],
            ["-C", tree, "fetch", "--quiet", "--depth=1", "--no-tags", "--", self._address(repository), commit],
        ]
        if submodules:
            steps += [
                ["-C", tree, "remote", "add", "origin", self._address(repository)],
                ["-C", tree, "checkout", "--quiet", "--detach", commit],
                ["-C", tree, "submodule", "--quiet", "update", "--init", "--recursive", "--depth=1"],
            ]
        else:
            steps += [["-C", tree, "archive", "--format=tar", "--output", os.fspath(folder / "archive.tar"), commit]]
        for words in steps:
            if (ended := self._git(words, SOURCE)).status:
                raise _unreachable(repository, ended, SOURCE)
        if not submodules:
            with tarfile.open(folder / "archive.tar") as archive:
                archive.extractall(folder / "content", filter="tar")

    def index_versions(self, project: str) -> dict[str, bool]:
        """Whether each version of `project` in the package index was yanked, as a whole."""
        if not self._index:
            raise wrong(INDEX_VARIABLE, Code.UPSTREAM_UNREACHABLE, f"{project} is in a package index; set its address")
        page = self._page(project)
        found: dict[str, bool] = {}
        for file in page.get("files", []):
            version = _version_in(str(file.get("filename", "")), project)
            found[version] = found.get(version, True) and bool(file.get("yanked"))
        return {version: yanked for version, yanked in found.items() if version}

    def _page(self, project: str) -> dict[str, Any]:
        url = f"{self._index}/{re.sub('[-_.]+', '-', project).lower()}/"
        if not url.startswith(("https://", "http://")):
            raise wrong(INDEX_VARIABLE, Code.UPSTREAM_UNREACHABLE, f"{self._index!r} is no address of a package index")
        try:
            data, _ = web.page(project, "the index", Request(url, headers={"Accept": _SIMPLE}), PAGE)  # noqa: S310
            page = object_of(data)
        except web.RefusedError as refused:
            raise web.refusal(project, "the index", refused) from None
        except OSError as error:
            raise wrong(project, Code.UPSTREAM_UNREACHABLE, f"the page of the index {why(error)}") from None
        return page

    def digest(self, reference: str) -> str:
        """The digest that the tag of a container image names now."""
        if reference not in self._digests:
            self._digests[reference] = registry.digest(reference)
        return self._digests[reference]

    def page(self, url: str) -> str:
        """The text at `url`; of a release on GitHub, its notes."""
        try:
            data, _ = web.page(url, "the server", Request(url), PAGE)  # noqa: S310 - `web` checks the scheme
        except web.RefusedError as refused:
            raise web.refusal(url, "the server", refused) from None
        text = data.decode("utf-8", "replace")
        try:
            return str(object_of(text)["body"]) if text.startswith("{") else text
        except (OSError, KeyError):
            raise wrong(url, Code.UPSTREAM_UNREACHABLE, "the server sent no release") from None

    def checksum(self, url: str) -> str:
        """The SHA-256 of the file at `url`, which is downloaded and not kept."""
        try:
            return web.sha256(url, "the server", Request(url), ARCHIVE)  # noqa: S310 - `web` checks the scheme
        except web.RefusedError as refused:
            raise web.refusal(url, "the server", refused) from None

    def _address(self, repository: str) -> str:
        return f"{self._server}/{repository}"

    def _scratch(self) -> str:
        return self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ci-compile-", ignore_cleanup_errors=True))

    def _git(self, words: list[str], bounds: Bounds) -> Ended:
        program = find_program("git", install=_INSTALL_GIT, code=Code.GIT_MISSING)
        local = ("-c", "protocol.file.allow=always") if self._server.startswith("file:") else ()
        limited = ["sh", "-c", 'ulimit -f "$0"; exec "$@"', str(bounds.bytes // 512)]
        return ask([*limited, program, *_SAFE, *local, *words], seconds=bounds.seconds, env=self._environment)


def nixpkgs_heads(heads: Mapping[str, str], stable: int) -> list[str]:
    """The commits of nixpkgs' branches to look at: the unstable ones, then the newest `stable` releases."""
    releases = sorted((name for name in heads if name[-1].isdigit()), reverse=True)[:stable]
    return list(dict.fromkeys(heads[name] for name in [*(one for one in heads if not one[-1].isdigit()), *releases]))


def _nix_hash(folder: Path) -> str:
    program = find_program("nix-hash", install=_INSTALL_NIX, code=Code.NIX_MISSING)
    ended = ask([program, "--type", "sha256", os.fspath(folder)], seconds=SOURCE.seconds)
    if ended.status:
        raise wrong("nix-hash", Code.NIX_FAILED, ended.said)
    return f"sha256-{base64.b64encode(bytes.fromhex(ended.out.strip())).decode()}"


def _version_in(filename: str, project: str) -> str:
    """The version in the name of a wheel or source archive; '' for another file."""
    found = re.match(r"(?P<name>.+?)-(?P<version>[0-9][^-]*?)(-.*\.whl|\.tar\.gz|\.zip)$", filename)
    same = found and re.sub("[-_.]+", "-", found["name"]).lower() == re.sub("[-_.]+", "-", project).lower()
    return found["version"].partition("+")[0] if found and same else ""


def _unreachable(repository: str, ended: Ended, bounds: Bounds) -> InputError:
    said = ended.said or f"git ended with {ended.status}"
    if "signal 25" in ended.err or ended.status in {-25, 153}:  # SIGXFSZ
        said = f"it is larger than the limit of {bounds.bytes:,} bytes"
    return wrong(repository, Code.UPSTREAM_UNREACHABLE, f"cannot be read: {said}")

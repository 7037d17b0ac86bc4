"""Local upstreams: git repositories whose tags and branches a test moves, and a package index."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.repositories import commit, init

WHEN = {"GIT_AUTHOR_DATE": "2026-02-07T00:00:00Z", "GIT_COMMITTER_DATE": "2026-02-07T00:00:00Z"}
WHO = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
TORCH, VISION, AUDIO, NIXPKGS = "pytorch/pytorch", "pytorch/vision", "pytorch/audio", "NixOS/nixpkgs"
PYTHON_MODULES = "pkgs/development/python-modules"

FILES = {
    "torch": """\
{ writeShellScript, git-unroll }:
let
  unroll-src = writeShellScript "unroll-src" ''
    echo "{
      version,
    }:
    assert version == $1;"
  '';
in
buildPythonPackage.override { stdenv = stdenv'; } (finalAttrs: {
  pname = "torch";
  # Don't forget to update torch-bin to the same version.
  version = "@";
})
""",
    "torchvision": """\
let
  pname = "torchvision";
  version = "@";
in
buildPythonPackage {
  inherit pname version;
}
""",
    "vllm": """\
let
  flashmla = stdenv.mkDerivation {
    pname = "flashmla";
    # https://github.com/vllm-project/FlashMLA/blob/${src.rev}/setup.py
    version = "1.0.0";
  };
in
buildPythonPackage.override { stdenv = torch.stdenv; } (finalAttrs: {
  pname = "vllm";
  version = "@";
})
""",
}
"""The lines about versions in the files of nixpkgs, in their order there; `@` is the version."""


class Upstreams:
    """Repositories under one folder, by OWNER/NAME."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"file://{folder}"

    def git(self, repository: str, *words: str) -> str:
        command = ["git", "-C", str(self.folder / repository), "-c", "protocol.file.allow=always", *words]
        environment = {**os.environ, **WHEN, **WHO}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()

    def commit(self, repository: str, files: Mapping[str, str]) -> str:
        """Commits `files` to the repository, which is made first if there is none yet."""
        root = self.folder / repository
        if not root.exists():
            init(root, "[uploadpack]\n\tallowFilter = true\n\tallowAnySHA1InWant = true\n")
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, "utf-8")
        return commit(root, env={**os.environ, **WHEN, **WHO})

    def tag(self, repository: str, *tags: str, text: str = "") -> str:
        """Commits a file for the tags, and (re)moves them there; returns the commit. The first is an annotated tag."""
        made = self.commit(repository, {"version.txt": f"{repository} {tags[0]} {text}\n"})
        for tag in tags:
            self.git(repository, "tag", "-f", *(("-a", "-m", tag) if tag == tags[0] else ()), tag)
        return made

    def release(self, torch: str, vision: str, audio: str) -> None:
        """Releases the three packages; '' for one that is not released."""
        for repository, version in ((TORCH, torch), (VISION, vision), (AUDIO, audio)):
            if version:
                self.tag(repository, f"v{version}-rc1", f"v{version}")

    def nixpkgs(self, branch: str, **versions: str) -> str:
        """Commits `versions` by attribute to nixpkgs, and moves `branch` there; returns the commit."""
        files = {
            f"{PYTHON_MODULES}/{name}/{'source/' * (name == 'torch')}default.nix": FILES.get(
                name, f'buildPythonPackage rec {{\n  pname = "{name}";\n  version = "@";\n}}\n'
            ).replace("@", version)
            for name, version in versions.items()
        }
        made = self.commit(NIXPKGS, files)
        self.git(NIXPKGS, "branch", "-f", branch, made)
        return made


Answer = tuple[int, Mapping[str, str], bytes]


@contextmanager
def package_index(pages: Mapping[str, Any]) -> Iterator[str]:
    """Serves `pages` by project: the versions, with whether each was yanked, or (status, headers, body)."""

    def answer(path: str, _: Mapping[str, str]) -> Answer:
        page = pages.get(path.strip("/").split("/")[-1], (404, {}, b""))
        if isinstance(page, dict):
            files = [{"filename": f"torch-{one}-cp313-none-any.whl", "yanked": gone} for one, gone in page.items()]
            page = (200, {"Content-Type": "application/json"}, json.dumps({"files": files}).encode())
        found: Answer = page
        return found

    with served(answer) as address:
        yield f"{address}/simple"


@contextmanager
def served(answer: Callable[[str, Mapping[str, str]], Answer]) -> Iterator[str]:
    """Serves on the loopback what `answer` returns for a path and the headers of its request; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = answer(self.path, self.headers)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""Images that are built again have the same packages: the real apt, with an archive that changes in between."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.checkers import require

from .buildah import IMAGES

DATE = "20261101T000000Z"
PINNED = f"http://snapshot.debian.org/archive/debian/{DATE}"
MOVING = "http://deb.debian.org/debian"


class Archive(ThreadingHTTPServer):
    """A proxy that serves an archive at two addresses: as it was at DATE, and as it is."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.versions = {PINNED: "1.0", MOVING: "1.0"}


class Answer(BaseHTTPRequestHandler):
    """Answers with the list of packages."""

    def do_GET(self) -> None:
        """One package for every architecture; nothing else exists."""
        assert isinstance(self.server, Archive)
        version = next((one for start, one in self.server.versions.items() if self.path.startswith(f"{start}/")), "")
        text = (
            f"Package: tool\nVersion: {version}\nArchitecture: all\nFilename: tool.deb\nSize: 1\nSHA256: {'0' * 64}\n"
        )
        body = text.encode() if version and self.path.endswith("/Packages") else b""
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@pytest.fixture
def archive() -> Iterator[Archive]:
    with Archive() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def packages(folder: Path, archive: Archive, date: str) -> str:
    """The packages that the steps of a Containerfile would install, in a fresh base image."""
    etc = folder / "etc"
    for name in ("etc/sources.list.d", "etc/apt.conf.d", "etc/preferences.d", "lists/partial", "cache/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (etc / "sources.list").write_text(f"deb [trusted=yes allow-insecure=yes] {MOVING} bookworm main\n", "utf-8")
    subprocess.run([IMAGES / "builder/use-snapshot", date, etc], check=True)
    settings = {
        "Dir::Etc": etc,
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Acquire::http::Proxy": f"http://127.0.0.1:{archive.server_port}",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "1",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    env = {"PATH": os.defpath, "LC_ALL": "C", "APT_CONFIG": os.devnull}
    apt = [require("apt-get"), "--quiet=2", *options]
    subprocess.run([*apt, "update"], env=env, check=False, capture_output=True)
    done = subprocess.run([*apt, "install", "--simulate", "tool"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("date", "same"), [(DATE, True), ("", False)])
def test_an_image_that_is_built_again_has_the_same_packages(
    date: str, same: bool, archive: Archive, tmp_path: Path
) -> None:
    first = packages(tmp_path / "first", archive, date)
    archive.versions[MOVING] = "2.0"
    second = packages(tmp_path / "second", archive, date)
    assert "Inst tool (1.0" in first
    assert (second == first) is same

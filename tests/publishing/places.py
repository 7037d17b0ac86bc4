"""Wheels, and local servers of what is published."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from ci_compiler.publishing.plan import Upload

COMMIT = "c0ffee" + "0" * 34


def wheel(
    folder: Path,
    version: str = "1.4.0",
    *,
    variant: str = "fastpath-cpu",
    text: str = "",
    commit: str = COMMIT,
    metadata: str = "",
) -> Upload:
    """A wheel of the project `fastpath` whose module has `text`; `metadata` are more lines of its METADATA."""
    info, name = f"fastpath-{version}.dist-info", f"fastpath-{version}-py3-none-any.whl"
    files = {
        "fastpath.py": f"TEXT = {text!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: fastpath\nVersion: {version}\nRequires-Python: >=3.9\n"
        + metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: ci\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path), content)
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return Upload(name, digest, folder / name, variant, version, commit)


class _Build(NamedTuple):
    name: str
    version: str
    commit: str
    closure: dict[str, str]


def build_of(file: Upload) -> Any:
    """What the manifest of a build of one wheel states."""
    return _Build(file.variant, file.version, file.commit, {f"files/{file.name}": f"sha256:{file.digest}"})


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server on the loopback interface."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=partial(server.serve_forever, poll_interval=0.01))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def serving_folder(folder: Path) -> AbstractContextManager[str]:
    """Serves the files of `folder`."""
    return serving(partial(_Quiet, directory=str(folder)))

"""The fuzz targets: each accepts any bytes and ends without a traceback. Wrong input may only raise InputError."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from github.Requester import Requester

from ci_compiler.checkout import head_branch
from ci_compiler.errors import InputError
from ci_compiler.github.access import Access, access
from ci_compiler.github.client import Client, Patience
from ci_compiler.github.inventory import inventory
from ci_compiler.github.registration import Registrar
from ci_compiler.github.status import status
from ci_compiler.hardware import tables
from ci_compiler.hardware.families.cuda.devices import GpuTexts
from ci_compiler.hardware.families.cuda.libcuda import cached_libraries
from ci_compiler.hardware.texts import Answer
from ci_compiler.plan.pipeline import plan
from ci_compiler.recipes.identifiers import mentions
from ci_compiler.recipes.render import recipes
from ci_compiler.recipes.shell_variables import exported, words
from ci_compiler.runner.detect.recorded import Recorded, build_folder, first_error, machine, mounts
from ci_compiler.secret import Secret
from ci_compiler.spec.build import parse_spec
from ci_compiler.sync.compiled import compile_files
from tests.specs import small, spec_of

LARGEST = 4096
"""The largest input in bytes; most bugs need only small inputs."""

CELLS = 400
"""The number of cells above which a spec is only loaded: the benchmarks compile large specs."""

CUT = b"\n%%\n"
"""The separator between the texts of an input that has several."""


def spec(data: bytes) -> None:
    """The spec loader; a valid spec is compiled, with its recipes."""
    with suppress(InputError):
        loaded = parse_spec(data, shown="ci-matrix.yaml")
        rows = [row for _, matrix, _ in loaded.matrices for _, row in matrix.combinations]
        if len(loaded.branches) * sum(math.prod(map(len, row.values())) for row in rows) <= CELLS:
            decided = plan(loaded)
            compile_files(decided)
            for branch in loaded.branches:
                recipes(loaded, decided.judged, branch)


def read_recipes(data: bytes) -> None:
    """The readers of recipes: of Nix, and of the shell code in it."""
    text = data.decode("utf-8", errors="replace")
    found = mentions(text)
    assert found.members <= found.names
    for value in exported(text, {"CXXFLAGS": "-O2"}).values():
        words(value)


def detect(data: bytes) -> None:
    """The parsers of a machine's files and of the output of its tools."""
    texts = data.decode("utf-8", errors="replace").split(CUT.decode())
    cpuinfo, lscpu, smi, config, conf, trial, meminfo, release, limits, flox, linker = (texts + [""] * 11)[:11]
    recorded = Recorded(
        machine="x86_64",
        cpuinfo=cpuinfo,
        lscpu=lscpu,
        gpus={"cuda": GpuTexts(smi=Answer(status=0, out=smi, err=smi))},
        nix=Answer(status=0, out=flox),
        nix_config=Answer(status=0, out=config),
        nix_conf=conf,
        trial=Answer(status=0, out=trial),
        meminfo=meminfo,
        os_release=release,
        cpu_limits=(limits,),
        memory_limits=(limits,),
        flox=Answer(status=0, out=flox),
        engines={"podman": Answer(status=0, out=flox, err=limits)},
    )
    for one in (recorded, replace(recorded, machine="aarch64", nix_config=None, trial=Answer(status=1, err=trial))):
        found = machine(one, tables())
        build_folder(one, mounts(trial), "/tmp")  # noqa: S108  (a name, nothing is written)
        for line in (found.os, found.cpu, found.virtual, *found.problems):
            assert line.isprintable(), line
    first_error(trial)
    cached_libraries(linker, "libcuda.so.1", "x86_64")


def checkout(data: bytes) -> None:
    """The readers of the checkout, the login and the environment that give access to GitHub."""
    texts = (data.split(CUT) + [b""] * 4)[:4]
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".git").mkdir()
        (folder / ".git/HEAD").write_bytes(texts[0])
        (folder / ".git/config").write_bytes(texts[1])
        (folder / "hosts.yml").write_bytes(texts[2])
        address = texts[3].decode("utf-8", errors="replace").replace("\0", "")
        for environment in ({"GITHUB_TOKEN": "x"}, {"GH_CONFIG_DIR": name, "GITHUB_API_URL": address}):
            with suppress(InputError):
                access(environment, folder)
        with suppress(InputError):
            head_branch(folder)


def github(data: bytes) -> None:
    """The code that reads GitHub's responses: each part of the input is the next one, its status and headers first."""
    connection = _connection(data)
    Requester.injectConnectionClasses(connection, connection)
    try:
        for ask in _ASKS:
            with suppress(InputError):
                ask(_client())
    finally:
        Requester.resetConnectionClasses()


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "spec": spec,
    "recipes": read_recipes,
    "machine": detect,
    "checkout": checkout,
    "github": github,
}
"""The targets by name; the corpus of each is the folder of that name."""


# GitHub, without a network.


class _Still:
    """A clock that stands still and does not wait."""

    def now(self) -> float:
        return 1_800_000_000.0

    def passed(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0


class _Answer:
    """An answer as PyGithub gets it from its connection."""

    def __init__(self, data: bytes) -> None:
        head, _, body = data.partition(b"\n\n")
        first, *rest = head.decode("latin-1").splitlines() or [""]
        digits = first.strip()
        self.status = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) == 3 else 200
        self.headers = {name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
        self.text = body.decode("utf-8", errors="replace")

    def getheaders(self) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self.headers.items() if name != "location"]

    def read(self) -> str:
        return self.text

    def json(self) -> Any:
        return json.loads(self.text)


def _connection(data: bytes) -> Any:
    """A class of connections that respond with the parts of `data`, one after the other, and then with errors."""
    left = data.split(CUT)

    class Connection:
        def __init__(self, *_arguments: object, **_options: object) -> None:
            self.host = "api.github.com"

        def request(self, *_arguments: object, **_options: object) -> None:
            """Nothing is sent."""

        def getresponse(self) -> _Answer:
            return _Answer(left.pop(0) if left else b"404\n\n{}")

        def close(self) -> None:
            """Nothing is open."""

    return Connection


def _client() -> Client:
    own = Access(api="https://api.github.com", repository="my-org/build-pytorch", credential=Secret("x"))
    return Client(own, say=str, clock=_Still(), patience=Patience(attempts=2, longest_wait=1e6))


_PLAN = plan(spec_of(small()))

_ASKS: tuple[Callable[[Client], object], ...] = (
    inventory,
    lambda client: Registrar(client, organisation=True).group(""),
    lambda client: Registrar(client).register("one", ("self-hosted",), 1),
    lambda client: Registrar(client).named("one"),
    lambda client: Registrar(client).remove(1),
    lambda client: list(status(client, _PLAN)),
)

"""Specs for tests: a small one to vary, and hypothesis strategies for whole ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from ci_compiler.errors import Finding, InputError
from ci_compiler.hardware import CPU, tables
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.model import Spec

PIN = "fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3"

HASH = "sha256-" + "A" * 43 + "="

UNKNOWN_PIN = "0123456789abcdef0123456789abcdef01234567"
"""A commit of nixpkgs whose versions no table knows: a spec may state any."""

SMALL: dict[str, Any] = {
    "version": 1,
    "owner": "my-org",
    "branches": {
        "main": {
            "cuda": "12.8",
            "nixpkgs": PIN,
            "nixpkgs-hash": HASH,
            "versions": {"pytorch": "2.8.0", "torchvision": "0.23.0"},
        }
    },
    "packages": {"pytorch": {"attribute": "torch"}, "torchvision": {"needs": ["pytorch"]}},
    "matrix": {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2", "avx512"]}, "gpus": {"cpu": {}, "sm90": {}}},
    "runners": {
        "builder": {"runs-on": ["self-hosted", "linux", "x64", "nix-builder"], "cpu": ["avx512"], "count": 2},
        "h100": {"runs-on": ["self-hosted", "linux", "x64", "gpu-sm90"], "gpu": "sm90", "cpu": ["avx512"]},
    },
    "publish": {"on-shared-machines": True},
}


Said = tuple[str, str, str]
"""An expected finding: its code, a part of its message, and the text at its place in the spec."""

STARTED: dict[str, Any] = {
    "push": {"batch": "60m"},
    "nightly": {"schedule": {"days": ["sun"]}, "build": "changed"},
    "release": {"tags": ["v*"]},
}
"""Profiles whose runs `ci-compile start` starts."""

MAIN: dict[str, Any] = SMALL["branches"]["main"]
MATRIX: dict[str, Any] = {
    "python": ["3.13"],
    "isas": {"x86_64-linux": ["avx2", "avx512"]},
    "gpus": {"cpu": {}, "sm90": {}},
}
CACHE = {"cache": {"url": "s3://store", "public-key": "store-1:0f8Hk9JvJ9bGmYVvHyuZQ6lZkkYHkS7pq2LZ4wWrbSg="}}
"""A binary cache, which `ci-runner deploy arc` needs."""
SOURCE = {"repository": "o/r", "tag": "v1", "hash": HASH}


def small(**changes: Any) -> dict[str, Any]:
    """A copy of the small spec with top-level keys replaced; those of `publish` are added to its own."""
    document: dict[str, Any] = json.loads(json.dumps(SMALL))
    if "publish" in changes:
        changes["publish"] = document["publish"] | changes["publish"]
    return document | changes


def spec_of(document: dict[str, Any]) -> Spec:
    """The spec of a document (JSON is YAML)."""
    return parse_spec(json.dumps(document).encode(), shown="ci-matrix.yaml")


def errors_in(document: dict[str, Any]) -> Sequence[Finding]:
    """The errors for which a document is no spec."""
    try:
        spec_of(document)
    except InputError as error:
        return error.findings
    return ()


def branches(**changes: Any) -> dict[str, Any]:
    """The small spec's branch with keys changed."""
    return {"branches": {"main": MAIN | changes}}


def matrix(**changes: Any) -> dict[str, Any]:
    """The small spec's matrix with keys changed."""
    return {"matrix": MATRIX | changes}


def excluding(*entries: dict[str, Any]) -> dict[str, Any]:
    """The small spec's matrix with exclusions."""
    return matrix(exclude=[{"because": "nobody wants it"} | entry for entry in entries])


def builder(**changes: Any) -> dict[str, Any]:
    """One pool to build on, with keys changed."""
    pool = {"runs-on": ["self-hosted", "linux", "x64", "b"], "cpu": ["avx512"], "count": 2}
    return {"runners": {"builder": pool | changes}}


def assert_said(document: dict[str, Any], found: Sequence[Finding], expected: Sequence[Said]) -> None:
    """Asserts that `found` are the `expected` findings about `document`, each at its place."""
    text = json.dumps(document)
    assert [finding.code for finding in found] == [code for code, _, _ in expected]
    for finding, (_, message, there) in zip(found, expected, strict=True):
        assert message in finding.message
        assert (finding.place.line, text[finding.place.column - 1 :][: len(there)]) == (1, there)


def _pool(name: str, system: str, isas: list[str], gpu: str = "", count: int = 1) -> dict[str, Any]:
    row = tables().systems[system]
    entry = {"runs-on": ["self-hosted", row.os.lower(), row.label.lower(), name], "cpu": isas, "count": count}
    return entry | ({"gpu": gpu} if gpu else {})


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Whole specs that compile: up to 3 branches, 3 Pythons, 5 GPUs, all ISAs, 4 packages, exclusions and pools."""
    hardware = tables()
    by_system = {
        system: [isa.name for isa in hardware.isas.values() if isa.system == system] for system in hardware.systems
    }
    count = draw(st.integers(1, 4))
    packages = {
        f"p{index}": {"needs": [f"p{index - 1}"] if index and draw(st.booleans()) else []} for index in range(count)
    }
    cudas = draw(st.lists(st.sampled_from(sorted(hardware.toolkits)), min_size=1, max_size=3))
    branches = {
        f"b{index}/x" if index == 2 else f"b{index}": {
            "cuda": cuda,
            "nixpkgs": PIN,
            "versions": {name: f"{index}.{draw(st.integers(0, 9))}" for name in packages},
        }
        for index, cuda in enumerate(cudas)
    }
    isas = {system: draw(st.lists(st.sampled_from(names), unique=True)) for system, names in by_system.items()}
    if not any(isas.values()):
        isas["x86_64-linux"] = ["avx2"]
    usable = [
        gpu.name
        for gpu in hardware.gpus.values()
        if any(isas[system] for system in gpu.systems)
        and any(
            gpu.first_toolkit <= hardware.toolkit(cuda).version
            and (gpu.last_toolkit or (99, 0)) >= hardware.toolkit(cuda).version
            for cuda in cudas
        )
    ]
    gpus = [CPU, *draw(st.lists(st.sampled_from(usable), unique=True, max_size=4))] if usable else [CPU]
    pools = {
        f"build-{system.replace('_', '-')}": _pool(f"nix-{system}", system, names, count=draw(st.integers(1, 9)))
        for system, names in by_system.items()
    }
    for gpu in draw(st.lists(st.sampled_from(usable), unique=True, max_size=3)) if usable else []:
        system = draw(st.sampled_from(sorted(hardware.gpu(gpu).systems)))
        some = draw(st.lists(st.sampled_from(by_system[system]), unique=True))
        pools[f"gpu-{gpu}"] = _pool(f"gpu-{gpu}", system, some, gpu)
    return small(
        branches=branches,
        packages=packages,
        matrix={
            "python": draw(st.lists(st.sampled_from(["3.11", "3.12", "3.13"]), min_size=1, unique=True)),
            "isas": isas,
            "gpus": {gpu: {} for gpu in gpus},
        },
        runners=pools,
        tests={"benchmark": "where-routed"} if draw(st.booleans()) else {},
        **{"pull-request": {"cells": draw(st.integers(0, 20))}},
    )

"""A document becomes a complete spec: over the bundled one, with a pin for each toolkit, and with whole pools."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_compiler import __version__
from ci_compiler.errors import InputError
from ci_compiler.hardware import tables
from ci_compiler.hardware.families import NONE, files_of
from ci_compiler.spec.build import (
    BUNDLED,
    BUNDLED_SHOWN,
    STARTERS,
    build_spec,
    bundled_spec,
    load_spec,
    parse_spec,
    starters,
)
from ci_compiler.spec.load import read_document
from ci_compiler.spec.model import Pool, Spec
from ci_compiler.stages import BENCHMARK, BUILD, CPU_TEST, GPU_TEST, PUBLISH, Stage
from tests.specs import HASH, MAIN, PIN, SOURCE, UNKNOWN_PIN, branches, builder, small, spec_of


def test_the_template_of_torch_is_the_first_of_those_by_name() -> None:
    folders = sorted(path.name for path in BUNDLED.parent.iterdir() if path.is_dir() and path.name != "torch")
    assert starters() == ["torch", *folders]
    assert len(folders) > 2
    assert load_spec(STARTERS / "torch/.github/ci-matrix.yaml", shown="first.yaml").place("owner").file == "first.yaml"


# The bundled spec, and specs over it.


def torch(text: str) -> Spec:
    return parse_spec(text.encode(), shown="own.yaml")


def test_a_spec_that_names_the_bundled_one_alone_is_the_bundled_one() -> None:
    alone, bundled = torch("bundled: torch\n"), bundled_spec()
    assert replace(alone, document=bundled.document, bundled=None) == bundled
    assert (alone.document.file, alone.place("owner").file) == (BUNDLED_SHOWN, BUNDLED_SHOWN)


def test_a_key_replaces_that_of_the_bundled_spec_with_its_places() -> None:
    spec, bundled = torch("bundled: torch\nowner: me\ntests: {gpu-test: required}  # guessed\n"), bundled_spec()
    assert (spec.owner, spec.packages, spec.pools == bundled.pools) == ("me", bundled.packages, False)
    assert (spec.document.file, spec.document.guessed) == ("own.yaml", (3,))
    places = [spec.place("owner"), spec.place("tests", "gpu-test", key=True), spec.place("packages", "torchvision")]
    assert [(place.file, place.line) for place in places] == [
        ("own.yaml", 2),
        ("own.yaml", 3),
        (BUNDLED_SHOWN, bundled.place("packages", "torchvision").line),
    ]
    assert spec.document.typed[("version",)] == "1"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pytorch", "'pytorch' is not a bundled spec; the only one is torch"),
        (
            "jax",
            "'jax' is not a bundled spec; the only one is torch; `ci-compile init --template jax` writes a first spec",
        ),
    ],
)
def test_an_unknown_bundled_spec_is_an_error(name: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        torch(f"owner: me\nbundled: {name}\n")
    assert [(one.code, one.message, str(one.place)) for one in raised.value.findings] == [
        ("wrong-value", message, "own.yaml:2:10")
    ]


@pytest.mark.parametrize("text", ["bundled", "[bundled]", "7"])
def test_a_spec_must_be_a_mapping(text: str) -> None:
    with pytest.raises(InputError, match="is not a ci-compiler spec"):
        torch(text)


# Hardware.


def test_declared_hardware_is_in_the_tables_of_the_spec() -> None:
    assert spec_of(small()).hardware is tables()
    spec = spec_of(small(hardware={"gpus": {"sm90": {"products": ["H100"]}}, "toolkits": {"12.8": None}}))
    assert spec.hardware.gpu("sm90").products == ("H100",)
    assert spec.hardware.toolkits == tables().toolkits


def test_wrong_hardware_is_reported_in_the_order_of_the_file() -> None:
    rows = {"isas": {"avx2": {"includes": ["avx9"]}}, "gpus": {"sm90": {"capability": "9.1"}, "sm130": {}}}
    with pytest.raises(InputError) as raised:
        spec_of(small(hardware=rows))
    assert [one.code for one in raised.value.findings] == ["unknown-isa", "wrong-hardware", "missing-key"]


# Branches.

OWN = MAIN | {"pnames": {"pytorch": "p", "torchvision": "v"}, "work-arounds": ["torch-cccl"], "allow-broken": True}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, (PIN, HASH, {"pytorch": "p", "torchvision": "v"}, ("torch-cccl",), True)),
        (None, (PIN, HASH, {"pytorch": "p", "torchvision": "v"}, ("torch-cccl",), True)),
        ({"nixpkgs": UNKNOWN_PIN}, (UNKNOWN_PIN, "", {"pytorch": "p", "torchvision": "v"}, ("torch-cccl",), True)),
        (
            {"nixpkgs": UNKNOWN_PIN, "nixpkgs-hash": HASH.replace("A", "B"), "allow-broken": False},
            (UNKNOWN_PIN, HASH.replace("A", "B"), {"pytorch": "p", "torchvision": "v"}, ("torch-cccl",), False),
        ),
        (
            {"pnames": {"pytorch": "q"}, "work-arounds": []},
            (PIN, HASH, {"pytorch": "q", "torchvision": "v"}, (), True),
        ),
    ],
)
def test_an_entry_of_a_toolkit_refines_its_branch(entry: Any, expected: tuple[Any, ...]) -> None:
    spec = spec_of(small(branches={"main": OWN | {"cuda": {"12.8": entry}}}))
    pin = spec.branches["main"].toolkits["12.8"]
    assert (pin.nixpkgs, pin.nixpkgs_hash, pin.pnames, pin.work_arounds, pin.allow_broken) == expected


def test_each_toolkit_of_a_branch_has_a_pin_of_its_own() -> None:
    changes = {"cuda": {"12.8": {}, "12.9": {"sources": {"pytorch": SOURCE}}}}
    pins = spec_of(small(**branches(**changes))).branches["main"].toolkits
    assert {name: (pin.nixpkgs, list(pin.sources)) for name, pin in pins.items()} == {
        "12.8": (PIN, []),
        "12.9": (PIN, ["pytorch"]),
    }
    plain = spec_of(small()).branches["main"].toolkits
    assert {name: pin.nixpkgs_hash for name, pin in plain.items()} == {"12.8": HASH}


# Packages.


def test_a_package_is_called_by_its_name_unless_it_says_otherwise() -> None:
    rows = {"pytorch": {"attribute": "torch", "title": "PyTorch"}, "torchvision": {"preset": "package"}}
    packages = spec_of(small(packages=rows)).packages
    assert [(one.attribute, one.title, one.preset) for one in packages.values()] == [
        ("torch", "PyTorch", "torch"),
        ("torchvision", "torchvision", "package"),
    ]
    assert [set(one.overrides) for one in packages.values()] == [{NONE, *files_of("presets.json")}] * 2


# Pools.


def pool(**changes: Any) -> Pool:
    (only,) = spec_of(small(**builder(**changes), matrix=small()["matrix"] | {"gpus": {"cpu": {}}})).pools
    return only


@pytest.mark.parametrize(
    ("labels", "isa", "system"),
    [
        (["linux", "x64"], "avx2", "x86_64-linux"),
        (["Linux", "X64"], "avx2", "x86_64-linux"),
        (["linux", "arm64"], "armv9", "aarch64-linux"),
        (["macOS", "ARM64"], "", "aarch64-darwin"),
    ],
)
def test_the_system_of_a_pool_is_that_of_its_labels(labels: list[str], isa: str, system: str) -> None:
    assert pool(**{"runs-on": labels, "cpu": [isa] if isa else []}).system == system


def test_a_pool_that_names_its_system_needs_no_label() -> None:
    assert pool(**{"runs-on": ["big"], "system": "x86_64-linux"}).system == "x86_64-linux"
    assert pool(**{"runs-on": ["arm64"], "cpu": [], "system": "x86_64-linux"}).system == "x86_64-linux"
    for labels in (["big"], ["macOS", "X64"]):
        with pytest.raises(InputError, match="no label of builder says x64 or arm64"):
            pool(**{"runs-on": labels})


def test_a_pool_of_hosted_machines_has_their_size() -> None:
    document = small(runners={"mac": {"hosted": "macos-15"}, "builder": small()["runners"]["builder"]})
    mac = spec_of(document).pools[0]
    assert (mac.runs_on.labels, mac.system) == (("macos-15",), "aarch64-darwin")
    assert (mac.cores, mac.memory, mac.disk) == (3, 7, 14)


CPU = [BUILD, CPU_TEST, PUBLISH]
GPU = [CPU_TEST, GPU_TEST]


@pytest.mark.parametrize(
    ("own", "spec", "builder_stages", "gpu_stages"),
    [
        ({}, {}, CPU, GPU),
        ({}, {"tests": {"benchmark": "where-routed"}}, [BUILD, CPU_TEST, BENCHMARK, PUBLISH], [*GPU, BENCHMARK]),
        ({"stages": ["build"]}, {}, [BUILD], GPU),
        ({"stages": ["publish"]}, {}, [PUBLISH], GPU),
    ],
)
def test_a_pool_runs_the_usual_stages_unless_it_lists_some(
    own: dict[str, Any], spec: dict[str, Any], builder_stages: list[Stage], gpu_stages: list[Stage]
) -> None:
    document = small(**spec)
    document["runners"]["builder"] |= own
    document["runners"]["further"] = document["runners"]["builder"] | {"stages": ["build"]}
    first, second, _ = spec_of(document).pools
    assert (list(first.stages), list(second.stages)) == (builder_stages, gpu_stages)


def test_publishing_is_left_to_the_pool_that_does_nothing_else() -> None:
    document = small()
    document["runners"]["publisher"] = document["runners"]["builder"] | {"stages": ["publish"]}
    assert [list(one.stages) for one in spec_of(document).pools] == [[BUILD, CPU_TEST], GPU, [PUBLISH]]


def test_a_pool_has_the_image_of_the_owner_for_its_kind() -> None:
    document = small(owner="My-Org")
    document["runners"]["own"] = document["runners"]["builder"] | {"image": "example.org/x:1"}
    assert [one.image for one in spec_of(document).pools] == [
        f"ghcr.io/my-org/ci-builder:{__version__}",
        f"ghcr.io/my-org/ci-gpu-tester:{__version__}",
        "example.org/x:1",
    ]


def test_an_accelerator_is_the_gpu_of_its_pool_and_has_a_row() -> None:
    document = small()
    document["runners"]["mi300"] = {"runs-on": ["linux", "x64", "mi300"], "accelerator": "rocm gfx942"}
    spec = spec_of(document)
    assert [one.gpu for one in spec.pools] == ["", "sm90", "gfx942"]
    assert (spec.hardware.gpu("gfx942").family, spec.pools[2].stages) == ("rocm", tuple(GPU))


# Errors.


def test_all_errors_in_names_are_reported_together_and_after_those_of_the_schema(tmp_path: Path) -> None:
    document = small(**branches(cuda="12.99", **{"work-arounds": ["no-such"]}))
    path = tmp_path / "spec.yaml"
    for changes, codes in (({}, ["unknown-toolkit", "unknown-work-around"]), ({"ownr": "x"}, ["unknown-key"])):
        path.write_text(json.dumps(document | changes), "utf-8")
        with pytest.raises(InputError) as raised:
            build_spec(read_document(path, shown="s"))
        assert [one.code for one in raised.value.findings] == codes

"""The addresses under which variants are published and installed: what the spec determines must tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError
from ci_compiler.plan.pipeline import plan
from tests.specs import spec_of

GPUS: dict[str, Any] = {"sm90": {}, "sm120": {}}
ISAS = ["avx2", "avx512"]
OPEN = {"values": {"python": "3.13", "abi": ["old", "new"], "platform": "x86_64-linux"}}
INDEX = {"to": "wheel-index", "url": "/srv/wheels"}
RELEASE = {"to": "github-release"}
TRUSTED = {"to": "trusted-publishing", "url": "https://up.example", "index": "https://simple.example"}
REGISTRY = {"to": "registry", "url": "https://registry.example/o/@isa@"}
PIP = "pip install fast==@version@"


def said(
    publish: Any,
    *,
    files: str = "dist/*.whl",
    install: str = "ci/get.sh",
    gpus: dict[str, Any] | None = None,
    isas: list[str] | None = None,
    **more: Any,
) -> list[str]:
    """The errors about a package with one address too few, without the place in the spec."""
    version = more.pop("version", None)
    command = {"build": "ci/b.sh", "files": [files], "install": install, "publish": publish}
    command |= {} if "s3:" in str(publish) else {"secrets": []}
    document = {
        "version": 1,
        "owner": "o",
        "backend": "command",
        "branches": {"main": {"cuda": "12.8", "versions": {"fast": "1.0"}}},
        "packages": {"fast": {"untested": "here", "command": command | ({"version": version} if version else {})}},
        "matrix": {"python": ["3.13"], "isas": {"x86_64-linux": isas or ["avx2"]}, "gpus": gpus or {"cpu": {}}},
        "publish": {"on-shared-machines": True},
        "runners": {"b": {"runs-on": ["self-hosted", "linux", "x64", "b"], "cpu": ["avx512"]}},
    }
    findings: Sequence[Finding] = ()
    try:
        plan(spec_of(document | more))
    except InputError as error:
        findings = error.findings
    assert {one.code for one in findings} <= {Code.ADDRESS_SHARED}, findings
    return [one.message for one in findings]


@pytest.mark.parametrize(
    ("publish", "place"),
    [
        (INDEX, "/srv/wheels"),
        ({"to": "wheel-index", "url": "s3://wheels/@python@"}, "s3://wheels/3.13"),
        (RELEASE, "the release v1.0"),
        ({"to": "github-release", "tag": "{package}-{version}"}, "the release fast-1.0"),
        (TRUSTED, "https://up.example"),
    ],
)
def test_wheels_that_differ_in_what_no_wheel_is_called_by_share_an_address(publish: Any, place: str) -> None:
    (message,) = said(publish, isas=ISAS)
    assert message.startswith(
        f"fast-python313-cpu-avx2 and fast-python313-cpu-avx512 are published under one address, {place}; "
        "to tell them apart, write @isa@ into "
    )
    (message,) = said(publish, isas=ISAS, gpus=GPUS)
    assert "cuda12_8-sm90-avx2 and fast-python313-cuda12_8-sm90-avx512 and 2 more are" in message
    assert "write @gpu@ and @isa@ into " in message


@pytest.mark.parametrize(
    "apart",
    [
        {"files": "dist/*"},  # the name is the build's own
        {"files": "dist/@isa@/fast-@gpu@-@isa@.tar.gz"},
        {"files": "dist/fast_@gpu@_@isa@-*.whl"},
        {"version": {"local": "@gpu@.@isa@"}},
        {"version": {"command": "ci/version", "local": "@gpu@.@isa@"}, "branches": {"main": {"cuda": "12.8"}}},
        {"branches": {"main": {"cuda": "12.8", "versions": {"fast": "1.0"}, "publish": False}}},
    ],
)
@pytest.mark.parametrize("publish", [INDEX, RELEASE, TRUSTED, "upload"])
def test_what_the_spec_tells_apart_or_leaves_open_is_no_error(publish: Any, apart: dict[str, Any]) -> None:
    assert said(publish, gpus=GPUS, isas=ISAS, install=PIP if "version" in apart else "ci/get.sh", **apart) == []


def test_a_wheel_is_called_by_its_python_and_its_platform() -> None:
    matrix = {"python": ["3.12", "3.13"], "isas": {"x86_64-linux": ["avx2"], "aarch64-linux": ["armv9"]}, "gpus": {}}
    arm = {"runs-on": ["self-hosted", "linux", "arm64", "b"], "cpu": ["armv9"]}
    x86 = {"runs-on": ["self-hosted", "linux", "x64", "b"], "cpu": ["avx512"]}
    more = {"matrix": matrix | {"gpus": {"cpu": {}}}, "runners": {"x": x86, "a": arm}}
    assert said(INDEX, install=PIP, **more) == []


def test_a_name_without_a_wildcard_is_the_same_for_all() -> None:
    (message,) = said(RELEASE, files="out/fast.tar.gz", gpus=GPUS)
    assert message == (
        "fast-python313-cuda12_8-sm90-avx2 and fast-python313-cuda12_8-sm120-avx2 are published under one address, "
        "fast.tar.gz in the release v1.0; to tell them apart, write @gpu@ into that name"
    )


def test_one_line_of_pip_installs_one_of_them() -> None:
    (message,) = said("twine upload", install=f"{PIP} --index-url https://simple.example/@isa@", gpus=GPUS, isas=ISAS)
    assert message == (
        "fast-python313-cuda12_8-sm90-avx2 and fast-python313-cuda12_8-sm120-avx2 are installed by one line, "
        "pip install fast==1.0 --index-url https://simple.example/avx2; to tell them apart, write @gpu@ into "
        "`install`, or into `version: {local: …}` with @version@ here"
    )
    assert said("twine upload", install=f"{PIP} --index-url https://simple.example/@gpu@/@isa@", gpus=GPUS) == []


def test_a_tag_of_an_image_is_of_one_variant() -> None:
    tagged = {**REGISTRY, "image-tags": ["@gpu@-{version}", "newest"]}
    (message,) = said(tagged, files="dist/*.oci.tar", gpus=GPUS, isas=ISAS)
    assert "https://registry.example/o/avx2:newest; to tell them apart, write @gpu@ into `image-tags`" in message
    apart = {**REGISTRY, "image-tags": ["@gpu@-{version}", "@gpu@"]}
    assert said(apart, files="dist/*.oci.tar", gpus=GPUS, isas=ISAS) == []


def test_an_axis_of_the_spec_and_a_branch_tell_apart_too() -> None:
    branches = {"main": {"versions": {"fast": "1.0"}}}
    (message,) = said(INDEX, axes={"abi": {"values": ["old", "new"]}}, matrix=OPEN, branches=branches)
    assert "write @abi@ into `url`" in message
    two = {"main": {"cuda": "12.8", "versions": {"fast": "1.0"}}, "old": {"cuda": "12.4", "versions": {"fast": "1.0"}}}
    found = said(INDEX, gpus={"sm90": {}}, branches=two)
    assert ["write @cuda@ into `url`" in message for message in found] == [True]
    assert " on main and " in found[0]
    two["old"]["versions"] = {"fast": "0.9"}
    assert said(INDEX, gpus={"sm90": {}}, branches=two) == []

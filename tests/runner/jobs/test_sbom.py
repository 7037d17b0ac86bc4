"""The software bill of materials of a build, judged by the schema of CycloneDX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from ci_compiler.runner.jobs.manifest import read_manifest
from ci_compiler.runner.jobs.sbom import sbom_of
from tests.publishing.places import wheel
from tests.runner.jobs.world import World

NIX_HASH = "sha256:1b4sb93wp679q4zx9k1ignby1yna3z7c4c2ri3wphylbc2dwsys0"


def judged(text: str) -> dict[str, Any]:
    """The SBOM, valid, with its components by name."""
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    sbom = json.loads(text)
    refs = [part["bom-ref"] for part in sbom["components"]]
    depends = {one["ref"]: one.get("dependsOn", []) for one in sbom["dependencies"]}
    assert sorted(depends[sbom["metadata"]["component"]["bom-ref"]]) == sorted(refs)
    return sbom | {"components": {part["name"]: part for part in sbom["components"]}}


def manifest_with(folder: Path, **changed: object) -> Any:
    stated = {
        "name": "pytorch-python313-cpu-avx2",
        "package": "pytorch",
        "version": "2.9.0",
        "branch": "main",
        "commit": "c" * 40,
        "nixpkgs": "f" * 40,
        "backend": "nix",
        "derivation": f"/nix/store/{'d' * 32}-pytorch-2.9.0.drv",
        "store_path": f"/nix/store/{'a' * 32}-pytorch-2.9.0",
        "outputs": [f"/nix/store/{'a' * 32}-pytorch-2.9.0"],
        "closure_size": 1,
        "closure": {f"/nix/store/{'a' * 32}-pytorch-2.9.0": NIX_HASH, f"/nix/store/{'b' * 32}-glibc-2.40-66": NIX_HASH},
        "started": "2026-11-24T01:00:00Z",
        "seconds": 1.0,
        "built": True,
        "machine": {"system": "x86_64-linux", "cpu": "x", "cores": 1},
        "untested": {},
    }
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(stated | changed), "utf-8")
    return read_manifest(folder / "manifest.json")


def test_an_sbom_lists_every_path_of_a_closure_with_its_name_and_version(tmp_path: Path) -> None:
    sbom = judged(sbom_of(manifest_with(tmp_path), tmp_path))
    assert sbom["metadata"]["timestamp"].startswith("2026-11-24T01:00:00")
    assert sbom["metadata"]["component"]["name"] == "pytorch"
    assert sbom["components"]["glibc"]["version"] == "2.40-66"
    stated = {one["name"]: one["value"] for one in sbom["components"]["glibc"]["properties"]}
    assert stated == {"nix:output_path": f"/nix/store/{'b' * 32}-glibc-2.40-66", "nix:nar_hash": NIX_HASH}
    assert "hashes" not in sbom["components"]["glibc"], "the hash of an archive is not that of a file"


def test_the_sbom_of_a_wheel_has_its_digest_and_what_it_requires(tmp_path: Path) -> None:
    required = (
        "License-Expression: BSD-3-Clause\n"
        'Requires-Dist: nvidia-cublas-cu12==12.8.4.1; platform_system == "Linux"\n'
        "Requires-Dist: typing_extensions>=4.10\n"
        'Requires-Dist: opt_einsum==3.3; extra == "opt-einsum"\n'
    )
    file = wheel(tmp_path / "files", metadata=required)
    path = f"files/{file.name}"
    manifest = manifest_with(
        tmp_path,
        backend="command",
        derivation="build.sh",
        nixpkgs="",
        store_path=path,
        outputs=[path],
        closure={path: f"sha256:{file.digest}"},
        needs={"torch-cpu": f"sha256:{'1' * 64}"},
    )
    sbom = judged(sbom_of(manifest, tmp_path))
    parts = sbom["components"]
    assert sbom["metadata"]["component"]["licenses"] == [{"expression": "BSD-3-Clause"}]
    assert parts[file.name]["hashes"] == [{"alg": "SHA-256", "content": file.digest}]
    assert parts[file.name]["purl"] == "pkg:pypi/fastpath@1.4.0"
    assert parts["nvidia-cublas-cu12"]["purl"] == "pkg:pypi/nvidia-cublas-cu12@12.8.4.1"
    assert "version" not in parts["typing-extensions"]
    assert set(parts) == {file.name, "nvidia-cublas-cu12", "typing-extensions", "torch-cpu"}


def test_a_file_that_is_no_distribution_has_its_digest_alone(tmp_path: Path) -> None:
    """Whatever its name ends with: that it is no wheel is for whoever installs it to say."""
    path = "files/notes.whl"
    (tmp_path / "files").mkdir()
    (tmp_path / path).write_text("no archive", "utf-8")
    digest = "1" * 64
    manifest = manifest_with(
        tmp_path,
        backend="command",
        derivation="build.sh",
        nixpkgs="",
        store_path=path,
        outputs=[path],
        closure={path: f"sha256:{digest}"},
    )
    [part] = judged(sbom_of(manifest, tmp_path))["components"].values()
    assert part["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert "purl" not in part


@pytest.mark.parametrize("attest", [False, True])
def test_a_build_writes_its_sbom(world: World, attest: bool) -> None:
    world.spec(backend="nix", attest=attest)
    assert world.build() == 0
    manifest = read_manifest(world.root / "build-output/manifest.json")
    text = (world.root / "build-output/sbom.cdx.json").read_text("utf-8")
    assert judged(text)["metadata"]["component"]["bom-ref"] == manifest.name
    assert text == sbom_of(manifest, world.root / "build-output"), "whoever publishes makes the same one again"

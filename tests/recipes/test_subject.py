"""What the recipe of a variant is made from: its hardware, and the values of its placeholders."""

from __future__ import annotations

import pytest

from ci_compiler.recipes.subject import fetch
from ci_compiler.spec.placeholders import PLACEHOLDERS
from tests.recipes.subjects import TORCH, spec_for, subject_for
from tests.specs import HASH, PIN, SOURCE

PACKAGES = {"pytorch": {**TORCH, "title": "PyTorch"}, "torchvision": {"needs": ["pytorch"]}}
MAIN = {"pnames": {"pytorch": "torch"}, "sources": {"pytorch": SOURCE | {"tag": "v1.0-1.0", "submodules": True}}}
GPU, ALL, CPU = (f"pytorch-python313-{name}-avx2" for name in ("cuda13_0-sm90", "cuda13_0-all", "cpu"))


def test_a_variant_for_a_gpu() -> None:
    spec = spec_for(PACKAGES, gpus=["cpu", "sm90", "all"], main=MAIN | {"cuda": "13.0"})
    subject = subject_for(spec, GPU)
    assert (subject.variant.name, subject.package.name, subject.cell.target) == (GPU, "pytorch", "sm90")
    assert subject.gpu is not None
    assert subject.toolkit is not None
    assert (subject.gpu.name, str(subject.toolkit.version), subject.isa.name) == ("sm90", "13.0", "avx2")
    assert (subject.version, subject.pname, subject.python_packages) == (
        "1.0",
        "torch-python313-cuda13_0-sm90-avx2",
        "python313Packages",
    )
    assert subject.source == spec.branches["main"].sources["pytorch"]
    assert subject.override == spec.packages["pytorch"].overrides["cuda"]
    assert subject.capabilities == ("9.0",)
    assert (subject.seeded_by, subject.is_shared) == ("", False)
    assert "cuda-packages" in [piece.name for piece in subject.pieces]
    values = subject.values
    assert values.keys() >= {*PLACEHOLDERS}
    assert {key: values[key] for key in ("name", "pname", "version", "gpu", "isa", "system", "flags", "title")} == {
        "name": GPU,
        "pname": subject.pname,
        "version": "1.0",
        "gpu": "sm90",
        "isa": "avx2",
        "system": "x86_64-linux",
        "flags": "-mavx2 -mfma -mf16c",
        "title": "PyTorch",
    }
    assert {key: values[key] for key in ("attribute", "capability", "sm", "cuda-tag", "python-tag", "nix-version")} == {
        "attribute": "torch",
        "capability": "9.0",
        "sm": "90",
        "cuda-tag": "cuda13_0",
        "python-tag": "python313",
        "nix-version": '"1.0"',
    }
    assert (values["nixpkgs"], values["nixpkgs-hash"]) == (PIN, HASH)
    assert values["source"] == (
        f'final.fetchFromGitHub {{\n  owner = "o";\n  repo = "r";\n  tag = "v${{version}}-${{version}}";\n'
        f'  hash = "{HASH}";\n  fetchSubmodules = true;\n}}'
    )
    several = subject_for(spec, ALL).values
    assert several["capability"] == "7.5;8.0;8.6;8.9;9.0;10.0;10.3;12.0"
    assert several["sm"] == "75;80;86;89;90;100;103;120"


def test_a_variant_for_cpus_has_no_toolkit() -> None:
    subject = subject_for(spec_for(PACKAGES), CPU)
    assert (subject.gpu, subject.toolkit, subject.source, subject.capabilities) == (None, None, None, ())
    assert subject.pname == CPU
    assert subject.override == subject.package.overrides["cpu"]
    assert {key: subject.values[key] for key in ("gpu", "capability", "sm", "cuda-tag")} == {
        "gpu": "cpu",
        "capability": "",
        "sm": "",
        "cuda-tag": "",
    }
    assert "source" not in subject.values


@pytest.mark.parametrize("fetcher", ["pkgs", "final"])
def test_a_source_is_fetched_by_its_tag(fetcher: str) -> None:
    source = subject_for(spec_for(PACKAGES, main={"sources": {"pytorch": SOURCE}}), CPU).source
    assert source is not None
    lines = ('owner = "o";', 'repo = "r";', 'tag = "v${version}";', f'hash = "{HASH}";')
    text = "".join(f"  {line}\n" for line in lines)
    assert fetch(source, fetcher=fetcher, tag="v${version}") == f"{fetcher}.fetchFromGitHub {{\n{text}}}"

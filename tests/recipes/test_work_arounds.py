"""The pieces of recipes: which recipe has which, and what they switch off."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.recipes.work_arounds import Piece, Traits, pieces, pieces_in, switched_off
from ci_compiler.spec.work_arounds import table
from tests.loops import each
from tests.recipes.subjects import TORCH, cell_of, spec_for
from tests.specs import SOURCE

TRAITS = Traits(
    package="pytorch",
    preset="torch",
    isa="avx",
    family="cuda",
    gpu=True,
    dnn=False,
    source=False,
    capabilities=False,
    work_arounds=("mine",),
)


@pytest.mark.parametrize(
    ("when", "applies"),
    [
        ({}, True),
        ({"isa": "avx"}, True),
        ({"isa": "avx2"}, False),
        ({"package": ["vllm", "pytorch"]}, True),
        ({"package": ["vllm"]}, False),
        ({"gpu": True, "dnn": False, "source": False}, True),
        ({"gpu": True, "dnn": True}, False),
        ({"family": "rocm", "gpu": True}, False),
        ({"capabilities": True}, False),
        ({"work-around": True}, True),
        ({"work-around": True, "preset": "torchvision"}, False),
    ],
)
@pytest.mark.parametrize("name", ["mine", "other"])
def test_a_piece_is_in_the_recipes_with_its_traits(name: str, when: dict[str, Any], applies: bool) -> None:
    piece = Piece(name=name, why="because", when=when)
    assert piece.is_work_around is ("work-around" in when)
    assert piece.applies(TRAITS) is (applies and (name == "mine" or not piece.is_work_around))


def test_the_bundled_pieces_have_the_texts_of_their_files() -> None:
    rows = table()
    assert [piece.name for piece in pieces()] == [*rows]
    for piece in pieces():
        row = rows[piece.name]
        for key, text in (
            ("overlay", piece.overlay),
            ("post-patch", piece.post_patch),
            ("pre-configure", piece.pre_configure),
        ):
            assert text == ((row["folder"] / row[key]).read_text("utf-8").rstrip("\n") if key in row else "")
        assert (piece.why, piece.when, piece.without) == (row["why"], row["when"], row.get("without", ""))
        assert piece.cmake + piece.pre_build == (*row.get("cmake", ()), *row.get("pre-build", ()))
        assert {**piece.exports, **piece.cached} == {**row.get("exports", {}), **row.get("cached", {})}
    assert any(piece.overlay for piece in pieces())
    assert any(piece.cached for piece in pieces())


OWN = {"why": "its compiler", "overlay": "final: prev: { }\n", "post-patch": "a\n", "pre-configure": "b\n"}
MORE = {"cmake": ["-DX=1"], "exports": {"X": "1"}, "pre-build": ["c"]}
PACKAGES = {"pytorch": TORCH, "torchvision": {"needs": ["pytorch"]}, "mine": {}}
GPU, OLD, CPU = (f"python313-{name}" for name in ("cuda12_8-sm90-avx2", "cuda12_8-sm61-avx", "cpu-avx"))
HEAVY = ["cuda-packages", "heavy-targets"]


@pytest.mark.parametrize(
    ("own", "main", "expected"),
    [
        ({}, {}, {GPU: HEAVY, OLD: [*HEAVY, "no-cudnn", "no-avx2"], CPU: ["no-avx2"]}),
        ({}, {"sources": {"pytorch": SOURCE}}, {CPU: ["torch-source", "torch-version", "no-avx2"]}),
        ({}, {"sources": {"mine": SOURCE}}, {CPU: ["no-avx2"]}),
        (
            {},
            {"work-arounds": ["torch-cccl"]},
            {GPU: ["cuda-packages", "torch-cccl", "heavy-targets"], CPU: ["no-avx2"]},
        ),
        ({"fix": OWN}, {"work-arounds": ["fix"]}, {GPU: [*HEAVY, "fix"], CPU: ["no-avx2", "fix"]}),
        ({"fix": OWN}, {}, {GPU: HEAVY, CPU: ["no-avx2"]}),
        ({"fix": OWN | {"build": "gpu"}}, {"work-arounds": ["fix"]}, {GPU: [*HEAVY, "fix"], CPU: ["no-avx2"]}),
        ({"fix": OWN | {"build": "cpu"}}, {"work-arounds": ["fix"]}, {GPU: HEAVY, CPU: ["no-avx2", "fix"]}),
        ({"fix": OWN | {"packages": ["mine"]}}, {"work-arounds": ["fix"]}, {GPU: HEAVY, CPU: ["no-avx2"]}),
        ({"fix": OWN | {"packages": ["pytorch"]}}, {"work-arounds": ["fix"]}, {GPU: [*HEAVY, "fix"]}),
    ],
)
def test_which_pieces_a_recipe_has(own: dict[str, Any], main: dict[str, Any], expected: dict[str, list[str]]) -> None:
    spec = spec_for(PACKAGES, gpus=["cpu", "sm61", "sm90"], isas=["avx", "avx2"], main=main, **{"work-arounds": own})
    for suffix, names in each(expected.items()):
        found = pieces_in(spec, cell_of(spec, suffix), spec.packages["pytorch"])
        assert [piece.name for piece in found] == names


def test_a_piece_of_the_spec_has_its_own_texts() -> None:
    spec = spec_for(PACKAGES, main={"work-arounds": ["fix"]}, **{"work-arounds": {"fix": OWN | MORE}})
    piece = pieces_in(spec, cell_of(spec, "python313-cpu-avx2"), spec.packages["mine"])[-1]
    assert piece == Piece(
        name="fix",
        why="its compiler",
        when={"work-around": True},
        overlay="final: prev: { }",
        cmake=("-DX=1",),
        exports={"X": "1"},
        post_patch="a",
        pre_configure="b",
        pre_build=("c",),
    )


CUDNN, AVX2 = "cuDNN", "FBGEMM, oneDNN and NNPACK"


@pytest.mark.parametrize(
    ("suffix", "package", "recipes", "expected"),
    [
        (GPU, "torchvision", "compiled", []),
        (CPU, "pytorch", "compiled", [AVX2]),
        (CPU, "torchvision", "compiled", [AVX2]),
        (CPU, "mine", "compiled", []),
        (OLD, "torchvision", "compiled", [CUDNN, AVX2]),
        (OLD, "torchvision", "own", []),
        (OLD, "torchvision", {"*-sm90-*": "own"}, [CUDNN, AVX2]),
    ],
)
def test_what_is_switched_off_in_a_package_and_all_that_it_needs(
    suffix: str, package: str, recipes: Any, expected: list[str]
) -> None:
    packages = PACKAGES | {"pytorch": {**TORCH, "recipes": recipes}}
    spec = spec_for(packages, gpus=["cpu", "sm61", "sm90"], isas=["avx", "avx2"])
    found = switched_off(spec, cell_of(spec, suffix), package)
    assert [text.partition(":")[0].partition(", which")[0] for text in found] == expected

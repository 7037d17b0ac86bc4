"""BUILD_MATRIX.md: every number matches the matrix, every link leads to a file that exists, all text is escaped."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from ci_compiler.documents.build_matrix import text
from ci_compiler.files.drift import MARK, marked
from ci_compiler.hardware import products
from ci_compiler.hardware.machine import Machine
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.reports.offers import Wishes
from ci_compiler.reports.select import select
from ci_compiler.spec.build import bundled_spec
from ci_compiler.sync.compiled import compile_files
from ci_compiler.variant import RECIPES
from tests.specs import documents, small, spec_of

LINK = re.compile(r"\[([^\]]*)\]\(([^)]*)\)")


@pytest.fixture(scope="module")
def bundled() -> Plan:
    return plan(bundled_spec())


def tables(document: str) -> list[list[list[str]]]:
    """Every table as rows of cells; a row with another number of cells than its header fails the test."""
    found: list[list[list[str]]] = []
    before = ""
    for line in document.splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not before.startswith("|"):
                found.append([])
            assert not found[-1] or len(found[-1][0]) == len(cells), line
            found[-1].append(cells)
        before = line
    return found


def section(document: str, title: str) -> str:
    """The text below a heading of the second or third level."""
    return re.split(rf"^##+ {re.escape(title)}$", document, flags=re.MULTILINE)[1].split("\n## ")[0]


def number(cell: str) -> int:
    return 0 if cell == "–" else int(cell.replace(",", ""))


@pytest.mark.slow
@given(documents())
@settings(max_examples=40, deadline=None)
def test_links_lead_to_what_is_compiled(document: dict[str, Any]) -> None:
    decided = plan(spec_of(document))
    files = compile_files(decided)
    recipes: Counter[tuple[str, str]] = Counter()
    dispatched = set()
    for shown, target in LINK.findall(text(decided)):
        if target.startswith("https://github.com/NixOS/nixpkgs/tree/"):
            assert target.rsplit("/", 1)[1] in {branch.nixpkgs for branch in decided.spec.branches.values()}
        elif target.startswith("workflows/"):
            assert f".github/{target}" in files
        elif target.endswith("/deployments/github-pages"):
            assert ".github/workflows/pages.yml" in files
        elif target.startswith("../../../actions/workflows/"):
            dispatched.add(target.rsplit("/", 1)[1])
        else:
            branch, name = re.fullmatch(rf"\.\./\.\./\.\./blob/(.+)/{re.escape(RECIPES)}/(.+)\.nix", target).groups()
            assert name.startswith(f"{shown}-")
            recipes[branch, name] += 1
    variants = [(cell.branch, variant.name) for cell in decided.judged.cells for variant in cell.variants]
    assert recipes == Counter(variants)
    assert dispatched == {f"{shard.name}.yml" for shard in decided.shards}


@given(documents())
@settings(max_examples=40, deadline=None)
def test_every_number_is_counted(document: dict[str, Any]) -> None:
    decided = plan(spec_of(document))
    said = text(decided)
    cells, spec = decided.judged.cells, decided.spec
    variants = Counter(cell.branch for cell in cells for _ in cell.variants)
    found = tables(said)
    rows = {row[0].strip("`"): row[-3:] for row in found[0][2:]}
    for branch in spec.branches:
        own = [cell for cell in cells if cell.branch == branch]
        shards = [shard for shard in decided.shards if shard.branch == branch]
        assert list(map(number, rows[branch])) == [len(own), variants[branch], len(shards)]
    if len(spec.branches) > 1:
        assert list(map(number, rows["all"])) == [len(cells), variants.total(), len(decided.shards)]
    pools = next(table for table in found if table[0][0] == "pool")[2:]
    assert [row[0] for row in pools] == [f"`{pool.name}`" for pool in spec.pools]
    for at, stage in enumerate(spec.stages, start=4):
        runs = [(cell, route) for cell, route in zip(cells, decided.routes, strict=True) if stage in route.pools]
        assert sum(number(row[at]) for row in pools) == sum(len(cell.variants) for cell, _ in runs)


def test_the_bundled_stack_s(bundled: Plan) -> None:
    said = text(bundled)
    assert "**459 variants** of `pytorch`, `torchvision`, `torchaudio`: 153 cells" in said
    assert "| `main` | 12.8 | 9.x | 525 or newer |" in said
    assert "| `cuda-13_0` | 13.0 | 9.13.0 | 580 or newer |" in said
    assert "CUDA 12.8: 132 variants in 44 cells" in section(said, "main")
    assert "204 of 402 variants are tested, 63 of them on another GPU that runs their code" in said
    assert "| `sm89` |  | `l4` | `l4` | `l4` | `l4` | – | – |" in section(said, "gpu-test")
    assert "`sm70` (V100, Titan V), `sm87` (Jetson Orin, DRIVE Orin)" in section(said, "What is left out")
    assert "| CUDA 12.9 was the last to know sm61, and the branch has 13.0 |" in section(said, "What is left out")


def test_the_undecided_get_a_line_to_install(bundled: Plan) -> None:
    rows = next(table for table in tables(text(bundled)) if table[0][-1] == "install")[2:]
    names = {variant.name for cell in bundled.judged.cells for variant in cell.variants}
    assert {isa for _, isa, *_ in rows} == {"`avx2`", "`armv8_2`"}
    for _, isa, gpu, branch, _, command in rows:
        name = re.fullmatch(r"`flox install flox-cuda/([^@`]+)(@.*)?`", command)[1]
        assert name in names
        assert name.endswith(isa.strip("`"))
        assert gpu.strip("`") in name
        assert branch != "`main`"
        if "armv8_2" not in isa:
            device = products.device(bundled.spec.hardware, gpu.strip("`"))
            machine = Machine(system="", gpus=(device,) if device else ())
            answer = select(bundled.spec, bundled.judged.cells, machine, Wishes(package="pytorch"))
            assert answer.best is not None
            assert (answer.best.name, answer.install) == (name, (command.strip("`"),))
            assert any("avx2 runs on almost every one" in reason for reason in answer.why)
    assert [row[3] for row in rows if row[2] == "`sm61`"] == ["`cuda-12_9`"]


def test_what_is_switched_off_is_said_with_its_consequence(bundled: Plan) -> None:
    rows = tables(section(text(bundled), "What is switched off"))[0][2:]
    assert [(row[0].split(":")[0], *row[1:3]) for row in rows] == [
        ("cuDNN", "`sm61`", "`avx`, `avx2`"),
        ("FBGEMM, oneDNN and NNPACK, which use AVX2", "`sm61`, `cpu`", "`avx`"),
    ]
    own = small(packages={"pytorch": {"attribute": "torch", "recipes": "own"}})
    own["branches"]["main"]["versions"] = {"pytorch": "2.8.0"}
    own["matrix"]["isas"] = {"x86_64-linux": ["avx"]}
    assert "Nothing." in section(text(plan(spec_of(own))), "What is switched off")


def test_costs_and_hardware_are_those_of_the_tables(bundled: Plan) -> None:
    said = text(bundled)
    assert "| `pytorch` | 120 | 60 | 20 GB | 32 GB | 32 of 4 GB |" in section(said, "What a build takes")
    choosing = section(said, "How to choose")
    assert "last driver branch: 580 | INT8 dot products; no tensor cores |" in choosing
    assert "| FP8 (Transformer Engine), thread block clusters, MIG |" in choosing
    assert "| inference with INT8 | training, and work in FP32, which it does not speed up |" in choosing


def test_a_further_variant_is_counted() -> None:
    one, two = (
        text(plan(spec_of(small(matrix={"python": ["3.13"], "isas": {"x86_64-linux": isas}, "gpus": {"sm90": {}}}))))
        for isas in (["avx2"], ["avx2", "avx512"])
    )
    assert "**2 variants** of `pytorch`, `torchvision`: 1 cell" in one
    assert "**4 variants** of `pytorch`, `torchvision`: 2 cells" in two


def test_a_test_that_is_switched_off_is_stated() -> None:
    said = text(plan(spec_of(small(tests={"gpu-test": "never"}, publish={"after": ["cpu-test"]}))))
    assert "The spec switches it off: none of 4 variants is tested." in section(said, "gpu-test")


def test_pythons_have_a_table_each() -> None:
    matrix = {"python": ["3.12", "3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"sm90": {}}}
    said = text(plan(spec_of(small(matrix=matrix))))
    assert "torchvision-python312-cuda12_8-sm90-avx2.nix" in section(said, "main").split("Python 3.13")[0]
    assert "torchvision-python313-cuda12_8-sm90-avx2.nix" in section(said, "main").split("Python 3.13")[1]


def test_nothing_of_the_spec_is_markup() -> None:
    reason = "a|b <img src=x> [x](javascript:y) `c` *d* _e_ \\| --> & ~f~ $g$ # ! {{ }}"
    matrix = small()["matrix"] | {"exclude": [{"variants": "torchvision-*-cpu-avx2", "because": reason}]}
    document = text(plan(spec_of(small(matrix=matrix))))
    row = next(line for line in document.splitlines() if "javascript" in line)
    assert not re.search(r"(?<!\\)[<*_$~\[]", row.split("|", 6)[-1])
    assert re.sub(r"\\(.)", r"\1", tables(row)[0][0][-1]) == reason
    assert not LINK.search(re.sub(r"\\.", "", row))
    tables(document)


def test_it_is_a_compiled_file_whatever_the_name_of_the_spec_s_file(bundled: Plan) -> None:
    first = text(bundled).splitlines()[0]
    assert first.startswith(f"<!-- {MARK} from torch.yaml (bundled).")
    assert first.endswith("-->")
    assert marked(first.encode())
    odd = replace(bundled.spec, document=replace(bundled.spec.document, file="a-->b<!--.yaml"))
    first = text(replace(bundled, spec=odd)).splitlines()[0]
    assert first.count("-->") == 1
    assert first.endswith("-->")

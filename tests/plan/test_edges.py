"""Edges: what a variant needs and gathers, where an entry fixes an axis, opens it, or holds for some cells only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.plan.document import document as plan_document
from ci_compiler.plan.job_graph import built_after, jobs_of
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.stages import BUILD
from ci_compiler.workflows.render import render
from tests.plan.test_open_matrix import ARM, COMMAND, SERVING, X86, decided, refusals
from tests.specs import small, spec_of

VALUES = {"platform": X86, "python": ["3.12", "3.13"], "accelerator": ["cpu", "cuda 12.8", "cuda 13.0"]}


def edges(made: Plan) -> dict[str, list[str]]:
    """What each variant is built with: `needs NAME` or `gathers NAME`."""
    needs = Needs(made.spec, made.judged.cells)
    return {
        variant.name: [f"{link.kind} {link.variant.name}" for link in needs.links(cell, variant.package)]
        for cell in made.judged.cells
        for variant in cell.variants
    }


def test_an_edge_that_fixes_an_axis_takes_the_variant_with_that_value() -> None:
    packages = {"lib": {}, "ext": {"needs": [{"package": "lib", "accelerator": "cpu"}]}}
    found = edges(decided({"values": VALUES}, packages))
    assert found[f"ext-python312-cuda12_8-{X86}"] == [f"needs lib-python312-cpu-{X86}"]
    assert found[f"ext-python313-cuda13_0-{X86}"] == [f"needs lib-python313-cpu-{X86}"]
    assert found[f"ext-python313-cpu-{X86}"] == [f"needs lib-python313-cpu-{X86}"]


def test_an_edge_within_one_package_does_not_hold_for_the_variant_that_it_leads_to() -> None:
    packages = {"torch": {"needs": [{"package": "torch", "accelerator": "cpu"}]}}
    found = edges(decided({"values": VALUES}, packages))
    assert found[f"torch-python312-cpu-{X86}"] == []
    assert found[f"torch-python312-cuda12_8-{X86}"] == [f"needs torch-python312-cpu-{X86}"]


def test_what_gathers_takes_every_match_of_what_it_opens() -> None:
    packages = {
        "kernels": {},
        "archive": {"gathers": [{"package": "kernels", "python": "all"}]},
        "some": {"gathers": [{"package": "kernels", "accelerator": ["cuda 13.0", "cpu"], "python": "3.12"}]},
        "every": {"ignores": ["python", "accelerator"], "gathers": ["kernels"]},
    }
    found = edges(decided({"values": VALUES}, packages))
    assert found[f"archive-python312-cpu-{X86}"] == [
        f"gathers kernels-python312-cpu-{X86}",
        f"gathers kernels-python313-cpu-{X86}",
    ]
    assert found[f"some-python313-cpu-{X86}"] == [
        f"gathers kernels-python312-cpu-{X86}",
        f"gathers kernels-python312-cuda13_0-{X86}",
    ]
    assert len(found[f"every-{X86}"]) == 6


def test_a_value_that_serves_is_gathered_as_well() -> None:
    packages = {
        "lib": {"matrix": {"values": {"python": ["abi3", "3.12", "3.14"]}}},
        "ext": {"matrix": {"values": {"python": "3.12"}}, "gathers": ["lib"]},
        "fixed": {"matrix": {"values": {"platform": X86}}, "needs": [{"package": "lib", "python": "3.13"}]},
    }
    found = edges(decided({"values": {"platform": X86}}, packages, axes=SERVING))
    assert found["ext-python312"] == ["gathers lib-abi3", "gathers lib-python312"]
    assert found[f"fixed-{X86}"] == ["needs lib-abi3"]


def test_an_axis_that_belongs_to_the_one_that_is_fixed_is_not_that_of_the_dependent() -> None:
    values = {"platform": X86, "isa": "avx2", "accelerator": "cuda 13.0 sm90"}
    rows = [values, {"platform": ARM, "isa": "armv9", "accelerator": "rocm 7.1 gfx942"}]
    packages = {
        "lib": {},
        "there": {"when": {"platform": X86}, "gathers": [{"package": "lib", "platform": ARM, "accelerator": "all"}]},
        "family": {
            "when": {"platform": X86},
            "gathers": [{"package": "lib", "family": "rocm", "platform": "all"}],
        },
    }
    found = edges(decided({"rows": rows}, packages))
    assert found["there-cuda13_0-sm90-avx2"] == ["gathers lib-rocm7_1-gfx942-armv9"]
    assert found["family-cuda13_0-sm90-avx2"] == ["gathers lib-rocm7_1-gfx942-armv9"]


def test_an_edge_holds_for_the_cells_of_its_condition() -> None:
    packages = {"tool": {}, "lib": {"needs": [{"package": "tool", "when": {"accelerator": "cuda"}}]}}
    found = edges(decided({"values": VALUES}, packages))
    assert found[f"lib-python312-cpu-{X86}"] == []
    assert found[f"lib-python312-cuda12_8-{X86}"] == [f"needs tool-python312-cuda12_8-{X86}"]


def test_packages_may_need_each_other_in_turn_if_no_variant_does() -> None:
    """A compiler and its library, built in two stages."""
    packages = {
        "libc": {"needs": [{"package": "gcc", "stage": "1", "when": {"stage": "2"}}]},
        "gcc": {"needs": [{"package": "libc", "stage": "1", "when": {"stage": ["1", "2"]}}]},
    }
    found = edges(decided({"values": {"platform": X86, "stage": ["1", "2"]}}, packages, axes={"stage": ["1", "2"]}))
    assert found[f"libc-stage2-{X86}"] == [f"needs gcc-stage1-{X86}"]
    assert found[f"gcc-stage1-{X86}"] == [f"needs libc-stage1-{X86}"]
    assert found[f"libc-stage1-{X86}"] == []


def test_an_edge_of_the_short_form_leads_to_another_cell() -> None:
    matrix = {"python": ["3.12"], "isas": ["avx2"], "gpus": ["cpu", "sm90"]}
    pools = {"x86": {"runs-on": ["self-hosted", "linux", "x64"], "cpu": ["avx2"]}}
    branches = {"main": {"cuda": "12.8", "versions": {"lib": "1", "ext": "1"}}}
    packages = {"lib": {}, "ext": {"needs": [{"package": "lib", "accelerator": "cpu"}]}}
    found = edges(decided(matrix, packages, runners=pools, branches=branches))
    assert found["ext-python312-cuda12_8-sm90-avx2"] == ["needs lib-python312-cpu-avx2"]


@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        ({"ext": {"needs": [{"package": "lib", "pyton": "3.12"}]}}, "unknown-axis", "did you mean python"),
        ({"ext": {"needs": [{"package": "lib", "branch": "main"}]}}, "unknown-axis", "branch"),
        ({"ext": {"gathers": [{"package": "lib", "python": "3.99"}]}}, "unknown-value", "3.99"),
        ({"ext": {"needs": [{"package": "lib", "accelerator": "cpuu"}]}}, "unknown-family", "did you mean cpu"),
        ({"ext": {"needs": [{"package": "lib", "family": "cpuu"}]}}, "unknown-family", "did you mean cpu"),
        ({"ext": {"needs": [{"package": "lbi", "python": "3.12"}]}}, "unknown-package", "did you mean lib"),
        ({"ext": {"gathers": ["lbi"]}}, "unknown-package", "did you mean lib"),
        ({"ext": {"needs": [{"package": "lib", "when": {"pyton": "3.12"}}]}}, "unknown-axis", "did you mean python"),
        ({"ext": {"needs": [{"package": "lib", "when": {"python": "3.14"}}]}}, "unused-condition", "holds for no"),
        (
            {"ext": {"needs": [{"package": "lib", "toolkit": "12.9"}]}},
            "needs-missing-variant",
            f"ext-python312-cuda12_8-{X86} needs lib (toolkit 12.9), which main does not build; did you mean 12.8?",
        ),
        (
            {"ext": {"gathers": [{"package": "lib", "accelerator": "rocm"}]}},
            "needs-missing-variant",
            "gathers lib (accelerator rocm), which main does not build",
        ),
        (
            {"ext": {"needs": [{"package": "lib", "accelerator": "cuda"}]}},
            "needs-missing-variant",
            "needs one variant of lib (accelerator cuda), and several serve it alike: ",
        ),
        ({"ext": {"gathers": [{"package": "ext", "python": "all"}]}}, "needs-circle", "when"),
        (
            {"lib": {"needs": ["ext"]}, "ext": {"gathers": [{"package": "lib", "accelerator": "cpu"}]}},
            "needs-circle",
            "",
        ),
        (
            {
                "lib": {"needs": [{"package": "ext", "accelerator": "cpu", "when": {"accelerator": "cuda"}}]},
                "ext": {"needs": [{"package": "lib", "accelerator": "cuda 12.8", "when": {"accelerator": "cpu"}}]},
            },
            "needs-circle",
            f"ext-python312-cpu-{X86}",
        ),
        ({"ext": {"needs": [{"python": "3.12"}]}}, "wrong-value", "a mapping with the key package"),
        (
            {"ext": {"needs": [{"package": "lib", "python": 3.12}]}},
            "wrong-value",
            "3.12 without quotes is a number; write",
        ),
    ],
)
def test_an_edge_that_leads_nowhere_is_an_error(packages: Mapping[str, Any], code: str, said: str) -> None:
    assert said in refusals({"values": VALUES}, {"lib": {}, **packages})[code]


def test_a_compiled_recipe_takes_the_variants_of_its_cell_only() -> None:
    document = small(matrix={"values": {**VALUES, "accelerator": ["cpu", "cuda 12.8 sm90"]}})
    document["packages"]["torchvision"]["needs"] = [{"package": "pytorch", "accelerator": "cpu"}]
    with pytest.raises(InputError, match=r"takes the variants of its own cell, not pytorch .accelerator cpu.; use"):
        plan(spec_of(document))
    document["packages"]["torchvision"]["recipes"] = "own"
    assert f"needs pytorch-python312-cpu-{X86}" in edges(plan(spec_of(document)))[f"torchvision-python312-cpu-{X86}"]


GATHERING = {"lib": {}, "docs": {"ignores": ["python", "accelerator"], "gathers": ["lib"]}, "ext": {"needs": ["lib"]}}


def test_the_document_lists_the_edges_of_variants_and_builds() -> None:
    made = decided({"values": {**VALUES, "accelerator": "cpu"}}, {**GATHERING, "lib": {"joins": ["python"]}})
    found = plan_document(made)
    rows = {row["name"]: row for shard in found["shards"] for cell in shard["cells"] for row in cell["variants"]}
    gathered = [f"lib-python312-cpu-{X86}", f"lib-python313-cpu-{X86}"]
    assert (rows[f"docs-{X86}"]["needs"], rows[f"docs-{X86}"]["gathers"]) == ([], gathered)
    builds = {row["name"]: row["edges"] for row in found["builds"]}
    build = f"lib-cpu-{X86}"
    assert builds[f"docs-{X86}"] == [{"kind": "gathers", "variant": name, "build": build} for name in gathered]
    assert builds[f"ext-python313-cpu-{X86}"] == [{"kind": "needs", "variant": gathered[1], "build": build}]
    assert builds[build] == []


def test_jobs_of_one_file_wait_for_what_their_variants_gather() -> None:
    made = decided({"values": {**VALUES, "accelerator": "cpu"}}, GATHERING)
    (text,) = (text for path, text in render(made.spec, made.shards).items() if path.endswith("build-main-cpu.yml"))
    job = text.split(f"  docs-{X86}:")[1].split("uses:")[0]
    assert f"needs.lib-python312-cpu-{X86}.result" in job
    assert f"needs.lib-python313-cpu-{X86}.result" in job


def test_the_forecast_waits_for_what_a_variant_of_another_cell_gathers() -> None:
    made = decided({"values": {**VALUES, "accelerator": "cpu"}}, {**GATHERING, "zip": {"needs": [{"package": "docs"}]}})
    for recorded in ({}, {("main", f"docs-{X86}", "build"): 90_000}):  # what takes longest is written first
        jobs = jobs_of(made.spec, made.shards, recorded=recorded)
        builds = {job.variant.name: at for at, job in enumerate(jobs) if job.stage is BUILD}
        gathered = tuple(builds[f"lib-python{python}-cpu-{X86}"] for python in ("312", "313"))
        assert tuple(sorted(jobs[builds[f"docs-{X86}"]].needs)) == tuple(sorted(gathered))
        assert jobs[builds[f"zip-python312-cpu-{X86}"]].needs == (builds[f"docs-{X86}"],)


def test_a_push_to_what_is_built_with_starts_the_file_of_the_dependent() -> None:
    commands = {name: {"command": {**COMMAND, "sources": [f"src/{name}"]}} for name in ("lib", "ext")}
    packages = {"lib": commands["lib"], "ext": {**commands["ext"], "needs": [{"package": "lib", "accelerator": "cpu"}]}}
    packages["lib"] |= {"when": {"accelerator": "cpu"}}
    packages["lib"]["command"]["fetch"] = "true"  # without it, one file has both
    made = decided({"values": VALUES}, packages)
    texts = render(made.spec, made.shards)
    assert "src/lib/**" in texts[".github/workflows/build-main-cuda12_8.yml"]


def test_what_is_built_after_a_package_follows_every_kind_of_edge() -> None:
    made = decided({"values": VALUES}, {**GATHERING, "site": {"needs": [{"package": "docs", "python": "all"}]}})
    assert built_after(made.spec, "site") == ("docs", "lib")

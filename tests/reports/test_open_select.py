"""Answers of open matrices: never a variant that the machine cannot run, and no choice that is not named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import pytest
import yaml

from ci_compiler.documents.site.data import data
from ci_compiler.hardware import products
from ci_compiler.hardware.machine import Machine
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.rules import judge
from ci_compiler.reports.install import install
from ci_compiler.reports.offers import Wishes
from ci_compiler.reports.select import Recommendation, select
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.model import Spec
from tests.plan.test_open_matrix import decided as open_plan
from tests.plan.test_public_matrices import GOOD, planned
from tests.specs import small, spec_of

GL = {"families": {"gl": {"title": "OpenGL", "targets": [], "aliases": ["mesa"]}}}


def answer(decided: Plan, gpu: str, cpu: str, driver: str = "", **wishes: str) -> Recommendation:
    machine = products.machine(
        decided.spec.hardware, gpu=gpu, cpu_name=cpu, driver=driver, this=lambda: Machine(system="x86_64-linux")
    )
    package = wishes.pop("package", next(iter(decided.spec.packages)))
    return select(decided.spec, decided.judged.cells, machine, Wishes(package=package, **wishes))


def best(found: Recommendation) -> str:
    return found.best.name if found.best else ""


@pytest.mark.parametrize(
    ("name", "gpu", "cpu", "chosen"),
    [
        ("llama-cpp", "none", "znver4", "llama-bin-cpu-x86_64-linux"),
        ("llama-cpp", "H100", "znver4", "llama-bin-cpu-x86_64-linux"),
        ("llama-cpp", "rocm", "znver4", "llama-bin-rocm7_2-x86_64-linux"),
        ("llama-cpp", "vulkan", "Graviton4", "llama-bin-vulkan-aarch64-linux"),
        ("llama-cpp", "none", "Apple M2", ""),
        ("llama-cpp", "metal", "Apple M2", "llama-bin-metal-aarch64-darwin"),
        ("hf-kernels", "none", "Apple M2", "kernel-torch213-cpu-aarch64-darwin"),
        ("hf-kernels", "metal", "Apple M2", "kernel-torch213-metal-aarch64-darwin"),
        ("hf-kernels", "H100", "znver4", "kernel-torch213-cxx11-cu132-x86_64-linux"),
        ("flash-attention", "none", "znver4", ""),
        ("flash-attention", "H100", "Graviton4", "flash-attn-python313-torch2_10_0-abiTRUE-cuda13_0-aarch64-linux"),
    ],
)
def test_a_machine_gets_what_it_runs(name: str, gpu: str, cpu: str, chosen: str) -> None:
    assert best(answer(planned(name), gpu, cpu)) == chosen


@pytest.mark.parametrize(
    ("gpu", "chosen"),
    [
        ("MI300X", "ext-rocm7_1-gfx942"),
        ("AMD Instinct MI325X", "ext-rocm7_1-gfx942"),
        ("gfx942:sramecc+:xnack-", "ext-rocm7_1-gfx942"),
        ("gfx1100", "ext-rocm7_1-gfx11-generic"),
        ("AMD Radeon RX 7900 XTX", "ext-rocm7_1-gfx11-generic"),
        ("gfx1030", "ext-cpu"),
        ("H100", "ext-cpu"),
    ],
)
def test_a_gpu_that_the_spec_does_not_list_gets_what_serves_it(gpu: str, chosen: str) -> None:
    values = {"platform": "x86_64-linux", "accelerator": ["cpu", "rocm 7.1 gfx942", "rocm 7.1 gfx11-generic"]}
    assert best(answer(open_plan({"values": values}), gpu, "znver4")) == f"{chosen}-x86_64-linux"


def test_products_of_a_family_that_the_spec_lacks_are_foreign() -> None:
    decided = open_plan({"values": {"platform": "x86_64-linux", "accelerator": ["cpu", "gl"]}}, hardware=GL)
    with pytest.raises(products.ForeignGpuError, match="of others, write gl"):
        answer(decided, "MI300X", "znver4")


def test_an_alias_of_a_declared_family_is_a_name_of_its_gpu() -> None:
    decided = open_plan({"values": {"platform": "x86_64-linux", "accelerator": ["cpu", "gl"]}}, hardware=GL)
    assert best(answer(decided, "Mesa", "znver4")) == "ext-gl-x86_64-linux"
    assert best(answer(decided, "none", "znver4")) == "ext-cpu-x86_64-linux"


def test_no_machine_without_a_gpu_is_offered_an_accelerator() -> None:
    for name in ("llama-cpp", "hf-kernels", "flash-attention"):
        decided = planned(name)
        for cpu in ("znver4", "Graviton4", "Apple M2", "unknown"):
            found = answer(decided, "none", cpu)
            offered = [*([found.best] if found.best else []), *(one.offer for one in found.runners_up)]
            assert {dict(one.values).get("family", "cpu") for one in offered} <= {"cpu"}


def test_what_the_machine_lacks_is_said() -> None:
    (problem,) = answer(planned("llama-cpp"), "none", "Apple M2").problems
    assert problem == "llama-bin for aarch64-darwin is built for Metal alone, and no such GPU was named or found"
    assert any("there are variants for XPU, CUDA and ROCm" in why for why in answer(kernels(), "none", "znver4").why)


def kernels() -> Plan:
    return planned("hf-kernels")


def test_the_values_of_declared_axes_are_named_and_are_alternatives() -> None:
    found = answer(planned("flash-attention"), "H100", "znver4", driver="550")
    assert best(found) == "flash-attn-python313-torch2_10_0-abiTRUE-cuda12_9-x86_64-linux"
    assert (
        "built for torch 2.10.0; there are others for 2.9.1, 2.8.0, 2.7.1 and 2.6.0, so take the one that you use"
        in (found.why)
    )
    notes = {one.offer.name: one.note for one in found.runners_up}
    assert notes["flash-attn-python313-torch2_6_0-abiTRUE-cuda12_9-x86_64-linux"] == "for torch 2.6.0"
    assert len(notes) == len(found.runners_up)


def test_toolkits_of_other_families_keep_their_name_and_need_no_driver_of_nvidia() -> None:
    found = answer(kernels(), "rocm", "znver4")
    assert best(found) == "kernel-torch213-cxx11-rocm72-x86_64-linux"
    assert found.doubts == ()
    assert "CUDA" not in " ".join([*found.why, *(one.note for one in found.runners_up)])
    assert any(one.note == "older: ROCm 7.1" for one in found.runners_up)


def test_a_result_for_every_platform_is_offered_everywhere_and_one_that_serves_several_on_these() -> None:
    llama = planned("llama-cpp")
    assert best(answer(llama, "none", "Apple M2", package="llama-ui")) == "llama-ui-any"
    assert best(answer(llama, "metal", "Apple M2", package="llama-xcframework")).endswith("universal-apple")
    assert best(answer(llama, "metal", "znver4", package="llama-xcframework")) == ""


def test_a_wish_for_a_toolkit_says_what_to_give_up_for_a_newer_one() -> None:
    found = answer(kernels(), "A100", "znver4", toolkit="13.0")
    assert [one.note for one in found.better] == ["CUDA 13.2 in place of 13.0"]


def test_the_offer_in_json_has_its_axes() -> None:
    offer = answer(kernels(), "none", "znver4").as_json()["best"]
    assert offer["axes"] == {
        "branch": "main",
        "torch": "2.13",
        "platform": "x86_64-linux",
        "abi": "cxx11",
        "family": "cpu",
    }


# Installation.


def test_what_a_variant_needs_is_installed_with_it_from_another_cell() -> None:
    spec = small(axes={"python": {"serves": {"abi3": ["3.12", "3.13"]}}}, packages={"lib": {}, "wheel": {}})
    spec["branches"]["main"]["versions"] = {"lib": "1", "wheel": "2"}
    spec["packages"] = {"lib": {"ignores": ["python"], "recipes": "own"}, "wheel": {"needs": ["lib"]}}
    spec["matrix"] = {"values": {"python": "abi3", "accelerator": ["cpu", "cuda 12.8 sm90"], "isa": "avx2"}}
    decided = plan(spec_of(spec))
    found = answer(decided, "H100", "znver4", package="wheel", python="3.12")
    assert best(found) == "wheel-abi3-cuda12_8-sm90-avx2"
    (line,) = found.install
    assert "lib-cuda12_8-sm90-avx2" in line
    assert best(found) in line


def flash(line: str) -> Spec:
    value: dict[str, Any] = yaml.safe_load((GOOD / "flash-attention/ci-matrix.yaml").read_text("utf-8"))
    value["packages"]["flash-attn"]["command"]["install"] = line
    return parse_spec(yaml.safe_dump(value).encode(), shown="spec.yaml")


def lines(spec: Spec, cells: Iterable[Cell]) -> list[str]:
    return [
        line
        for cell in cells
        for line in install(Needs(spec, cells), (), cell, {one.package: one.name for one in cell.variants})
    ]


def test_the_install_line_takes_the_axes_and_settings_of_the_spec() -> None:
    spec = flash("get @version@ cu@toolkit@ torch@torch@ abi@cxx11abi@ cp@python@ @platform@ @cuda-version@ @family@")
    made = lines(spec, judge(spec).cells)
    assert len(made) == len(set(made)) == 56
    first = "get 2.8.3+cu129torch2.6.0cxx11abiFALSE cu12.9 torch2.6.0 abiFALSE cp3.10 x86_64-linux 12.9.1 cuda"
    assert made[0] == first


def test_the_page_has_the_install_line_of_every_variant() -> None:
    rows = data(planned("llama-cpp"))
    shown = [rows["installs"][cell["install"]] for cell in rows["cells"]]
    assert all(any(line.startswith("curl -LO ") for line in one.values()) for one in shown)
    assert not any("@" in line for one in shown for line in one.values())


def test_offers_of_the_short_form_have_no_further_keys() -> None:
    decided = planned("smallest")
    found = answer(decided, "none", decided.judged.cells[0].isa)
    assert found.best
    assert found.best.as_json().keys() == asdict(found.best).keys() - {"values", "pythons", "kit"}

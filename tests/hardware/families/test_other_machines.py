"""Machines with GPUs of AMD, or of families without facts, get a variant that they run, or an honest no."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.documents.site.data import data
from ci_compiler.hardware import UnknownHardwareError, pasted, products, tables
from ci_compiler.hardware.machine import Machine
from ci_compiler.reports.evidence import proofs
from ci_compiler.reports.offers import Wishes
from ci_compiler.reports.select import select
from tests.documents.test_finder import answers, looked_up, shown, vars_of
from tests.loops import each
from tests.plan.test_open_matrix import decided
from tests.rows import for_each_row

ROWS: list[list[str]] = json.loads(Path(__file__).with_name("other_machines.json").read_bytes())["machines"]
TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx1030", "gfx11-generic", "gfx12-generic")
MATRIX: dict[str, Any] = {
    "rows": [
        {
            "platform": "x86_64-linux",
            "accelerator": [
                "cpu",
                *(f"rocm 7.1 {target}" for target in TARGETS),
                *(f"xpu 2026.0 {target}" for target in ("pvc", "dg2", "bmg")),
            ],
        },
        {"platform": "aarch64-darwin", "accelerator": "metal"},
    ]
}
POOLS = {
    "x86": {"runs-on": ["self-hosted", "linux", "x64", "builder"]},
    "mac": {"runs-on": ["self-hosted", "macOS", "arm64"], "system": "aarch64-darwin"},
}
DECLARED = {
    "families": {
        "xpu": {"title": "XPU"},
        "cann": {"title": "CANN", "targets": ["ascend*"]},
        "metal": {"title": "Metal", "targets": []},
        "vulkan": {"title": "Vulkan", "targets": []},
    }
}
SPEC = decided(MATRIX, runners=POOLS, hardware=DECLARED)
PASTED: list[list[str]] = json.loads(Path(__file__).with_name("other_pasted.json").read_bytes())
OPEN = decided(
    {
        "rows": [
            {"platform": "x86_64-linux", "accelerator": ["cpu", "cuda 13.0", "rocm 7.1", "xpu", "cann", "vulkan"]},
            {"platform": "aarch64-darwin", "accelerator": "metal"},
        ]
    },
    runners=POOLS,
    hardware=DECLARED,
)
WISHES = Wishes(package="ext")


def machine(gpu: str, cpu: str) -> Machine:
    this = Machine(system="x86_64-linux")
    return products.machine(SPEC.spec.hardware, gpu=gpu, cpu_name=cpu or None, driver="", this=lambda: this)


@for_each_row(ROWS)
def test_select_names_its_family_target_and_toolkit_or_says_no(row: list[str]) -> None:
    gpu, cpu, identity, chosen, refusal, *_ = row
    if refusal and not chosen and not identity and gpu not in products.NO_GPU:
        with pytest.raises((products.ForeignGpuError, UnknownHardwareError), match=refusal):
            machine(gpu, cpu)
        return
    own = machine(gpu, cpu)
    assert " ".join(f"{one.family} {one.sm}" for one in own.gpus) == identity
    found = select(SPEC.spec, SPEC.judged.cells, own, WISHES)
    assert (found.best.name if found.best else "") == (f"ext-{chosen}-{own.system}" if chosen else "")
    assert (refusal in " ".join(found.problems)) if refusal else not found.problems


def test_the_page_answers_as_select_does() -> None:
    asked = [
        {"names": {"gpu": gpu, "cpu": cpu or None, "driver": ""}, "wishes": vars_of(WISHES)} for gpu, cpu, *_ in ROWS
    ]
    known = proofs(SPEC.spec, SPEC.judged.cells, SPEC.routes)
    for (gpu, cpu, *_), answer in each(zip(ROWS, answers(data(SPEC), asked), strict=True)):
        try:
            own = machine(gpu, cpu)
        except (products.ForeignGpuError, UnknownHardwareError):
            assert "unknown" in answer, gpu
        else:
            expected = select(SPEC.spec, SPEC.judged.cells, own, WISHES, known=known)
            assert looked_up(answer) == shown(expected), (gpu, cpu)


@pytest.mark.parametrize("text", ["MI300X", "bmg", "metal", "gfx942"])
def test_a_gpu_of_a_card_says_nothing_about_the_cpu(text: str) -> None:
    assert machine(text, "").system == "x86_64-linux"


def test_each_machine_has_a_source() -> None:
    assert all(len(row) == 6 and row[5] for row in ROWS)
    assert {row[2].split()[0] for row in ROWS if row[2]} == {"rocm", "metal"}


def _read(text: str) -> str:
    """The family and the target of the GPU that counts in a text, `none`, or `refused`."""
    hardware = OPEN.spec.hardware
    found = pasted.read(hardware, text)
    try:
        gpus = () if found.problem else pasted.machine(hardware, found).gpus
    except (products.ForeignGpuError, UnknownHardwareError):
        return "refused"
    counts = products.strongest(hardware, gpus)
    return f"{counts.family} {counts.sm}" if counts else "refused" if found.problem else "none"


@for_each_row(map(tuple, PASTED))
def test_what_tools_print_names_its_family_and_target(text: str, identity: str, source: str) -> None:
    assert _read(text) == identity, source


def test_the_page_reads_it_as_select_does() -> None:
    for (text, identity, _), answer in each(
        zip(PASTED, answers(data(OPEN), [{"pasted": row[0]} for row in PASTED]), strict=True)
    ):
        assert answer.get("gpu", "refused") == identity.split()[-1], text


def test_a_mac_says_nothing_of_its_gpu_where_no_variant_is_for_it() -> None:
    text = PASTED[14][0]
    found = pasted.machine(tables(), pasted.read(tables(), text))
    assert (found.gpus, found.system) == ((), "aarch64-darwin")


@pytest.mark.parametrize("text", ["AMD Ryzen AI 9 HX 370 w/ Radeon 890M", "model name : AMD RYZEN AI MAX+ 395"])
def test_the_name_of_a_chip_is_that_of_its_cpu_and_of_its_gpu(text: str) -> None:
    found = pasted.machine(OPEN.spec.hardware, pasted.read(OPEN.spec.hardware, text))
    assert (found.system, "avx512bf16" in found.isas, len(found.gpus)) == ("x86_64-linux", True, 1)
    (answer,) = answers(data(OPEN), [{"pasted": text}])
    assert (answer["gpu"], answer["isas"]) == (found.gpus[0].sm, list(found.isas))


@pytest.mark.parametrize("names", [("Raphael", "RX 7900 XTX"), ("RX 7900 XTX", "Raphael")])
def test_an_integrated_gpu_never_counts_beside_another_one(names: tuple[str, str]) -> None:
    found = pasted.machine(SPEC.spec.hardware, pasted.read(SPEC.spec.hardware, " + ".join((*names, "znver4"))))
    best = select(SPEC.spec, SPEC.judged.cells, found, WISHES).best
    assert best
    assert best.target == "gfx11-generic"

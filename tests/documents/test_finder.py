"""The page gives the answers of `select`: for the table of machines, for any spec and machine, and for products."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_compiler.documents import site
from ci_compiler.documents.site.data import data
from ci_compiler.hardware import UnknownHardwareError, pasted, products, tables
from ci_compiler.hardware.drivers import driver_number
from ci_compiler.hardware.machine import Machine, isas_of
from ci_compiler.hardware.workloads import Workload
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.reports.evidence import proofs
from ci_compiler.reports.offers import Wishes
from ci_compiler.reports.select import Recommendation, select
from ci_compiler.spec.build import bundled_spec
from tests.checkers.tools import require, run
from tests.hardware.pasted import texts
from tests.hardware.test_products import NAMES
from tests.loops import each
from tests.plan.test_public_matrices import planned
from tests.reports.machines import cases
from tests.reports.test_select import machines
from tests.specs import documents, spec_of

SCRIPTS = Path(site.__file__).parent


@pytest.fixture(scope="module")
def bundled() -> Plan:
    return plan(bundled_spec())


@pytest.fixture(scope="module")
def embedded(bundled: Plan) -> Any:
    """The data of the page of the bundled stack."""
    return data(bundled)


def answers(embedded: Any, questions: Sequence[dict[str, Any]]) -> list[Any]:
    """The answers of the page's script with the data that is embedded in the page, all from one process."""
    asked = {"folder": str(SCRIPTS), "data": embedded, "questions": questions}
    return list(
        json.loads(run([require("node"), Path(__file__).with_name("answers.mjs")], stdin=json.dumps(asked)).stdout)
    )


def as_question(machine: Machine, wishes: Wishes) -> dict[str, Any]:
    strongest = max(machine.gpus, key=lambda one: one.capability, default=None)
    asked = {
        "gpu": strongest and {"name": strongest.name, "sm": strongest.sm},
        "cpu": {"system": machine.system, "isas": list(machine.isas)} if machine.system else None,
        "driver": driver_number(strongest.driver) if strongest else 0,
    }
    return {"machine": asked, "wishes": vars_of(wishes)}


def vars_of(wishes: Wishes) -> dict[str, str]:
    return {
        "package": wishes.package,
        "workload": wishes.workload.value,
        "branch": wishes.branch,
        "python": wishes.python,
    }


def shown(choice: Recommendation) -> dict[str, Any]:
    """The part of an answer that the page shows: of better variants, the name, the branch and the note."""
    answer = choice.as_json()
    return answer | {"better": [kept(one, "name", "branch", "note") for one in answer["better"]]}


def kept(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def looked_up(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer of the page's script, without the positions of the variants among the cells."""
    offers = [*answer["runners_up"], *([answer["best"]] if answer["best"] else [])]
    for one in offers:
        del one["at"]
    return answer | {"better": [kept(one, "name", "branch", "note") for one in answer["better"]]}


@pytest.mark.slow
def test_it_gives_the_same_answers_on_every_machine_of_the_table(bundled: Plan, embedded: Any) -> None:
    table = cases()
    asked: list[dict[str, Any]] = [
        {"names": {"gpu": case.gpu, "cpu": case.cpu, "driver": case.driver}, "wishes": vars_of(case.wishes)}
        for case in table
    ]
    cells = bundled.judged.cells
    for question in asked[::2]:
        question["wishes"]["everything"] = True
    known = proofs(bundled.spec, cells, bundled.routes)
    for at, (case, answer) in each(enumerate(zip(table, answers(embedded, asked), strict=True))):
        expected = select(bundled.spec, cells, case.machine, case.wishes, everything=at % 2 == 0, known=known)
        assert looked_up(answer) == shown(expected), str(case)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flash-attention", "llama-cpp", "hf-kernels"])
def test_it_gives_the_same_answers_for_open_matrices(name: str) -> None:
    decided = planned(name)
    some = [
        products.machine(decided.spec.hardware, gpu=gpu, cpu_name=cpu, driver=driver, this=lambda: Machine(system=""))
        for gpu in ("none", "H100", "A100")
        for cpu in ("znver4", "Apple M2", "Graviton4", "unknown")
        for driver in (("", "525", "580") if gpu != "none" else ("",))
        if (gpu, cpu) not in {("H100", "Apple M2"), ("A100", "Apple M2")}
    ]
    wishes = [Wishes(package=package) for package in decided.spec.packages]
    asked = [as_question(machine, wish) for machine in some for wish in wishes]
    found = answers(data(decided), asked)
    known = proofs(decided.spec, decided.judged.cells, decided.routes)
    expected = [
        select(decided.spec, decided.judged.cells, machine, wish, known=known) for machine in some for wish in wishes
    ]
    assert any(one.best for one in expected)
    for one, answer in zip(expected, found, strict=True):
        assert looked_up(answer) == shown(one)


@given(documents(), st.lists(machines(), min_size=4, max_size=12), st.data())
@settings(max_examples=10, deadline=None)
def test_it_gives_the_same_answers_for_any_spec_and_machine(
    document: dict[str, Any], some: list[Machine], draw: st.DataObject
) -> None:
    decided = plan(spec_of(document))
    spec = decided.spec
    some = [one if draw.draw(st.booleans()) else replace(one, system="", isas=()) for one in some]
    wishes = [
        Wishes(
            package=draw.draw(st.sampled_from(list(spec.packages))),
            workload=draw.draw(st.sampled_from(Workload)),
            branch=draw.draw(st.sampled_from(["", "", *spec.branches])),
            python=draw.draw(st.sampled_from(["", "", *spec.pythons])),
        )
        for _ in some
    ]
    asked = [as_question(machine, wish) for machine, wish in zip(some, wishes, strict=True)]
    for question in asked[::2]:
        question["wishes"]["everything"] = True
    known = proofs(spec, decided.judged.cells, decided.routes)
    for at, (machine, wish, answer) in each(enumerate(zip(some, wishes, answers(data(decided), asked), strict=True))):
        expected = shown(select(spec, decided.judged.cells, machine, wish, everything=at % 2 == 0, known=known))
        if len({one.sm for one in machine.gpus}) > 1 and expected["best"]:
            del expected["why"][0]  # the page has one GPU, so it does not say which is the strongest
        assert looked_up(answer) == expected


def test_it_knows_the_same_names(embedded: Any) -> None:
    gpus = [text for texts in NAMES["gpus"].values() for text in texts]
    cpus = [text for texts in NAMES["cpus"].values() for text in texts]
    told = answers(embedded, [{"gpu": text} for text in gpus] + [{"cpu": text} for text in cpus])
    for text, answer in each(zip(gpus, told, strict=False)):
        device = products.device(tables(), text)
        assert device is not None
        assert answer["sm"] == device.sm, text
    for text, answer in each(zip(cpus, told[len(gpus) :], strict=True)):
        one = products.cpu(tables(), text)
        assert (answer["name"], answer["system"], answer["isas"]) == (one.name, one.system, list(one.isas))


@given(texts=st.lists(st.text(max_size=30), min_size=20, max_size=40))
@settings(max_examples=5, deadline=None)
def test_it_knows_no_other_names(embedded: Any, texts: list[str]) -> None:
    texts = [*texts, "Skylake", "RTX 6000", "armv8.2", "avx2,sve", "constructor", "__proto__", "Radeon VII"]

    def known(look_up: Any, text: str) -> bool:
        try:
            return look_up(tables(), text) is not None
        except (UnknownHardwareError, ValueError):
            return False

    told = answers(embedded, [{"gpu": text} for text in texts] + [{"cpu": text} for text in texts])
    expected = [known(products.device, text) for text in texts] + [known(products.cpu, text) for text in texts]
    assert [answer is not None and "unknown" not in answer for answer in told] == expected


SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |
| N/A   31C    P0             73W /  700W |       1MiB /  81559MiB |      0%      Default |
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:3B:00.0 Off |                    0 |
"""

LSCPU = """\
Architecture:            x86_64
  CPU op-mode(s):        32-bit, 64-bit
Vendor ID:               GenuineIntel
  Model name:            Intel(R) Xeon(R) Platinum 8480+
    Flags:               fpu sse2 avx f16c avx2 fma avx512f avx512dq avx512bw avx512vl avx512_vnni avx512_bf16
"""

GRACE = """\
Architecture:           aarch64
Vendor ID:              ARM
  Model name:           Neoverse-V2
    Flags:              fp asimd fphp asimdhp asimddp sve sve2
"""


@pytest.mark.parametrize(
    ("text", "gpus", "driver"),
    [
        (SMI, ["NVIDIA H100 80GB HBM3"], "570.86.15"),
        ("GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-1f)", ["NVIDIA GeForce RTX 4090"], ""),
        ("name, compute_cap, driver_version\nNVIDIA L40S, 8.9, 580.65.06", ["NVIDIA L40S"], "580.65.06"),
        ("0, Tesla T4, 7.5, 15360, 535.183.01, [N/A]", ["Tesla T4"], "535.183.01"),
        ("NVIDIA GB10", ["NVIDIA GB10"], ""),
        ("    Product Name                          : NVIDIA A30", ["NVIDIA A30"], ""),
        (
            "01:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)",
            ["GeForce RTX 4090"],
            "",
        ),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", [], ""),
    ],
)
def test_it_reads_what_tools_print_of_gpus(embedded: Any, text: str, gpus: list[str], driver: str) -> None:
    [told] = answers(embedded, [{"text": text}])
    assert (told["gpus"], told["driver"]) == (gpus, driver)
    assert (list(pasted.read(tables(), text).gpus), pasted.read(tables(), text).driver) == (gpus, driver)
    assert (told["cpu"] or {"name": "NVIDIA GB10"})["name"] == "NVIDIA GB10"


@pytest.mark.parametrize("text", [LSCPU, GRACE, LSCPU.replace(" fma", ""), LSCPU.replace(" avx512vl", "")])
def test_it_reads_flags_as_the_runner_does(bundled: Plan, embedded: Any, text: str) -> None:
    [told] = answers(embedded, [{"text": SMI + text}])
    flags = text.split("Flags:")[1].split()
    system = told["cpu"]["system"]
    assert system == ("x86_64-linux" if text != GRACE else "aarch64-linux")
    assert told["cpu"]["isas"] == list(isas_of(bundled.spec.hardware, system, flags))
    assert told["gpus"] == ["NVIDIA H100 80GB HBM3"]
    found = pasted.machine(bundled.spec.hardware, pasted.read(tables(), SMI + text))
    assert (found.system, list(found.isas)) == (system, told["cpu"]["isas"])


def test_it_reads_what_people_paste_as_select_does(embedded: Any) -> None:
    rows = list(texts())
    told = answers(embedded, [{"pasted": row.text} for row in rows])
    for row, answer in each(zip(rows, told, strict=True)):
        if row.gpu == "foreign":
            assert "unknown" in answer, row.text
        else:
            assert row.verdict(answer["gpu"], answer["system"], tuple(answer["isas"])) == "right", row.text


def test_flags_go_before_the_name(embedded: Any) -> None:
    """A guest whose host masks AVX-512 does not have it, whatever the name of its CPU."""
    masked = LSCPU.replace(" avx512f", "")
    named = "model name : Intel(R) Xeon(R) Platinum 8480+\n"
    told = answers(embedded, [{"text": masked}, {"text": named}])
    assert told[0]["cpu"]["isas"] == ["baseline", "avx", "avx2"]
    assert "avx512bf16" in told[1]["cpu"]["isas"]

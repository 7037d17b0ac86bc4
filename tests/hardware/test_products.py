"""Names of GPUs and CPUs as people and tools write them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from archspec import cpu
from hypothesis import given
from hypothesis import strategies as st

from ci_compiler.hardware import UnknownHardwareError, products, tables
from ci_compiler.hardware.machine import Machine, isas_of
from tests.loops import each
from tests.rows import for_each_row

NAMES: dict[str, Any] = json.loads(Path(__file__).with_name("products.json").read_bytes())
"""Names as people and tools write them: GPUs by architecture, CPUs by instruction sets, and `invented` ones.

Sources: Intel ARK, AMD's product pages, QEMU's target/i386/cpu.c, GCC's option tables, Arm's reference manuals.
"""


@for_each_row((text, sm) for sm, texts in NAMES["gpus"].items() for text in texts)
def test_gpus(text: str, sm: str) -> None:
    device = products.device(tables(), text)
    assert device is not None
    assert device.sm == sm


def test_every_product_in_the_tables_has_its_own_architecture() -> None:
    for gpu in each(tables().gpus.values()):
        for product in (*gpu.products, gpu.name, str(gpu.capability)):
            device = products.device(tables(), product)
            assert device is not None
            assert device.sm == gpu.name, product


@for_each_row((text, isas) for isas, texts in NAMES["cpus"].items() for text in texts)
def test_cpus(text: str, isas: str) -> None:
    found = products.cpu(tables(), text)
    assert set(found.isas) == tables().runs(isas.split(), found.system)


def test_the_table_has_enough_cpus_and_the_ones_that_were_mistaken_before() -> None:
    names = [text for texts in NAMES["cpus"].values() for text in texts]
    assert len(set(names)) == len(names) >= 120
    assert {"Threadripper 7980X", "7800X3D", "x86-64-v3", "znver4", "Apple M2"} <= set(names)


@for_each_row(NAMES["invented"])
def test_invented_and_ambiguous_models_are_unknown(text: str) -> None:
    with pytest.raises(UnknownHardwareError, match=r"unknown (CPU|ISA)"):
        products.cpu(tables(), text)


NOT_CPUS = {"x86", "i686", "pentium2", "pentium3", "pentium4", "prescott", "arm", "skylake"}
"""archspec's names of 32-bit CPUs, and a name that many CPUs without and with AVX-512 share."""

LEVELS = {f"armv8.{minor}a" for minor in range(2, 7)}
"""Architecture levels in which FP16 is optional, so that they say too little."""


def test_the_cpus_have_the_features_that_archspec_has() -> None:
    compared = 0
    for name, known in cpu.TARGETS.items():
        family = {"x86_64": "x86_64-linux", "aarch64": "aarch64-linux"}.get(str(known.family), "")
        if family and name not in NOT_CPUS | LEVELS:
            found = products.cpu(tables(), name.replace("_", "-"))
            expected = set(isas_of(tables(), family, known.features))
            if name in {"armv9.0a", "armv9.2a"}:  # archspec lists no features; GCC's armv9-a implies SVE2
                expected = set(tables().runs(["armv9"], family))
            if known.vendor == "Apple":  # these run macOS; Linux on them is a name of its own
                expected = set(tables().runs([], "aarch64-darwin"))
                assert set(products.cpu(tables(), "Asahi Linux").isas) == set(isas_of(tables(), family, known.features))
            assert set(found.isas) == expected, name
            compared += 1
    assert compared >= 45


def test_every_name_of_a_cpu_finds_it() -> None:
    for one in products.cpus(tables()).values():
        assert products.cpu(tables(), one.name) == one
    shown = products.as_data(tables())["cpu"]["shown"]
    assert len(shown) == len(set(shown))
    rows = {name for name, keys, _ in products.as_data(tables())["cpu"]["rows"] if keys}
    assert {products.cpu(tables(), name).name for name in shown} <= rows == products.cpus(tables()).keys()


@pytest.mark.parametrize(
    ("text", "isas"),
    [
        ("avx2", "baseline avx avx2"),
        ("avx512bf16,avx512vnni", "baseline avx avx2 avx512 avx512vnni avx512bf16"),
        ("ARMV9", "arm64 armv8_2 armv9"),
    ],
)
def test_instruction_sets_are_cpus(text: str, isas: str) -> None:
    assert " ".join(products.cpu(tables(), text).isas) == isas


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("DGX Sprak", "unknown GPU 'DGX Sprak'; did you mean DGX Spark"),
        ("RTX 4091", "did you mean RTX 4090"),
        ("H300", "did you mean H"),
        ("RTX 6000", "RTX A6000 or"),
        ("", "known are sm100, "),
        ("RTX", "unknown GPU"),
        ("NVIDIA GeForce ...", "unknown GPU"),
        ("sm99", "unknown GPU"),
    ],
)
def test_errors_for_unknown_gpus_name_the_nearest(text: str, said: str) -> None:
    with pytest.raises(UnknownHardwareError, match="unknown GPU") as caught:
        products.device(tables(), text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Skylake", "did you mean Skylake-"),  # the client's has no AVX-512, the server's has
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "known are apple, arm64, armv8_2, armv9, avx"),
        ("armv8.2", "unknown ISA 'armv8.2'; did you mean armv8_2?"),
        ("avx2,sve", "unknown ISA 'sve'"),
        ("", "unknown CPU ''"),
    ],
)
def test_errors_for_unknown_cpus_name_the_nearest(text: str, said: str) -> None:
    with pytest.raises(UnknownHardwareError) as caught:
        products.cpu(tables(), text)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["Radeon RX 7900 XTX", "MI300X", "AMD Instinct MI250", "Intel Arc A770"])
def test_gpus_of_other_makers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not one of NVIDIA's"):
        products.device(tables(), text)


def test_a_cpu_has_one_system() -> None:
    with pytest.raises(ValueError, match="aarch64-linux and x86_64-linux"):
        products.cpu(tables(), "avx2,armv9")


@pytest.mark.parametrize("text", ["none", "None", "cpu", " no "])
def test_no_gpu(text: str) -> None:
    assert products.device(tables(), text) is None


@pytest.mark.parametrize(
    ("gpu", "cpu"),
    [("GH200", "NVIDIA Grace"), ("sm121", "NVIDIA GB10"), ("Orin NX 16GB", "NVIDIA Orin"), ("sm110", "NVIDIA Thor")],
)
def test_modules_bring_their_cpu(gpu: str, cpu: str) -> None:
    device = products.device(tables(), gpu)
    assert device is not None
    beside = products.cpu_of(tables(), device)
    assert beside is not None
    assert beside.name == cpu
    assert all(products.device(tables(), one) for one in beside.gpus)


@pytest.mark.parametrize("gpu", ["RTX 4090", "sm90", "H100"])
def test_cards_do_not(gpu: str) -> None:
    device = products.device(tables(), gpu)
    assert device is not None
    assert products.cpu_of(tables(), device) is None


def test_what_is_not_given_is_this_machine_s() -> None:
    card = products.device(tables(), "RTX 3090", "570.1")
    assert card is not None
    here = Machine(system="x86_64-linux", isas=("avx", "avx2"), gpus=(card,), cpu="mine")

    def told(gpu: str | None = None, cpu: str | None = None, driver: str = "") -> Machine:
        return products.machine(tables(), gpu=gpu, cpu_name=cpu, driver=driver, this=lambda: here)

    assert told() == here
    assert told(driver="580").gpus[0].driver == "580"
    other = told(gpu="H100")
    assert (other.cpu, other.gpus[0].sm, other.gpus[0].driver) == ("mine", "sm90", "")
    assert told(gpu="none") == Machine(system="x86_64-linux", isas=("avx", "avx2"), cpu="mine")
    assert told(cpu="Zen 4").gpus == here.gpus
    assert told(cpu="Graviton3").gpus == ()
    assert told(gpu="DGX Spark").system == "aarch64-linux"


@given(st.text(max_size=40))
def test_any_text_is_a_name_or_an_error(text: str) -> None:
    with suppress(UnknownHardwareError, ValueError):
        products.device(tables(), text)
    with suppress(UnknownHardwareError, ValueError):
        products.cpu(tables(), text)

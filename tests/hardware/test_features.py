"""Compiler flags as sets of CPU features: what GCC and LLVM say they imply, and what proves them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ci_compiler.hardware import tables
from ci_compiler.hardware.features import UnknownFlagError, declaration, exceeds, features, least, refined, unproved


def of(flags: str) -> frozenset[str]:
    return features(flags.split())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("-march=armv9-a+sve+sve2", "-march=armv9-a+sve2"),
        ("-march=armv9-a", "-march=armv9-a+sve2"),
        ("-march=armv9-a+sve2+bf16+nobf16", "-march=armv9-a"),
        ("-march=armv8.2-a+crypto", "-march=armv8.2-a+aes+sha2"),
        ("-mcpu=neoverse-n1", "-march=armv8.2-a+fp16+dotprod+rcpc"),
        ("-march=armv8.2-a -mcpu=neoverse-v2", "-march=armv8.2-a"),
        ("-mavx512f -mfma -mf16c -mavx2", "-mavx512f"),
        ("-mavx -mno-fma -mno-avx2", "-mavx"),
        ("-march=haswell -march=x86-64-v3", "-march=x86-64-v3"),
        ("-mno-avx2 -march=x86-64-v3", "-march=x86-64-v3 -mno-avx2"),
        ("-mavx512bw -mno-avx512f", "-mavx2 -mfma -mf16c"),
        ("-mavx2 -mtune=haswell -mcmodel=medium -O2", "-mavx2"),
        ("-march=x86-64", ""),
        ("-march=armv8-a", "-mcpu=generic"),
    ],
)
def test_flags_that_turn_on_the_same(one: str, other: str) -> None:
    assert of(one) == of(other)


@pytest.mark.parametrize(
    ("flags", "on", "off"),
    [
        ("-march=haswell", "avx2 fma f16c bmi bmi2 movbe lzcnt fsgsbase", "avx512f adx aes"),
        ("-march=skylake-avx512", "avx512f avx512vl avx512bw avx512dq avx512cd aes", "avx512vnni"),
        ("-march=icelake-server", "avx512vnni avx512vbmi2 gfni vaes", "avx512bf16"),
        ("-march=sapphirerapids", "avx512bf16 avx512fp16 amx-tile avxvnni", "amx-fp16"),
        ("-march=znver3", "avx2 sha vaes", "avx512f"),
        ("-march=znver4", "avx512bf16 avx512vnni", "avx512fp16 amx-tile"),
        ("-mavx10.2", "avx512bf16 avx512fp16 avx2", "amx-tile"),
        ("-mcpu=neoverse-v2", "sve2 bf16 i8mm sve2-bitperm", "sme"),
        ("-mcpu=neoverse-v1", "sve bf16 dotprod", "sve2"),
        ("-march=armv8.6-a", "bf16 i8mm lse", "sve fp16"),
        ("-mno-nothing -mstackrealign", "", "avx"),
    ],
)
def test_what_flags_turn_on(flags: str, on: str, off: str) -> None:
    assert set(on.split()) <= of(flags)
    assert not set(off.split()) & of(flags)


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("-march=armv9-a+sve3", "unknown 'sve3'; did you mean sve"),
        ("-march=skylake-avx", "unknown 'skylake-avx'; did you mean skylake"),
        ("-march=native", "unknown 'native'"),
        ("-mcpu=neoverse-v9", "did you mean neoverse-v"),
        ("-march=x86-64-v3+avx512f", "unknown 'x86-64-v3'"),
    ],
)
def test_an_unknown_architecture_or_extension_is_an_error(flag: str, said: str) -> None:
    with pytest.raises(UnknownFlagError) as caught:
        features([flag])
    assert str(caught.value).startswith(f"{flag}: ")
    assert said in str(caught.value)


def test_what_exceeds_an_isa_is_named_by_the_features_that_imply_the_rest() -> None:
    hardware = tables()
    assert exceeds(["-march=armv9-a+sve+sve2"], hardware.isa("armv9")) == set()
    assert least(exceeds(["-march=armv9-a+sve2+bf16+i8mm"], hardware.isa("armv9"))) == ["i8mm", "bf16"]
    assert least(exceeds(["-mavx2", "-mfma"], hardware.isa("avx"))) == ["avx2", "fma"]
    assert least(exceeds(["-mavx2"], hardware.isa("baseline"))) == ["avx2"]


@pytest.mark.parametrize("name", tables().isas)
def test_every_bundled_isa_is_proved(name: str) -> None:
    assert unproved(tables(), tables().isa(name)).features == ()


@pytest.mark.parametrize(
    ("name", "flags", "adding"),
    [
        ("armv9", "-march=armv9-a+sve2+bf16+i8mm", {"i8mm", "bf16"}),
        ("armv8_2", "-march=armv9-a+fp16+dotprod", {"sve2"}),
        ("avx2", "-march=x86-64-v3", {"bmi1", "bmi2", "abm", "movbe", "cx16", "lahf_lm"}),
        ("avx512", "-mavx10.1", {"avx10_1"}),
    ],
)
def test_an_isa_with_other_flags_is_proved_as_it_is_declared(name: str, flags: str, adding: set[str]) -> None:
    hardware = tables()
    isa = hardware.isa(name)
    changed = refined(isa, flags.split())
    assert set(changed.cpuinfo) - set(isa.cpuinfo) == adding
    assert unproved(hardware, changed).features == ()
    assert unproved(hardware, replace(changed, cpuinfo=isa.cpuinfo)).features
    assert declaration(changed).startswith(f"hardware: {{isas: {{{name}: {{flags: [")

"""Anything that people paste: no text is taken for another machine, and few are refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ci_compiler.hardware import UnknownHardwareError, pasted, products, tables
from tests.hardware.pasted import Text, texts


def _verdict(row: Text) -> str:
    try:
        found = pasted.read(tables(), row.text)
        machine = pasted.machine(tables(), found)
    except products.ForeignGpuError:
        return "right" if row.gpu == "foreign" else "wrong"
    except (UnknownHardwareError, ValueError):
        return "refused"
    if found.problem:
        return "refused"
    strongest = max(machine.gpus, key=lambda one: one.capability, default=None)
    return row.verdict(strongest.sm if strongest else "none", machine.system, machine.isas)


@pytest.mark.slow
def test_nothing_is_taken_for_another_machine_and_few_texts_are_refused() -> None:
    found = {row.text: _verdict(row) for row in texts()}
    assert [text for text, verdict in found.items() if verdict == "wrong"] == []
    counts = Counter(found.values())
    assert len(found) >= 530
    assert counts["refused"] + counts["vague"] < 0.02 * len(found)


def test_each_group_of_texts_has_a_source() -> None:
    groups = json.loads(Path(__file__).with_name("pasted.json").read_bytes())
    assert all(group["source"] and group["rows"] for group in groups)


UNKNOWN = ("hello", "my computer", "RTX 490", "i9-99999K", "c3", "RTX 4090 + foo", "kubectl", "NAME STATUS")
CLOUD = ("p4d.24xlarge", "c7g", "a2-highgpu-1g", "Standard_ND96isr_H100_v5", "instance-type: p5.48xlarge")
"""Names of clouds for machines, of which no table is kept."""


@pytest.mark.parametrize("text", [*UNKNOWN, *CLOUD])
def test_what_is_not_understood_is_refused(text: str) -> None:
    assert pasted.read(tables(), text).problem


def test_several_machines_are_not_taken_for_one() -> None:
    table = "NAME STATUS ROLES\nn1 Ready <none> 3d v1.30.4 g5.xlarge\nn2 Ready <none> 3d v1.30.4 g5.xlarge"
    assert "several machines" in pasted.read(tables(), table).problem


def test_an_arm_machine_without_a_model_is_never_an_x86_one() -> None:
    node = '{"kubernetes.io/arch": "arm64", "nvidia.com/gpu.product": "NVIDIA-L4"}'
    assert pasted.machine(tables(), pasted.read(tables(), node)).system == "aarch64-linux"

"""What all families have in common, known or not."""

from __future__ import annotations

import pytest

from ci_compiler.hardware.families import DEFAULT, FAMILIES, NONE, NamedTarget, facts, family_of
from tests.hardware.families import runs, what_runs


@pytest.mark.parametrize("name", FAMILIES)
def test_each_family_runs_what_is_built_for_it_as_a_whole(name: str) -> None:
    family = family_of(name)
    assert family.name == name
    assert family.title not in {"", name}
    assert runs(family, name, name)
    assert not runs(family, name, "neuron")
    assert family_of(name) is family


def test_a_family_without_facts_has_targets_without_an_order() -> None:
    family = family_of("neuron")
    assert (family.name, family.title, family.toolkit, family.vendor, family.tool) == ("neuron", "neuron", "", "", "")
    assert what_runs(family, "trn2", "trn1 trn2 trn2:fast+ trn1,trn2 all") == ["trn2", "trn1,trn2", "all"]
    assert runs(family, "trn2", "neuron")
    assert family.next_branch(31) == 32
    assert what_runs(family, "trn1,trn2", "trn1 trn2,trn1 trn1,trn2 trn2,trn3") == ["trn2,trn1", "trn1,trn2"]
    assert not any(map(family.is_target, ("", "trn1 trn2", "trn1,trn1", ":trn1", "trn1,:trn2")))
    assert family.runs(NamedTarget("neuron", "neuron"), NamedTarget("neuron", "neuron"))


def test_the_cpu_has_no_targets() -> None:
    assert NONE == "cpu"
    assert not any(map(family_of(NONE).is_target, ("", "all", "cpu", "arm64")))


def test_the_facts_of_the_short_form_are_those_of_cuda() -> None:
    assert DEFAULT == "cuda"
    assert "sm90" in facts(DEFAULT, "gpus")["gpus"]


def test_no_module_is_imported_by_a_family_of_its_name() -> None:
    assert family_of("cuda.x").title == "cuda.x"


@pytest.mark.parametrize(
    ("family", "toolkit", "tag"),
    [
        ("cuda", "13.0", "cu130"),
        ("rocm", "7.1", "rocm7.1"),
        ("cpu", "", "cpu"),
        ("openvino", "2025.1", "openvino2025.1"),
        ("cuda", "", "cuda"),
    ],
)
def test_a_tag_is_spelled_as_indices_of_packages_do(family: str, toolkit: str, tag: str) -> None:
    assert family_of(family).index_tag(toolkit) == tag

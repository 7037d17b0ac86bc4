"""Marks for a variant's own values: they survive quoting, and become parameters of a Nix function."""

from __future__ import annotations

import pytest

from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.parameters import DERIVED, OF_ONE_GPU, OWN, expanded, marked, marks_in, named_in, quoted

VALUES = dict.fromkeys(OWN, "value") | {"title": "PyTorch"}
MARKED = marked(VALUES, OWN)


def test_only_the_values_of_the_variant_get_marks() -> None:
    assert marked(VALUES, []) == VALUES
    some = marked(VALUES, ["gpu", "isa"])
    assert {key for key in VALUES if some[key] != VALUES[key]} == {"gpu", "isa"}
    assert MARKED["title"] == "PyTorch"
    assert len({MARKED[key] for key in OWN}) == len(OWN)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("name", "variantName"),
        ("pname", "pname"),
        ("gpu", "gpuArch"),
        ("capability", "gpuArchSM"),
        ("sm", "gpuArchNumber"),
        ("isa", "cpuISA"),
        ("flags", "cpuFlagsText"),
        ("system", "system"),
    ],
)
def test_a_mark_becomes_the_name_that_recipes_give_to_the_value(key: str, name: str) -> None:
    assert marks_in(f"a {MARKED[key]} b") == {name}
    assert expanded(f"a {MARKED[key]} b") == f"a ${{{name}}} b"
    assert expanded(f"x = {nix.string(MARKED[key])};") == f"x = {name};"
    assert expanded(f"  {name} = {nix.string(MARKED[key])};\n") == f"  inherit {name};\n"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("${gpu}", "${gpu}"),
        ("a$@gpu@", 'a${"$"}${gpuArch}'),
        ('"-@gpu@-"', '"-${gpuArch}-"'),
        ('a = "@gpu@@isa@";', 'a = "${gpuArch}${cpuISA}";'),
        ('gpuArch = "x";', 'gpuArch = "x";'),
        ("a.system = system;", "a.system = system;"),
    ],
)
def test_text_with_marks_becomes_nix(text: str, written: str) -> None:
    for key, mark in MARKED.items():
        text = text.replace(f"@{key}@", mark)
    assert expanded(text) == written


def test_the_marks_of_a_text_are_all_found() -> None:
    assert marks_in(f"{MARKED['gpu']}{MARKED['isa']} {MARKED['gpu']}") == {"gpuArch", "cpuISA"}
    assert marks_in("gpuArch @gpu@") == frozenset()


@pytest.mark.parametrize(
    ("text", "is_quoted"),
    [("plain", False), ("a b", True), ("-D@gpu@=@sm@", False), ("@flags@", True), ("@gpu@ b", True), ("$@gpu@", True)],
)
def test_a_word_of_a_shell_is_quoted_where_its_values_need_it(text: str, is_quoted: bool) -> None:
    for key, mark in MARKED.items():
        text = text.replace(f"@{key}@", mark)
    assert quoted(text) == (f"'{text}'" if is_quoted else text)


def test_what_follows_from_other_values_is_an_expression_of_them() -> None:
    """`capability` is 9.0 and `sm` 90; `flags` are the words of the list `cpuFlags`."""
    assert {
        OWN["sm"]: 'builtins.replaceStrings [ "." ] [ "" ] gpuArchSM',
        OWN["flags"]: 'builtins.concatStringsSep " " cpuFlags',
    } == DERIVED
    assert {"capability", "sm"} == OF_ONE_GPU < OWN.keys()


@pytest.mark.parametrize(
    ("texts", "is_named"),
    [
        ([], False),
        (["a@gpu", "gpu@"], False),
        (["@x@"], False),
        (["a", "b @system@ c"], True),
        (["@sm@", "a"], True),
    ],
)
def test_whether_code_names_a_value_of_the_variant(texts: list[str], is_named: bool) -> None:
    assert named_in(texts) is is_named

"""What each form accepts and refuses, and that the published schema has it."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from ci_compiler.spec import forms
from ci_compiler.spec.accept import accepts
from ci_compiler.spec.schema import schema
from tests.spec.published import FILE

KEY = "A" * 43 + "="
HEX = "0123456789abcdef0123456789abcdef01234567"
TABLE = {"a": 1, "gpu": {"b": [2]}, "cpu": {}}

VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "Owner": (["my-org", "a", "0_x", "a" * 63], ["", "-a", "_a", "a.b", "a/b", "a" * 64]),
    "BranchName": (
        ["main", "release/1.0", "HEAD2", "a.locked", "v1_0-rc.1", "a" * 100, HEX[:39]],
        ["", "HEAD", HEX, "refs/x", "a..b", "a.lock", "a.lock/b", "a/.b", "a.", "a./b", "-a", "a//b", "a" * 101],
    ),
    "PackageName": (["p", "py-torch_2", "a" * 40], ["", "2a", "a-", "a.b", "a" * 41]),
    "PoolName": (["x86-builder", "0", "a" * 45], ["", "A", "-a", "a-", "a_b", "a" * 46]),
    "Label": (["X64", "gpu-sm90", "a.b_c", "a" * 100], ["", "-a", "a b", "a,b", "a" * 101]),
    "Word": (["avx512", "9", "a.b_c-d"], ["", "_a", "a b", "a" * 101]),
    "CacheUrl": (
        ["s3://bucket?region=eu-1", "https://h/p", "ssh-ng://user@h", "file:///x"],
        ["http://h", "https://user:secret@h", "s3://", "s3://a b", "xs3://a"],
    ),
    "PublicKey": ([f"store-1:{KEY}"], [KEY, f"store-1:{KEY}A", "store-1:" + KEY[1:], f" store-1:{KEY}"]),
    "PackageVersion": (["2.8.0", "9", "1.0+cu128-rc"], ["v2", "2 8", "", "2" * 41]),
    "Hash": ([f"sha256-{KEY}"], [f"sha512-{KEY}", f"sha256-{KEY}=", "sha256-" + KEY[1:]]),
    "RepositoryName": (["o/r", "my-org/a.b_c"], ["o", "o/r/s", "o/.git", "-o/r", "o_x/r", "a" * 40 + "/r"]),
    "Minutes": ([1, 7200], [0, 7201, "5", 1.5, True]),
    "Amount": (["0", "2.40", "999999999.12345678"], ["2.", "02", "-1", ".5", 2.4, "1.123456789"]),
    "IsaNames": ([[], ["avx2", "avx512"]], ["avx2", ["avx2", "avx2"], ["a b"], [1]]),
    "BranchNames": ([["main"]], [[], "main", ["a", "a"], [1]]),
    "Commit": ([HEX], [HEX[1:], HEX + "0", HEX.upper()]),
    "Python": (["3.9", "3.13", "3.15"], ["3.8", "3.16", "3.130", "2.7", "3.1", 3.13, "3x13"]),
    "Gigabytes": ([1, 10**6], [0, "8", 1.5]),
    "Day": (["2027-03-31"], ["2027-3-31", "31.03.2027", "2027-03-311"]),
    "Reason": (["why", "no kernels", "x" * 200], ["no", "x" * 201, "a\nb", "a\u2028b", "a\x7fb"]),
    "VariantPattern": (["pytorch-*-sm{90,100}-*", "[!a]?", "x" * 200], ["", "a b", "a/b", "a.b", "x" * 201]),
    "FilePath": (["ci/build.sh", ".github/a_b+c-d"], ["", "/a", "a/", "../a", "a/../b", "./a", "a b", "x" * 201]),
    "RecipeArguments": ([{}, TABLE, {"a'b-c": None}], [{"1a": 1}, {"a.b": 1}, [], {"gpu": 1}, {"cpu": {"1a": 1}}]),
    "RecipeEnvironment": (
        [{}, {"A_1": "x", "B": 2, "gpu": {"C": "y"}, "cpu": {"D": 1}}],
        [{"A-B": "x"}, {"A": True}, {"A": 1.5}, {"gpu": {"A": []}}, {"cpu": []}, "A"],
    ),
    "RecipeFlags": (
        [[], ["-O2", ""], {"gpu": ["-a"]}, {"gpu": [], "cpu": []}],
        ["-O2", ["a\nb"], ["x" * 2001], [1], {"gpu": "-a"}, {"tpu": []}],
    ),
    "RecipeInputs": (
        [
            {"buildInputs": ["a.b"], "dependencies": [], "build-system": ["@a'"], "gpu": {"nativeCheckInputs": []}},
            {"cpu": {"checkInputs": ["x"]}},
        ],
        [{"inputs": []}, {"buildInputs": "a"}, {"buildInputs": ["a b"]}, {"buildInputs": ["a..b"]}, {"gpu": {"x": []}}],
    ),
    "RecipeAttributes": (
        [{"doCheck": False, "gpu": {"a": {}}, "cpu": {"b": "x"}}],
        [{name: 1} for name in ("1a", "a.b", "src", "meta", "patches", "cmakeFlags", "ninjaFlags", "preConfigure")]
        + [{"gpu": {"version": "1"}}],
    ),
    "LabelSet": ([["a"], [f"a{number}" for number in range(20)]], [[], [f"a{number}" for number in range(21)], "a"]),
    "ScaleSetName": (
        ["arc-gpu.sm90", "a", "x" * 45, "nulls"],
        ["", "A", "a-", "1a", "x" * 46, "null", "yes", "n", "ubuntu-latest", "macos-15"],
    ),
}
WHEEL, DIGEST = "https://h.org/a-1.whl", "#sha256=" + "0" * 64
GIT = "git+https://h.org/o/r@"
TOOLKITS = (
    [".", "./a/b", ".github/ci.txt", "ci-compiler==0.1.0", GIT + HEX, WHEEL + DIGEST],
    ["", "..", "./..", "./a/../b", "/a", "a", "a>=0.1", ".github/../a.txt", GIT + "x", WHEEL],
)
TYPES = {str: "string", int: "integer"}


def rule_of(kind: Any) -> dict[str, Any]:
    """The form of a type, with the type itself where it is a scalar or a list."""
    base, form = get_args(kind)
    listed = {"type": "array", "uniqueItems": True}
    plain = {"type": TYPES[base]} if base in TYPES else {} if base is Any else listed | {"items": items(base)}
    return {**plain, **form.rules}


def items(base: Any) -> dict[str, Any]:
    item = get_args(base)[0]
    return {"type": "string"} if item is str else rule_of(item)


@pytest.mark.parametrize("name", VALUES)
def test_a_form_accepts_and_refuses(name: str) -> None:
    rule = rule_of(getattr(forms, name))
    accepted, refused = VALUES[name]
    assert [value for value in accepted if not accepts(rule, value)] == []
    assert [value for value in refused if accepts(rule, value)] == []


def test_a_toolkit_is_exact_content_or_a_release() -> None:
    rule = {"type": "string", "pattern": forms.TOOLKIT}
    accepted, refused = TOOLKITS
    assert [value for value in accepted if not accepts(rule, value)] == []
    assert [value for value in refused if accepts(rule, value)] == []


def test_each_form_is_tested_and_those_with_names_are_published() -> None:
    every = {name: get_args(kind) for name, kind in vars(forms).items() if name[0] != "_" and get_args(kind)}
    assert {name for name, (_, *form) in every.items() if form} == VALUES.keys()
    known = json.loads(FILE.read_text("utf-8"))["$defs"]
    for base, form in (every[name] for name in VALUES):
        if form.name:
            assert {key: known[form.name][key] for key in form.rules} == dict(form.rules), base
            assert schema()["$defs"][form.name] == known[form.name]

"""The keys of a spec, and what the model derives from them: matrices, stages, secrets and every name of an axis."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_compiler.codes import Code
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.model import Recall, Spec
from ci_compiler.spec.schema import schema
from ci_compiler.stages import BUILD, PUBLISH
from tests.spec.published import FILE, assert_published
from tests.specs import MAIN, MATRIX, small, spec_of


def test_the_schema_has_these_keys() -> None:
    published = json.loads(FILE.read_text("utf-8"))
    assert published["properties"] == schema()["properties"]
    assert published["$defs"]["test-policy"] == schema()["$defs"]["test-policy"]
    assert published["title"] == "a ci-compiler spec (a mapping of keys)"
    assert_published(Recall)


@pytest.mark.parametrize(
    ("branches", "versions", "expected"),
    [
        ((), (), True),
        (("main",), (), True),
        (("next",), (), False),
        ((), ("2.8.0",), True),
        ((), ("2.9.0",), False),
        (("next", "main"), ("2.9.0", "2.8.0"), True),
        (("main",), ("2.9.0",), False),
        (("next",), ("2.8.0",), False),
    ],
)
def test_a_recall_is_about_branches_and_versions(
    branches: tuple[str, ...], versions: tuple[str, ...], *, expected: bool
) -> None:
    recall = Recall(because="NaN", branches=branches, versions=versions)
    assert recall.concerns("main", "2.8.0") is expected


# Matrices.

OWN = {"python": ["3.12", "3.9"], "isas": {"x86_64-linux": ["avx"]}, "gpus": {"sm80": {}, "cpu": {}}}
OPEN: dict[str, Any] = {"values": {"python": ["3.14t", "3.10"], "platform": "x86_64-linux", "accelerator": "cpu"}}


def spec(packages: dict[str, Any] | None = None, **changes: Any) -> Spec:
    document = json.loads(json.dumps(small(**changes)))
    for name, row in (packages or {}).items():
        document["packages"][name] = document["packages"].get(name, {}) | row
        for branch in document["branches"].values():
            branch["versions"].setdefault(name, "1.0")
    return spec_of(document)


def test_each_matrix_comes_with_the_packages_that_take_it() -> None:
    made = spec({"torchvision": {"matrix": OWN}, "mac": {"system": "aarch64-darwin"}, "other": {}})
    assert [(path, [one.name for one in packages]) for path, _, packages in made.matrices] == [
        (("matrix",), ["pytorch", "other"]),
        (("packages", "torchvision", "matrix"), ["torchvision"]),
    ]
    assert made.axes_of("torchvision") == (("packages", "torchvision", "matrix"), made.packages["torchvision"].matrix)
    assert made.axes_of("other") == (("matrix",), made.matrix)
    for name in ("mac", "nothing"):
        with pytest.raises(KeyError, match=name):
            made.axes_of(name)


def test_without_a_general_matrix_each_package_has_its_own() -> None:
    document = small(packages={"pytorch": {"matrix": MATRIX}, "torchvision": {"matrix": OWN}})
    del document["matrix"]
    assert [path for path, *_ in spec_of(document).matrices] == [
        ("packages", "pytorch", "matrix"),
        ("packages", "torchvision", "matrix"),
    ]


@pytest.mark.parametrize(
    ("row", "edges", "lists"),
    [
        ({}, False, False),
        ({"needs": [{"package": "pytorch", "python": "3.12"}]}, True, True),
        ({"needs": [{"package": "pytorch", "when": {"python": "3.12"}}]}, True, True),
        ({"needs": [], "gathers": ["pytorch"]}, True, True),
        ({"ignores": ["python"]}, False, True),
        ({"when": {"python": "3.13"}}, False, False),
        ({"matrix": OWN}, False, False),
        ({"matrix": OPEN}, False, True),
        ({"variants": {"torchvision-x": {"system": "x86_64-linux"}}}, False, True),
        ({"variants": {"torchvision-x": {"system": "x86_64-linux"}}, "branches": ["main"]}, False, True),
        ({"system": "x86_64-linux"}, False, True),
    ],
)
def test_variants_with_other_axes_or_edges_may_be_called_by_their_names(
    row: dict[str, Any], *, edges: bool, lists: bool
) -> None:
    made = spec({"torchvision": row})
    assert made.has_edges is edges
    assert made.lists(made.packages["torchvision"]) is lists
    assert made.lists(made.packages["pytorch"]) is edges


# Names of axes.


def test_every_python_is_listed_oldest_first() -> None:
    branches = {"main": MAIN | {"python": ["3.11"]}, "next": MAIN}
    made = spec({"torchvision": {"matrix": OWN}, "other": {"matrix": OPEN}}, branches=branches)
    assert made.pythons == ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14t")


def test_every_toolkit_is_listed_in_the_order_of_the_spec() -> None:
    branches = {
        "main": MAIN | {"cuda": ["12.9", "12.8"], "accelerators": {"rocm": {"toolkits": ["7.2"]}}},
        "next": MAIN | {"cuda": "12.6"},
    }
    matrix = {"values": OPEN["values"] | {"accelerator": ["rocm 7.1 gfx942", "cuda 12.8", "cpu", "rocm"]}}
    made = spec(branches=branches, matrix=matrix, accelerators={"rocm": {"toolkits": ["7.0", "7.1"]}})
    assert made.toolkits == ("12.9", "12.8", "12.6")
    assert made.every_toolkit == ("12.9", "12.8", "12.6", "7.1", "7.2", "7.0")
    assert spec().every_toolkit == spec().toolkits == ("12.8",)
    for branch, toolkits in (("main", [("7.2",), ("7.0", "7.1")]), ("next", [("7.0", "7.1")])):
        assert [rows["rocm"].toolkits for rows in made.accelerator_tables(branch) if rows] == toolkits
    assert len(made.accelerator_tables()) == 3


@pytest.mark.parametrize(
    ("accelerators", "tables", "gpus"),
    [
        (["cpu", "cuda 12.8 sm90", "rocm gfx942"], {}, ("cpu", "sm90", "gfx942")),
        (["rocm 7.1", "gl"], {}, ("rocm", "gl")),
        (["rocm 7.1", "gl"], {"rocm": {"targets": ["gfx1100", "gfx942"]}}, ("gfx1100", "gfx942", "gl")),
        (["rocm 7.1 gfx90a"], {"rocm": {"targets": ["gfx942"]}}, ("gfx90a",)),
        (["rocm"], {"rocm": {"toolkits": ["7.1"]}}, ("rocm",)),
    ],
)
def test_every_gpu_is_a_target_or_a_family_without_one(
    accelerators: list[str], tables: dict[str, Any], gpus: tuple[str, ...]
) -> None:
    matrix = {"values": OPEN["values"] | {"accelerator": accelerators}}
    declared = {"accelerators": tables, "hardware": {"families": {"gl": {"targets": []}}}}
    assert spec(matrix=matrix, **declared).gpus == gpus
    both = spec({"torchvision": {"matrix": matrix}}, **declared).gpus
    assert both == ("cpu", "sm90", *(name for name in gpus if name not in {"cpu", "sm90"}))


def test_targets_of_a_branch_take_the_place_of_general_ones() -> None:
    branches = {"main": MAIN | {"accelerators": {"rocm": {"targets": ["gfx90a"]}}}}
    matrix = {"values": OPEN["values"] | {"accelerator": "rocm"}}
    assert spec(branches=branches, matrix=matrix, accelerators={"rocm": {"targets": ["gfx942"]}}).gpus == ("gfx90a",)


# Stages and secrets.


@pytest.mark.parametrize(
    ("tests", "names"),
    [
        ({}, ["build", "cpu-test", "gpu-test", "publish"]),
        ({"benchmark": "where-routed"}, ["build", "cpu-test", "gpu-test", "benchmark", "publish"]),
        ({"gpu-test": "never"}, ["build", "cpu-test", "gpu-test", "publish"]),
    ],
)
def test_stages_that_a_spec_must_switch_on_are_left_out(tests: dict[str, str], names: list[str]) -> None:
    assert [str(stage) for stage in spec(tests=tests, publish={"after": ["cpu-test"]}).stages] == names


COMMAND = {"build": "ci/build.sh", "files": ["a"], "install": "b", "publish": "c"}
CACHE = {"url": "s3://store", "public-key": "store-1:0f8Hk9JvJ9bGmYVvHyuZQ6lZkkYHkS7pq2LZ4wWrbSg="}


def commands(**rows: dict[str, Any]) -> Spec:
    document = small(backend="command", packages={name: {"command": COMMAND | row} for name, row in rows.items()})
    document["branches"]["main"]["versions"] = dict.fromkeys(rows, "1.0")
    return spec_of(document)


def test_secrets_are_those_of_the_backend_or_of_the_commands() -> None:
    recipes = spec()
    assert recipes.publishing_secrets == recipes.required_secrets == (recipes.backend.secret,)
    made = commands(a={}, b={"secrets": ["KEY_B", "KEY_A"]}, c={"secrets": ["KEY_A"]}, d={"secrets": []})
    assert made.publishing_secrets == ("PUBLISH_TOKEN", "KEY_B", "KEY_A")
    assert made.required_secrets == ("KEY_B", "KEY_A")


def test_publishing_builds_where_a_backend_has_no_other_way() -> None:
    assert [name for name in ("flox", "nix") if PUBLISH in spec(backend=name, cache=CACHE).building] == []
    assert spec(backend="flox").building == {BUILD, PUBLISH}
    assert spec(backend="flox", cache=CACHE).building == commands(a={}).building == {BUILD}


# Places.


def test_findings_have_the_place_of_a_key_or_a_value() -> None:
    text = json.dumps(small())
    made = spec()
    for key, there in ((False, '"my-org"'), (True, '"owner"')):
        one = made.finding(("owner",), Code.WRONG_VALUE, "wrong", key=key, tolerated=key)
        assert (one.place.line, text[one.place.column - 1 :][: len(there)]) == (1, there)
        assert (one.code, one.message, one.tolerated) == ("wrong-value", "wrong", key)
    (unknown,) = made.unless_known(("owner",), Code.UNKNOWN_POOL, "buildr", ["builder", "h100"], key=True)
    assert (unknown.place, unknown.message) == (
        made.place("owner", key=True),
        "unknown pool 'buildr'; did you mean builder?",
    )
    assert list(made.unless_known(("owner",), Code.UNKNOWN_POOL, "builder", ["builder"])) == []


def test_a_guess_is_a_value_or_an_entry_on_a_marked_line() -> None:
    rows = {
        "version": "1",
        "owner": "me  # guessed: as elsewhere",
        "branches": json.dumps(small()["branches"]),
        "packages": "\n  pytorch:  # guessed\n    disk: 10\n    memory: 8\n  torchvision: {disk: 10}",
        "matrix": json.dumps(small()["matrix"]),
        "runners": json.dumps(small()["runners"]),
        "publish": json.dumps(small()["publish"]),
    }
    made = parse_spec("".join(f"{key}: {value}\n" for key, value in rows.items()).encode(), shown="s")
    guessed = [("owner",), ("packages", "pytorch", "disk"), ("packages", "pytorch", "memory")]
    others = [("version",), ("packages", "torchvision", "disk"), ("matrix", "python"), ("pages",)]
    assert [path for path in (*guessed, *others) if made.is_guess(*path)] == guessed

"""Axes and values of an open matrix, of conditions, edges and pools are declared or known; else each is an error."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.spec.open_references import target_findings
from tests.specs import Said, assert_said, errors_in, small, spec_of

VALUES: dict[str, Any] = {"python": "3.13", "platform": "x86_64-linux", "accelerator": "cpu"}
TORCH = {"axes": {"torch": ["2.8", "2.10"]}}
HOW = ", which `axes` may declare"
NEAR = f"unknown axis 'pythn'{HOW}; did you mean python?"
ALL = "known are accelerator, branch, family, isa, platform, python, target, toolkit"
OPENCL = {"families": {"opencl": {"targets": ["adreno", "mali-*"], "aliases": ["cl"]}}}
FAMILY = "unknown family 'rocmm', which `hardware: {families: …}` may declare; did you mean rocm?"
WRONG_AXIS: list[Said] = [("unknown-axis", NEAR, '"pythn"')]
PYTHON = "is not a Python version from 3.9 to 3.15, which `t` may follow; `axes` may declare it"


def values(**own: Any) -> dict[str, Any]:
    return {"matrix": {"values": VALUES | own}}


def rows(*own: dict[str, Any]) -> dict[str, Any]:
    return {"matrix": {"values": VALUES, "rows": list(own)}}


def accelerator(text: str, **changes: Any) -> dict[str, Any]:
    return values(accelerator=text) | changes


def package(**keys: Any) -> dict[str, Any]:
    return values() | {"packages": {"pytorch": keys, "torchvision": {}}}


def pool(**keys: Any) -> dict[str, Any]:
    own = keys if "hosted" in keys else {"runs-on": ["linux", "x64", "further"]} | keys
    return values() | {"runners": small()["runners"] | {"further": own}}


def edge(**keys: Any) -> dict[str, Any]:
    return {"packages": {"pytorch": {}, "torchvision": {"needs": [{"package": "pytorch"} | keys]}}}


COMMAND = {"build": "b.sh", "files": ["a"], "install": "b", "publish": "c"}


def command(**keys: Any) -> dict[str, Any]:
    packages = {"pytorch": {"command": COMMAND | keys}, "torchvision": {"command": COMMAND}}
    return values() | {"backend": "command", "packages": packages}


SHORT: dict[str, Any] = {}
"""The small spec, whose matrix has the short form."""

CASES: dict[str, tuple[dict[str, Any], list[Said]]] = {
    "nothing wrong": (values(), []),
    # Axes.
    "declared axes": ({"axes": TORCH["axes"] | {"python": {"serves": {"abi3": ["3.12"]}}}} | values(torch="2.8"), []),
    "an axis without values": (
        {"axes": {"torch": {"tag": "t{digits}"}}},
        [("unknown-axis", "the axis torch has no values; list them", '"torch": {"tag"')],
    ),
    "parts of an accelerator without values": ({"axes": {"toolkit": {"serves": {"12": ["12.8"]}}}}, []),
    "an axis of the matrix": (values(pythn="3.13"), WRONG_AXIS),
    "an axis of a row": (rows({"pythn": "3.13"}), WRONG_AXIS),
    "a part as an axis": (
        values(target="sm90"),
        [
            (
                "unknown-axis",
                f"unknown axis 'target'{HOW}; it is a part of `accelerator`, such as `accelerator: cuda 12.8 sm90`",
                '"target"',
            )
        ],
    ),
    "an axis in names": (
        {"names": "{python}-{torhc}-{branch}-{target}", **TORCH},
        [("unknown-axis", f"unknown axis 'torhc'{HOW}; did you mean torch?", '"{python}')],
    ),
    # Values.
    "values that are known": (
        values(python=["3.9", "3.14t"], platform=["s390x-linux", "aarch64-darwin"], isa=["avx2", "armv9"])
        | {"matrix": {"values": VALUES | {"branch": "main", "torch": ["2.8"]}}, **TORCH},
        [],
    ),
    "a value of a declared axis": (
        values(torch=["2.8", "2.11"]) | TORCH,
        [("unknown-value", "unknown torch '2.11'; did you mean 2.10?", '"2.11"]')],
    ),
    "a value that serves others": (
        values(python=["abi3", "3.15"]) | {"axes": {"python": {"serves": {"abi3": ["3.12"]}}}},
        [],
    ),
    "a Python": (values(python="3.16"), [("unknown-value", f"'3.16' {PYTHON}", '"3.16"')]),
    "a Python with a further letter": (
        rows({"python": "3.13tt"}),
        [("unknown-value", f"'3.13tt' {PYTHON}", '"3.13tt"')],
    ),
    "a platform": (
        values(platform="x86_64-linx"),
        [("unknown-system", "unknown platform 'x86_64-linx'; did you mean x86_64-linux", '"x86_64-linx"')],
    ),
    "a declared platform": (
        values(platform="loongarch64-linux") | {"hardware": {"platforms": {"loongarch64-linux": {}}}},
        [],
    ),
    "a branch": (
        values(branch=["main", "mian"]),
        [("unknown-branch", "unknown branch 'mian'; did you mean main?", '"mian"]')],
    ),
    "an ISA": (
        rows({"isa": ["avx2", "avx3"]}),
        [("unknown-isa", "unknown ISA 'avx3'; did you mean", '"avx3"]')],
    ),
    # Accelerators.
    "a family": (accelerator("rocmm 7.1"), [("unknown-family", FAMILY, '"rocmm 7.1"')]),
    "a declared family": (accelerator("opencl 3 x", hardware={"families": {"opencl": {}}}), []),
    "a target of a declared family": (
        values(accelerator=["opencl adreno", "opencl 3 mali-g7,adreno"]) | {"hardware": OPENCL},
        [],
    ),
    "a target that a declaration lacks": (
        accelerator("opencl 3 adrena", hardware=OPENCL),
        [("unknown-gpu", "'adrena' is not a target of opencl; did you mean adreno?", '"opencl 3 adrena"')],
    ),
    "a target of a declared family that has none": (
        accelerator("gl es", hardware={"families": {"gl": {"targets": []}}}),
        [("unknown-gpu", "'es' is not a target of gl", '"gl es"')],
    ),
    "an alias of a declared family": (
        accelerator("CL 3", hardware=OPENCL),
        [("unknown-family", "'CL' is an alias; write opencl", '"CL 3"')],
    ),
    "a toolkit of a family without a list": (accelerator("rocm 99.9 gfx942"), []),
    "a toolkit": (
        accelerator("cuda 12.99 sm90"),
        [("unknown-toolkit", "12.99", '"cuda 12.99 sm90"')],
    ),
    "a series of toolkits": (accelerator("cuda 12 sm90"), []),
    "a declared toolkit": (
        accelerator(
            "cuda 12.99",
            hardware={"toolkits": {"12.99": {"attribute": "c", "shipped-driver": 1, "lowest-driver": 1}}},
        ),
        [],
    ),
    "a toolkit that an axis serves": (accelerator("cuda 12.99", axes={"toolkit": {"serves": {"12.99": ["12.8"]}}}), []),
    "a toolkit that a target serves": (
        accelerator("cuda 12.99", axes={"family": {"serves": {"12.99": ["12.8"]}}}),
        [("unknown-toolkit", "12.99", '"cuda 12.99"')],
    ),
    "a listed toolkit": (
        accelerator("cuda 12.99", accelerators={"cuda": {"toolkits": ["12.99"], "targets": ["sm90"]}}),
        [],
    ),
    "a target": (accelerator("rocm 7.1 sm90"), [("unknown-gpu", "'sm90' is not a target of rocm", '"rocm 7.1 sm90"')]),
    "a listed target": (accelerator("rocm 7.1 mine", accelerators={"rocm": {"targets": ["mine"]}}), []),
    "a target that an axis serves": (accelerator("rocm mine", axes={"target": {"serves": {"mine": ["gfx942"]}}}), []),
    # Conditions.
    "a condition of an exclusion": (
        {"matrix": {"values": VALUES, "exclude": [{"because": "why", "when": {"pythn": "3.13"}}]}},
        WRONG_AXIS,
    ),
    "conditions that can hold": (
        package(when={"family": "cpu", "branch": "main", "torch": "2.8", "accelerator": "cpu"}) | TORCH,
        [],
    ),
    "a condition of a package": (package(when={"pythn": "3.13"}), WRONG_AXIS),
    "a family in a condition": (
        package(when={"accelerator": ["cpu", "rocmm"]}),
        [("unknown-family", FAMILY, '["cpu"')],
    ),
    "an axis that a package ignores": (
        package(ignores=["python", "pythn", "toolkit"]),
        [("unknown-axis", NEAR, '"pythn"')],
    ),
    "an axis of joined builds": (package(joins=["pythn"]), [("unknown-axis", NEAR, '"pythn"]')]),
    "rows of joined builds": (
        package(joins=[{"axes": ["python", "pythn"], "when": {"torhc": "2.8"}}, {"with": "torchvison"}]) | TORCH,
        [
            ("unknown-axis", NEAR, '"pythn"]'),
            ("unknown-axis", f"unknown axis 'torhc'{HOW}; did you mean torch?", '"torhc"'),
            ("unknown-package", "unknown package 'torchvison'; did you mean torchvision", '"torchvison"'),
        ],
    ),
    "a further row of joined builds without a condition": (
        package(joins=[{"axes": ["python"], "when": {"branch": "main"}}, {"axes": ["pythn"]}]),
        [("unknown-axis", NEAR, '"pythn"]')],
    ),
    "a condition of a command": (
        command(env={"A": [{"value": "x", "when": {"pythn": "3.13"}}]}),
        [("unknown-axis", NEAR, '"pythn"')],
    ),
    "a command without conditions": (command(env={"A": "x"}), []),
    # Settings.
    "a condition of a setting": (
        values() | {"settings": {"level": [{"value": "3"}, {"value": "4", "when": {"pythn": "3.13"}}]}},
        WRONG_AXIS,
    ),
    "a setting with the name of a value": (
        values() | {"settings": {"capability": "3"}},
        [
            (
                "duplicate-name",
                "capability is a value of every variant already; give the setting another name",
                '"capability": "3"',
            )
        ],
    ),
    "settings with the names of an axis and of files": (
        values() | {"settings": {"platform": "3", "files": "4"}},
        [
            ("duplicate-name", "platform is a value of every variant already", '"platform": "3"'),
            ("duplicate-name", "files is a value of every variant already", '"files": "4"'),
        ],
    ),
    # Pools.
    "pools that are known": (
        pool(builds=["aarch64-android"], runs=["i686-linux"], accelerator="rocm gfx942"),
        [],
    ),
    "a hosted machine": (
        pool(hosted="ubuntu-24.40", system="x86_64-linux"),
        [
            (
                "unknown-value",
                "unknown GitHub-hosted machine 'ubuntu-24.40'; did you mean ubuntu-24.04",
                '"ubuntu-24.40"',
            )
        ],
    ),
    "a platform that a pool builds and one that it runs": (
        pool(builds=["aarch64-android", "android"], runs=["x86_64-linx"]),
        [
            ("unknown-system", "unknown platform 'android'; did you mean aarch64-android", '"android"]'),
            ("unknown-system", "unknown platform 'x86_64-linx'; did you mean", '"x86_64-linx"]'),
        ],
    ),
    "a pool's family": (pool(accelerator="rocmm gfx942"), [("unknown-family", FAMILY, '"rocmm gfx942"')]),
    # Edges.
    "edges that are known": (edge(python="3.12", family="cuda", toolkit="all", isa="all") | TORCH, []),
    "an edge's axis": (
        edge(pythn="3.12"),
        [("unknown-axis", NEAR, '"pythn"')],
    ),
    "an edge's branch": (
        edge(branch="main"),
        [("unknown-axis", f"unknown axis 'branch'{HOW}; {ALL.replace('branch, ', '')}", '"branch": "main"')],
    ),
    "an edge's condition": (edge(when={"branch": "main", "pythn": "3.12"}), WRONG_AXIS),
    "an edge's family": (edge(family=["cuda", "rocmm"]), [("unknown-family", FAMILY, '["cuda", "rocmm"]')]),
    "an edge's value": (edge(python=["all", "3.16"]), [("unknown-value", f"'3.16' {PYTHON}", '"3.16"]')]),
    "an edge's target of no family": (edge(target="what"), []),
    "an edge to a declared axis without values": (
        edge(torch="2.8") | {"axes": {"torch": {"tag": "t{digits}"}}},
        [
            ("unknown-axis", "the axis torch has no values; list them", '"torch": {"tag"'),
            ("unknown-axis", f"unknown axis 'torch'{HOW}; {ALL.replace('branch, ', '')}", '"torch": "2.8"'),
        ],
    ),
    # Profiles.
    "a condition of a profile": (
        {"profiles": {"pull-request": {"variants": [{"pythn": "3.13"}]}}},
        [("unknown-axis", NEAR, '"pythn"')],
    ),
    "conditions of profiles that can hold": (
        {"profiles": {"pull-request": {"variants": [{"branch": "main"}, {"target": "sm90"}, {"torch": "2.8"}]}}}
        | TORCH,
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_axis_or_value_that_nothing_declares_is_an_error(case: str) -> None:
    changes, expected = CASES[case]
    document = small(**changes)
    assert_said(document, errors_in(document), expected)


def test_all_names_may_be_named_where_all_axes_are_known() -> None:
    document = small(**package(ignores=["nothing"]))
    assert_said(document, errors_in(document), [("unknown-axis", f"unknown axis 'nothing'{HOW}; {ALL}", '"nothing"')])


NIGHTLY = {"schedule": {"days": ["sun"]}}
UNTESTED = "leaves out gpu-test, but the profile publishes; take `tests` away, or add "


@pytest.mark.parametrize(
    ("profiles", "changes", "expected"),
    [
        ({"push": {"tests": ["cpu-test"]}}, {}, f"{UNTESTED}`publish: {{on-push: false}}`"),
        ({"push": {"tests": ["cpu-test"]}}, {"publish": {"on-push": False}}, ""),
        ({"push": {"tests": ["cpu-test", "gpu-test"]}}, {}, ""),
        ({"pull-request": {"tests": ["cpu-test"]}}, {}, ""),
        ({"nightly": NIGHTLY | {"tests": ["cpu-test"], "publish": True}}, {}, f"{UNTESTED}`publish: false`"),
        ({"nightly": NIGHTLY | {"tests": ["cpu-test"], "publish": False}}, {}, ""),
        ({"release": {"tags": ["v*"], "tests": ["cpu-test"], "publish": True}}, {}, f"{UNTESTED}`publish: false`"),
        (
            {"push": {"tests": []}},
            {},
            "leaves out cpu-test and gpu-test, but the profile publishes; take `tests` away, or add `publish: {",
        ),
        (
            {"push": {"tests": ["cpu-test"]}},
            {"tests": {"benchmark": "where-routed"}},
            "out gpu-test and benchmark, but",
        ),
        (
            {"push": {"tests": ["cpu-test"]}},
            {"branches": {"main": small()["branches"]["main"] | {"publish": False}}},
            "",
        ),
    ],
)
def test_a_profile_publishes_only_what_it_tests(profiles: Any, changes: dict[str, Any], expected: str) -> None:
    document = small(profiles=profiles, **changes)
    there = '["cpu-test"' if "cpu-test" in str(profiles) else "[]"
    assert_said(document, errors_in(document), [("publishes-untested", expected, there)] if expected else [])


def test_an_open_spec_without_errors_is_a_spec() -> None:
    assert spec_of(small(**values())).matrix


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("rocm gfx943", "no known GPU of rocm runs code for 'gfx943'; did you mean gfx942"),
        ("rocm gfx942,gfx1106", "'gfx1106'; did you mean gfx11"),
        ("rocm gfx77dd", "no known GPU of rocm runs code for 'gfx77dd'; `accelerators` may list it"),
        ("rocm gfx90a:xnack+", ""),
        ("rocm gfx11-generic", ""),
        ("rocm gfx1250", ""),
        ("rocm all", ""),
        ("opencl adreno", ""),
    ],
)
def test_a_target_that_no_known_gpu_runs_is_a_warning(target: str, expected: str) -> None:
    family, _, name = target.partition(" ")
    pools = pool(accelerator=target.partition(",")[0])["runners"]

    def unlisted(**changes: Any) -> list[str]:
        document = small(**accelerator(f"{family} 1.0 {name}") | {"runners": pools} | changes)
        return [one.message for one in target_findings(spec_of(document))]

    declared = {"hardware": {"families": {"opencl": {"title": "OpenCL"}}}}
    found = unlisted(**declared)
    assert [expected in message for message in found] == [True] * (1 if "," in name else 2) if expected else found == []
    listed = {family: {"toolkits": ["1.0"], "targets": name.split(",")}}
    assert not unlisted(accelerators=listed, **declared)

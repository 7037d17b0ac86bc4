"""Names in recipes and proofs are declared, keys of a proof fit together, and what can never run is an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.recipe_references import placeholder_findings
from tests.specs import Said, assert_said, branches, errors_in, small, spec_of

BENCHMARK = {"tests": {"benchmark": "where-routed"}}
SHOWN = "packages.pytorch"
KNOWN = "known are attribute, branch, capability, cuda"


def package(**keys: Any) -> dict[str, Any]:
    return {"packages": {"pytorch": {"attribute": "torch"} | keys, "torchvision": {}}}


def suite(**keys: Any) -> dict[str, Any]:
    return package(suites={"ops": {"command": "x", "minutes": 5} | keys})


def smoke(**keys: Any) -> dict[str, Any]:
    return package(smoke=keys)


def work_around(name: str = "mine", **keys: Any) -> dict[str, Any]:
    return {"work-arounds": {name: {"why": "a reason"} | keys}}


def failure(stage: str = "gpu-test", until: str = "2027-03-31") -> dict[str, Any]:
    return {"expected-failures": [{"variants": "*", "stage": stage, "because": "no kernels", "until": until}]}


def placeholder(name: str, there: str) -> list[Said]:
    return [("unknown-placeholder", f"unknown placeholder @{name}@ (@@{name}@@ is that text); known are", there)]


def either(where: str, *, both: bool) -> str:
    return f"{where} says {'both `python` and `run`; keep one' if both else 'neither `python` nor `run`'}"


def never(what: str, there: str) -> list[Said]:
    return [("test-never-runs", what, there)]


NO_GPU_TEST = {"tests": {"gpu-test": "never"}, "publish": {"after": ["cpu-test"]}}
TEMPLATE = "recipes of pytorch come from a template; add `template: FILE`"
TEST = {"test": "a.b", "because": "a reason", "until": "2027-03-31"}
BAD_DAY = TEST | {"until": "2027-02-30"}
NO_DAY = "2027-02-30 is not a day of the calendar"
JUNIT = f"{SHOWN}.suites.ops declares no `junit` files, which say which test failed"
OFF = "is about the stage benchmark, which is off; `tests: {benchmark: where-routed}` switches it on"

CASES: dict[str, tuple[dict[str, Any], list[Said]]] = {
    # Recipes.
    "presets": (package(preset="package"), []),
    "a preset": (
        package(preset="tourch"),
        [("unknown-preset", "unknown preset 'tourch'; did you mean torch", '"tourch"')],
    ),
    "a template": (package(recipes="template", template="nix/a.nix"), []),
    "a template that is not named": (package(recipes="template"), [("template-missing", TEMPLATE, '"recipes"')]),
    "a template of some variants that is not named": (
        package(recipes={"*-cpu-*": "own", "*-sm90-*": "template"}),
        [("template-missing", TEMPLATE, '"template"}')],
    ),
    "texts without a placeholder that is unknown": (
        package(
            arguments={"a": "@@thing@@", "gpu": {"b": ["@sm@", 1, 2.5, None, True]}},
            environment={"A": "@gpu@"},
            inputs={"buildInputs": ["x"]},
            **{"cmake-flags": ["a@b"], "build-flags": ["-O2"]},
        ),
        [],
    ),
    "a placeholder in arguments": (
        package(arguments={"a": {"b": ["x", "@thing@"]}}),
        placeholder("thing", '"@thing@"'),
    ),
    "a placeholder in the environment": (package(environment={"A": "@thing@"}), placeholder("thing", '"@thing@"')),
    "a placeholder in attributes": (package(attributes={"cpu": {"a": "@thing@"}}), placeholder("thing", '"@thing@"')),
    "a placeholder in inputs": (package(inputs={"buildInputs": ["x", "@thing@"]}), placeholder("thing", '"@thing@"')),
    "placeholders in flags": (
        package(**{"cmake-flags": {"gpu": ["-D", "@thing@"]}, "build-flags": ["@other-thing@"]}),
        placeholder("thing", '"@thing@"') + placeholder("other-thing", '"@other-thing@"'),
    ),
    "placeholders of two texts": (
        package(arguments={"a": "@one@ @two@"}),
        [*placeholder("one", '"@one@ @two@"'), *placeholder("two", '"@one@ @two@"')],
    ),
    "a work-around": (work_around(packages=["pytorch"], cmake=["@gpu@"], overlay="final: prev: {}"), []),
    "a work-around with the name of a bundled one": (
        work_around("torch-cccl"),
        [
            (
                "duplicate-name",
                "there is a bundled work-around called 'torch-cccl'; give this one another name",
                '"torch-cccl": {',
            )
        ],
    ),
    "a work-around's package": (
        work_around(packages=["pytorch", "torch"]),
        [("unknown-package", "unknown package 'torch'; did you mean pytorch", '"torch"]')],
    ),
    "a placeholder in a work-around": (work_around(exports={"A": "@thing@"}), placeholder("thing", '"@thing@"')),
    # Smoke tests.
    "smoke tests": (smoke(python="a.py"), []),
    "a smoke test for each kind of machine": (smoke(cpu={"run": "a", "expect": "b+"}, gpu={"python": "a.py"}), []),
    "a smoke test for GPUs, and a common one": (smoke(run="a", gpu={"python": "a.py"}), []),
    "a smoke test that says both": (
        smoke(python="a.py", run="a"),
        [("wrong-test", either(f"{SHOWN}.smoke", both=True), "{")],
    ),
    "a common smoke test that says both": (
        smoke(python="a.py", run="a", gpu={"run": "a"}),
        [("wrong-test", either(f"{SHOWN}.smoke", both=True), '{"python"')],
    ),
    "a common smoke test in a file": (smoke(python="a.py", gpu={"run": "a"}), []),
    "a smoke test that says nothing": (smoke(), [("wrong-test", either(f"{SHOWN}.smoke", both=False), "{}")]),
    "a smoke test for GPUs that says nothing": (
        smoke(gpu={}),
        [("wrong-test", either(f"{SHOWN}.smoke.gpu", both=False), "{}")],
    ),
    "a smoke test for CPUs that says both": (
        smoke(cpu={"python": "a.py", "run": "a"}, gpu={"run": "a"}),
        [("wrong-test", either(f"{SHOWN}.smoke.cpu", both=True), '{"python"')],
    ),
    "what a common smoke test expects of nothing": (
        smoke(expect="x", gpu={"run": "a"}),
        [("wrong-test", either(f"{SHOWN}.smoke", both=False), '{"expect"')],
    ),
    "what a file is expected to print": (
        smoke(python="a.py", expect="x"),
        [
            (
                "wrong-test",
                f"{SHOWN}.smoke: `expect` is about what `run` prints; a `python` file checks its results itself",
                '"x"',
            )
        ],
    ),
    "an expression with an open bracket": (
        smoke(run="a", expect="(b"),
        [("wrong-test", f"{SHOWN}.smoke.expect is not a regular expression: missing ), unterminated", '"(b"')],
    ),
    "a placeholder in an expression": (
        smoke(run="a", expect="@version@ @versoin@"),
        [("unknown-placeholder", "unknown placeholder @versoin@; did you mean version?", '"@version@ @versoin@"')],
    ),
    # Benchmarks.
    "benchmarks": (package(benchmark={"run": "a"}) | BENCHMARK, []),
    "a benchmark that says both": (
        package(benchmark={"run": "a", "python": "a.py"}) | BENCHMARK,
        [("wrong-test", either(f"{SHOWN}.benchmark", both=True), '{"run"')],
    ),
    "a benchmark that says nothing, and is off": (
        package(benchmark={}),
        [
            ("wrong-test", either(f"{SHOWN}.benchmark", both=False), "{}"),
            *never(f"`{SHOWN}.benchmark` {OFF}", '"benchmark": {}'),
        ],
    ),
    "how a stage measures that is off": (
        {"benchmark": {"runs": 5}},
        never(f"`benchmark` {OFF}", '"benchmark": {"runs"'),
    ),
    "how a stage measures": ({"benchmark": {"runs": 5}} | BENCHMARK, []),
    # Suites.
    "suites": (suite(on="gpu", gpus=2, junit="a.xml", **{"expected-failures": [TEST]}), []),
    "a suite with GPUs on the CPU": (
        suite(gpus=2),
        [("wrong-test", f"{SHOWN}.suites.ops runs on the CPU; for GPUs, write `on: gpu`", "2")],
    ),
    "a suite with one GPU on the CPU": (suite(gpus=1), []),
    "a suite that is off": (
        suite(on="gpu") | NO_GPU_TEST,
        never(f"{SHOWN}.suites.ops belongs to gpu-test, which `tests` switches off", '"ops": {'),
    ),
    "a suite that is on": (suite(on="cpu") | NO_GPU_TEST, []),
    "failures without files that say which": (
        suite(**{"expected-failures": [TEST]}),
        [("wrong-test", JUNIT, '[{"test"')],
    ),
    "days beside the calendar": (
        suite(junit="a.xml", **{"expected-failures": [TEST, BAD_DAY]}),
        [("wrong-test", NO_DAY, '"2027-02-30"}]}')],
    ),
    # Stages that are expected to fail.
    "an expected failure": (failure(), []),
    "an expected failure until a day beside the calendar": (
        failure(until="2027-02-30"),
        [("wrong-test", NO_DAY, '"2027-02-30"')],
    ),
    "an expected failure of a stage that is off": (
        failure() | NO_GPU_TEST,
        never("a failure of gpu-test is expected, which `tests` switches off", '"gpu-test", "because"'),
    ),
    "an expected failure of a stage that is on": (failure("cpu-test") | NO_GPU_TEST, []),
}


@pytest.mark.parametrize("case", CASES)
def test_what_recipes_and_proofs_say_fits_together(case: str) -> None:
    changes, expected = CASES[case]
    document = small(**changes)
    assert_said(document, errors_in(document), expected)


ON_CPU = f"{SHOWN}.suites.ops runs on the CPU; for the GPU sm90, write `on: gpu`"
BRANCH = f"{SHOWN}.suites.ops has a row for a branch; a suite runs for the variants of each branch"
SM90 = {"accelerator": ["cuda 12.8 sm90", "cuda 12.9 sm90"]}


@pytest.mark.parametrize(
    ("values", "on", "messages"),
    [
        (SM90, "cpu", [ON_CPU]),
        (SM90, "gpu", []),
        ({"branch": ["main", "next"]}, "gpu", [BRANCH]),
        (SM90 | {"branch": "main"}, "cpu", [ON_CPU, BRANCH]),
        ({"python": "3.13"}, "cpu", []),
    ],
)
def test_the_rows_of_a_suite_are_wrong_once_and_at_its_matrix(
    values: dict[str, Any], on: str, messages: list[str]
) -> None:
    document = small(**suite(matrix={"values": values}, on=on))
    assert_said(document, errors_in(document), [("wrong-test", message, '{"values"') for message in messages])


@pytest.mark.parametrize("number", [".inf", "-.INF", ".nan"])
def test_a_number_that_is_not_finite_is_none_in_nix(number: str) -> None:
    text = json.dumps(small(**package(arguments={"a": [1.5, "NUMBER"]}))).replace('"NUMBER"', number)
    with pytest.raises(InputError) as raised:
        parse_spec(text.encode(), shown="s")
    (one,) = raised.value.findings
    assert (one.code, one.message) == ("wrong-value", f"{number} is no number in Nix")
    assert text[one.place.column - 1 :].startswith(f"{number}]")


def test_placeholders_of_commands_are_values_of_variants() -> None:
    spec = spec_of(small(**branches(), settings={"level": "3"}))
    path = ("owner",)
    assert list(placeholder_findings(spec, path, "@name@-@platform@-@level@ a@b.c @@")) == []
    found = list(placeholder_findings(spec, path, "@verzion@ @attribute@ @attribute@"))
    assert [(one.code, one.place) for one in found] == [("unknown-placeholder", spec.place("owner"))] * 2
    assert [one.message.partition(";")[0] for one in found] == [
        "unknown placeholder @attribute@",
        "unknown placeholder @verzion@",
    ]
    assert found[1].message.endswith("; did you mean version?")

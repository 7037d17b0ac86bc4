"""A spec names only what is declared or known; more in `examples/wrong`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.program import Program
from ci_compiler.cli.runner import PROGRAM as RUNNER
from ci_compiler.errors import InputError
from tests.checkers import require
from tests.specs import MAIN, SOURCE, Said, assert_said, branches, builder, errors_in, excluding, matrix, small, spec_of

REPOSITORY = {"name": "o/r", "rev": {"mian": "1" * 40}, "hash": {"other": "sha256-" + "A" * 43 + "="}}

UNKNOWN_BRANCH = "unknown branch 'mian'; did you mean main?"
WRONG: dict[str, tuple[dict[str, Any], list[Said]]] = {
    "a work-around": (
        branches(**{"work-arounds": ["torch-cccl", "no-such"]}),
        [("unknown-work-around", "unknown work-around 'no-such'; known are magma", '"no-such"]')],
    ),
    "a source's package": (
        branches(sources={"torch": SOURCE}),
        [("unknown-package", "unknown package 'torch'; did you mean pytorch", '"torch": {"repo')],
    ),
    "a pname's package": (
        branches(pnames={"torch": "x"}),
        [("unknown-package", "unknown package 'torch'; did you mean pytorch", '"torch": "x"')],
    ),
    "a package's branch": (
        {"packages": {"pytorch": {"branches": ["main", "mian"]}, "torchvision": {}}},
        [("unknown-branch", UNKNOWN_BRANCH, '"mian"]}')],
    ),
    "a package's need, which hides no circle": (
        {"packages": {"pytorch": {"needs": ["torchvision", "nothing"]}, "torchvision": {"needs": ["pytorch"]}}},
        [("unknown-package", "unknown package 'nothing'; known are pytorch, torchvision", '"nothing"]')],
    ),
    "a repository's branches": (
        {"packages": {"pytorch": {"repository": REPOSITORY}, "torchvision": {"needs": ["pytorch"]}}},
        [
            ("unknown-branch", UNKNOWN_BRANCH, '"rev": {"mian"'),
            ("missing-rev", "no rev for branch main", '{"mian": "111'),
            ("unknown-branch", "unknown branch 'other'", '"hash": {"other"'),
            ("missing-hash", "no hash for branch main", '{"other": "sha256-'),
        ],
    ),
    "a repository's package of no branch here": (
        {"packages": {"pytorch": {"repository": REPOSITORY, "branches": ["mian"]}, "torchvision": {}}},
        [
            ("unknown-branch", UNKNOWN_BRANCH, '"mian"]'),
            ("unknown-branch", UNKNOWN_BRANCH, '"rev": {"mian"'),
            ("unknown-branch", "unknown branch 'other'", '"hash": {"other"'),
        ],
    ),
    "an axis' ISA": (
        matrix(gpus={"cpu": {"isas": ["avx2", "avx3"]}}),
        [("unknown-isa", "unknown ISA 'avx3'; did you mean avx", '"avx3"]')],
    ),
    "an axis' branch": (
        matrix(gpus={"cpu": {"branches": ["mian"]}}),
        [("unknown-branch", UNKNOWN_BRANCH, '"mian"]')],
    ),
    "a branch and an ISA of also": (
        matrix(gpus={"cpu": {"also": {"mian": ["avx", "avx3"]}}}),
        [("unknown-branch", UNKNOWN_BRANCH, '"mian": ['), ("unknown-isa", "unknown ISA 'avx3'", '"avx3"]')],
    ),
    "a branch of also that its axis does not have either": (
        matrix(gpus={"cpu": {"branches": ["main"], "also": {"mian": ["avx"]}}}),
        [("unknown-branch", UNKNOWN_BRANCH, '"mian": [')],
    ),
    "an exclusion's branch": (
        excluding({"variants": "*", "branches": ["main", "mian"]}),
        [("unknown-branch", UNKNOWN_BRANCH, '"mian"]')],
    ),
    "a system and ISAs of another": (
        matrix(isas={"x86_64-linux": ["avx2", "avx3", "armv9"], "x": ["avx2"]}),
        [
            ("unknown-isa", "unknown ISA 'avx3'", '"avx3", '),
            ("isa-system", "armv9 is an ISA of aarch64-linux, not of x86_64-linux", '"armv9"]'),
            (
                "unknown-system",
                "unknown system 'x'; known are aarch64-darwin, aarch64-linux, x86_64-linux",
                '"x": ["avx2"]',
            ),
        ],
    ),
    "a pool's system": (
        builder(system="x86"),
        [("unknown-system", "unknown system 'x86'; known are aarch64-darwin, aarch64-linux, x86_64-linux", '"x86"}')],
    ),
    "a pool's ISAs": (
        builder(cpu=["avx2", "armv9", "avx3"]),
        [
            ("isa-system", "armv9 is an ISA of aarch64-linux, not of x86_64-linux", '"armv9", '),
            ("unknown-isa", "unknown ISA 'avx3'", '"avx3"]'),
        ],
    ),
    "publishing after a test that never runs": (
        {"publish": {"after": ["cpu-test", "gpu-test"]}, "tests": {"gpu-test": "never"}},
        [("test-never-runs", "publishing waits for gpu-test, which `tests` switches off", '"gpu-test"]')],
    ),
    "names that differ in a slash": (
        {"branches": {"release/1": MAIN, "release-1": MAIN}},
        [
            (
                "duplicate-name",
                "the branch 'release-1' and 'release/1' cannot be told apart in file names",
                '"release-1": {',
            )
        ],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_unknown_name_is_an_error_where_the_spec_is_built(case: str) -> None:
    changes, expected = WRONG[case]
    document = small(**changes)
    assert_said(document, errors_in(document), expected)


@pytest.mark.parametrize(("product", "architecture"), [("h100", "sm90"), ("RTX-4090", "sm89")])
def test_a_product_in_place_of_an_architecture_is_reported_with_the_right_one(product: str, architecture: str) -> None:
    document = small(**builder(gpu=product))
    message = f"{product!r} is a product; write its architecture, {architecture}"
    assert_said(document, errors_in(document), [("unknown-gpu", message, f'"{product}"')])


@pytest.mark.parametrize(
    ("program", "words"), [(COMPILE, ["variants"]), (RUNNER, ["labels"]), (RUNNER, ["list", "--here"])]
)
def test_every_command_refuses_a_spec_with_an_unknown_name(
    program: Program, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(json.dumps(small(**matrix(gpus={"sm91": {}}))), "utf-8")
    assert run(program, [*words, "--root", str(tmp_path), "--spec", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: spec.yaml:1:")
    assert "unknown GPU 'sm91'; did you mean" in err


@pytest.mark.parametrize("name", ["a.lock/b", "a.lock", "HEAD", "refs/heads/main", "a/.b", "a..b", "-a", "0" * 40])
def test_a_branch_that_git_or_github_refuses_is_an_error(name: str) -> None:
    with pytest.raises(
        InputError, match=r"is not a branch name that git and GitHub accept|is more than the name of a branch"
    ):
        spec_of(small(branches={name: MAIN}))


@pytest.mark.parametrize("name", ["main", "release/1.0", "a.locked/b", "HEAD2", "topic/HEAD", "v1_0-rc.1"])
def test_a_branch_that_git_accepts_is_accepted(name: str) -> None:
    require("git")
    subprocess.run(["git", "check-ref-format", "--branch", name], check=True)
    assert list(spec_of(small(branches={name: MAIN})).branches) == [name]


def test_a_branch_cannot_be_below_another() -> None:
    with pytest.raises(InputError, match="git cannot have the branch 'main/b' beside 'main'"):
        spec_of(small(branches={"main": MAIN, "main/b": MAIN}))

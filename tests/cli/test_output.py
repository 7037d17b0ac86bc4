"""What `--json` prints has the schema in the reference, and `--quiet` prints bare names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.program import Program
from ci_compiler.cli.runner import PROGRAM as RUNNER
from ci_compiler.documents.output import output_schemas
from tests.output import checked
from tests.specs import small

NAME = "pytorch-python313-cuda12_8-sm90-avx2"


@pytest.mark.parametrize("program", [COMPILE, RUNNER], ids=lambda program: program.name)
def test_every_command_with_json_has_a_schema(program: Program) -> None:
    found = set()
    for name in program.commands:
        if "--json" in program.parser_of(name, name).flags and name not in {
            "plan",
            "select",
        }:  # these print theirs with --schema
            found.add(f"{program.name} {name}")
    assert {one for one in output_schemas() if one.startswith(f"{program.name} ")} == found


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (COMPILE, "variants"),
        (COMPILE, "variants --left-out --cuda 12.8"),
        (COMPILE, f"explain {NAME}"),
        (COMPILE, "explain pytorch-python313-cuda12_8-sm100-avx2"),
        (COMPILE, "explain no-cache"),
        (COMPILE, "forecast"),
        (COMPILE, "forecast --without avx2"),
        (RUNNER, "detect"),
        (RUNNER, "labels"),
        (RUNNER, "doctor --for build"),
        (RUNNER, "coverage"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_output_has_its_schema(
    program: Program, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if words == "detect":
        root = []
    else:
        document = small()
        if "--left-out" in words:
            document["matrix"]["gpus"]["sm103"] = {}
        (tmp_path / "spec.yaml").write_text(json.dumps(document), "utf-8")
        root = ["--root", str(tmp_path), "--spec", str(tmp_path / "spec.yaml")]
    assert run(program, [*words.split(), "--json", *root]) in {0, 1}
    assert checked(f"{program.name} {words.split(maxsplit=1)[0]}", capsys.readouterr().out)


def test_a_difference_has_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = small(), small()
    after["matrix"]["gpus"]["sm100"] = {}
    after["matrix"]["isas"]["x86_64-linux"] = ["avx2"]
    for name, document in (("before", before), ("after", after)):
        (tmp_path / f"{name}.yaml").write_text(json.dumps(document), "utf-8")
    words = ["diff", str(tmp_path / "before.yaml"), "--json", "--root", str(tmp_path)]
    assert run(COMPILE, [*words, "--spec", str(tmp_path / "after.yaml")]) == 0
    found = checked("ci-compile diff", capsys.readouterr().out)
    added = {name for group in found["added"] for name in group["names"]}
    removed = {name for group in found["removed"] for name in group["names"]}
    assert NAME.replace("sm90", "sm100") in added
    assert NAME.replace("avx2", "avx512") in removed
    assert found["costs"]
    assert found["full_build"]["before"] != found["full_build"]["after"]


def test_the_schemas_refuse_what_is_not_printed() -> None:
    row = {"name": "a", "branch": "main", "because": "its recipe"}
    validator = Draft202012Validator(output_schemas()["ci-compile affected"])
    assert validator.is_valid([row])
    assert not validator.is_valid([row | {"more": 1}])
    assert not validator.is_valid([{"name": "a"}])


def test_quiet_prints_bare_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.yaml").write_text(json.dumps(small()), "utf-8")
    root = ["--root", str(tmp_path), "--spec", str(tmp_path / "spec.yaml")]
    assert run(COMPILE, ["variants", "-q", "*-sm90-avx2", *root]) == 0
    assert capsys.readouterr() == (f"{NAME}\ntorchvision{NAME.removeprefix('pytorch')}\n", "")
    assert run(COMPILE, ["variants", "--quiet", "none-*", *root]) == 1
    assert capsys.readouterr() == ("", "")

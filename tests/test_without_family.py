"""Each family but the default is a folder that can be taken away: nothing else knows of it.

The package is copied without the folder, and the commands run there, in a process of their own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ci_compiler.hardware.families import DEFAULT, FAMILIES, NONE

ROOT = Path(__file__).parents[1]
TAKEN = [name for name in FAMILIES if name not in {DEFAULT, NONE}]
DECLARED = "declared"
"""What stands for a family whose folder is there in the second spec of `said_of`."""

DRIVER = """\
import contextlib, dataclasses, io, json, os, pathlib, re, sys

import ci_compiler
from ci_compiler.cli import compile, runner
from ci_compiler.cli.app import run
from ci_compiler.hardware.families.machines import known_machines
from ci_compiler.hardware.machine import as_json
from ci_compiler.runner.detect.recorded import machine
from ci_compiler.runner.doctor.diagnosis import work_of
from ci_compiler.runner.doctor.evidence import ClockReading, Evidence
from ci_compiler.runner.doctor.hardware_checks import CHECKS
from ci_compiler.spec.build import load_spec
from ci_compiler.stages import GPU_TEST
from tests.runner.machines import recorded

wanted = json.load(sys.stdin)
assert pathlib.Path(ci_compiler.__file__).is_relative_to(wanted["package"]), ci_compiler.__file__
said = {"families": [*known_machines()]}
for folder, variant, gpu, record in wanted["specs"]:
    os.chdir(folder)
    select = ["select", "--gpu", gpu, "--cpu", "znver4", "--package", "ext"]
    rows = said[folder] = []
    for program, *words in (
        *((compile, *words) for words in ([], ["--check"], ["variants"], ["plan", "--json"], ["forecast"])),
        *((compile, *words) for words in (select, ["explain", variant], ["site", "page"])),
        (runner, "deploy", "systemd", "-o", "units"),
    ):
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            status = run(program.PROGRAM, words)
        rows.append([words, status, re.sub(r"\\(\\d+ kB\\)", "", out.getvalue()), err.getvalue()])
    spec = load_spec(pathlib.Path(".github/ci-matrix.yaml"), shown="ci-matrix.yaml")
    work = work_of(spec, stage=GPU_TEST, name=variant, pool=spec.pools[1])
    found = machine(dataclasses.replace(recorded("h200"), **record), spec.hardware)
    evidence = Evidence(machine=found, clock=ClockReading(now=0))
    rows.append([["doctor"], 0, as_json(found), [repr(check(work, evidence)) for check in CHECKS.values()]])
print(json.dumps(said))
"""
"""Runs the commands in folders with a spec each, and judges a recorded machine; prints what each of them said."""


def spec(accelerator: str, **more: Any) -> dict[str, Any]:
    """A spec with variants for the CPU and an accelerator, and a pool that tests the latter."""
    family, _, target = accelerator.split()
    return {
        "version": 1,
        "owner": "my-org",
        "backend": "command",
        "branches": {"main": {"versions": {"ext": "1.0"}}},
        "packages": {"ext": {"command": {"build": "b", "files": ["dist/*"], "install": "i", "publish": "p"}}},
        "matrix": {"values": {"platform": "x86_64-linux", "accelerator": ["cpu", accelerator]}},
        "runners": {
            "builder": {"runs-on": ["self-hosted", "x64", "builder"]},
            "gpu": {"runs-on": ["self-hosted", "x64", "gpu"], "accelerator": f"{family} {target}"},
        },
        "publish": {"on-shared-machines": True},
        **more,
    }


def said_of(package: Path, family: str) -> dict[str, Any]:
    """What the commands of the package in a folder say and write: for a spec of the default family, and for `family`.

    The latter is declared in the spec, without facts.
    """
    declared = {
        "hardware": {"families": {family: {"title": "Example"}}},
        "accelerators": {family: {"toolkits": ["1.0"], "targets": ["t1"]}},
    }
    with TemporaryDirectory() as temporary:
        for name, document in (("default", spec("cuda 12.8 sm90")), (DECLARED, spec(f"{family} 1.0 t1", **declared))):
            (Path(temporary) / name / ".github").mkdir(parents=True)
            (Path(temporary) / name / ".github/ci-matrix.yaml").write_text(json.dumps(document), "utf-8")
        roots = {name: Path(temporary).resolve() / name for name in ("default", DECLARED)}
        specs = [
            [os.fspath(roots["default"]), "ext-cuda12_8-sm90-x86_64-linux", "H100", {}],
            [os.fspath(roots[DECLARED]), f"ext-{family}1_0-t1-x86_64-linux", "t1", {"gpus": {family: "a record"}}],
        ]
        done = subprocess.run(
            [sys.executable, "-c", DRIVER],
            input=json.dumps({"package": os.fspath(package), "specs": specs}),
            cwd=temporary,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.fspath, (package, ROOT)))},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        return {"families": said["families"]} | {
            name: (said[os.fspath(root)], {path.relative_to(root).as_posix(): _text(path) for path in _files(root)})
            for name, root in roots.items()
        }


def _files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def _text(path: Path) -> str:
    """The text of a file; of the page, without the words by which it knows machines, of which each family has some."""
    text = path.read_bytes().decode()
    if path.name != "index.html":
        return text
    page = re.fullmatch(r'(?P<before>.* id="data">)(?P<data>.*?)(?P<after></script>.*)', text, re.DOTALL)
    assert page
    known = json.loads(page["data"])
    del known["names"], known["tools"]
    return f"{page['before']}{json.dumps(known)}{page['after']}"


@cache
def with_all() -> dict[str, Any]:
    return said_of(ROOT, "npu")


@cache
def without(family: str) -> dict[str, Any]:
    """What is said where the folder of `family` does not exist."""

    def taken(folder: str, _: list[str]) -> list[str]:
        return [family] if Path(folder).name == "families" else []

    with TemporaryDirectory() as temporary:
        package = Path(temporary).resolve()
        shutil.copytree(ROOT / "ci_compiler", package / "ci_compiler", ignore=taken)
        assert not (package / "ci_compiler/hardware/families" / family).exists()
        return said_of(package, family)


@pytest.mark.slow
@pytest.mark.parametrize("family", TAKEN)
def test_the_others_are_as_before(family: str) -> None:
    (said, files), (before, files_before) = without(family)["default"], with_all()["default"]
    assert [status for _, status, *_ in said] == [0] * len(said), said
    assert said == before
    assert files == files_before
    assert without(family)["families"] == [name for name in with_all()["families"] if name != family]


@pytest.mark.parametrize("family", TAKEN)
def test_it_is_a_family_without_facts_where_a_spec_declares_it(family: str) -> None:
    said, files = without(family)[DECLARED]
    assert [status for _, status, *_ in said] == [0] * len(said), said
    assert f"ext-{family}1_0-t1-x86_64-linux" in files[".github/BUILD_MATRIX.md"]
    answers = {words[0]: answer for words, _, *answer in said if words}
    assert f"ext-{family}1_0-t1-x86_64-linux" in answers["select"][0]
    machine, checks = answers["doctor"]
    assert machine["gpus"] == []
    assert f"nothing is known of machines with {family}" in " ".join(checks)

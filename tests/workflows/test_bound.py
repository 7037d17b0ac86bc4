"""Compiled jobs check the manifest against the build's own report, and hosted jobs install the toolkit with hashes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.plan.pipeline import plan
from ci_compiler.sync.compiled import compile_files
from tests.checkers.expressions import expression_value
from tests.specs import SMALL, small, spec_of

CACHE = {"url": "s3://my-cache", "public-key": f"my-cache-1:{'A' * 43}="}
HASHED = (
    "python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: "
    '--requirement "$REQUIREMENT"'
)


def compiled(path: str, **changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(compile_files(plan(spec_of(small(**changes))))[f".github/{path}"])
    return document


@pytest.mark.parametrize("backend", ["flox", "nix"])
def test_every_job_that_downloads_a_manifest_compares_it_with_the_digest_of_its_build(backend: str) -> None:
    jobs = compiled("workflows/cell.yml", backend=backend, cache=CACHE)["jobs"]
    seen = 0
    for name, job in jobs.items():
        if not any("download-artifact" in step.get("uses", "") for step in job["steps"]):
            continue
        build = f"{name.partition('_')[0]}_build"
        digest = {"DIGEST": f"${{{{ needs.{build}.outputs.manifest }}}}"}
        (step,) = (step for step in job["steps"] if "--digest" in step.get("run", ""))
        assert digest.items() <= step["env"].items()
        assert build in job["needs"]
        assert jobs[build]["outputs"]["manifest"] == "${{ steps.build.outputs.manifest }}"
        seen += 1
    assert seen == 4  # two packages with two tests each


@pytest.mark.parametrize("backend", ["flox", "nix"])
def test_the_digests_of_builds_and_tests_reach_the_job_that_publishes_as_outputs(backend: str) -> None:
    cell = compiled("workflows/cell.yml", backend=backend, cache=CACHE)
    reported = {name: one["value"] for name, one in cell[True]["workflow_call"]["outputs"].items()}
    files = {"build": "manifest", "cpu-test": "result", "gpu-test": "result"}
    names = [(f"{package}_{stage}", file) for package in ("pytorch", "torchvision") for stage, file in files.items()]
    assert reported == {name: f"${{{{ jobs.{name}.outputs.{file} }}}}" for name, file in names}
    for name, file in names:
        assert cell["jobs"][name]["outputs"][file].startswith("${{ steps.")
    jobs = compiled("workflows/build-main-sm90.yml", backend=backend, cache=CACHE)["jobs"]
    publications = [job for name, job in jobs.items() if name.startswith("publish-")]
    assert publications
    for job in publications:
        assert job["with"]["needs"] == "${{ toJSON(needs) }}"
        assert any("uses" in jobs[need] for need in job["needs"])
    publish = compiled("workflows/shard-publish.yml", backend=backend, cache=CACHE)["jobs"]["publish"]
    (step,) = (step for step in publish["steps"] if "publish-run" in step.get("run", ""))
    assert step["env"]["NEEDS"] == "${{ inputs.needs }}"
    assert '--needs "$NEEDS"' in step["run"]


def test_a_listed_variant_reports_its_digest() -> None:
    wheels = {"wheelhouse": {"variants": {"wheelhouse-linux": {"system": "x86_64-linux"}}}}
    branch = SMALL["branches"]["main"]
    versions = branch["versions"] | {"wheelhouse": "1.0"}
    changes = {"packages": SMALL["packages"] | wheels, "branches": {"main": branch | {"versions": versions}}}
    called = compiled("workflows/variant.yml", backend="nix", cache=CACHE, **changes)[True]["workflow_call"]
    assert called["outputs"]["build"]["value"] == "${{ jobs.build.outputs.manifest }}"


def test_suites_report_how_all_of_their_jobs_ended() -> None:
    suites = {"ops": {"command": "ci/ops.sh", "minutes": 9, "shards": 2}}
    packages = SMALL["packages"] | {"pytorch": {"attribute": "torch", "suites": suites}}
    outputs = compiled("workflows/cell.yml", backend="nix", packages=packages)[True]["workflow_call"]["outputs"]
    (value,) = (one["value"] for name, one in outputs.items() if "suites" in name)
    assert expression_value(value, {"jobs": {"pytorch_cpu-test-suites": {"result": "failure"}}}) == "failure"


def test_a_build_gets_the_staged_builds_of_what_it_needs() -> None:
    jobs = compiled("workflows/cell.yml", backend="nix", cache=CACHE)["jobs"]
    (step,) = (step for step in jobs["torchvision_build"]["steps"] if step.get("id") == "build")
    staged = "needs.pytorch_build.result == 'success' && needs.pytorch_build.outputs.staged || ''"
    assert step["env"] == {"STAGED": f"${{{{ {staged} }}}}"}
    assert '--staged "$STAGED"' in step["run"]
    assert jobs["pytorch_build"]["outputs"]["staged"] == "${{ steps.build.outputs.staged }}"


def test_hosted_jobs_install_the_toolkit_with_the_hashes_of_a_file() -> None:
    toolkit = ".github/ci-compiler.txt"
    step = compiled("actions/setup-ci-compiler/action.yml", toolkit=toolkit)["runs"]["steps"][1]
    assert (step["env"], step["run"]) == ({"REQUIREMENT": toolkit}, HASHED)


@pytest.mark.parametrize("ours", [True, False])
def test_a_release_is_installed_only_if_this_project_built_it(ours: bool, tmp_path: Path) -> None:
    """The script of the action, with a pip that downloads and installs, and a gh that verifies."""
    step = compiled("actions/setup-ci-compiler/action.yml", toolkit="ci-compiler==0.1.0")["runs"]["steps"][1]
    programs = {
        "python": 'case $3 in download) touch "$(echo "$*" | sed "s/.*--dest //;s/ .*//")/x.whl" ;; esac',
        "gh": "true" if ours else "false",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/told\n{text}\n', "utf-8")
        (tmp_path / name).chmod(0o755)
    env = step["env"] | {"PATH": f"{tmp_path}:{os.defpath}"}
    done = subprocess.run(["bash", "-e", "-c", step["run"]], env=env, capture_output=True, check=False)
    assert (done.returncode == 0) is ours
    told = [line.split()[:4] for line in (tmp_path / "told").read_text("utf-8").splitlines()]
    assert told[0] == ["python", "-m", "pip", "download"]
    assert told[1][:3] == ["gh", "attestation", "verify"]
    assert told[2:] == [["python", "-m", "pip", "install"]] * ours

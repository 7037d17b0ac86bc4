"""`images.yml`: its scripts run here, with a stand-in for docker, and build, name and push what they are to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler import __version__
from ci_compiler.plan.pipeline import plan
from ci_compiler.sync.compiled import compile_files
from tests.loops import each
from tests.specs import small, spec_of

ROOT = Path(__file__).parents[2]
BUILDER = f"ghcr.io/my-org/ci-builder:{__version__}"


def jobs(**changes: Any) -> dict[str, Any]:
    decided = plan(spec_of(small(images={"days": ["mon"]}, toolkit=".github/ci-compiler.txt", **changes)))
    found: dict[str, Any] = yaml.safe_load(compile_files(decided)[".github/workflows/images.yml"])["jobs"]
    return found


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(0o755)


def run(job: dict[str, Any], folder: Path, **variables: str) -> list[str]:
    """What docker was called with by the scripts of `job`, except the one that downloads."""
    program(folder / "bin/docker", f'echo "$*" >>{folder}/told; case $1 in login) cat >>{folder}/told ;; esac')
    program(
        folder / "bin/ci-runner", f'exec {sys.executable} -c "from ci_compiler.cli.runner import main; main()" "$@"'
    )
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.defpath])
    env = {"PATH": path, "PYTHONPATH": str(ROOT), "GITHUB_OUTPUT": str(folder / "output"), "GITHUB_ACTOR": "me"}
    for step in job["steps"]:
        if "run" in step and "pip" not in step["run"]:
            given = {name: variables.get(name, "") for name in step.get("env", {})}
            words = ["bash", "-e", "-c", step["run"]]
            done = subprocess.run(words, cwd=folder, env=env | given, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    return (folder / "told").read_text("utf-8").splitlines()


def test_the_images_are_built_scanned_and_pushed_for_each_system(tmp_path: Path) -> None:
    build = jobs(backend="flox")["build"]
    told = run(build, tmp_path, FLOX_SHA256_AMD64="0" * 64, TOKEN="t0ken", SYSTEM="x86_64-linux")  # noqa: S106
    builds = [line for line in told if line.startswith("build ")]
    assert builds[0].partition("--tag ")[2].split()[0] == BUILDER
    assert f"--build-arg FLOX_SHA256_AMD64={'0' * 64}" in builds[0]
    assert "FLOX_SHA256_ARM64" not in builds[0]
    outputs = dict(line.split("=") for line in (tmp_path / "output").read_text("utf-8").splitlines())
    assert outputs["builder"] == BUILDER
    scanned = [one["with"]["image"] for one in build["steps"] if one.get("uses", "").startswith("anchore/scan-action@")]
    assert scanned == [f"${{{{ steps.build.outputs.{name} }}}}" for name in outputs]
    assert f"push {BUILDER}-x86_64-linux" in told
    assert [line for line in told if "t0ken" in line] == ["t0ken"] * len(outputs)


def test_the_images_of_all_systems_get_the_name_that_pools_have(tmp_path: Path) -> None:
    made = jobs(backend="nix")
    systems = [one["system"] for one in made["build"]["strategy"]["matrix"]["include"]]
    assert systems == ["x86_64-linux"]  # no pool has another
    told = run(made["push"], tmp_path, TOKEN="t0ken")  # noqa: S106
    sources = " ".join(f"{BUILDER}-{system}" for system in systems)
    assert f"buildx imagetools create --tag {BUILDER} {sources}" in told


@pytest.mark.parametrize(
    ("toolkit", "paths"),
    [
        (".", ["runner-images/**", "ci_compiler/**"]),
        ("./tools/ci", ["tools/ci", "tools/ci/**"]),
        (f"git+https://example.org/ci@{'0' * 40}", []),
    ],
)
def test_a_toolkit_that_no_index_can_exchange_is_built_into_a_wheel(toolkit: str, paths: list[str]) -> None:
    document = small(images={"days": ["mon"]}, toolkit=toolkit)
    made = yaml.safe_load(compile_files(plan(spec_of(document)))[".github/workflows/images.yml"])
    assert made[True]["push"]["paths"][:-2] == paths
    (step,) = (step for step in made["jobs"]["build"]["steps"] if step["name"] == "Fetch the toolkit")
    assert step["env"] == {"REQUIREMENT": toolkit}
    assert step["run"].endswith('pip wheel --quiet --no-deps --wheel-dir images/archives "$REQUIREMENT"')


def test_only_the_job_that_opens_the_pull_request_has_the_key_of_the_app() -> None:
    for name, job in each(jobs().items()):
        text = str(job)
        assert ("secrets." in text) == (name == "pins") == (job.get("environment") == "sync")
        assert "refs/heads/main" in job.get("if", "") or job["needs"] == ["build"]

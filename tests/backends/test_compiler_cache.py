"""Compiler caches of build scripts: what a pull request compiles is read by nobody else; releases may do without."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.backends import wheel
from tests.backends.project import Project
from tests.backends.wheel import NAME

SCRIPT = "#!/bin/bash -e\nmkdir -p dist\ncat /proc/self/environ >dist/environment.txt\n"


@pytest.fixture
def cached(project: Project) -> Project:
    (project.root / "ci/build.sh").write_text(SCRIPT, "utf-8")
    return project


def declare(project: Project, **rule: Any) -> None:
    project.declare(files=["dist/*.txt"], **{"compiler-cache": {"program": "ccache", **rule}})


def built(project: Project, mode: str, *options: str, status: int = 0) -> tuple[dict[str, str], str]:
    """The variables of the script that are about the cache, and the outputs of the step."""
    output = project.root.parent / "github-output"
    output.write_text("", "utf-8")
    words = ("build", NAME, "--branch", "main", *options)
    project.job(*words, status=status, CI_COMPILER_CACHE=mode, GITHUB_OUTPUT=str(output))
    listed = (project.root / "build-output/files/environment.txt").read_text("utf-8").split("\0")
    found = dict(one.partition("=")[::2] for one in listed if one)
    about = ("CCACHE", "SCCACHE", "CMAKE_")
    return {name: value for name, value in found.items() if name.startswith(about)}, output.read_text("utf-8")


@pytest.mark.slow
def test_the_compilers_go_through_the_cache_of_the_checkout(cached: Project) -> None:
    declare(cached, size=3)
    found, output = built(cached, "write")
    folder = str(cached.root / ".compiler-cache")
    assert found == {
        "CCACHE_DIR": folder,
        "CCACHE_MAXSIZE": "3G",
        "CCACHE_BASEDIR": str(cached.root),
        "CMAKE_C_COMPILER_LAUNCHER": "ccache",
        "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
    }
    assert "compiler-cache=yes\n" in output
    declare(cached, program="sccache")
    found, _ = built(cached, "write")
    assert (found["SCCACHE_DIR"], found["SCCACHE_CACHE_SIZE"]) == (folder, "1G")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "releases", "options", "used", "kept"),
    [
        ("read", True, (), True, False),
        ("write", False, (), True, True),
        ("release", True, (), True, True),
        ("release", False, (), False, False),
        ("", True, (), False, False),
        ("write", True, ("--unshared",), False, False),
    ],
)
def test_a_run_uses_and_keeps_it_as_far_as_it_is_trusted(
    cached: Project, mode: str, releases: bool, options: tuple[str, ...], used: bool, kept: bool
) -> None:
    declare(cached, releases=releases)
    found, output = built(cached, mode, *options)
    assert bool(found) == used
    assert ("compiler-cache=yes" in output) == kept


def test_an_unknown_word_about_the_cache_is_no_permission(cached: Project) -> None:
    declare(cached)
    refused = cached.job("build", NAME, "--branch", "main", status=2, CI_COMPILER_CACHE="all").stderr
    assert "'all' is none of read, write, release" in refused


def test_pull_requests_keep_nothing_and_forks_get_nothing(cached: Project) -> None:
    spec = wheel.spec(**{"compiler-cache": {"program": "ccache"}})
    spec["runners"]["forks"] = {"runs-on": ["self-hosted", "linux", "x64", "forks"], "untrusted": True, "cpu": ["avx2"]}
    cached.write(".github/ci-matrix.yaml", json.dumps(spec))
    cached.compile()
    texts = {path.name: path.read_text("utf-8") for path in (cached.root / ".github/workflows").iterdir()}
    files = {name: yaml.safe_load(text) for name, text in texts.items()}
    steps = {step["name"]: step for step in files["cell.yml"]["jobs"]["fastpath_build"]["steps"]}
    assert list(steps).index("Fetch the compiler cache") + 1 == list(steps).index("Build")
    keep = steps["Keep the compiler cache"]
    assert keep["uses"].startswith("actions/cache/save@")
    assert keep["if"] == "${{ inputs.compiler-cache != 'read' && steps.build.outputs.compiler-cache == 'yes' }}"
    assert keep["with"]["key"].startswith(steps["Fetch the compiler cache"]["with"]["restore-keys"])
    requested = [job["with"] for job in files["pull-request.yml"]["jobs"].values() if "with" in job]
    assert requested
    assert all(given["compiler-cache"] == "read" for given in requested)
    jobs = files["build-main-cpu.yml"]["jobs"].values()
    pushed = [job["with"] for job in jobs if job["uses"].endswith("/cell.yml")]
    trust = "github.ref != 'refs/heads/main' && 'read' || (github.event_name == 'push' || inputs.publish == true)"
    assert {given["compiler-cache"] for given in pushed} == {f"${{{{ {trust} && 'release' || 'write' }}}}"}
    assert "compiler" not in texts["fork.yml"].replace("ci-compiler", "").replace("ci_compiler", "")
    writing = [name for name, text in texts.items() if "actions/cache/save" in text]
    assert writing == ["cell.yml"] or sorted(writing) == ["cell.yml", "joined.yml", "variant.yml"]

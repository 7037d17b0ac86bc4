"""The handwritten workflows of this repository, checked by the tools that check the compiled ones."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.files.drift import is_ours
from ci_compiler.workflows.pins import pinned
from tests.checkers import (
    actionlint_problems,
    jsonschema_problems,
    language_service_problems,
    shellcheck_problems,
    zizmor_problems,
)
from tests.loops import each
from tests.specs import small, spec_of

FOLDER = Path(__file__).parents[1] / ".github/workflows"
OWN = [path for path in sorted(FOLDER.glob("*.yml")) if not is_ours(path)]
RELEASE = FOLDER / "release.yml"

PUBLISHER = ("pypa/gh-action-pypi-publish", "dc37677b2e1c63e2034f94d8a5b11f265b73ba33", "v1.14.2")
"""The one action that no compiled workflow uses; its releases are at github.com/pypa/gh-action-pypi-publish."""


def jobs(path: Path) -> dict[str, Any]:
    """The jobs of a workflow."""
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    return found


def test_these_are_written_by_hand() -> None:
    assert [path.name for path in OWN] == ["release.yml", "test.yml"]


@pytest.mark.parametrize(
    "problems", [jsonschema_problems, language_service_problems, actionlint_problems, shellcheck_problems]
)
def test_the_checkers_find_nothing(problems: Callable[[list[Path]], list[str]]) -> None:
    assert problems(OWN) == []


def test_zizmor_finds_nothing_however_pedantic() -> None:
    assert zizmor_problems(OWN, "pedantic") == []


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_actions_are_pinned_as_in_the_compiled_workflows(path: Path) -> None:
    used = re.findall(r"uses: (\S+)@(\S+) # (\S+)$", path.read_text("utf-8"), re.MULTILINE)
    assert len(used) == len(re.findall(r"uses: (?!\./)", path.read_text("utf-8")))
    for action, commit, tag in used:
        if action == PUBLISHER[0]:
            assert (action, commit, tag) == PUBLISHER
        else:
            known = pinned(action)
            assert (f"{action}@{commit}", tag) == (known, known.remark)


def test_scripts_are_checked_out_with_their_own_ends_of_lines_on_windows() -> None:
    """Git for Windows ends lines with CR LF, and Bash takes the CR for a part of a word."""
    every = [(name, job) for path in OWN for name, job in jobs(path).items()]
    where = [json.dumps([job.get("runs-on"), job.get("strategy")]) for _, job in every]
    for name, job in each(one for one, machine in zip(every, where, strict=True) if "windows" in machine):
        first, second, *_ = job["steps"]
        assert "git config --global core.autocrlf false" in first["run"], name
        assert second["uses"].startswith("actions/checkout@"), name


def test_only_jobs_that_run_no_code_of_the_repository_get_an_identity() -> None:
    for name, job in jobs(RELEASE).items():
        steps = job.get("steps", [])
        own_code = any("run" in step or step["uses"].startswith("actions/checkout@") for step in steps)
        called = "uses" in job
        assert (own_code or called) == (job["permissions"].get("id-token") != "write"), name
    assert jobs(RELEASE)["publish"]["environment"]["name"] == "pypi"
    assert jobs(RELEASE)["publish"]["needs"] == ["build", "attest"]


def test_nothing_is_released_before_the_whole_gate_passed_on_the_commit_of_the_tag() -> None:
    found = jobs(RELEASE)
    assert found["gate"]["uses"] == "./.github/workflows/test.yml"
    assert "workflow_call" in yaml.safe_load((FOLDER / "test.yml").read_text("utf-8"))[True]
    waits = {
        name: {job["needs"]} if isinstance(job.get("needs"), str) else {*job.get("needs", ())}
        for name, job in found.items()
    }
    for name in found:
        reached = {name}
        while more := set().union(*map(waits.__getitem__, reached)) - reached:
            reached |= more
        assert "gate" in reached, name
        assert "if" not in found[name]


def test_a_tag_beside_main_and_a_tag_of_another_version_are_refused() -> None:
    scripts = [step.get("run", "") for step in jobs(RELEASE)["build"]["steps"]]
    assert 'git merge-base --is-ancestor "$GITHUB_SHA" origin/main' in scripts
    assert 'test "$GITHUB_REF_NAME" = "v$(python -m hatchling version)"' in scripts


def test_the_images_are_those_that_a_spec_of_this_version_names() -> None:
    scripts = [step["run"] for name in ("images", "release") for step in jobs(RELEASE)[name]["steps"] if "run" in step]
    named = [text for text in scripts if 'image=$(runner-images/build.py "$name" --owner "$OWNER" --name)' in text]
    assert len(named) == 2
    assert all("for name in builder gpu-tester controller compiler; do" in text for text in named)
    script = FOLDER.parents[1] / "runner-images/build.py"
    words = [sys.executable, script, "builder", "--owner", "My-Org", "--name"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    document = small(owner="my-org", backend="flox")
    builder = next(pool for pool in spec_of(document).pools if not pool.gpu)
    assert done.stdout.strip() == builder.image


def test_the_list_of_hashes_is_one_that_pip_accepts(tmp_path: Path) -> None:
    wheel = tmp_path / "ci_compiler-1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    other = {"url": "https://example.org/b.whl", "archive_info": {"hashes": {"sha256": "0" * 64}}}
    install = [
        {"download_info": {"url": wheel.as_uri()}, "metadata": {"name": "ci-compiler", "version": "1.0"}},
        {"download_info": other, "metadata": {"name": "PyYAML", "version": "6.0"}},
    ]
    (tmp_path / "report.json").write_text(json.dumps({"install": install}), "utf-8")
    script = FOLDER.parents[1] / ".ci/hashed-requirements"
    done = subprocess.run(
        [sys.executable, script, tmp_path / "report.json"], capture_output=True, text=True, check=True
    )
    digest = hashlib.sha256(b"a wheel").hexdigest()
    assert done.stdout.splitlines() == [
        f"ci-compiler==1.0 --hash=sha256:{digest}",
        f"pyyaml==6.0 --hash=sha256:{'0' * 64}",
    ]


def test_only_a_tag_releases_and_no_secret_is_asked_for() -> None:
    text = RELEASE.read_text("utf-8")
    assert yaml.safe_load(text)[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads the key `on` as true
    assert "secrets" not in text

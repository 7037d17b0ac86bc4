"""Versions of a package: from its branch, a command or a tag, with dates of nights and local parts, and checked."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.backends import wheel
from tests.backends.project import MANIFEST, Project
from tests.backends.wheel import NAME, PYTHON, VERSION

OWN = f"cp{PYTHON.replace('.', '')}"
"""This Python in the names of wheels."""

RULE = {"tag": "v{version}", "night": "{version}.dev{date}", "local": "@accelerator-tag@"}


def declare(project: Project, rule: dict[str, Any], **versions: str) -> None:
    spec = wheel.spec(version=rule)
    spec["branches"]["main"]["versions"] = versions
    project.write(".github/ci-matrix.yaml", json.dumps(spec))


def choose(project: Project, status: int = 0, **inputs: str) -> dict[str, str]:
    """The outputs of the selection for a dispatch of the shard."""
    event = project.root.parent / "event.json"
    event.write_text(json.dumps({"ref": "refs/heads/main", "inputs": inputs}), "utf-8")
    words = ("choose", "--shard", "build-main-cpu")
    env = {"GITHUB_EVENT_NAME": "workflow_dispatch", "GITHUB_EVENT_PATH": str(event), "GITHUB_REF": "refs/heads/main"}
    done = project.run(*project.compiler, *words, status=status, **env)
    if status:
        return {"stderr": done.stderr}
    return dict(line.partition("=")[::2] for line in done.stdout.splitlines())


@pytest.mark.slow
def test_a_local_part_stands_in_the_manifest_the_file_and_the_install_line(project: Project) -> None:
    declare(project, {"local": [{"when": {"isa": "avx2"}, "value": "@accelerator-tag@.@isa@"}]}, fastpath=VERSION)
    project.build()
    assert project.manifest["version"] == f"{VERSION}+cpu.avx2"
    assert project.manifest["outputs"] == [f"files/fastpath-{VERSION}+cpu.avx2-py3-none-any.whl"]
    assert project.test().returncode == 0
    assert f"fastpath=={VERSION}+cpu.avx2" in project.compile("select", "--gpu=none", "--cpu=avx2").stdout
    (row,) = [one for one in json.loads(project.compile("variants", "--json").stdout) if one["name"] == NAME]
    assert row["version"] == f"{VERSION}+cpu.avx2"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "version"),
    [({"command": "echo 2.0.1"}, "2.0.1"), ({"tag": "v{version}"}, "1.5.0"), (RULE, "1.5.0+cpu")],
)
def test_a_version_comes_from_a_command_or_from_the_nearest_tag(
    project: Project, rule: dict[str, Any], version: str
) -> None:
    project.run("git", "tag", "v1.5.0")
    declare(project, rule)
    project.build()
    assert project.manifest["version"] == version


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"command": "echo no version here; exit 3"}, "`echo no version here; exit 3` ended with status 3"),
        ({"command": "echo unknown"}, "'unknown' is not a version of fastpath"),
        ({"tag": "v{version}"}, "no tag such as v{version} is an ancestor of what is checked out"),
    ],
)
def test_a_version_that_cannot_be_decided_builds_nothing(project: Project, rule: dict[str, Any], message: str) -> None:
    declare(project, rule)
    refused = project.build(2).stderr
    assert message in refused
    assert "[version-unknown]" in refused
    assert not (project.root / "dist").exists()


OTHER = """sed -i 's/os.environ.*VARIANT_VERSION../"9.8"/' ci/backend.py"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (OTHER, ":", "is version 9.8 by its name, and 1.4.0+cpu is declared"),
        (OTHER, "mv dist/*.whl dist/fastpath-1.4.0+cpu-py3-none-any.whl", "is version 9.8 by its metadata, and 1.4.0"),
        (":", "echo >dist/fastpath-1.4.0+cpu-py3-none-any.whl", "has no metadata that can be read"),
    ],
)
def test_a_wheel_of_another_version_fails_the_build(project: Project, before: str, after: str, message: str) -> None:
    declare(project, {"local": "cpu"}, fastpath=VERSION)
    rest, build = wheel.FILES["ci/build.sh"].split("exec ")
    project.write("ci/build.sh", "\n".join([f"{rest}PATH=$PATH:/bin:/usr/bin", before, build, after]))
    refused = project.build(1).stderr
    assert message in refused
    assert "[version-differs]" in refused
    assert not (project.root / MANIFEST).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tags", "is_right"),
    [
        (f"{OWN}-{OWN}-linux_x86_64", True),
        ("cp38-cp38-linux_x86_64", False),
    ],
)
def test_a_wheel_for_another_python_fails_the_build(project: Project, tags: str, is_right: bool) -> None:
    rest, build = wheel.FILES["ci/build.sh"].split("exec ")
    made = "\n".join([f"{rest}PATH=$PATH:/bin:/usr/bin", build, f"mv dist/*.whl dist/fastpath-1.4.0-{tags}.whl || :"])
    project.write("ci/build.sh", made)
    said = project.build(0 if is_right else 1).stderr
    assert (f"fastpath-1.4.0-{tags}.whl is not for Python {PYTHON} by its name" in said) is not is_right
    assert ("[python-differs]" in said) is not is_right


@pytest.mark.slow
def test_a_night_has_the_date_of_its_dispatch_and_every_job_takes_it_from_the_selection(project: Project) -> None:
    project.run("git", "tag", "v1.5.0")
    declare(project, RULE)
    project.compile()
    chosen = choose(project, variant=NAME, night="20261123")
    assert json.loads(chosen["versions"]) == {"main": {"fastpath": "1.5.0.dev20261123"}}
    assert chosen == choose(project, variant=NAME, night="20261123")
    assert json.loads(choose(project, variant=NAME)["versions"]) == {"main": {"fastpath": "1.5.0"}}
    assert "'tomorrow' is not a date such as 20261123" in choose(project, 2, night="tomorrow")["stderr"]
    given = {"CI_COMPILER_VERSIONS": chosen["versions"]}
    project.run("git", "tag", "v1.6.0")  # a later job does not look again
    project.build(**given)
    assert project.manifest["version"] == "1.5.0.dev20261123+cpu"
    tested = project.job("smoke", NAME, "--stage", "cpu-test", "--manifest", MANIFEST, **given).stdout
    assert "1.5.0.dev20261123+cpu" in tested
    assert "holds no versions" in project.build(2, CI_COMPILER_VERSIONS="[]").stderr
    assert "holds no versions" in project.build(2, CI_COMPILER_VERSIONS='{"main": {"fastpath": "$(id)"}}').stderr


def test_compiled_workflows_hand_the_versions_on(project: Project) -> None:
    declare(project, RULE)
    spec = json.loads((project.root / ".github/ci-matrix.yaml").read_text("utf-8"))
    spec["schedule"] = {"days": ["mon"]}
    project.write(".github/ci-matrix.yaml", json.dumps(spec))
    project.compile()
    files = {path.name: path.read_text("utf-8") for path in (project.root / ".github/workflows").iterdir()}
    names = ("build-main-cpu.yml", "cell.yml", "shard-select.yml", "shard-publish.yml")
    shard, cell, select, publish = (yaml.safe_load(files[name]) for name in names)
    handed = "${{ needs.select.outputs.versions }}"
    assert select["jobs"]["select"]["outputs"]["versions"] == "${{ steps.choose.outputs.versions }}"
    assert select[True]["workflow_call"]["outputs"]["versions"]["value"] == "${{ jobs.select.outputs.versions }}"
    called = [job for job in shard["jobs"].values() if job["uses"].endswith("/cell.yml")]
    assert called
    assert all(job["with"]["versions"] == handed for job in called)
    steps = publish["jobs"]["publish"]["steps"]
    given = "${{ fromJSON(inputs.selected).versions }}"
    assert given in [step.get("env", {}).get("CI_COMPILER_VERSIONS") for step in steps]
    assert cell["env"]["CI_COMPILER_VERSIONS"] == "${{ inputs.versions }}"
    assert "night" in shard[True]["workflow_dispatch"]["inputs"]
    assert '--night "$(date -u +%Y%m%d)"' in files["schedule.yml"]
    assert '--night "$NIGHT"' in files["waves.yml"]
    assert "versions: ${{ needs.select.outputs.versions }}" in files["pull-request.yml"]


def test_a_night_is_refused_where_no_package_has_its_versions(project: Project) -> None:
    refused = project.run(*project.compiler, "dispatch", "--all", "--night", "20261123", status=2).stderr
    assert "no package has versions of nights; `command.version.night` declares them" in refused


def test_a_version_has_one_source(project: Project) -> None:
    declare(project, {"tag": "v{version}", "command": "cat VERSION"}, fastpath=VERSION)
    refused = project.build(2).stderr
    assert "fastpath has its version from command and from tag and from `versions` of main; keep one" in refused

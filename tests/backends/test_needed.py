"""Files that reach their dependents: by digest, from this run's builds or from where they are published."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.plan.pipeline import plan
from ci_compiler.runner.jobs.publish_run import candidates, read_results, reported_outputs
from ci_compiler.spec.build import parse_spec
from tests.backends.project import Project
from tests.backends.wheel import PYTHON, TAG

SUFFIX = f"{TAG}-cpu-avx2"
BASE, TOP = f"base-{SUFFIX}", f"top-{SUFFIX}"

BASE_SCRIPT = "#!/bin/bash -e\nmkdir -p out\ncat src/base.txt >out/base.txt\n"
TOP_SCRIPT = '#!/bin/bash -e\nmkdir -p dist\n{ cat "$VARIANT_NEEDS"/base/base.txt; echo top; } >dist/top.txt\n'
SMOKE = """import os, sys
for name in (os.environ["VARIANT_NEEDS"] + "/base/base.txt", sys.prefix + "/base.txt"):
    assert open(name).read().strip() in {"first", "published"}
"""


def declared(fetch: str = "", base_setup: str = "") -> dict[str, Any]:
    def command(script: str, files: str, **more: str) -> dict[str, Any]:
        return {"build": script, "files": [files], "install": "echo @name@", "publish": "cat", **more}

    smoke = {"cpu": {"python": "ci/smoke.py"}}
    more = {"fetch": fetch, "setup": base_setup}
    base = command("ci/base.sh", "out/*.txt", **{k: v for k, v in more.items() if v})
    setup = 'cp "$VARIANT_NEEDS"/base/base.txt "$VIRTUAL_ENV/base.txt"'
    top = command("ci/top.sh", "dist/*.txt", setup=setup)
    return {
        "version": 1,
        "owner": "my-org",
        "backend": "command",
        "branches": {"main": {"versions": {"base": "1.0.0", "top": "1.0.0"}}},
        "packages": {
            "base": {"disk": 1, "memory": 1, "command": base},
            "top": {"disk": 1, "memory": 1, "needs": ["base"], "command": top, "smoke": smoke},
        },
        "matrix": {"python": [PYTHON], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"cpu": {}}},
        "publish": {"on-shared-machines": True},
        "runners": {"builder": {"runs-on": ["self-hosted", "linux", "x64", "builder"], "cpu": ["avx2"]}},
    }


def declare(project: Project, **options: str) -> None:
    (project.root / ".github/ci-matrix.yaml").write_text(json.dumps(declared(**options)), "utf-8")
    for name, text in {"base.sh": BASE_SCRIPT, "top.sh": TOP_SCRIPT, "smoke.py": SMOKE}.items():
        path = project.root / "ci" / name
        path.write_text(text, "utf-8")
        path.chmod(0o755)
    project.write("src/base.txt", "first\n")


@pytest.fixture
def two(project: Project) -> Project:
    declare(project)
    return project


def build(project: Project, name: str, *options: str, status: int = 0) -> Any:
    return project.job("build", name, "--branch", "main", "--out", f"made-output/{name}", *options, status=status)


def manifest(project: Project, name: str) -> Any:
    return json.loads((project.root / "made-output" / name / "manifest.json").read_text("utf-8"))


def smoke(project: Project, *needs: str, status: int = 0) -> Any:
    path = f"made-output/{TOP}/manifest.json"
    return project.job("smoke", TOP, "--stage", "cpu-test", "--manifest", path, *needs, status=status)


@pytest.mark.slow
def test_a_build_and_its_test_get_the_files_of_what_they_need(two: Project) -> None:
    build(two, BASE)
    build(two, TOP, "--needs", "made-output")
    assert (two.root / f"made-output/{TOP}/files/top.txt").read_text("utf-8") == "first\ntop\n"
    (needed,) = manifest(two, TOP)["needs"].items()
    assert needed[0] == BASE
    assert "needs" not in manifest(two, BASE)
    smoke(two, "--needs", "made-output")


@pytest.mark.slow
def test_a_needed_package_that_cannot_be_installed_is_named(project: Project) -> None:
    declare(project, base_setup="echo broken >&2; exit 3")
    build(project, BASE)
    build(project, TOP, "--needs", "made-output")
    said = smoke(project, "--needs", "made-output", status=1).stderr
    message = f"{TOP}: the files of base, which it needs, cannot be installed for the test (status 3)"
    assert message in said


def test_without_the_files_nothing_is_built(two: Project) -> None:
    refused = build(two, TOP, status=1).stderr
    assert (
        f"{TOP}: needs the files of {BASE}; build it first with `ci-runner build {BASE} --out needs/{BASE}`" in refused
    )
    assert not (two.root / "dist").exists()
    assert "Traceback" not in two.job("build", TOP, status=1).stderr


@pytest.mark.slow
def test_a_test_takes_the_very_files_of_the_build(two: Project) -> None:
    build(two, BASE)
    build(two, TOP, "--needs", "made-output")
    two.write("src/base.txt", "second\n")
    build(two, BASE)
    said = smoke(two, "--needs", "made-output", status=1).stderr
    assert f"{TOP}: was built with other files of {BASE} than those that are here; build and test it again" in said


def test_files_that_are_not_what_their_build_made_are_refused(two: Project) -> None:
    build(two, BASE)
    (two.root / f"made-output/{BASE}/files/base.txt").write_text("forged\n", "utf-8")
    assert (
        "base.txt is another file than the one that was built"
        in build(two, TOP, "--needs", "made-output", status=1).stderr
    )


@pytest.mark.slow
def test_what_the_run_does_not_build_is_fetched_from_where_it_is_published(project: Project) -> None:
    declare(project, fetch='echo published >"$VARIANT_FILES/base.txt"')
    build(project, TOP)
    assert (project.root / f"made-output/{TOP}/files/top.txt").read_text("utf-8") == "published\ntop\n"
    smoke(project)


def test_a_second_build_is_fetched_beside_the_checkout_and_not_into_it(project: Project) -> None:
    declare(project, fetch='echo published >"$VARIANT_FILES/base.txt"')
    spec = declared(fetch='echo published >"$VARIANT_FILES/base.txt"')
    spec["matrix"]["isas"]["x86_64-linux"] = ["avx", "avx2"]
    project.write(".github/ci-matrix.yaml", json.dumps(spec))
    build(project, BASE)
    (project.root / "files").mkdir()
    project.write("files/kept", "a folder of the repository\n")
    words = ("--beside", BASE.replace("avx2", "avx"), "--beside-manifest", "beside-output/manifest.json")
    project.job("fetch", f"made-output/{BASE}/manifest.json", *words)
    assert (project.root / "beside-output/files/base.txt").read_text("utf-8") == "published\n"
    assert [path.name for path in (project.root / "files").iterdir()] == ["kept"]


def test_what_the_run_builds_is_never_fetched(project: Project) -> None:
    declare(project, fetch='echo published >"$VARIANT_FILES/base.txt"')
    refused = build(project, TOP, "--chosen", json.dumps([BASE, TOP]), status=1).stderr
    assert f"{TOP}: needs the files of {BASE}, which this run was to build; see why it did not" in refused


def forge(project: Project, name: str, at: str) -> None:
    """What any job of the run can upload: a manifest and files that agree with each other."""
    folder = project.root / "made-output" / at
    if at != name:
        shutil.copytree(project.root / "made-output" / name, folder)
    (folder / "files/base.txt").write_text("forged\n", "utf-8")
    stated = json.loads((folder / "manifest.json").read_text("utf-8"))
    stated["closure"]["files/base.txt"] = digest(folder / "files/base.txt")
    (folder / "manifest.json").write_text(json.dumps(stated), "utf-8")


def reported(context: str, made: str) -> tuple[str, ...]:
    """The options of a build in a workflow: `made` is the digest that the job of BASE reported."""
    outer = {f"{TAG}-avx2": {"result": "success", "outputs": {"base_build": made}}}
    own = {"base_build": {"result": "success", "outputs": {"manifest": made}}}
    return "--reported", json.dumps({"caller": [outer, None], "own": [{"select": {"outputs": {}}}, own]}[context])


def top_of(project: Project) -> str:
    return (project.root / f"made-output/{TOP}/files/top.txt").read_text("utf-8")


@pytest.mark.parametrize("chosen", [[TOP], []], ids=str)
def test_the_artifact_of_what_the_run_did_not_choose_is_not_built_in(project: Project, chosen: list[str]) -> None:
    declare(project, fetch='echo published >"$VARIANT_FILES/base.txt"')
    build(project, BASE)
    forge(project, BASE, BASE)
    build(project, TOP, "--needs", "made-output", "--chosen", json.dumps(chosen), "--reported", "[null, null]")
    assert top_of(project) == "published\ntop\n"


@pytest.mark.parametrize("context", ["caller", "own"])
def test_a_build_takes_the_files_whose_digest_their_build_reported(two: Project, context: str) -> None:
    build(two, BASE)
    made = digest(two.root / f"made-output/{BASE}/manifest.json")
    for at in ("a-job", "z-job"):
        forge(two, BASE, at)
    (two.root / "made-output/a-job/manifest.json").write_text("{", "utf-8")
    chosen = ("--needs", "made-output", "--chosen", json.dumps([BASE, TOP]))
    build(two, TOP, *chosen, *reported(context, made))
    assert top_of(two) == "first\ntop\n"
    for other in ("", f"sha256:{'0' * 64}"):
        refused = build(two, TOP, *chosen, *reported(context, other), status=1).stderr
        assert f"{TOP}: needs the files of {BASE}, which this run was to build; see why it did not" in refused


def test_of_what_other_legs_of_a_matrix_build_the_artifact_counts(two: Project) -> None:
    build(two, BASE)
    build(two, TOP, "--needs", "made-output", "--chosen", json.dumps([BASE]), "--legs", json.dumps([BASE]))
    assert top_of(two) == "first\ntop\n"


@pytest.mark.parametrize("text", ["", "{", "[]", "[1, 2]", "[{}, {}, {}]", '[{}, {"base_build": 1}]', "[" * 9000])
def test_contexts_of_another_form_are_wrong_input(two: Project, text: str) -> None:
    said = build(two, TOP, "--chosen", "[]", "--reported", text, status=2).stderr
    assert "error: --reported:" in said


def test_a_test_takes_the_files_that_its_build_had_among_others_of_the_name(two: Project) -> None:
    build(two, BASE)
    build(two, TOP, "--needs", "made-output")
    forge(two, BASE, "z-job")
    smoke(two, "--needs", "made-output")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fetch", "message"),
    [
        ("exit 7", "its command `fetch` ended with status 7"),
        ("true", "its command `fetch` left no file in `VARIANT_FILES`"),
        ('ln -s /etc/passwd "$VARIANT_FILES/base.txt"', "'base.txt' was fetched, and is not a file"),
    ],
)
def test_a_fetch_that_brings_no_files_fails(project: Project, fetch: str, message: str) -> None:
    declare(project, fetch=fetch)
    assert f"{BASE}: {message}" in build(project, TOP, status=1).stderr


def test_the_artifacts_of_the_run_are_named_by_one_pattern(two: Project, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.touch()
    found = two.job("needs", TOP, "--branch", "main", GITHUB_OUTPUT=str(output))
    assert found.stdout == f"build-{BASE}@main\n"
    assert output.read_text("utf-8") == f"artifacts=build-{BASE}@main\n"
    assert two.job("needs", BASE, "--branch", "main").stdout == ""


def publishable(project: Project) -> dict[str, str]:
    """Why each variant must not be published, by what lies in the folder of the builds, of which all tests passed."""
    spec = parse_spec(json.dumps(declared()).encode(), shown="ci-matrix.yaml")
    decided, folder = plan(spec), project.root / "made-output"
    outputs: dict[str, str] = {}
    for name in (BASE, TOP):
        stated = manifest(project, name)
        record = {
            "name": name,
            "branch": "main",
            "stage": "cpu-test",
            "passed": True,
            "content": stated_content(stated),
        }
        (folder / name / "result.json").write_text(json.dumps(record), "utf-8")
        package = name.split("-")[0]
        outputs[f"{package}_build"] = digest(folder / name / "manifest.json")
        outputs[f"{package}_cpu-test"] = digest(folder / name / "result.json")
    needs = json.dumps({f"{TAG}-avx2": {"outputs": outputs}})
    cells = list(zip(decided.judged.cells, decided.routes, strict=True))
    reported = reported_outputs(decided.shards[0], spec, needs)
    results = read_results(folder, "main", manifest(project, TOP)["commit"], reported)
    return {one.name: one.because for one in candidates(spec, cells, (BASE, TOP), results)}


def stated_content(stated: Any) -> str:
    from ci_compiler.backends.nar import closure_digest

    return closure_digest({**stated["closure"], **stated.get("needs", {})})


def digest(path: Path) -> str:
    from ci_compiler.runner.jobs.files import digest_of

    return digest_of(path.read_bytes())


def test_what_was_built_with_other_files_is_not_published(two: Project) -> None:
    build(two, BASE)
    build(two, TOP, "--needs", "made-output")
    assert publishable(two) == {BASE: "", TOP: ""}
    path = two.root / f"made-output/{TOP}/manifest.json"
    stated = manifest(two, TOP)
    stated["needs"][BASE] = "sha256:" + "0" * 64
    path.write_text(json.dumps(stated), "utf-8")
    assert publishable(two) == {BASE: "", TOP: f"{TOP} was built with other files of {BASE}"}


@pytest.mark.slow
def test_what_is_gathered_has_a_folder_for_each_variant(two: Project) -> None:
    document = declared()
    document["matrix"]["isas"] = {"x86_64-linux": ["avx", "avx2"]}
    top = document["packages"]["top"]
    del top["needs"], top["smoke"]
    top["gathers"] = [{"package": "base", "isa": "all"}]
    (two.root / ".github/ci-matrix.yaml").write_text(json.dumps(document), "utf-8")
    two.write("ci/top.sh", '#!/bin/bash -e\nmkdir -p dist\ncat "$VARIANT_NEEDS"/base/*/base.txt >dist/top.txt\n')
    bases = [f"base-{TAG}-cpu-{isa}" for isa in ("avx", "avx2")]
    for name in bases:
        build(two, name)
    build(two, TOP, "--needs", "made-output")
    assert (two.root / f"made-output/{TOP}/files/top.txt").read_text("utf-8") == "first\nfirst\n"
    assert sorted(manifest(two, TOP)["needs"]) == sorted(bases)

"""The backend `command`: a wheel is built, tested and published to an index by the commands of the compiled jobs."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.backends import wheel
from tests.backends.project import MANIFEST, Project
from tests.backends.wheel import NAME, TOKEN, VERSION

FILE = f"files/fastpath-{VERSION}-py3-none-any.whl"


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """An index on the loopback device; yields its port."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.slow
def test_a_wheel_is_built_tested_published_and_installed(project: Project, tmp_path: Path) -> None:
    assert project.build().stdout.splitlines()[-1] == FILE
    manifest = project.manifest
    assert (manifest["backend"], manifest["nixpkgs"], manifest["derivation"]) == ("command", "", "ci/build.sh")
    assert manifest["outputs"] == [FILE]
    assert re.fullmatch("sha256:[0-9a-f]{64}", manifest["closure"][FILE])
    # As a job on another machine: nothing but the commit and the artifact is there.
    shutil.rmtree(project.root / "dist")
    assert project.job("fetch", MANIFEST).stdout.strip() == FILE
    tested = project.test().stdout
    assert re.search(r"import +ok", tested)
    assert re.search(rf"version +ok +{re.escape(VERSION)}", tested)
    assert not project.index.exists()
    assert project.publish().stdout.endswith(f"{NAME}: {VERSION} from main at {manifest['commit'][:12]}\n")
    assert "published already: `test -f" in project.publish().stdout
    shown = project.compile("select", "--gpu=none", "--cpu=avx2", "--package=fastpath").stdout
    (line,) = re.findall(r"pip install .*", shown)
    with served(project.index) as port:
        words = line.replace("127.0.0.1:1/", f"127.0.0.1:{port}/").split()[1:]
        project.run(sys.executable, "-m", "pip", "--isolated", *words, "--quiet", "--target", str(tmp_path / "there"))
    flags = (tmp_path / "there/fastpath.py").read_text("utf-8")
    assert "ISA = 'avx2'" in flags
    assert "FLAGS = '-mavx2" in flags


def test_the_script_gets_the_variants_values_and_no_secret(project: Project) -> None:
    project.write("ci/build.sh", "#!/bin/bash -e\nmkdir -p dist\ncat /proc/self/environ >dist/environment.txt\n")
    project.declare(files=["dist/*.txt"])
    project.build(PUBLISH_TOKEN=TOKEN)
    listed = (project.root / "build-output/files/environment.txt").read_text("utf-8").split("\0")
    found = dict(one.partition("=")[::2] for one in listed if one)
    assert {name: value for name, value in found.items() if name.startswith("VARIANT_")} == {
        "VARIANT_NAME": NAME,
        "VARIANT_PACKAGE": "fastpath",
        "VARIANT_VERSION": VERSION,
        "VARIANT_BRANCH": "main",
        "VARIANT_PYTHON": wheel.PYTHON,
        "VARIANT_CUDA": "",
        "VARIANT_GPU": "cpu",
        "VARIANT_CAPABILITY": "",
        "VARIANT_ISA": "avx2",
        "VARIANT_FLAGS": "-mavx2 -mfma -mf16c",
        "VARIANT_SYSTEM": "x86_64-linux",
        "VARIANT_JOBS": "1",
        "VARIANT_ACCELERATOR_TAG": "cpu",
        "VARIANT_FAMILY": "cpu",
        "VARIANT_TOOLKIT": "",
        "VARIANT_TARGET": "",
        "VARIANT_PLATFORM": "",
    }
    assert TOKEN not in found.values()


def test_the_script_runs_no_more_compilers_than_the_machine_has_cores(project: Project) -> None:
    spec = wheel.spec(files=["jobs.txt"])
    spec["packages"]["fastpath"] |= {"jobs": 1024}
    project.write(".github/ci-matrix.yaml", json.dumps(spec))
    project.write("ci/build.sh", '#!/bin/bash -e\necho "$VARIANT_JOBS" >jobs.txt\n')
    project.build()
    jobs = int((project.root / "build-output/files/jobs.txt").read_text("utf-8"))
    assert 1 <= jobs <= (os.cpu_count() or 1)


IMAGE = f"quay.io/pypa/manylinux_2_28_x86_64@sha256:{64 * '0'}"

DOCKER = """#!/bin/bash -e
# Runs the script with the variables of its options, and nothing else.
echo "$@" >>"$HOME/docker.log"
[ "$1" = run ] || exit 0
given=()
while [ "$1" != "$IMAGE" ]; do
  case "$1" in
    --env=*=*) given+=("${1#--env=}") ;;
    --env=*) name=${1#--env=}; given+=("$name=${!name}") ;;
  esac
  shift
done
exec /usr/bin/env -i "PATH=$PATH" "${given[@]}" "$2"
"""


def declare_environment(project: Project, **command: Any) -> None:
    here = {"platform": "x86_64-linux", "isa": "avx2"}
    rows = [{"when": {"isa": "avx"}, "value": "-O1"}, {"when": here, "value": "-O3 @isa@"}]
    env = {"OPTIMIZE": rows, "FLAVOUR": "for @name@", "ABSENT": [{"when": {"isa": "avx"}, "value": "old"}]}
    project.write("ci/build.sh", "#!/bin/bash -e\nmkdir -p dist\ncat /proc/self/environ >dist/environment.txt\n")
    project.declare(files=["dist/*.txt"], env=env, **command)


def handed_over(project: Project) -> dict[str, str]:
    listed = (project.root / "build-output/files/environment.txt").read_text("utf-8").split("\0")
    return dict(one.partition("=")[::2] for one in listed if one)


@pytest.mark.slow
def test_declared_variables_reach_build_setup_and_test(project: Project) -> None:
    shown = "import os\nassert os.environ['OPTIMIZE'] == '-O3 avx2' and 'ABSENT' not in os.environ\n"
    (project.root / "ci/smoke.py").write_text(shown, "utf-8")
    declare_environment(project, setup='test "$OPTIMIZE" = "-O3 avx2"')
    spec = json.loads((project.root / ".github/ci-matrix.yaml").read_text("utf-8"))
    spec["packages"]["fastpath"]["smoke"] = {"python": "ci/smoke.py"}
    project.write(".github/ci-matrix.yaml", json.dumps(spec))
    project.build()
    found = handed_over(project)
    assert (found["OPTIMIZE"], found["FLAVOUR"]) == ("-O3 avx2", f"for {NAME}")
    assert "ABSENT" not in found
    project.test()


def test_the_build_script_runs_in_its_container_with_nothing_else_of_the_job(project: Project) -> None:
    docker = project.root.parent / "bin/docker"
    docker.write_text(DOCKER, "utf-8")
    docker.chmod(0o755)
    declare_environment(project, container=[{"when": {"isa": "avx2"}, "value": IMAGE}])
    project.build(IMAGE=IMAGE, GITHUB_TOKEN="hush")  # noqa: S106
    found = handed_over(project)
    assert found["VARIANT_NAME"] == NAME
    assert found["OPTIMIZE"] == "-O3 avx2"
    assert "GITHUB_TOKEN" not in found
    ran, removed = (project.root.parent / "docker.log").read_text("utf-8").splitlines()
    assert f"--volume={project.root}:{project.root}" in ran
    assert removed == f"rm --force {re.findall('--name=([^ ]+)', ran)[0]}"


def test_a_machine_without_an_engine_builds_nothing_that_needs_a_container(project: Project) -> None:
    declare_environment(project, container=IMAGE)
    assert "docker is not on PATH; install Docker or Podman" in project.build(2).stderr
    assert not (project.root / "dist").exists()


def test_a_variable_of_some_variants_rebuilds_only_those(project: Project) -> None:
    declare_environment(project)
    base = project.run("git", "rev-parse", "HEAD").stdout.strip()
    text = (project.root / ".github/ci-matrix.yaml").read_text("utf-8")
    project.write(".github/ci-matrix.yaml", text.replace("-O3", "-O2"))
    assert project.compile("affected", "--base", base).stdout.split() == [NAME]
    assert "OPTIMIZE of fastpath" in project.run(sys.executable, "-m", "ci_compiler", "diff", base, status=None).stdout


def test_a_file_that_changed_after_the_build_is_neither_tested_nor_published(built: Project) -> None:
    path = built.root / "build-output" / FILE
    path.write_bytes(path.read_bytes() + b"\0")
    for done in (built.test(1), built.publish("--again", status=1), built.job("fetch", MANIFEST, status=1)):
        assert "file-differs" in done.stderr
        assert "is another file than the one that was built" in done.stderr
    assert not built.index.exists()


def test_a_folder_that_leads_out_of_the_repository_is_refused(project: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    script = f"#!/bin/bash -e\nrm -rf dist\nln -s {tmp_path}/elsewhere dist\necho a >dist/fastpath.whl\n"
    project.write("ci/build.sh", script)
    assert "dist/fastpath.whl is reached through a symbolic link" in project.build(1).stderr
    assert not (project.root / MANIFEST).exists()


@pytest.mark.slow
def test_a_failed_command_is_a_failed_stage(built: Project) -> None:
    built.declare(setup="echo error: no such package; exit 3")
    assert (
        "its files cannot be installed for the test (status 3); the end of the output follows [setup-failed]"
        in built.test(1).stderr
    )
    refused = built.publish(status=1, token="wrong battery")  # noqa: S106
    assert "the publishing command ended with 22" in refused.stderr
    assert "the index refuses the token ***" in refused.stderr
    assert "wrong battery" not in refused.stdout + refused.stderr
    built.write("ci/build.sh", "#!/bin/bash -e\necho error: no compiler\nexit 4\n")
    failed = built.build(1)
    assert "the build ended with status 4" in failed.stderr
    assert "    error: no compiler" in failed.stderr


SETUP = """printf '#!/bin/sh\\necho fastpath %s on $VARIANT_ISA\\nexit $1\\n' $VARIANT_VERSION >$VIRTUAL_ENV/bin/show;
 /bin/chmod +x $VIRTUAL_ENV/bin/show""".replace("\n", "")
"""Installs a program that prints its version and ends with the status that it is given."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("smoke", "result"),
    [
        (
            {"run": "bin/show 0", "expect": "^fastpath @version@ on @isa@$"},
            ("ok", "bin/show 0: fastpath 1.4.0 on avx2"),
        ),
        ({"run": "bin/show 0"}, ("ok", "bin/show 0: status 0")),
        (
            {"run": "bin/show 0", "expect": "1x4"},
            ("failed", "bin/show 0 printed nothing like 1x4"),
        ),
        ({"run": "bin/show 3"}, ("failed", "the program ended with status 3 during bin/show: fastpath 1.4.0 on avx2")),
        ({"run": "bin/hide"}, ("failed", "the package has no bin/hide")),
        ({"run": "bin/hide", "cpu": {"run": "bin/show 0"}}, ("ok", "bin/show 0: status 0")),
    ],
)
def test_a_program_proves_the_package(built: Project, smoke: dict[str, Any], result: tuple[str, str]) -> None:
    built.declare(smoke, setup=SETUP)
    built.test(0 if result[0] == "ok" else 1)
    assert built.checks() == {"smoke": result}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "result"),
    [
        (
            "import fastpath, sys\nassert fastpath.double(21) == 42\nsys.exit()\n",
            ("ok", "smoke.py ended without an error"),
        ),
        (
            "import fastpath\nassert fastpath.double(21) == 43, 'not 43'\n",
            ("failed", "smoke.py:2: AssertionError: not 43"),
        ),
        (
            "import fastpath\n\n\ndef check():\n    assert fastpath.double(21) == 43\n\n\ncheck()\n",
            ("failed", "smoke.py:5: AssertionError: assert fastpath.double(21) == 43"),
        ),
        ("import fastpath\nfastpath.double()\n", ("failed", "smoke.py:2: TypeError: double() missing")),
        ("def check(:\n", ("failed", "SyntaxError: invalid syntax (smoke.py, line 1)")),
        ("import os, sys\nsys.exit(os.environ['VARIANT_ISA'])\n", ("failed", "smoke.py ended with avx2")),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", ("failed", "smoke was ended by SIGSEGV")),
        ("import os\nos._exit(0)\n", ("failed", "the interpreter ended with status 0 during smoke")),
    ],
)
def test_a_python_file_proves_the_package(built: Project, text: str, result: tuple[str, str]) -> None:
    (built.root / "ci/smoke.py").write_text(text, "utf-8")
    built.declare({"python": "ci/smoke.py"})
    built.test(0 if result[0] == "ok" else 1)
    verdict, message = built.checks()["smoke"]
    assert verdict == result[0]
    assert message.startswith(result[1])


@pytest.mark.slow
def test_without_a_smoke_test_every_report_says_imported_only(built: Project, tmp_path: Path) -> None:
    tested = built.job("smoke", NAME, "--manifest", MANIFEST, GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
    assert tested.returncode == 0
    shown = (tmp_path / "summary.md").read_text("utf-8")
    assert re.search(r"\| passed \(imported only(, on a larger CPU|, instruction set emulated)?\) \|", shown)
    assert json.loads((built.root / "test-output/result.json").read_text("utf-8"))["proof"] == "imported only"
    built.compile()
    cell = yaml.safe_load((built.root / ".github/workflows/cell.yml").read_text("utf-8"))
    assert cell["jobs"]["fastpath_cpu-test"]["name"] == "fastpath / cpu-test (imported only)"
    document = (built.root / ".github/BUILD_MATRIX.md").read_text("utf-8")
    assert "`fastpath` is **imported only**" in document
    assert "Publishing `fastpath` waits for tests that prove no more than this." in document


def test_a_changed_file_is_not_built(project: Project) -> None:
    (project.root / "src/fastpath.py").write_text("", "utf-8")
    assert "[recipe-changed]" in project.build(2).stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "rebuilt"),
    [("src/deep/new.py", True), ("ci/build.sh", True), ("pyproject.toml", True), ("README.md", False), ("ci/x", False)],
)
def test_a_change_rebuilds_what_reads_it(project: Project, path: str, rebuilt: bool) -> None:
    (project.root / path).parent.mkdir(exist_ok=True)
    base = project.run("git", "rev-parse", "HEAD").stdout.strip()
    project.write(path, "changed\n")
    found = project.compile("affected", "--base", base).stdout.split()
    assert found == ([f"fastpath-{wheel.TAG}-cpu-avx", NAME] if rebuilt else [])


def test_without_declared_sources_everything_but_the_workflows_is_read(project: Project) -> None:
    spec = wheel.spec()
    del spec["packages"]["fastpath"]["command"]["sources"]
    project.write(".github/ci-matrix.yaml", json.dumps(spec))
    base = project.run("git", "rev-parse", "HEAD").stdout.strip()
    project.write(".github/notes.md", "changed\n")
    assert project.compile("affected", "--base", base).stdout == ""
    project.write("README.md", "changed\n")
    assert NAME in project.compile("affected", "--base", base).stdout


def test_a_new_version_in_the_spec_rebuilds_every_variant(project: Project) -> None:
    base = project.run("git", "rev-parse", "HEAD").stdout.strip()
    text = (project.root / ".github/ci-matrix.yaml").read_text("utf-8")
    project.write(".github/ci-matrix.yaml", text.replace(VERSION, "1.5.0"))
    assert project.compile("affected", "--base", base).stdout.split() == [f"fastpath-{wheel.TAG}-cpu-avx", NAME]


@pytest.mark.slow
def test_no_recipe_is_compiled_and_no_nix_is_asked_for(project: Project) -> None:
    project.compile()
    assert not (project.root / ".flox").exists()
    texts = {path.name: path.read_text("utf-8") for path in (project.root / ".github/workflows").iterdir()}
    assert not [name for name, text in texts.items() if re.search("nix|flox", text, re.IGNORECASE)]
    push = yaml.safe_load(texts["build-main-cpu.yml"])[True]["push"]
    assert push["paths"][:2] == ["src", "src/**"]
    assert ".github/ci-matrix.yaml" in push["paths"]
    assert "recipes" not in yaml.safe_load(texts["pull-request.yml"])["jobs"]
    for command in (["recipes", "--branch", "main"], ["audit", "."]):
        done = project.compile(*command)
        assert "the backend command builds no recipes" in done.stdout + done.stderr
    checks = json.loads(project.job("doctor", "--for", "publish", "--json", status=None).stdout)["checks"]
    found = {one["check"]: (one["verdict"], one["message"]) for one in checks}
    assert found["tools"] == ("ok", "bash")
    assert found["token"] == ("skipped", "PUBLISH_TOKEN is not set; publishing runs without a secret")

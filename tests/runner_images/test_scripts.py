"""Runs the scripts of the images: the hooks, the entry point, the download."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.runner import refuse_forks
from tests.checkers import require
from tests.processes import MINUTES, until

from .buildah import IMAGES, STANDIN

BUILDER = IMAGES / "builder"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A runner's folder, with the stand-in in it."""
    for file in STANDIN.rglob("*"):
        if file.is_file():
            copy = tmp_path / "runner" / file.relative_to(STANDIN)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
            copy.chmod(0o755)
    return tmp_path / "runner"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder for PATH: a df that prints the bytes in the file `free`, and a nix whose daemon answers at once."""
    folder = tmp_path / "tools"
    folder.mkdir()
    texts = {"df": f'#!/bin/sh\necho Avail; cat "{tmp_path}/free"\n', "nix": '#!/bin/sh\ntest "$1" = store\n'}
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
        (folder / name).chmod(0o755)
    return folder


PATH_LINE = "PATH=/usr/local/bin:/usr/bin:/bin"
PYTHON_LINE = "python=/opt/ci-compiler/bin/python"
"""Lines of the hooks that name programs of the image."""


def of_image(script: str, tools: Path) -> Path:
    """A script of the builder whose programs are those of this machine, `tools` first; nothing else is changed."""
    text = (BUILDER / script).read_text("utf-8")
    assert text.count(PATH_LINE) == (script != "entrypoint")
    # The toolkit is installed in the image and may not be here: the module is run by its path.
    module = Path(refuse_forks.__file__)
    text = text.replace(PATH_LINE, f"PATH={tools}:/usr/local/bin:/usr/bin:/bin")
    text = text.replace(PYTHON_LINE, f"python={sys.executable}").replace(
        "-m ci_compiler.runner.refuse_forks", str(module)
    )
    copy = tools.parent / script
    copy.write_text(text, "utf-8")
    copy.chmod(0o755)
    return copy


def run(script: str, home: Path, tools: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A script of the builder in an environment of its own, in which a job's folders come first on PATH."""
    env = {"PATH": f"{home}:/usr/bin:/bin", "RUNNER_HOME": str(home), "CI_RUNNER_FREE_GB": "20"}
    env |= {"GITHUB_EVENT_NAME": "push"}
    program = of_image(script, tools)
    return subprocess.run([program], env=env | variables, capture_output=True, encoding="utf-8", check=False)


def started(
    home: Path, tools: Path, event: Any, free: int = 10**12, **variables: str
) -> subprocess.CompletedProcess[str]:
    """The started hook on `event`, with `free` bytes of space."""
    (home.parent / "free").write_text(f"{free}\n", "utf-8")
    file = home.parent / "event.json"
    file.write_text(event if isinstance(event, str) else json.dumps(event), "utf-8")
    return run("job-started.sh", home, tools, GITHUB_EVENT_PATH=str(file), **variables)


# The started hook.

OURS = {"repository": {"full_name": "o/r"}}


def head(name: str) -> dict[str, Any]:
    return {"head": {"repo": {"full_name": name}}}


@pytest.mark.parametrize(
    "event",
    [
        OURS,
        OURS | {"pull_request": head("o/r")},
        OURS | {"pull_request": head("O/R")},
        OURS | {"workflow_run": {"head_repository": {"full_name": "o/r"}}},
        OURS | {"inputs": {"variant": "x"}},
    ],
    ids=["push", "pull-request", "other-case", "workflow-run", "dispatch"],
)
def test_jobs_of_this_repository_pass(event: Any, home: Path, tools: Path) -> None:
    done = started(home, tools, event)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("event", "whose"),
    [
        (OURS | {"pull_request": head("stranger/r")}, "code of stranger/r"),
        (OURS | {"pull_request": {"head": {"repo": None}}}, "code of a repository that is gone"),
        (OURS | {"workflow_run": {"head_repository": {"full_name": "stranger/r"}}}, "code of stranger/r"),
        (OURS | {"pull_request": {"head": {"repo": {}}}}, "cannot be read"),
        (OURS | {"pull_request": "x"}, "cannot be read"),
        ({"pull_request": head("o/r")}, "cannot be read"),
        ("{", "cannot be read"),
    ],
    ids=["fork", "fork-that-is-gone", "run-of-a-fork", "no-name", "nonsense", "no-repository", "no-json"],
)
def test_foreign_code_is_refused_and_so_are_unclear_events(event: Any, whose: str, home: Path, tools: Path) -> None:
    done = started(home, tools, event)
    assert done.returncode == 1
    assert whose in done.stderr
    assert done.stdout.startswith("::error::")


ASKED = OURS | {"issue": {"number": 7, "pull_request": {"url": "u"}}, "comment": {"body": "build it"}}


def test_no_machine_takes_a_job_that_a_comment_on_a_pull_request_started(home: Path, tools: Path) -> None:
    done = started(home, tools, ASKED)
    assert done.returncode == 1
    assert "a comment on a pull request started this job: it may have code of a fork" in done.stderr
    assert started(home, tools, ASKED | {"issue": {"number": 7}}).returncode == 0  # of an issue
    assert started(home, tools, ASKED | {"issue": 7}).returncode == 1
    assert started(home, tools, ASKED | {"issue": {"number": 7, "pull_request": {}}}).returncode == 1


FORK_CHECK = {"check_run": {"pull_requests": [], "head_sha": "0" * 40}}


@pytest.mark.parametrize(
    ("name", "event", "ref", "said"),
    [
        ("check_run", FORK_CHECK, "refs/heads/main", "the event 'check_run' is unknown"),
        ("", {}, "refs/heads/main", "the event '' is unknown"),
        ("workflow_dispatch", {"ref": "refs/pull/9/merge"}, "refs/heads/main", "at the ref of a pull request"),
        ("workflow_dispatch", {}, "refs/pull/9/merge", "at the ref of a pull request"),
        ("push", {}, "refs/pull/9/head", "at the ref of a pull request"),
        ("pull_request", {"pull_request": head("o/r")}, "refs/pull/9/merge", ""),
        ("workflow_dispatch", {"ref": "refs/heads/main"}, "refs/heads/main", ""),
        ("merge_group", {}, "refs/heads/gh-readonly-queue/main/pr-9-1", ""),
    ],
)
def test_an_unknown_event_and_the_ref_of_a_request_are_refused(
    name: str, event: Any, ref: str, said: str, home: Path, tools: Path
) -> None:
    done = started(home, tools, OURS | event, GITHUB_EVENT_NAME=name, GITHUB_REF=ref)
    assert done.returncode == bool(said)
    assert said in done.stderr


def test_a_job_without_an_event_is_refused(home: Path, tools: Path) -> None:
    assert run("job-started.sh", home, tools).returncode == 1
    assert run("job-started.sh", home, tools, GITHUB_EVENT_PATH="/nowhere").returncode == 1


def test_a_job_that_does_not_fit_is_refused(home: Path, tools: Path) -> None:
    assert started(home, tools, OURS, free=20 * 10**9).returncode == 0
    done = started(home, tools, OURS, free=10**9)
    assert done.returncode == 1
    assert "/nix/store has 1000 MB free, and 20000 are needed" in done.stderr


@pytest.mark.parametrize("program", ["bash", "python", "python3", "df", "tail", "mkdir", "find", "readlink", "chmod"])
def test_a_hook_runs_no_program_that_a_job_left(program: str, home: Path, tools: Path) -> None:
    """The folders that a job can write to come first on the PATH of the environment."""
    (home / program).write_text(f"#!/bin/sh\ntouch {home}/ran\n", "utf-8")
    (home / program).chmod(0o755)
    (home / "sitecustomize.py").write_text(f"open({str(home / 'ran')!r}, 'w')\n", "utf-8")
    (home / "env.sh").write_text(f"touch {home}/ran\n", "utf-8")
    planted = {"PYTHONPATH": str(home), "BASH_ENV": str(home / "env.sh"), "ENV": str(home / "env.sh")}
    planted["BASH_FUNC_mkdir%%"] = f"() {{ touch {home}/ran; }}"
    (home.parent / "free").write_text(f"{10**12}\n", "utf-8")
    event = home.parent / "event.json"
    event.write_text(json.dumps(OURS), "utf-8")
    (home / "_work/r/r").mkdir(parents=True)
    assert run("job-started.sh", home, tools, GITHUB_EVENT_PATH=str(event), **planted).returncode == 0
    assert run("job-completed.sh", home, tools, GITHUB_WORKSPACE=str(home / "_work/r/r"), **planted).returncode == 0
    assert not (home / "ran").exists()


# The completed hook.


def test_the_checkout_is_emptied_and_nothing_else(home: Path, tools: Path) -> None:
    checkout = home / "_work/r/r"
    (checkout / "read-only").mkdir(parents=True)
    (checkout / "read-only/file").touch()
    (checkout / "result-x").symlink_to(home / "run.sh")
    (checkout / "read-only").chmod(0o500)
    assert run("job-completed.sh", home, tools, GITHUB_WORKSPACE=str(checkout)).returncode == 0
    assert list(checkout.iterdir()) == []
    assert (home / "run.sh").exists()


@pytest.mark.parametrize("place", ["", "/", "{home}", "{home}/_work", "{home}/_work/../bin", "{home}/_work/link"])
def test_a_folder_that_is_not_a_checkout_is_not_changed(place: str, home: Path, tools: Path) -> None:
    (home / "_work").mkdir()
    (home / "_work/kept").touch()
    (home / "_work/link").symlink_to(home / "bin")
    done = run("job-completed.sh", home, tools, GITHUB_WORKSPACE=place.format(home=home))
    assert done.returncode == 0
    assert (home / "_work/kept").exists()
    assert len(list((home / "bin").iterdir())) == 2


# The entry point.


@pytest.fixture
def environment(home: Path, tools: Path) -> dict[str, str]:
    """The environment of the image, with the stand-ins first on PATH."""
    (home.parent / "free").write_text(f"{10**12}\n", "utf-8")
    event = home.parent / "event.json"
    event.write_text(json.dumps(OURS), "utf-8")
    return {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_HOME": str(home),
        "CI_RUNNER_FREE_GB": "1",
        "CI_RUNNER_CORES": "8",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_EVENT_PATH": str(event),
        "ACTIONS_RUNNER_INPUT_JITCONFIG": "s3cr3t",
        "ACTIONS_RUNNER_HOOK_JOB_STARTED": str(of_image("job-started.sh", tools)),
        "ACTIONS_RUNNER_HOOK_JOB_COMPLETED": str(of_image("job-completed.sh", tools)),
        "NIX_REMOTE": "daemon",
    }


@pytest.fixture
def entry(home: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The entry point with a job that waits for the file `go`; it is at work."""
    with subprocess.Popen(
        [BUILDER / "entrypoint"], env=environment | {"STANDIN": "job"}, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        until((home / "_work/notes/at-work").exists)
        yield process
        process.kill()


def test_a_build_gets_all_cores_but_one(entry: subprocess.Popen[str], home: Path) -> None:
    (home / "_work/notes/go").touch()
    assert entry.wait(MINUTES) == 0
    assert "NIX_CONFIG=cores = 7\n" in (home / "_work/notes/environment").read_text("utf-8")


def test_the_secret_is_in_no_command_and_not_the_jobs(entry: subprocess.Popen[str], home: Path) -> None:
    (home / "_work/notes/go").touch()
    told, _ = entry.communicate(timeout=MINUTES)
    notes = [(home / "_work/notes" / name).read_text("utf-8") for name in ("commands", "environment")]
    assert not [text for text in (told, *notes) if "s3cr3t" in text]


def test_sigterm_twice_still_finishes_the_job(entry: subprocess.Popen[str], home: Path) -> None:
    for _ in range(2):
        entry.send_signal(signal.SIGTERM)
        time.sleep(0.2)
    assert entry.poll() is None
    (home / "_work/notes/go").touch()
    told, _ = entry.communicate(timeout=MINUTES)
    assert entry.returncode == 0
    assert "worker: done" in told
    assert "cancelled" not in told


def test_sigterm_ends_a_runner_that_waits(environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [BUILDER / "entrypoint"], env=environment | {"STANDIN": "idle"}, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout
        assert any("listener: waits" in line for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        assert process.wait(MINUTES) == 0


@pytest.mark.parametrize("code", [0, 1, 7])
def test_the_exit_code_is_the_runners(code: int, environment: dict[str, str]) -> None:
    done = subprocess.run([BUILDER / "entrypoint"], env=environment | {"STANDIN": str(code)}, check=False)
    assert done.returncode == code


def test_no_runner_starts_before_the_daemon_answers(environment: dict[str, str], tools: Path) -> None:
    (tools / "nix").write_text("#!/bin/sh\nexit 1\n", "utf-8")
    slow = environment | {"STANDIN": "0", "CI_RUNNER_DAEMON_SECONDS": "0"}
    done = subprocess.run([BUILDER / "entrypoint"], env=slow, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 1
    assert "entrypoint: the Nix daemon of this slot does not answer" in done.stderr
    assert "listener" not in done.stdout


def test_without_its_configuration_nothing_starts(environment: dict[str, str]) -> None:
    del environment["ACTIONS_RUNNER_INPUT_JITCONFIG"]
    done = subprocess.run([BUILDER / "entrypoint"], env=environment, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"no ACTIONS_RUNNER_INPUT_JITCONFIG" in done.stderr


def test_a_secret_comes_through_a_pipe_that_is_gone_then(environment: dict[str, str], home: Path) -> None:
    pipe = home / "ci-runner-secret"
    del environment["ACTIONS_RUNNER_INPUT_JITCONFIG"]
    given = environment | {"STANDIN": "job", "CI_RUNNER_SECRET_PIPE": "true", "CI_RUNNER_SECRET_FOLDER": str(home)}
    with subprocess.Popen([BUILDER / "entrypoint"], env=given, stdout=subprocess.PIPE, encoding="utf-8") as process:
        words = [BUILDER / "secret-pipe", "--in"]
        subprocess.run(words, input="s3cr3t\n", env=given, encoding="utf-8", check=True, timeout=MINUTES)
        until((home / "_work/notes/at-work").exists)
        assert not pipe.exists()
        (home / "_work/notes/go").touch()
        assert process.wait(MINUTES) == 0
    kept = (home / "_work/notes/environment").read_text("utf-8")
    assert "s3cr3t" not in kept
    assert "SECRET_PIPE" not in kept


def test_without_its_secret_nothing_starts(environment: dict[str, str], home: Path) -> None:
    pipe = {"CI_RUNNER_SECRET_PIPE": "true", "CI_RUNNER_SECRET_FOLDER": str(home)}
    given = environment | pipe | {"CI_RUNNER_SECRET_SECONDS": "0.1"}
    done = subprocess.run([BUILDER / "entrypoint"], env=given, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "secret-pipe: the controller handed nothing over\n"


def test_a_configuration_on_the_command_line_is_refused_and_not_repeated(environment: dict[str, str]) -> None:
    command = [BUILDER / "entrypoint", "--jitconfig", "s3cr3t"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"s3cr3t" not in done.stdout + done.stderr


def test_a_command_runs_in_place_of_the_runner(environment: dict[str, str]) -> None:
    done = subprocess.run([BUILDER / "entrypoint", "echo", "hello"], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"hello\n")


# Fetching.


def fetch(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    require("curl")
    command = [BUILDER / "fetch", "RUNNER", str(folder / "out")]
    env = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(command, env=env, capture_output=True, encoding="utf-8", check=False)


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_an_archive_of_the_right_architecture_comes_as_pinned(arch: str, tmp_path: Path) -> None:
    variables = {"TARGETARCH": arch}
    for name in ("amd64", "arm64"):
        (tmp_path / name).write_text(name, "utf-8")
        variables[f"RUNNER_URL_{name.upper()}"] = f"file://{tmp_path / name}"
        variables[f"RUNNER_SHA256_{name.upper()}"] = sha256(name.encode()).hexdigest()
    done = fetch(tmp_path, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out").read_text("utf-8") == arch


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"RUNNER_SHA256_AMD64": "0" * 64}, "has another SHA-256 than RUNNER_SHA256_AMD64 says"),
        ({"RUNNER_SHA256_AMD64": ""}, "RUNNER_SHA256_AMD64 is not a SHA-256"),
        ({"RUNNER_SHA256_AMD64": "latest"}, "RUNNER_SHA256_AMD64 is not a SHA-256"),
        ({"RUNNER_URL_AMD64": ""}, "no build argument RUNNER_URL_AMD64"),
        ({"RUNNER_URL_AMD64": "file:///nowhere"}, "curl: "),
        ({"RUNNER_URL_AMD64": "http://127.0.0.1:9/x"}, "curl: "),
        ({"TARGETARCH": ""}, "the engine sets it"),
        ({"TARGETARCH": "riscv64"}, "no build argument RUNNER_URL_RISCV64"),
    ],
)
def test_anything_else_is_refused_as_an_archive(change: dict[str, str], told: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x", "utf-8")
    right = {
        "TARGETARCH": "amd64",
        "RUNNER_URL_AMD64": f"file://{tmp_path / 'x'}",
        "RUNNER_SHA256_AMD64": sha256(b"x").hexdigest(),
    }
    done = fetch(tmp_path, **right | change)
    assert done.returncode != 0
    assert told in done.stderr

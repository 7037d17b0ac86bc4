"""What a test can reach: neither the network nor the tokens of the job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci_compiler.process import ask
from ci_compiler.runner.jobs import offline
from ci_compiler.runner.jobs.isolation import ISOLATED, Isolation, isolation, without_tokens
from tests.processes import MINUTES

REACH = """
import os, socket, sys
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
for address in sys.argv[1:]:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), 5)
    except OSError as error:
        print(error.strerror)
    else:
        print("reached")
print(os.getuid())
"""


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """The environment of a job, with a secret in each place that may hold one."""
    for name in ("home/.netrc", "home/.config/flox/flox.toml", "runner/.credentials", "temp/set_env", "workspace/kept"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("s3cr3t", "utf-8")
    return {
        "HOME": str(tmp_path / "home"),
        "RUNNER_HOME": str(tmp_path / "runner"),
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "ACTIONS_RUNTIME_TOKEN": "s3cr3t",
        "GITHUB_ENV": str(tmp_path / "temp/set_env"),
        "GITHUB_TOKEN": "s3cr3t",
        "NIX_CACHE_SIGNING_KEY": "s3cr3t",
        "GITHUB_SHA": "abc",
    }


@pytest.fixture
def isolated(job: dict[str, str], tmp_path: Path) -> Isolation:
    found = isolation(job, kept=[tmp_path / "workspace"])
    if not found.prefix:
        pytest.skip(f"tests run {found.found}")
    assert found.found == ISOLATED
    return found


def test_only_the_loopback_interface_can_be_reached(isolated: Isolation) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as outside:  # the loopback interface of this machine is another one
        address = "{}:{}".format(*outside.getsockname())
        ended = ask([*isolated.prefix, sys.executable, "-I", "-c", REACH, address, "192.0.2.1:80"], seconds=MINUTES)
    assert ended.out.splitlines() == ["Connection refused", "Network is unreachable", str(os.getuid())], ended.err


def test_no_file_with_a_token_can_be_read(isolated: Isolation, tmp_path: Path) -> None:
    ended = ask([*isolated.prefix, "grep", "-r", "s3cr3t", str(tmp_path)], seconds=MINUTES)
    assert ended.out.splitlines() == [f"{tmp_path}/workspace/kept:s3cr3t"]
    assert (tmp_path / "temp/set_env").read_text("utf-8") == "s3cr3t"
    assert ask([*isolated.prefix, "umount", str(tmp_path / "temp")], seconds=MINUTES).status


def test_the_job_itself_cannot_be_read(isolated: Isolation) -> None:
    with subprocess.Popen(["sleep", "60"], env={"TOKEN": "s3cr3t"}) as step:
        ended = ask([*isolated.prefix, "cat", f"/proc/{step.pid}/environ"], seconds=MINUTES)
        step.kill()
    assert (ended.out, ended.said.split(": ")[-1]) == ("", "Permission denied")


def test_the_command_has_no_capability_and_keeps_its_status(isolated: Isolation) -> None:
    ended = ask([*isolated.prefix, "grep", "CapEff", "/proc/self/status"], seconds=MINUTES)
    assert ended.out.split() == ["CapEff:", "0" * 16]
    assert ask([*isolated.prefix, "bash", "-c", "exit 7"], seconds=MINUTES).status == 7
    assert ask([*isolated.prefix, "bash", "-c", "kill -SEGV $$"], seconds=MINUTES).status == -11
    assert ask([*isolated.prefix, "/nowhere"], seconds=MINUTES).status == offline.UNSTARTED


def test_the_tokens_leave_the_environment_and_nothing_else(job: dict[str, str]) -> None:
    kept = without_tokens(job, ["NIX_CACHE_SIGNING_KEY"])
    assert "s3cr3t" not in kept.values()
    assert set(job) - set(kept) == {"ACTIONS_RUNTIME_TOKEN", "GITHUB_ENV", "GITHUB_TOKEN", "NIX_CACHE_SIGNING_KEY"}


def test_a_kernel_that_forbids_namespaces_is_named(job: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "__file__", "/nowhere")
    found = isolation(job)
    assert found.prefix == ()
    assert found.found.startswith("with the network, since this machine forbids namespaces: ")

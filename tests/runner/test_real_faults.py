"""`ci-runner start` as a process, through faults of its machine and network that are real, not simulated.

The disk that is full is a small one of its own, and the limit of descriptors that of the process. The server closes one
direction of a socket, or never answers. The wall clock alone is a stand-in, within the process: the kernel has one for
all, and libfaketime makes a sleep fail with EINVAL whenever the clock jumps. Each test lets a job end well afterwards.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from ci_compiler.runner.controller.host_runner import RECORD
from ci_compiler.runner.controller.runner_names import read_name
from tests.github.server import serving
from tests.github.state import OWNER, REPOSITORY, TOKEN, Fault, GitHub
from tests.processes import has_ended, until
from tests.runner.unpacked import end_job, unpacked
from tests.runner.world import HEALTHY
from tests.specs import small

pytestmark = pytest.mark.slow

START = f"""\
import os, sys, time
from ci_compiler.cli.runner import main
from ci_compiler.github import client
from ci_compiler.process import Ended
from ci_compiler.runner.controller import host_runner, loop, removal, slots
host_runner.ProcessEngine.toolkit = lambda *_: Ended(status=0, out={HEALTHY!r})
client._TIMEOUT = 1
client.WRITE_PAUSE = 0.0
loop.POLL = 0.05
loop.GRACE = removal.GRACE = 1.0
loop.CHECK = slots.CHECK = 0.2
slots.FIRST_PAUSE = 0.1
slots.LONGEST_PAUSE = 0.5
if "CLOCK" in os.environ:
    right = time.time
    time.time = lambda: right() + float(open(os.environ["CLOCK"]).read())
sys.exit(main())
"""
"""The program, with less patience, and without the doctor."""


@dataclass(kw_only=True)
class Started:
    """A controller that runs, and its world. `place`: the folder of its runner; `folder`: how the tests reach it."""

    process: subprocess.Popen[bytes]
    github: GitHub
    place: Path
    folder: Path
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text("utf-8") if self.log.is_file() else ""

    def until(self, what: Callable[[], object]) -> None:
        """Waits until `what` is true while the controller runs."""
        until(lambda: what() or self.process.poll() is not None)
        assert self.process.poll() is None, self.said

    def hears(self, words: str, times: int = 1) -> None:
        """Waits until the controller has said `words`."""
        self.until(lambda: len(re.findall(words, self.said)) >= times)

    def job(self) -> None:
        """Waits for the next runner, and ends its job well."""
        done = self.said.count("job done after")
        self.until(lambda: self.running)
        self.ended()
        self.until(lambda: self.said.count("job done after") > done)

    @property
    def running(self) -> bool:
        """Whether a runner is registered and has started."""
        return bool(self.github.of()) and all((self.folder / name).exists() for name in (RECORD, ".runner"))

    def ended(self) -> None:
        """The job ends well, and GitHub forgets its runner."""
        self.github.runners.clear()
        end_job(self.folder, 0)

    def stop(self) -> None:
        """SIGTERM: it ends in order, and nothing is left."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.said
        assert not self.github.of()
        assert not (self.place / RECORD).exists()
        assert not running_in(self.place)
        assert "Traceback" not in self.said


def running_in(folder: Path) -> list[str]:
    """The processes whose folder is `folder`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder and not has_ended(int(process.name)):
                found.append(process.name)
        except OSError:
            continue
    return found


@contextmanager
def started(github: GitHub, folder: Path, *within: str, log: Path | None = None, **variables: str) -> Iterator[Started]:
    """The controller of the pool `builder`, `within` a program that runs it; it is ended with the block."""
    home = folder.parent
    given = {"GITHUB_API_URL": github.url, "GITHUB_REPOSITORY": REPOSITORY, "XDG_RUNTIME_DIR": str(home)}
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "GH_"))}
    document = small()
    document["packages"] = {name: {**row, "disk": 1} for name, row in document["packages"].items()}
    (home / "spec.yaml").write_text(json.dumps(document), "utf-8")
    words = ("start", "builder", "--host", str(folder), "--root", str(home), "--spec", str(home / "spec.yaml"))
    log = log or home / "log"
    with log.open("ab") as errors:
        command = [*within, sys.executable, "-c", START, *words]
        env = unset | given | ({"GITHUB_TOKEN": TOKEN} | variables)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors, env=env)
    try:
        yield Started(process=process, github=github, place=folder, folder=folder, log=log)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def github() -> Iterator[GitHub]:
    with serving(GitHub()) as served:
        yield served


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with unpacked(tmp_path / "runner") as made:
        yield made


NEVER = "cannot be reached: no answer in time"
CUT = "cannot be reached: the connection was cut"
NETWORK = {
    "silent": (Fault(0, waits=True), NEVER),
    "silent after the deed": (Fault(0, waits=True, done=True), NEVER),
    "silent within the answer": (Fault(0, cut=1, waits=True), CUT),
    "half closed": (Fault(0, half=True, waits=True), CUT),
    "half closed after the deed": (Fault(0, half=True, waits=True, done=True), CUT),
    "half closed within the answer": (Fault(0, cut=1, half=True, waits=True), CUT),
    "html": (Fault(200, body=b"<html>proxy</html>"), "sent a response that is not GitHub's"),
    "loop": (None, "sent a response that is not GitHub's"),
}


def to_and_fro(github: GitHub, path: str) -> Fault:
    """A redirect between the addresses of a repository and of its owner."""
    repository, owner = f"/repos/{REPOSITORY}/", f"/orgs/{OWNER}/"
    to = path.replace(repository, owner) if path.startswith(repository) else path.replace(owner, repository)
    return Fault(301, headers={"Location": github.url + to})


@pytest.mark.parametrize("kind", NETWORK)
def test_a_network_that_fails_costs_no_job_and_leaves_nothing(github: GitHub, folder: Path, kind: str) -> None:
    fault, says = NETWORK[kind]
    with started(github, folder) as controller:
        controller.until(lambda: controller.running)
        github.chance = lambda _, path: fault or to_and_fro(github, path)
        controller.hears(f"read the runner [^\n]* {says}")
        controller.ended()
        controller.hears(f"remove the runner [^\n]* {says}")
        github.chance = lambda method, path: (fault or to_and_fro(github, path)) if method == "POST" else None
        controller.hears(f"register [^\n]* {says}")
        asked = len(github.asked)
        controller.hears(f"register [^\n]* {says}", 2)
        assert len(github.asked) - asked < 10
        github.chance = lambda *_: None
        controller.job()
        controller.until(lambda: controller.running)
        controller.stop()


def login(folder: Path, token: str) -> None:
    """gh's login with `token`, in one step."""
    (folder / "new").write_text(json.dumps({"127.0.0.1": {"oauth_token": token}}), "utf-8")
    (folder / "new").replace(folder / "hosts.yml")


@pytest.mark.parametrize("slowly", [False, True])
@pytest.mark.parametrize("jobs", [0, 1])
def test_a_token_that_is_replaced_during_a_registration_is_used(
    github: GitHub, folder: Path, jobs: int, *, slowly: bool
) -> None:
    """The file is half written for a moment, if that is done `slowly`."""
    login(folder.parent, TOKEN)

    def refused(method: str, _: str) -> Fault | None:
        if method != "POST" or len(github.secrets) < jobs or github.token != TOKEN:
            return None
        github.token += "2"
        if slowly:
            (folder.parent / "hosts.yml").write_text("127.0.0.1: [", "utf-8")
        else:
            login(folder.parent, github.token)
        return Fault(401, message="Bad credentials")

    github.chance = refused
    with started(github, folder, GH_CONFIG_DIR=str(folder.parent), GITHUB_TOKEN="") as controller:
        for _ in range(jobs):
            controller.job()
        if slowly and not jobs:  # what may never have been right is reported; the unit starts the controller again
            assert controller.process.wait(60) == 2
            assert controller.said.startswith("error: 127.0.0.1: register ")
            return
        if slowly:
            controller.hears("GitHub refused the token")
            login(folder.parent, github.token)
        controller.job()
        assert "GitHub refused the credential; using the new one" in controller.said
        controller.until(lambda: controller.running)
        controller.stop()


YEAR = 400 * 86_400
"""Seconds by which the clock is set wrong: past the life of every certificate and token."""


def test_a_clock_that_is_set_wrong_loses_nothing(github: GitHub, folder: Path) -> None:
    clock = folder.parent / "clock"
    clock.write_text("0", "utf-8")
    with started(github, folder, CLOCK=str(clock)) as controller:
        for off in (YEAR, -YEAR, 0):
            controller.until(lambda: controller.running)
            (folder.parent / "new").write_text(str(off), "utf-8")
            (folder.parent / "new").replace(clock)
            controller.job()
            controller.job()
            controller.until(lambda: controller.running)
            [runner] = github.of()
            name = read_name(runner["name"])
            assert name
            assert abs(name.made - time.time() - off) < 3600
        controller.stop()


@contextmanager
def no_descriptors(controller: Started) -> Iterator[None]:
    """Within it, the controller can open no file and no socket, and start no program (EMFILE)."""
    process = controller.process.pid
    before = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_NOFILE, before)


def test_no_descriptors_cost_no_job_and_no_runner_that_was_taken_over(github: GitHub, folder: Path) -> None:
    says = "Too many open files; asking again"
    with started(github, folder) as controller:
        controller.until(lambda: controller.running)
        with no_descriptors(controller):
            controller.hears(says, 2)
            controller.ended()
            controller.hears(says, 4)
        controller.hears("job done after")
        controller.until(lambda: controller.running)
        controller.process.kill()
    known, [process, *_] = list(github.runners), running_in(folder)
    with started(github, folder) as controller:
        controller.hears("taken over")
        with no_descriptors(controller):
            controller.hears(says, 4 + 2)
        assert list(github.runners) == known
        assert process in running_in(folder)
        controller.job()
        controller.until(lambda: controller.running)
        controller.stop()


MOUNTED = """\
cp "$1/run.sh" "$1.sh" && mount -t tmpfs -o size=1100m none "$1" && cp "$1.sh" "$1/run.sh" && shift && exec "$@"
"""


def fill(disk: Path) -> None:
    """Takes all space of the disk on which the folder `disk` is."""
    with suppress(OSError), (disk / "filler").open("ab", 0) as file:
        while file.write(bytes(1 << 20)):
            pass


def test_a_full_disk_leaves_no_runner_that_nobody_knows(github: GitHub, folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a disk of one's own needs root")

    def full() -> bool:
        if controller.running:
            (controller.folder / "filler").unlink(missing_ok=True)
            controller.ended()
        fill(controller.folder)
        return "free for the files of a job in" in controller.said

    with started(github, folder, "unshare", "--mount", "sh", "-c", MOUNTED, "sh", str(folder)) as controller:
        controller.folder = Path(f"/proc/{controller.process.pid}/root{folder}")
        controller.until(lambda: controller.running)
        controller.until(full)
        (controller.folder / "filler").unlink()
        controller.until(lambda: controller.running)
        assert len(github.of()) == 1 + controller.said.count("in quarantine: ")  # after three in a row
        controller.job()
        controller.until(lambda: controller.running)
        controller.stop()


def test_a_log_that_takes_nothing_ends_no_controller(github: GitHub, folder: Path) -> None:
    with started(github, folder, log=Path("/dev/full")) as controller:
        for _ in range(2):
            controller.until(lambda: controller.running)
            controller.ended()
            controller.until(lambda: not (folder / ".runner").exists())
        controller.until(lambda: controller.running)
        controller.stop()

"""`ci-runner start` with a real engine: containers of the builder's own scripts, for jobs of the local GitHub.

podman runs them, also without root, and docker, whose daemon the tests start themselves. Each engine has a mount and a
network namespace of its own, in which a metadata service listens. The image has the product's files and settings; its
programs are this machine's, mounted where a container is started.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.engines import this_machine
from ci_compiler.cli.runner import PROGRAM
from ci_compiler.runner.controller import containers, job_network, loop, quarantine, store_daemon
from ci_compiler.runner.controller.containers import PYTHON, ContainerEngine
from ci_compiler.runner.controller.engine import RunnerOrder
from ci_compiler.secret import Secret
from tests.backends import wheel
from tests.checkers import require
from tests.github.server import serving
from tests.github.state import REPOSITORY, TOKEN, GitHub
from tests.processes import until
from tests.runner.test_containers import ORDER, SECRET
from tests.runner_images.buildah import IMAGES

pytestmark = pytest.mark.slow

IMAGE = "localhost/ci-engine:1"
SERVICES = ("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200")
"""Addresses at which clouds give out the credentials of a machine: AWS, Azure, Google; containers of AWS; Alibaba."""

NEIGHBOUR = "10.88.255.254"
"""An address of the containers' own network."""

LISTENER = """\
import socketserver, subprocess, sys, threading
for words in (["link", "set", "lo", "up"], *(["addr", "add", f"{one}/32", "dev", "lo"] for one in sys.argv[1:])):
    subprocess.run(["ip", *words], check=True)
class Service(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"credentials\\n")
server = socketserver.ThreadingTCPServer(("0.0.0.0", 80), Service)
print("listens", flush=True)
server.serve_forever()
"""

PROGRAM_TEXT = """\
#!/bin/sh
if [ -e "{folder}/hangs" ]; then exec sleep 600; fi
if [ -e "{folder}/garbles" ]; then echo '<html>[[["'; exit; fi
if [ "$1" = run ]; then shift; set -- run {how} "$@"; fi
exec env {settings} "$@"
"""
"""The engine here."""

DAEMON = """\
cd "$1" && mount -t tmpfs none /run && exec dockerd --config-file "$1/daemon.json" --cgroup-parent "$2" \
  --data-root "$1/root" --exec-root "$1/exec" --pidfile "$1/pid" --host "unix://$1/sock" --bip 10.88.0.1/16 >log 2>&1
"""
"""docker's daemon, which does not see that of the machine, nor its containerd."""

RUN = """\
#!/bin/bash
# Stands in for GitHub's runner: a hostile job, which says what it reaches and what bounds it.
configuration=$ACTIONS_RUNNER_INPUT_JITCONFIG
unset ACTIONS_RUNNER_INPUT_JITCONFIG
echo "job: configured $(printf %s "$configuration" | sha256sum)"
for address in 169.254.169.254 169.254.170.2 169.254.170.23 100.100.100.200 10.88.255.254; do
  reached=$(timeout 5 bash -c "exec 3<>/dev/tcp/$address/80 && read -r line <&3 && echo \\$line" 2>/dev/null)
  echo "job: $address ${reached:-closed}"
done
echo "job: capabilities $(sed -n 's/^CapBnd:\\s*//p' /proc/self/status)"
echo "job: files $(ulimit -Hn)"
echo "job: shared memory $(df --block-size=1G --output=size /dev/shm | tail -n 1)"
for file in pids/pids.max pids.max memory/memory.limit_in_bytes memory.max; do
  if [[ -r /sys/fs/cgroup/$file ]]; then echo "job: ${file##*/} $(cat "/sys/fs/cgroup/$file")"; fi
done
echo "job: done"
until [[ -e go ]]; do sleep 0.1; done
echo "$(date -u +'%Y-%m-%d %H:%M:%SZ'): Job job completed with result: Succeeded"
printf %s "$configuration" >.credentials  # as the runner does
"""


def _image(folder: Path) -> None:
    """The builder in miniature: its scripts, and the end of its Containerfile, with its settings."""
    scripts = folder / "usr/local/lib/ci-runner"
    scripts.mkdir(parents=True)
    for name in ("daemon", "entrypoint", "job-started.sh", "job-completed.sh", "secret-pipe"):
        shutil.copy(IMAGES / "builder" / name, scripts)
    toolkit = folder / PYTHON.lstrip("/")
    toolkit.parent.mkdir(parents=True)
    for name, words in (
        ("python", ""),
        ("ci-runner", "-I -c 'from ci_compiler.cli.runner import main; raise SystemExit(main())'"),
    ):
        (toolkit.parent / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', "utf-8")
        (toolkit.parent / name).chmod(0o755)
    (folder / "usr/local/bin").mkdir()
    for name, does in (("nix", "echo name:key"), ("nix-daemon", "exec sleep infinity")):
        (folder / "usr/local/bin" / name).write_text(f"#!/bin/sh\n{does}\n", "utf-8")
        (folder / "usr/local/bin" / name).chmod(0o755)
    (folder / "home/runner/bin").mkdir(parents=True)
    wheel.write(folder / "home/runner/project")
    (folder / "home/runner/project/.github").mkdir()
    (folder / "home/runner/project/.github/ci-matrix.yaml").write_text(json.dumps(wheel.spec()), "utf-8")
    wheel.interpreter(folder / "home/runner/python")
    (folder / "home/runner/run.sh").write_text(RUN, "utf-8")
    (folder / "home/runner/run.sh").chmod(0o755)
    for name in ("bin", "lib", "lib64", "sbin"):
        (folder / name).symlink_to(f"usr/{name}")
        (folder / "usr" / name).mkdir()
    for name in ("tmp", "etc", "nix"):
        (folder / name).mkdir()
    (folder / "tmp").chmod(0o1777)
    product = (IMAGES / "builder/Containerfile").read_text("utf-8").partition("ARG RUNNER_VERSION\n")[2]
    assert "ENTRYPOINT" in product
    text = "FROM scratch\nARG TOOLKIT_VERSION\nARG RUNNER_VERSION\nCOPY . /\nCOPY --chown=1001:1001 home /home\n"
    (folder.parent / "Containerfile").write_text(f"{text}{product}\nENV NIX_REMOTE= HOME=/home/runner\n", "utf-8")


@dataclass(frozen=True, kw_only=True)
class Engine:
    """podman or docker in namespaces of its own, which end with the process `space`."""

    program: Path
    space: int

    @property
    def kind(self) -> str:
        return self.program.name

    @property
    def folder(self) -> Path:
        """Where all of it is: settings, images, containers."""
        return self.program.parent

    def ask(self, *words: str | Path) -> str:
        done = subprocess.run([self.program, *words], capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, f"{words[:3]}: {done.returncode}: {done.stderr}{done.stdout}"
        return done.stdout.strip()

    @contextmanager
    def executed(self, container: str, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A command in `container`, which is ended with the block."""
        command = [self.program, "exec", container, *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8") as process:
            try:
                yield process
            finally:
                process.kill()


def _settings(folder: Path) -> None:
    """What podman needs here: no limit above this machine's own, and a storage of its own."""
    for name, text in {
        "containers.conf": "[containers]\n"
        'default_ulimits = ["nproc=4096:4096", "nofile=4096:4096"]\n'
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n',
        "storage.conf": f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n',
    }.items():
        (folder / name).write_text(text, "utf-8")


def _shown() -> list[str]:
    """The folders of this machine's programs."""
    shown = ["/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin", sys.base_prefix, str(IMAGES.parent)]
    shown += [] if sys.prefix.startswith(str(IMAGES.parent)) else [sys.prefix]
    return [one for one in shown if Path(one).exists()]


def _installed(folder: Path, kind: str, settings: str, shown: str = "", how: str = "") -> Path:
    """The engine `kind` with its `settings`, and with the programs that are `shown` there."""
    how += "".join(f" --volume {shown}{one}:{one}:ro" for one in _shown())
    program = folder / kind
    program.write_text(PROGRAM_TEXT.format(how=how, folder=folder, settings=f"{settings} {require(kind)}"), "utf-8")
    program.chmod(0o755)
    return program


def _podman(folder: Path, within: str, shown: str = "") -> Path:
    """podman `within` namespaces. Without the right to raise limits, it must lower all; `nproc` is of no concern."""
    _settings(folder)
    settings = f"CONTAINERS_CONF={folder}/containers.conf CONTAINERS_STORAGE_CONF={folder}/storage.conf {within}"
    return _installed(folder, "podman", settings, shown, "--ulimit nproc=4096:4096")


def _built(engine: Engine) -> None:
    """Builds the image; skips the tests where the engine can run no container."""
    _image(engine.folder / "image")
    words = ("--quiet", "--tag", IMAGE, "--build-arg", "RUNNER_VERSION=2.999.0")
    engine.ask("build", *words, "--file", engine.folder / "Containerfile", engine.folder / "image")
    probe = [engine.program, "run", "--rm", "--ulimit", "nofile=1024:1024", "--entrypoint", "true", IMAGE]
    tried = subprocess.run(probe, capture_output=True, encoding="utf-8", check=False)
    if tried.returncode:
        pytest.skip(f"{engine.kind} runs no container here: {tried.stderr.strip().splitlines()[-1]}")


@contextmanager
def _space() -> Iterator[tuple[int, str]]:
    """Namespaces in which a metadata service listens: a process in them, and the command that enters them."""
    if os.geteuid() != 0:
        pytest.skip("a network of one's own needs root")
    words = ["unshare", "--mount", "--net", sys.executable, "-c", LISTENER, *SERVICES, NEIGHBOUR]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as space:
        assert space.stdout
        if not space.stdout.readline():
            pytest.skip("this user may not make namespaces here")
        try:
            yield space.pid, f"nsenter --target {space.pid} --mount --net"
        finally:
            space.kill()


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """podman with the image; skips the tests where it can run no container."""
    require("podman")
    with _space() as (space, within):
        subprocess.run([*within.split(), "umount", "/sys/fs/cgroup/unified"], capture_output=True, check=False)
        made = Engine(program=_podman(tmp_path_factory.mktemp("engine"), within), space=space)
        try:
            _built(made)
            yield made
        finally:
            subprocess.run([made.program, "rm", "--all", "--force"], capture_output=True, check=False)


@contextmanager
def _daemon(folder: Path, within: str) -> Iterator[None]:
    """docker's daemon; skips the tests where it does not start. Its containers, their mounts and groups end with it."""
    (folder / "daemon.json").write_text("{}", "utf-8")
    group = f"ci-engine-{os.getpid()}"
    alone = ("unshare", "--mount-proc", "--pid", "--fork", "--kill-child", "sh", "-c", DAEMON, "sh", str(folder), group)
    with subprocess.Popen([*within.split(), *alone], stdin=subprocess.DEVNULL) as daemon:
        try:
            until(lambda: (folder / "sock").exists() or daemon.poll() is not None)
            if daemon.poll() is not None:
                pytest.skip(f"docker's daemon does not start here: {_text(folder / 'log').splitlines()[-1:]}")
            yield
        finally:  # the first process of its namespace: all others end with it, and with them the mounts
            for child in _text(Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children")).split():
                os.kill(int(child), signal.SIGKILL)
            daemon.wait()
            for place in sorted(Path("/sys/fs/cgroup").glob(f"*/{group}/**/"), reverse=True):
                until(lambda place=place: _removed(place))  # type: ignore[misc]


def _removed(group: Path) -> bool:
    """Removes a control group, unless processes are still ending in it."""
    try:
        group.rmdir()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """docker with a daemon of its own and the image; skips the tests where it can run no container."""
    require("dockerd")
    folder = tmp_path_factory.mktemp("docker")
    with _space() as (space, within), _daemon(folder, within):
        settings = f"DOCKER_HOST=unix://{folder}/sock DOCKER_BUILDKIT=0"
        made = Engine(program=_installed(folder, "docker", settings), space=space)
        _built(made)
        yield made


@pytest.fixture(scope="module", params=["podman", "docker"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine with the image."""
    made = request.getfixturevalue(request.param)
    assert isinstance(made, Engine)
    return made


USER = 61234
"""The id of the user of the rootless engine, whom only that engine's mount namespace knows."""

KNOWN_THERE = """\
set -e
cd "$1"
shift
mknod tun c 10 200
chmod 666 tun
mount --bind tun /dev/net/tun
for file in passwd subuid subgid; do mount --bind "$file" "/etc/$file"; done
for place; do mkdir -p "shown$place" && mount --bind "$place" "shown$place"; done
"""


@pytest.fixture(scope="module")
def rootless(podman: Engine) -> Iterator[Engine]:
    """podman of a user without rights, as the deployed units run it; skips the tests where that cannot be."""
    for tool in ("slirp4netns", "newuidmap"):
        require(tool)
    with TemporaryDirectory(prefix="ci-engine-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        passwd = Path("/etc/passwd").read_text("utf-8") + f"ci-engine:x:{USER}:{USER}::{folder}/home:/bin/sh\n"
        for file, text in {"passwd": passwd, **dict.fromkeys(("subuid", "subgid"), "ci-engine:700000:65536\n")}.items():
            (folder / file).write_text(text, "utf-8")
        within = f"nsenter --target {podman.space} --mount --net"
        words = [*within.split(), "sh", "-c", KNOWN_THERE, "sh", name, *_shown()]
        done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
        if done.returncode:
            pytest.skip(f"no rootless podman here: {done.stderr.strip()}")
        for part in ("home", "store", "run"):
            (folder / part).mkdir()
            os.chown(folder / part, USER, USER)
        user = f"setpriv --reuid {USER} --regid {USER} --clear-groups env HOME={name}/home XDG_RUNTIME_DIR={name}/run"
        made = Engine(program=_podman(folder, f"{within} {user}", f"{name}/shown"), space=podman.space)
        try:
            _built(made)
            yield made
        finally:
            subprocess.run([made.program, "rm", "--all", "--force"], capture_output=True, check=False)
            for file in folder.rglob("pause.pid"):  # what keeps the user's namespaces
                os.kill(int(file.read_text("utf-8")), signal.SIGKILL)


@dataclass
class Shift:
    """What happens while the controller sleeps: each job runs to its end; after the last one, SIGTERM.

    `at_work` gets the name of each job's container, `each_round` is called again and again. With `hangs`, the engine
    hangs during the job after the last one, when SIGTERM arrives.
    """

    engine: Engine
    github: GitHub
    jobs: int = 1
    logs: list[str] = field(default_factory=list)
    hangs: bool = False
    at_work: Callable[[str], object] = lambda _: None
    each_round: Callable[[], object] = lambda: None
    rounds: int = 600
    found: list[str] = field(default_factory=list)
    replies: list[int] = field(default_factory=list)
    sleep = staticmethod(time.sleep)
    stopped: bool = False

    def __call__(self, _: float) -> None:
        self.sleep(0.1)
        if self.stopped:
            return
        self.rounds -= 1
        self.each_round()
        for runner in list(self.github.runners.values()):
            name = runner["name"]
            log = _log(self.engine, name)
            if "job: done" in log and self.hangs and len(self.logs) == self.jobs:
                (self.engine.folder / "hangs").touch()
                self._stop()
                return
            if "job: done" in log:
                self.logs.append(log)
                self.at_work(name)
                secret = self.github.secrets[-1]
                self.replies += [self.github.connect(secret), self.github.connect(secret)]
                self.found += _places(self.engine, secret)
                self.github.runners.pop(runner["id"])
                # Detached: the container may end with the file, before the command in it does.
                self.engine.ask("exec", "--detach", name, "touch", "/home/runner/go")
        over = not self.hangs and len(self.logs) == self.jobs and not self.engine.ask("ps", "--all", "--quiet")
        if over or not self.rounds:
            self._stop()

    def _stop(self) -> None:
        self.stopped = True
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL, "it would end the tests"
        os.kill(os.getpid(), signal.SIGTERM)


def _places(engine: Engine, secret: str) -> list[str]:
    """Where this machine has `secret`: arguments, what the engine says of its containers, files."""
    arguments = [path for path in Path("/proc").glob("[0-9]*/cmdline") if secret in _text(path)]
    ids = engine.ask("ps", "--all", "--quiet").split()
    known = ["inspect"] if ids and secret in engine.ask("inspect", *ids) else []
    folders = [engine.folder, os.environ.get("STATE_DIRECTORY", "/run"), "/run", "/dev/shm", "/var/log"]  # noqa: S108
    words = ["grep", "--recursive", "--files-with-matches", "--devices=skip", "--file=-", "--fixed-strings"]
    done = subprocess.run([*words, *folders], input=secret, capture_output=True, encoding="utf-8", check=False)
    return [*map(str, arguments), *known, *done.stdout.splitlines()]


def _log(engine: Engine, name: str) -> str:
    words = [engine.program, "logs", name]
    return subprocess.run(words, capture_output=True, encoding="utf-8", check=False).stdout


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:  # a process that has ended
        return ""


@pytest.fixture
def github() -> Iterator[GitHub]:
    with serving(GitHub(organisation=True)) as served:
        yield served


@pytest.fixture
def options(engine: Engine, github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    given = {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}
    for name, value in {**given, "XDG_RUNTIME_DIR": str(tmp_path), "STATE_DIRECTORY": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{engine.program.parent}:{os.environ['PATH']}")
    document = wheel.spec()
    document["runners"]["builder"] |= {"image": IMAGE, "memory": 4}
    (tmp_path / "spec.yaml").write_text(json.dumps(document), "utf-8")
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield ["--engine", engine.kind, "--root", str(tmp_path), "--spec", str(tmp_path / "spec.yaml")]
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def shift(engine: Engine, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> Shift:
    made = Shift(engine, github)
    monkeypatch.setattr("time.sleep", made)
    return made


BUILD = """\
cp -r project checkout && cd checkout && git init --quiet --initial-branch main && git add --all &&
git -c user.name=a -c user.email=a@example.com commit --quiet --message a &&
PATH=/home/runner/python:$PATH exec /opt/ci-compiler/bin/ci-runner build "$1" --out ../artifact
"""


def _build(engine: Engine, container: str, artifact: Path) -> None:
    """Builds in the container of a job, as a step of it would, and takes the folder that a job uploads."""
    engine.ask("exec", container, "bash", "-c", BUILD, "build", wheel.NAME)
    engine.ask("cp", f"{container}:/home/runner/artifact", artifact)


def _garble(engine: Engine, garbles: bool) -> None:
    """Whether the engine answers with nonsense from now on."""
    (engine.folder / "garbles").touch() if garbles else (engine.folder / "garbles").unlink(missing_ok=True)


def test_jobs_run_closed_and_bounded_and_nothing_is_left(
    engine: Engine,
    shift: Shift,
    options: list[str],
    github: GitHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    shift.at_work = lambda name: _build(engine, name, tmp_path / "artifact")
    garbles = iter((True, False))
    shift.each_round = lambda: _garble(engine, next(garbles, False))
    monkeypatch.setattr("ci_compiler.runner.controller.slots.FIRST_PAUSE", 0.2)
    started = replace(ORDER, name=f"ci-runner-{this_machine()}-1-000001-builder", image=IMAGE, registration=0)
    engine.ask(*job_network.holder_arguments(started))  # what a controller leaves that is killed during a start
    assert run(PROGRAM, ["start", "builder", *options]) == 0
    said = capfd.readouterr().err
    assert f"{started.name}: taken over" in said
    assert "its answer cannot be read: '<html>" in said
    assert "job done after" in said, said
    [log] = shift.logs
    assert all(f"job: {service} closed" in log for service in SERVICES)
    assert f"job: {NEIGHBOUR} credentials" in log
    assert "job: capabilities 0000000000000000" in log
    assert f"job: files {store_daemon.FILES}" in log
    assert f"job: pids.max {store_daemon.PROCESSES}" in log
    assert re.search("job: shared memory +8\n", log), log
    [memory] = re.findall("job: memory.* ([0-9]+)", log)
    assert int(memory) <= 4 * 10**9
    assert not github.of()
    assert engine.ask("ps", "--all", "--quiet") == ""
    manifest = json.loads((tmp_path / "artifact/manifest.json").read_text("utf-8"))
    [wheel_file] = manifest["closure"]
    assert (tmp_path / "artifact" / wheel_file).stat().st_size
    [secret] = github.secrets
    assert f"job: configured {hashlib.sha256(secret.encode()).hexdigest()}" in log
    assert secret not in log + said
    assert shift.found == []
    assert _places(engine, secret) == []  # also what the runner itself kept
    assert [*shift.replies, github.connect(secret)] == [200, 409, 401]


def test_a_secret_that_is_kept_would_be_found(engine: Engine) -> None:
    secret = "c2VjcmV0IG9mIHRoZSB0ZXN0"  # noqa: S105
    words = ["create", "--name", "keeps", "--env", f"KEPT={secret}", IMAGE]
    engine.ask(*words)
    assert "inspect" in _places(engine, secret)
    assert any(place.startswith(str(engine.folder)) for place in _places(engine, secret))
    engine.ask("rm", "keeps")


def test_a_slot_with_an_open_network_is_in_quarantine_until_it_is_closed(
    shift: Shift, options: list[str], github: GitHub, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    closer, shown = job_network.CLOSER, []
    monkeypatch.setattr(job_network, "CLOSER", ("-c", "pass"))
    monkeypatch.setattr(quarantine, "FIRST_CHECK", 3.0)

    def close_again() -> None:
        if not shown and github.runners:
            shown.extend(github.runners.values())
            monkeypatch.setattr(job_network, "CLOSER", closer)

    shift.each_round = close_again
    assert run(PROGRAM, ["start", "builder", *options]) == 0
    said = capfd.readouterr().err
    assert "in quarantine: egress: a job reaches 169.254.169.254, " in said
    [[label]] = [runner["labels"] for runner in shown]
    assert label["name"] == "quarantined"
    assert said.index("healthy again") < said.index("waiting for a job")
    assert all(f"job: {service} closed" in shift.logs[0] for service in SERVICES)
    assert not github.of()


@contextmanager
def _started(engine: Engine, **changes: Any) -> Iterator[RunnerOrder]:
    """A job that a controller would start, without one; it and what it left are removed."""
    real, order = ContainerEngine(engine.program), replace(ORDER, image=IMAGE, **changes)
    try:
        real.prepare(order)
        real.start(order, Secret(SECRET))
        until(lambda: "job: done" in _log(engine, order.name))
        yield order
    finally:
        real.remove(order.name)
        for volume in real.volumes():
            real.remove_volume(volume.name)
    assert real.machines() == ()


def test_without_the_protection_a_job_reaches_the_credentials(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other tests would notice: the service does listen."""
    monkeypatch.setattr(job_network, "CLOSER", ("-c", "pass"))
    with _started(engine, store=False) as order:
        log = _log(engine, order.name)
    assert all(f"job: {service} credentials" in log for service in SERVICES)


def test_jobs_outlive_a_controller_that_is_killed_and_a_stop_an_engine_that_hangs(
    engine: Engine,
    shift: Shift,
    options: list[str],
    github: GitHub,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = ["-I", "-c", "from ci_compiler.cli.runner import main; main()", "start", "builder", *options]
    with subprocess.Popen([sys.executable, *words]) as killed:
        until(lambda: github.secrets)
        [name] = [runner["name"] for runner in github.of()]
        until(lambda: "job: done" in _log(engine, name))
        killed.kill()
    shift.hangs = True
    monkeypatch.setattr(containers, "_HURRIED", 1)
    monkeypatch.setattr(loop, "PATIENCE", 5.0)
    assert run(PROGRAM, ["start", "builder", *options]) == 0
    said = capfd.readouterr().err
    assert f"{name}: taken over from an earlier controller" in said
    assert f"{name}: job done after" in said
    assert f"{engine.kind} ps --all: given up to stop" in said
    assert "no answer in" not in said
    assert "may be left over: `ci-runner prune` removes it" in said
    (engine.folder / "hangs").unlink()
    assert engine.ask("ps", "--quiet")
    assert github.connect(github.secrets[-1]) == 401
    assert run(PROGRAM, ["prune", *options]) == 0
    assert engine.ask("ps", "--all", "--quiet") == ""
    assert not github.of()


TAKES = "import time; taken = bytearray(120_000_000); print('taken', flush=True); time.sleep(600)"


FILLS = """\
head -c 3000000 /dev/zero >/tmp/filled
head -c 3000000 /dev/zero >/home/runner/filled
yes 'job: prints, and prints, and prints' | head -c 3000000 >/proc/1/fd/1
echo 'job: end' >/proc/1/fd/1
"""
"""What a job can do to the disk: write to it, and print."""


def _logs_of(engine: Engine, name: str) -> list[Path]:
    """The files with what a container printed."""
    number = engine.ask("inspect", "--format", "{{.Id}}", name)
    return [path for path in engine.folder.rglob("*.log*") if number in str(path)]


def test_the_daemon_of_a_store_is_closed_as_well_and_shares_the_bounds_of_the_job(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Builds whose result is known may use its network."""
    monkeypatch.setattr(containers, "MOST_LOG", "1m")
    words = ("bash", "-c", "exec 3<>/dev/tcp/169.254.169.254/80 && head -n 1 <&3; echo over")
    with _started(engine, memory=200_000_000) as order:
        daemon = store_daemon.daemon_name(order.name)
        assert engine.ask("exec", daemon, *words) == "over"
        real = ContainerEngine(engine.program)
        assert len(real.machines()) == 1
        before = real.written(order.name)
        engine.ask("exec", order.name, "bash", "-c", FILLS)
        assert real.written(order.name) >= before + 6_000_000
        until(lambda: "job: end" in _log(engine, order.name))
        printed = sum(file.stat().st_size for file in _logs_of(engine, order.name))
        assert 0 < printed < 2_500_000  # docker keeps an older file
        if "memory" not in Path("/proc/cgroups").read_text("utf-8"):
            pytest.skip("this kernel bounds no memory")
        with engine.executed(daemon, PYTHON, "-c", TAKES) as first:
            assert first.stdout.readline() == "taken\n"
            with engine.executed(order.name, PYTHON, "-c", TAKES) as second:
                if second.stdout.readline():  # then the other one was killed
                    assert engine.ask("exec", daemon, "bash", "-c", "grep -l '[t]aken' /proc/[0-9]*/cmdline || :") == ""


def test_rootless_jobs_are_closed_too_and_their_secrets_nowhere(rootless: Engine) -> None:
    """Their bounds hold where the user has control groups of version 2, which systemd gives; version 1 has none."""
    words = ("bash", "-c", "exec 3<>/dev/tcp/169.254.169.254/80 && head -n 1 <&3; echo over")
    with _started(rootless, memory=400_000_000) as order:
        log = _log(rootless, order.name)
        assert rootless.ask("exec", store_daemon.daemon_name(order.name), *words) == "over"
        assert _places(rootless, SECRET) == []
    assert all(f"job: {service} closed" in log for service in SERVICES)
    assert "job: capabilities 0000000000000000" in log
    assert f"job: configured {hashlib.sha256(SECRET.encode()).hexdigest()}" in log


def test_a_rootless_job_without_the_protection_reaches_the_credentials(
    rootless: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_network, "CLOSER", ("-c", "pass"))
    with _started(rootless, store=False) as order:
        log = _log(rootless, order.name)
    assert all(f"job: {service} credentials" in log for service in SERVICES)


def test_a_job_sees_its_bounds_in_control_groups_of_version_2(engine: Engine) -> None:
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        pytest.skip("the control groups of this machine are of version 1")
    with _started(engine, store=False, memory=400_000_000) as order:
        assert re.search("job: memory.max ([0-9]+)", _log(engine, order.name))

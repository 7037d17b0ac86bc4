"""Containers: the engine's commands, what others could see of them, its answers; with real engines if possible."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from ci_compiler.errors import InputError
from ci_compiler.runner.controller import runner_logs, slot_memory
from ci_compiler.runner.controller.containers import FRESH, ContainerEngine, ImagePulls, find_engine
from ci_compiler.runner.controller.engine import JIT, EngineError, InstanceStatus, RunnerOrder, RunnerState
from ci_compiler.runner.controller.runner_logs import job_failed, state
from ci_compiler.runner.controller.store_daemon import DAEMON
from ci_compiler.secret import Secret

IMAGE = "localhost/my-org/ci-builder:0.1.0"
SECRET = "ZW5jb2RlZCBjb25maWd1cmF0aW9u"  # noqa: S105
ORDER = RunnerOrder(
    name="ci-runner-here-1-abcdef-builder",
    registration=17,
    scope="my-org/stack",
    pool="builder",
    slot=1,
    image=IMAGE,
    gpus=(),
    builds=True,
    room=20 * 10**9,
    cores=0,
)

STAND_IN = """\
#!/bin/sh
# Records its arguments; answers like podman and docker, from files beside it.
here=$(dirname "$0")
printf '%s\\n' "$*" >> "$here/told"
env >> "$here/environment"
case "$1 $2" in
"image inspect") if test -e "$here/slow"; then exec sleep 30; fi; cat "$here/image" ;;
"pull "*) echo sha256:0123456789abcdef > "$here/image" ;;
"volume ls") cat "$here/volumes" ;;
"volume inspect") printf '["%s",{"io.github.ci-compiler":"runner","io.github.ci-compiler.pool":"builder",' "$5"
  printf '"io.github.ci-compiler.slot":"1","io.github.ci-compiler.image":"0123456789ab"}]\\n' ;;
"volume create") for last; do :; done; echo "$last" >> "$here/volumes" ;;
"ps --all") cat "$here/names" ;;
"container inspect") cat "$here/inspected" ;;
"info --format") case "$3" in *Cgroup*) cat "$here/groups" ;; *) echo "$here/not/yet/made" ;; esac ;;
"run --rm")
  case "$3" in --interactive) if test -e "$here/hang"; then exec sleep 30; fi ;; esac
  cat ;;
"logs --tail") echo first; echo; echo "last words" >&2 ;;
"exec --interactive")
  read -r secret
  printf '%s %s\n' "$3" "$secret" >> "$here/handed"
  if test -e "$here/broken"; then
    echo "Error: no such container, with $secret" >&2
    exit 125
  fi ;;
esac
"""


class Told:
    """An engine that records its commands."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        program = folder / kind
        program.write_text(STAND_IN, "utf-8")
        program.chmod(0o755)
        for name in ("told", "environment", "volumes", "names"):
            (folder / name).touch()
        (folder / "image").write_text("sha256:0123456789abcdef\n", "utf-8")
        (folder / "groups").write_text("systemd v2\n", "utf-8")
        self.engine = ContainerEngine(program)

    @property
    def told(self) -> list[str]:
        return (self.folder / "told").read_text("utf-8").splitlines()

    @property
    def started(self) -> list[str]:
        """The containers of daemons and jobs, without those of their networks."""
        return [
            line for line in self.told if line.startswith("run") and not re.search(" --name [^ ]+-(net|closer) ", line)
        ]

    @property
    def environment(self) -> str:
        return (self.folder / "environment").read_text("utf-8")


@pytest.fixture(params=["podman", "docker"])
def told(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.setenv("GITHUB_TOKEN", "ghs_secret")
    monkeypatch.setenv("GITHUB_APP_PRIVATE_KEY", "PRIVATE")
    return Told(tmp_path, request.param)


def test_the_configuration_comes_through_a_pipe_and_the_token_is_nowhere(told: Told) -> None:
    told.engine.prepare(ORDER)
    told.engine.start(ORDER, Secret(SECRET))
    assert (told.folder / "handed").read_text("utf-8") == f"{ORDER.name} {SECRET}\n"
    assert told.told[-1] == f"exec --interactive {ORDER.name} /usr/local/lib/ci-runner/secret-pipe --in"
    assert SECRET not in told.environment
    assert not any(SECRET in line for line in told.told)
    assert "ghs_secret" not in told.environment
    assert "PRIVATE" not in told.environment
    assert not (told.folder / "secret").exists()


def test_the_container_is_confined_named_and_marked(told: Told) -> None:
    told.engine.prepare(ORDER)
    told.engine.start(ORDER, Secret(SECRET))
    words = told.started[-1].split()
    pairs = set(pairwise(words))
    assert words[:2] == ["run", "--detach"]
    assert words[-1] == IMAGE
    assert {
        ("--name", ORDER.name),
        ("--cap-drop", "all"),
        ("--security-opt", "no-new-privileges"),
        ("--pull", "never"),
        ("--env", "CI_RUNNER_SECRET_PIPE=true"),
        ("--env", "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1"),
        ("--label", "io.github.ci-compiler=runner"),
        ("--label", "io.github.ci-compiler.registration=17"),
        ("--volume", "ci-runner-builder-1-0123456789ab:/nix:ro"),
    } <= pairs
    assert ("--env", "CI_RUNNER_FREE_GB=20") in pairs
    assert not {"--privileged", "--device", "--gpus", "--rm"} & set(words)
    assert not any("docker.sock" in word for word in words)


def test_a_daemon_owns_the_store_and_the_job_only_reads_it(told: Told) -> None:
    told.engine.prepare(ORDER)
    told.engine.start(replace(ORDER, trusted_keys=("a:k", "b:k")), Secret(SECRET))
    daemon, job = (line.split() for line in told.started)
    pairs = set(pairwise(daemon))
    assert {
        ("--name", f"{ORDER.name}-nix"),
        ("--volume", "ci-runner-builder-1-0123456789ab:/nix"),
        ("--user", "0:0"),
        ("--cap-drop", "all"),
        ("--security-opt", "no-new-privileges"),
        ("--entrypoint", DAEMON),
        ("--label", f"io.github.ci-compiler.serves={ORDER.name}"),
    } <= pairs
    assert "--env CI_RUNNER_TRUSTED_KEYS=a:k b:k" in " ".join(daemon)
    added = {second for first, second in pairs if first == "--cap-add"}
    assert added == {"CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"}
    assert not {JIT, "CI_RUNNER_SECRET_PIPE=true"} & set(daemon)
    assert [word for word in job if word.endswith((":/nix", ":/nix:ro"))] == [
        "ci-runner-builder-1-0123456789ab:/nix:ro"
    ]
    assert not {"--cap-add", "--user"} & set(job)


def test_only_the_daemons_of_builders_get_what_the_sandbox_of_nix_needs(told: Told) -> None:
    told.engine.prepare(ORDER)
    told.engine.start(ORDER, Secret(SECRET))
    told.engine.start(replace(ORDER, builds=False, cores=16), Secret(SECRET))
    builds, builder, serves, tester = told.started
    mask = {"podman": "unmask=ALL", "docker": "systempaths=unconfined"}[told.engine.kind]
    for option in ("seccomp=unconfined", "apparmor=unconfined", mask):
        assert f"--security-opt {option}" in builds
    assert not [line for line in (builder, serves, tester) if "unconfined" in line or "unmask" in line]
    assert "CI_RUNNER_CORES" not in builder
    assert "--env CI_RUNNER_CORES=16" in tester


def test_the_builders_key_reaches_the_daemon_alone(told: Told) -> None:
    engine = ContainerEngine(told.folder / told.engine.kind, Secret("builder-1:c2VjcmV0"))
    engine.prepare(ORDER)
    engine.start(ORDER, Secret(SECRET))
    daemon, job = told.started
    assert "--env CI_RUNNER_SECRET_PIPE=true" in daemon
    handed = [f"{ORDER.name}-nix builder-1:c2VjcmV0", f"{ORDER.name} {SECRET}"]
    assert (told.folder / "handed").read_text("utf-8").splitlines() == handed
    assert not any("c2VjcmV0" in line for line in [job, told.environment, *told.told])


def test_a_pool_that_publishes_gets_a_fresh_store_for_each_job(told: Told) -> None:
    order = replace(ORDER, fresh_store=True)
    told.engine.prepare(order)
    assert not [line for line in told.told if line.startswith("volume rm")]
    told.engine.prepare(order)
    changes = [
        line.split()[:2] + line.split()[-1:] for line in told.told if line.startswith(("volume rm", "volume create"))
    ]
    volume = "ci-runner-builder-1-0123456789ab"
    assert changes == [["volume", "create", volume], ["volume", "rm", volume], ["volume", "create", volume]]


def test_without_nix_there_is_neither_a_store_nor_a_daemon(told: Told) -> None:
    order = replace(ORDER, store=False)
    told.engine.prepare(order)
    told.engine.start(order, Secret(SECRET))
    told.engine.collect_garbage(order)
    assert [line.split()[:2] for line in told.told] == [
        ["image", "inspect"],
        *(["run", how] for how in ("--detach", "--rm", "--detach")),
        ["exec", "--interactive"],
    ]
    assert "--volume" not in told.started[-1]


def test_the_network_is_closed_before_anything_runs_in_it(told: Told) -> None:
    told.engine.prepare(ORDER)
    told.engine.start(ORDER, Secret(SECRET))
    holder, closer, daemon, second, job = [line for line in told.told if line.startswith("run")]
    assert f"--name {ORDER.name}-net " in holder
    for line, closes in ((closer, f"{ORDER.name}-net"), (second, f"{ORDER.name}-nix")):
        assert line.startswith(f"run --rm --network container:{closes} ")  # its exit status is that of the engine
        assert "--cap-add NET_ADMIN" in line
        assert line.endswith(" -I -m ci_compiler.runner.fence")
    assert f"--network container:{ORDER.name}-net" in job
    assert "--network" not in daemon  # builds share no network with the job
    assert not any("NET_ADMIN" in line for line in (holder, daemon, job))


@pytest.mark.parametrize(
    ("gpus", "podman", "docker"),
    [
        (("all",), "--device nvidia.com/gpu=all", "--gpus all"),
        (("GPU-1",), "--device nvidia.com/gpu=GPU-1", '--gpus "device=GPU-1"'),
        (("MIG-1", "MIG-2"), "--device nvidia.com/gpu=MIG-1 --device nvidia.com/gpu=MIG-2",
         '--gpus "device=MIG-1,MIG-2"'),
    ],
)  # fmt: skip
def test_each_engine_gets_gpus_by_identity_in_its_own_way(
    told: Told, gpus: tuple[str, ...], podman: str, docker: str
) -> None:
    told.engine.prepare(ORDER)
    told.engine.start(replace(ORDER, gpus=gpus), Secret(SECRET))
    assert {"podman": podman, "docker": docker}[told.engine.kind] in told.started[-1]


def test_a_container_gets_its_share_of_memory_and_cores(told: Told) -> None:
    told.engine.prepare(ORDER)
    told.engine.start(replace(ORDER, memory=64 * 10**9, cores=16), Secret(SECRET))
    told.engine.start(ORDER, Secret(SECRET))
    starts = told.started
    daemon_and_job, unbound = starts[:2], starts[2:]
    parts = {"podman": (64, 64), "docker": (56, 8)}[told.engine.kind]
    for line, part in zip(daemon_and_job, parts, strict=True):
        assert f"--memory {part}000000000 --memory-swap {part}000000000 --cpus 16" in line
    assert not any(option in line for option in ("--memory", "--cpus") for line in unbound)
    bounded = ("--pids-limit 16384", "--ulimit nofile=16384:16384")
    assert all(option in line for option in bounded for line in starts)


@pytest.mark.parametrize(
    ("store", "builds", "job", "daemon"), [(True, True, 4, 12), (True, False, 12, 4), (False, True, 16, 0)]
)
def test_without_pods_a_job_and_its_daemon_get_parts_of_the_memory(
    *, store: bool, builds: bool, job: int, daemon: int
) -> None:
    order = replace(ORDER, memory=16 * 10**9, store=store, builds=builds)
    assert slot_memory.parts(order) == (job * 10**9, daemon * 10**9)


def test_the_containers_of_a_slot_are_in_one_pod_with_its_memory(told: Told) -> None:
    told.engine.prepare(ORDER)
    told.engine.start(replace(ORDER, memory=64 * 10**9, cores=16), Secret(SECRET))
    pods = [line for line in told.told if line.startswith("pod")]
    runs = [line for line in told.told if line.startswith("run")]
    pod = f"{ORDER.name}-slot"
    if told.engine.kind == "docker":
        assert not pods
        assert not any("--pod" in line for line in runs)
        return
    [created] = pods
    assert created.startswith(f"pod create --name {pod} --infra-name {ORDER.name}-pod ")
    assert created.endswith("--memory 64000000000 --memory-swap 64000000000 --cpus 16")
    assert f"--label io.github.ci-compiler.serves={ORDER.name}" in created
    assert len(runs) == 5
    assert all(f" --pod {pod} " in line and line.count(" --network ") == 1 for line in runs)
    (told.folder / "names").write_text(f"{ORDER.name}-pod\n", "utf-8")
    told.engine.remove(ORDER.name)
    assert [line for line in told.told if line.startswith(("pod rm", "rm"))] == [f"pod rm --force --time 0 {pod}"]


def test_podman_makes_no_pod_where_its_containers_would_get_no_device(told: Told) -> None:
    """Seen with podman 4.3 as root and its own control groups of version 2: crun may not even make /dev/null."""
    (told.folder / "groups").write_text("cgroupfs v2\n", "utf-8")
    told.engine.prepare(ORDER)
    told.engine.start(replace(ORDER, memory=64 * 10**9), Secret(SECRET))
    assert not any("pod" in line.split() or "--pod" in line for line in told.told)
    assert ["--memory 56000000000 " in line for line in told.started] == [True, False]
    assert ["--memory 8000000000 " in line for line in told.started] == [False, True]


def test_the_toolkit_runs_in_the_image_as_a_job_would(told: Told) -> None:
    told.engine.prepare(ORDER)
    order = replace(ORDER, gpus=("GPU-1",), builds=False, memory=10**9)
    ended = told.engine.toolkit(order, ("doctor", "--json"), "the spec")
    assert ended.out == "the spec"
    daemon, words = told.started
    assert "--name ci-runner-check-builder-1-nix " in daemon
    together = " --pod ci-runner-check-builder-1-slot" if told.engine.kind == "podman" else ""
    network = "--network container:ci-runner-check-builder-1-net"
    assert words.startswith(f"run --rm --interactive{together} {network} --pull never")
    assert words.endswith(f" {IMAGE} /opt/ci-compiler/bin/ci-runner doctor --json")
    assert all(option in words for option in ("--cap-drop all", "GPU-1", "--memory "))
    assert JIT not in words


def test_a_check_that_hangs_is_removed(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    told.engine.prepare(ORDER)
    monkeypatch.setattr("ci_compiler.runner.controller.containers.CHECK_SECONDS", 0.5)
    monkeypatch.setattr("ci_compiler.process.GRACE", 0.1)
    (told.folder / "names").write_text("ci-runner-check-builder-1\n", "utf-8")
    (told.folder / "hang").touch()
    with pytest.raises(EngineError, match=r"run --rm: no answer in 0.5 s"):
        told.engine.toolkit(ORDER, ("doctor",))
    assert told.told[-1] == "rm --force --volumes ci-runner-check-builder-1"


def test_a_stop_gives_up_what_takes_long(told: Told) -> None:
    told.engine.prepare(ORDER)
    (told.folder / "hang").touch()
    told.engine.stopped = lambda: True
    with pytest.raises(EngineError, match="run --rm: given up to stop"):
        told.engine.toolkit(ORDER, ("doctor",))


def test_a_stop_waits_less_for_an_engine_that_hangs(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci_compiler.runner.controller.containers._HURRIED", 0)
    (told.folder / "slow").touch()
    told.engine.stopped = lambda: True
    with pytest.raises(EngineError, match="image inspect: given up to stop"):
        told.engine.image_id(IMAGE)


def test_what_a_container_has_written_is_read(told: Told) -> None:
    (told.folder / "inspected").write_text("12345678\n", "utf-8")
    assert told.engine.written("one") == 12345678
    assert told.told[-1] == "container inspect --size --format {{.SizeRw}} one"


LOG = """\
√ Connected to GitHub
2026-10-01 12:00:00Z: Listening for Jobs
2026-10-01 12:00:10Z: Running job: gpu-test (a)
2026-10-01 12:00:30Z: Job gpu-test (a) completed with result: Failed
"""


def test_the_result_of_a_job_is_read_from_the_output_of_its_runner() -> None:
    assert job_failed(LOG) is True
    assert job_failed(LOG.replace("Failed", "Succeeded")) is False
    assert job_failed(LOG.replace("Failed", "Canceled")) is False
    assert job_failed(LOG + LOG.replace("Failed", "Succeeded")) is False
    assert job_failed("Job gpu-test completed with result: Failed") is None
    assert job_failed("") is None


@pytest.mark.parametrize(
    ("more", "online", "busy"),
    [
        ("", True, False),
        ("2026-10-01 12:01:00Z: Running job: b\n", True, True),
        (
            "2026-10-01 12:01:00Z: Running job: b\n2026-10-01 12:02:00Z: Runner connect error: x. Retrying\n",
            False,
            True,
        ),
        (
            "\n".join(
                f"2026-10-01 12:0{one}"
                for one in ("3:00Z: Runner reconnected", "2:00Z: Runner connect error: ", "1:00Z: Running job: b")
            ),
            True,
            True,
        ),
        ("Running job: b\n echo 2026-10-01 12:01:00Z: Running job: b\n", True, False),
    ],
)
def test_the_output_of_a_runner_says_whether_it_is_connected_and_has_a_job(
    more: str, *, online: bool, busy: bool
) -> None:
    assert state(LOG + more) == RunnerState(online=online, busy=busy)
    assert state("") is None


def test_an_image_is_pulled_if_it_is_missing_or_may_be_newer_by_now() -> None:
    now = 0.0
    pulls = ImagePulls(clock=lambda: now)
    assert [pulls.due("ghcr.io/o/i:1", here=True) for _ in range(2)] == [True, False]
    assert pulls.due("ghcr.io/o/i:1", here=False)
    assert not pulls.due("ghcr.io/o/i@sha256:0", here=True)
    assert not pulls.due("localhost/i:1", here=True)
    now = FRESH
    assert [pulls.due("ghcr.io/o/i:1", here=True) for _ in range(2)] == [True, False]


def test_the_next_job_moves_to_a_newer_image(told: Told) -> None:
    order = replace(ORDER, image="ghcr.io/my-org/ci-builder:0.1.0")
    (told.folder / "image").write_text("sha256:fedcba9876543210\n", "utf-8")
    for _ in range(2):
        told.engine.prepare(order)
    assert told.told.count(f"pull --quiet {order.image}") == 1
    mounts = [word for word in told.engine.command(order) if word.startswith("ci-runner-builder-1-")]
    assert [mount.partition(":")[0] for mount in mounts] == ["ci-runner-builder-1-0123456789ab"]  # what `pull` brought


def test_the_logs_of_lost_runners_are_kept(told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    monkeypatch.setattr(runner_logs, "KEPT", 3)
    for number in range(5):
        told.engine.keep_log(f"runner-{number}")
        os.utime(runner_logs.folder() / f"runner-{number}.log", (number, number))
    logs = sorted(runner_logs.folder().iterdir())
    assert [log.name for log in logs] == ["runner-2.log", "runner-3.log", "runner-4.log"]
    assert "last words" in logs[0].read_text("utf-8")
    assert logs[0].stat().st_mode & 0o777 == 0o600
    assert runner_logs.count() == 3


def test_the_store_of_a_slot_is_created_once(told: Told) -> None:
    for _ in range(3):
        told.engine.prepare(ORDER)
    [made] = [line for line in told.told if line.startswith("volume create")]
    assert made.endswith(" ci-runner-builder-1-0123456789ab")
    [volume] = told.engine.volumes()
    assert (volume.pool, volume.slot, volume.image) == ("builder", 1, "0123456789ab")


def test_garbage_is_collected_in_the_slots_own_store_without_a_network(told: Told) -> None:
    told.engine.prepare(ORDER)
    told.engine.collect_garbage(ORDER)
    words = told.told[-1]
    assert "--network none" in words
    assert "--user 0:0 --cap-drop all" in words
    assert words.endswith(
        f"--volume ci-runner-builder-1-0123456789ab:/nix --entrypoint {DAEMON} {IMAGE} --collect-garbage"
    )


def test_a_failure_is_one_line_without_the_secret(told: Told) -> None:
    told.engine.prepare(ORDER)
    (told.folder / "broken").touch()
    with pytest.raises(EngineError) as raised:
        told.engine.start(ORDER, Secret(SECRET))
    assert str(raised.value) == f"{told.engine.kind} exec --interactive: Error: no such container, with ***"


def test_containers_are_read(told: Told) -> None:
    (told.folder / "names").write_text("one\ntwo\n", "utf-8")
    labels = '{"io.github.ci-compiler":"runner","io.github.ci-compiler.pool":"p","io.github.ci-compiler.slot":"2"}'
    lines = [f'["/one","running",0,{labels}]', f'["two","exited",137,{labels}]']
    (told.folder / "inspected").write_text("\n".join(lines), "utf-8")
    one, two = told.engine.machines()
    assert (one.name, one.status, one.registration, one.pool, one.slot) == ("one", InstanceStatus.RUNNING, 0, "p", 2)
    assert (two.name, two.status, two.exit_code) == ("two", InstanceStatus.ENDED, 137)
    told.engine.remove("two")
    told.engine.remove("never-there")
    assert [line for line in told.told if line.startswith("rm")] == ["rm --force --volumes two"]
    (told.folder / "names").write_text("two-nix\ntwo\n", "utf-8")
    told.engine.remove("two")
    assert [line for line in told.told if line.startswith("rm")][1:] == [
        "rm --force --volumes two",
        "rm --force --volumes two-nix",
    ]
    assert told.engine.last_words("two") == "last words"
    assert told.engine.room() > 0


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("An error occurred: Runner version v2.331.0 is deprecated and cannot receive messages.", True),
        ("An error occured: Error: Forbidden Runner version v2.336.0 is deprecated and cannot receive messages.", True),
        ("Failed to create a session. The runner registration has been deleted from the server.", False),
        ("Unhandled exception. System.IO.IOException: No space left on device : '/w/_diag/x'", False),
    ],
)
def test_the_last_words_are_the_runners_own(log: str, words: bool) -> None:
    """Not those of run.sh after them, nor the traces that the runner prints for whoever supervises it."""
    around = (
        "\n√ Connected to GitHub\n\n2026-11-01 10:00:00Z: Listening for Jobs\n{}\n"
        "   at GitHub.Runner.Listener.MessageListener.CreateSessionAsync()\n"
        "[RUNNER 2026-11-01 10:00:01Z ERR  Listener] GitHub.Runner.Common.Exceptions\n"
        "Runner listener exit with terminated error, stop the service, no retry needed.\nExiting runner...\n"
        "Exiting runner with deprecated version error code: 7\n"
    )
    assert runner_logs.last_words(around.format(log)) == log
    assert runner_logs.refused(log) == words
    assert runner_logs.last_words("\n√ Connected to GitHub\nExiting runner...\n") == ""


def test_a_daemon_is_no_machine_of_its_own_and_a_lone_one_stands_for_its_runner(told: Told) -> None:
    (told.folder / "names").write_text("one\none-nix\ntwo-nix\n", "utf-8")
    mine = '"io.github.ci-compiler":"runner","io.github.ci-compiler.registration":"%d"'
    serves = mine + ',"io.github.ci-compiler.serves":"%s"'
    lines = [
        f'["/one","exited",3,{{{mine % 1}}}]',
        f'["/one-nix","running",0,{{{serves % (1, "one")}}}]',
        f'["/two-nix","running",0,{{{serves % (2, "two")}}}]',
    ]
    (told.folder / "inspected").write_text("\n".join(lines), "utf-8")
    found = {one.name: (one.status, one.exit_code, one.registration) for one in told.engine.machines()}
    assert found == {"one": (InstanceStatus.ENDED, 3, 1), "two": (InstanceStatus.RUNNING, 0, 2)}


def test_a_missing_engine_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="podman and docker not installed"):
        find_engine(None)
    with pytest.raises(InputError, match="unknown engine 'dokcer'; did you mean docker"):
        find_engine("dokcer")
    with pytest.raises(EngineError, match="No such file"):
        ContainerEngine(tmp_path / "podman").machines()
    (tmp_path / "docker").write_text("#!/bin/sh\n", "utf-8")
    (tmp_path / "docker").chmod(0o755)
    assert find_engine(None).kind == "docker"

"""Answers of the engine that make no sense: each is an EngineError, after which the controller tries again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ci_compiler.github.client import AT_ONCE
from ci_compiler.github.registration import Registrar
from ci_compiler.process import Ended
from ci_compiler.runner.controller import runner_logs
from ci_compiler.runner.controller.engine import EngineError
from ci_compiler.runner.controller.loop import Controller
from ci_compiler.runner.controller.quarantine import gpus_for, problem_in
from ci_compiler.runner.controller.slots import Phase, Slot
from tests.github.server import serving
from tests.github.state import REPOSITORY, GitHub
from tests.github.talk import Jumping, talk

from .test_containers import ORDER, Told
from .world import HEALTHY, WORK, World

LABELS = '{"io.github.ci-compiler":"runner","io.github.ci-compiler.pool":"builder","io.github.ci-compiler.slot":"1"}'
GARBAGE = {
    "empty": b"",
    "blank": b" \n\n",
    "truncated": b'["/one","exi',
    "html": b"<!DOCTYPE html>\n<html><body><h1>502 Bad Gateway</h1></body></html>\n",
    "null": b"null",
    "a number": b"17",
    "a text": b'"one"',
    "an object": b'{"one": 1, "two": 2, "three": 3, "four": 4}',
    "an empty list": b"[]",
    "deep": b"[" * 200_000,
    "huge number": b"1" + b"0" * 10_000,
    "infinite": b"[1e999, -1e999, NaN, Infinity]",
    "not utf-8": b"\xff\xfe\xc3\x28\x80",
    "zeros": b"one\0two\0",
    "escapes": b"\x1b]0;title\x07\x1b[2J",
    "half a character": b'["\\ud800","\\ud800",0,{}]',
    "megabytes": b"a" * 5_000_000,
    "megabytes of lists": b"[]\n" * 1_700_000,
}
CONTAINERS = {
    "a name that is null": f'[null,"exited",0,{LABELS}]',
    "a name that is an option": f'["--all","exited",0,{LABELS}]',
    "a name of megabytes": f'["{"a" * 5_000_000}","exited",0,{LABELS}]',
    "a status that is a number": f'["/one",3,0,{LABELS}]',
    "a code that is a word": f'["/one","exited","zero",{LABELS}]',
    "a code that is true": f'["/one","exited",true,{LABELS}]',
    "a code that is infinite": f'["/one","exited",1e999,{LABELS}]',
    "a code that is huge": f'["/one","exited",{10**400},{LABELS}]',
    "labels that are null": '["/one","exited",0,null]',
    "labels that are a list": '["/one","exited",0,["io.github.ci-compiler"]]',
    "a label that is a list": '["/one","exited",0,{"io.github.ci-compiler.pool":["builder"]}]',
    "a slot that is a word": '["/one","exited",0,{"io.github.ci-compiler.slot":"first"}]',
    "a slot that is huge": f'["/one","exited",0,{{"io.github.ci-compiler.slot":"{"9" * 5000}"}}]',
    "a registration that is a fraction": '["/one","exited",0,{"io.github.ci-compiler.registration":"1.5"}]',
    "one field less": f'["/one","exited",{LABELS}]',
    "one field more": f'["/one","exited",0,{LABELS},0]',
    "one container more": f'["/one","exited",0,{LABELS}]\n["/two","exited",0,{LABELS}]',
}
RECOVERS = """\
"run --rm")
  case "$*" in *detect*) cat "$here/detected" ;; *) cat ;; esac ;;
"""


class Garbling(Told):
    """An engine that answers one of its commands with garbage."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "podman")
        program = folder / "podman"
        text = program.read_text("utf-8")
        start = 'if test "$1 $2" = "$(cat "$here/garbled")"; then cat "$here/garbage"; exit 0; fi\n'
        program.write_text(text.replace('case "$1 $2" in\n', f'{start}case "$1 $2" in\n{RECOVERS}', 1), "utf-8")
        (folder / "detected").write_text(
            '{"gpus": [{"uuid": "GPU-1", "sm": "sm90", "sliced": false, "slices": []}], "problems": []}'
        )
        (folder / "inspected").touch()
        self.answers("", b"")

    def answers(self, command: str, garbage: bytes) -> None:
        (self.folder / "garbled").write_text(command, "utf-8")
        (self.folder / "garbage").write_bytes(garbage)


@pytest.fixture
def garbling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Garbling:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    return Garbling(tmp_path)


def refused(ask: Callable[[], object]) -> str:
    """The one printable line with which garbage is refused."""
    with pytest.raises(EngineError) as raised:
        ask()
    said = str(raised.value)
    assert said.isprintable()
    assert len(said) < 500
    return said


@pytest.mark.slow
@pytest.mark.parametrize("kind", GARBAGE)
def test_a_garbled_answer_is_an_error_of_the_engine(garbling: Garbling, kind: str) -> None:
    engine = garbling.engine
    for names, command, ask in (
        ("names", "container inspect", engine.machines),
        ("volumes", "volume inspect", engine.volumes),
        ("names", "info --format", engine.room),
    ):
        (garbling.folder / names).write_text("one\n", "utf-8")
        garbling.answers(command, GARBAGE[kind])
        assert refused(ask).startswith(f"podman {command}: its answer cannot be read")
    garbling.answers("image inspect", GARBAGE[kind])
    refused(lambda: engine.prepare(ORDER))
    for command, ask in (("ps --all", engine.machines), ("volume ls", engine.volumes)):
        garbling.answers(command, GARBAGE[kind])
        if not GARBAGE[kind].strip():
            assert ask() == ()
        elif kind not in {"null", "a number"}:  # which are names as good as others
            assert refused(ask).startswith(f"podman {command}: its answer cannot be read")


@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_container_of_another_shape_is_an_error_of_the_engine(garbling: Garbling, kind: str) -> None:
    (garbling.folder / "names").write_text("one\n", "utf-8")
    garbling.answers("container inspect", CONTAINERS[kind].encode())
    assert "podman container inspect: its answer cannot be read" in refused(garbling.engine.machines)


@pytest.mark.slow
@pytest.mark.parametrize("kind", GARBAGE)
def test_a_garbled_log_says_nothing_of_its_job(garbling: Garbling, kind: str) -> None:
    garbling.answers("logs --tail", GARBAGE[kind])
    assert garbling.engine.job_failed("one") is None
    assert len(garbling.engine.last_words("one")) <= 300
    assert garbling.engine.last_words("one").isprintable()
    garbling.engine.keep_log("one")
    assert runner_logs.count() == 1
    day = b"9999-99-99 99:99:99Z: "
    garbling.answers("logs --tail", day + b"Running job: a\n" + day + b"Job a completed with result: Failed\n")
    assert garbling.engine.job_failed("one") is True


CHECKS = {
    "checks that are an object": {"checks": {}},
    "no check": {"checks": []},
    "a check that is null": {"checks": [None]},
    "a check without a verdict": {"checks": [{"check": "clock", "message": "it is right"}]},
    "an unknown verdict": {"checks": [{"check": "clock", "verdict": "fine", "message": "it is right"}]},
    "a verdict that is a list": {"checks": [{"check": "clock", "verdict": ["ok"], "message": "it is right"}]},
    "a message that is a number": {"checks": [{"check": "clock", "verdict": "failed", "message": 3}]},
    "a name that is null": {"checks": [{"check": None, "verdict": "failed", "message": "it is wrong"}]},
}
DEVICES = {
    "devices that are a text": {"gpus": "GPU-1"},
    "a device that is null": {"gpus": [None]},
    "a device without a uuid": {"gpus": [{"sm": "sm90", "sliced": False}]},
    "a uuid that is a number": {"gpus": [{"sm": "sm90", "sliced": False, "uuid": 17}]},
    "a uuid that is a list": {"gpus": [{"sm": "sm90", "sliced": False, "uuid": ["GPU-1"]}]},
    "a uuid that is an option": {"gpus": [{"sm": "sm90", "sliced": False, "uuid": '"GPU-1",capabilities=all'}]},
    "slices that are a text": {"gpus": [{"sm": "sm90", "sliced": True, "slices": "MIG-1"}]},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*GARBAGE, *CHECKS])
def test_a_garbled_doctor_does_not_prove_health(kind: str) -> None:
    answer = GARBAGE.get(kind) or json.dumps(CHECKS.get(kind)).encode()
    said = problem_in(Ended(status=1, out=answer.decode(errors="replace")))
    assert said.startswith("the doctor of the image fails: ")
    assert said.isprintable()
    assert len(said) < 500


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*GARBAGE, *DEVICES])
def test_a_garbled_list_of_gpus_is_an_error_of_the_engine(garbling: Garbling, kind: str) -> None:
    answer = GARBAGE.get(kind) or json.dumps(DEVICES.get(kind)).encode()
    garbling.engine.prepare(ORDER)
    (garbling.folder / "detected").write_bytes(answer)
    work = replace(WORK, gpu="sm90", gpus=1)
    slot = Slot(number=1)
    assert "the image cannot list the GPUs" in refused(lambda: gpus_for(slot, [slot], ORDER, work, garbling.engine))


@pytest.fixture
def github() -> Iterator[GitHub]:
    with serving(GitHub()) as served:
        yield served


COMMANDS = (
    *("image inspect", "pull --quiet", "volume ls", "volume inspect", "volume create", "info --format", "run --rm"),
    *("run --detach", "ps --all", "container inspect", "logs --tail", "rm --force"),
)


@pytest.mark.weekly
@pytest.mark.parametrize("command", COMMANDS)
def test_the_controller_outlives_every_garbled_answer(garbling: Garbling, github: GitHub, command: str) -> None:
    """It tries again after a pause, and starts its runner once the engine makes sense."""
    (garbling.folder / "image").write_text("sha256:fedcba9876543210\n", "utf-8")
    work = replace(WORK, room=0, spec=HEALTHY, gpu="sm90", gpus=1)
    world, said = World(github=github, clock=Jumping()), list[str]()
    registrar = Registrar(talk(github, patience=AT_ONCE).client)
    controller = Controller(work, garbling.engine, registrar, world.clock, said.append)
    containers = CONTAINERS.values() if command == "container inspect" else ()
    for garbage in (*GARBAGE.values(), *(one.encode() for one in containers)):
        (garbling.folder / "names").write_text("one\n", "utf-8")
        (garbling.folder / "inspected").write_text(f'["/one","exited",1,{LABELS}]\n', "utf-8")
        garbling.answers(command, garbage)
        controller.step()
        world.clock.sleep(700.0)
        assert controller.slots[0].phase in {Phase.FREE, Phase.RUNNING, Phase.CLEANING}
    for name in ("names", "volumes", "told"):
        (garbling.folder / name).write_text("", "utf-8")
    garbling.answers("", b"")
    for _ in range(10):
        controller.step()
        world.clock.sleep(700.0)
    assert [line for line in garbling.told if line.startswith("run --detach") and "SECRET_PIPE" in line], said[-12:]
    assert all(line.isprintable() and len(line) < 700 for line in said)
    assert len({runner["name"] for runner in github.of(REPOSITORY)}) <= 1

"""Nix in a job: what it builds with, what is published, and what is never replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ci_compiler.backends.job import BuildOrder, JobContext
from ci_compiler.backends.nix_programs import NixPrograms
from ci_compiler.secret import Secret
from tests.backends.programs import (
    CACHE,
    FRESH,
    HASH,
    KEY,
    NIX,
    NUMPY,
    OTHER_HASH,
    TORCH,
    URL,
    Build,
    Programs,
    derived,
    fails,
    once,
    outcome,
    path,
    says,
)

JOB = JobContext(
    root=Path(), owner="my-org", cache=CACHE, secrets={"NIX_CACHE_SIGNING_KEY": Secret("cache-1:hush")}, seconds=60
)
ALONE = JOB._replace(cache=None)
BUILD, DERIVATION, RECIPE = Build(), path("torch-2.8.0.drv"), ".flox/pkgs/torch.nix"
WHERE = f"{FRESH} --store {URL}"
READ = [f"nix-instantiate HERE/{RECIPE}", f"{NIX} store cat {DERIVATION}"]
VERIFY = f"{NIX} store verify {FRESH} --option trusted-public-keys {KEY} --store {URL} --no-contents"
SIGNED = f"{VERIFY} --recursive {TORCH}"
CONTENT = f"nix-store --query --hash {TORCH} {WHERE}"
PAIR = f"nix-store --query --hash {NUMPY} {TORCH} {WHERE}"
LACKS = f"nix-store {WHERE} --check-validity --print-invalid"
COMPARED = [f"{LACKS} {NUMPY} {TORCH}", PAIR]
PUSH = f"{NIX} copy {FRESH} --to {URL}?secret-key=ci-runner-key/key {TORCH}"
ANSWERS = {
    "nix-instantiate *": says(DERIVATION),
    f"{NIX} store cat *": derived(TORCH),
    CONTENT: says(HASH),
    PAIR: says(HASH, HASH),
}
NO_CACHE = "cache: the backend nix publishes to a binary cache, and the spec has no `cache` [cache-missing]"
NO_KEY = (
    "NIX_CACHE_SIGNING_KEY: is not set; the secret of GitHub's environment goes into the step that publishes "
    "[secret-missing]"
)
DIFFERS = (
    f"torch: users of {URL} get another build of {TORCH} than the one that was tested; what is signed is never "
    "replaced: build and test with that one, or remove it there [content-differs]"
)
OTHER = {PAIR: says(HASH, OTHER_HASH)}


ONE = (TORCH, "00" * 32, "1", "", "0")


def is_published(programs: NixPrograms) -> bool:
    return programs.is_published("torch", "2.8.0", RECIPE, [])


Case = tuple[JobContext, Callable[[NixPrograms], object], Mapping[str, str], object, list[str]]

CASES: dict[str, Case] = {
    "nothing without a cache": (ALONE, is_published, {}, False, []),
    "a recipe that is published": (JOB, is_published, {}, True, [*READ, SIGNED, CONTENT]),
    "a recipe that is not": (
        JOB,
        is_published,
        {SIGNED: fails("unsigned")},
        False,
        [*READ, SIGNED, f"{NIX} store ping --store {URL}"],
    ),
    "a recipe whose cache does not answer": (
        JOB,
        is_published,
        {SIGNED: fails("no route"), f"{NIX} store ping *": fails("no route")},
        f"{URL}: it does not answer here: no route [cache-unreachable]",
        [*READ, SIGNED, f"{NIX} store ping --store {URL}"],
    ),
    "a build that is published": (
        JOB,
        lambda programs: programs.published(BUILD, []),
        {},
        f"{URL} holds it, signed by cache-1",
        [SIGNED, CONTENT, *COMPARED],
    ),
    "a build that is not": (
        JOB,
        lambda programs: programs.published(BUILD, []),
        {SIGNED: fails("unsigned")},
        "",
        [SIGNED],
    ),
    "another build that is published": (
        JOB,
        lambda programs: programs.published(BUILD, []),
        OTHER,
        f"{URL} keeps another build of {TORCH}, which is signed, and not this one",
        [SIGNED, CONTENT, *COMPARED],
    ),
    "a build without a cache": (ALONE, lambda programs: programs.published(BUILD, []), {}, NO_CACHE, []),
    "publishing": (
        JOB,
        lambda programs: programs.publish(BUILD),
        {f"{LACKS} {NUMPY} {TORCH}": once(says(NUMPY, TORCH), ":")},
        None,
        [COMPARED[0], PUSH, SIGNED, *COMPARED],
    ),
    "publishing in place of an unsigned build": (
        JOB,
        lambda programs: programs.publish(BUILD),
        {PAIR: once(says(HASH, OTHER_HASH), says(HASH, HASH)), f"{VERIFY} {TORCH}": fails("unsigned")},
        None,
        [*COMPARED, f"{LACKS} {TORCH}", f"{VERIFY} {TORCH}", PUSH, SIGNED, *COMPARED],
    ),
    "publishing beside a signed build": (
        JOB,
        lambda programs: programs.publish(BUILD),
        OTHER,
        DIFFERS,
        [*COMPARED, f"{LACKS} {TORCH}", f"{VERIFY} {TORCH}"],
    ),
    "publishing beside what another cache has": (
        JOB,
        lambda programs: programs.publish(BUILD),
        {**OTHER, f"{LACKS} {TORCH}": says(TORCH)},
        DIFFERS,
        [*COMPARED, f"{LACKS} {TORCH}"],
    ),
    "publishing while another build is published": (
        JOB,
        lambda programs: programs.publish(BUILD),
        {PAIR: once(says(HASH, HASH), says(HASH, OTHER_HASH))},
        DIFFERS,
        [*COMPARED, PUSH, SIGNED, *COMPARED],
    ),
    "publishing that is refused": (
        JOB,
        lambda programs: programs.publish(BUILD),
        {PUSH.replace("ci-runner-key", "*"): fails("denied")},
        f"torch: it cannot be copied to {URL}: denied [publish-failed]",
        [*COMPARED, PUSH],
    ),
    "publishing with another key": (
        JOB,
        lambda programs: programs.publish(BUILD),
        {SIGNED: fails("unsigned"), "*--requisites *": "", f"{VERIFY} *": fails("unsigned")},
        f"torch: {URL} holds it, but not signed by cache-1; NIX_CACHE_SIGNING_KEY is another key [publish-unsigned]",
        [*COMPARED, PUSH, SIGNED, f"nix-store --query --requisites {TORCH}", SIGNED],
    ),
    "publishing without the key": (
        JOB._replace(secrets={}),
        lambda programs: programs.publish(BUILD),
        {},
        NO_KEY,
        [],
    ),
    "publishing without a cache": (ALONE, lambda programs: programs.publish(BUILD), {}, NO_CACHE, []),
}


@pytest.mark.parametrize("name", CASES)
def test_publishing_is_these_commands_and_this_answer(
    nix: Programs, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, call, answers, result, commands = CASES[name]
    monkeypatch.chdir(tmp_path)
    nix.answer(answers)
    nix.answer({command: answer for command, answer in ANSWERS.items() if command not in answers})
    assert outcome(lambda: call(NixPrograms(job))) == result
    assert nix.commands == commands


def test_a_recipe_is_built_in_an_empty_home(nix: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nix.answer({"nix-build *": f'echo "in $HOME"; ln -s {TORCH} "$3"'})
    nix.answer(
        {
            "*--eval *": says("[]"),
            "*--requisites *": says(TORCH),
            "*--dump-db *": says(TORCH, "00" * 32, "1", "", "0"),
            **ANSWERS,
        }
    )
    order = BuildOrder(name="torch", recipe=RECIPE, needs=(), log=tmp_path / "build.log")
    assert NixPrograms(ALONE).build(order).outputs == (TORCH,)
    assert f"nix-build {RECIPE} --out-link result-torch" in nix.commands
    assert (tmp_path / "build.log").read_text("utf-8").startswith(f"in {nix.temporary}/ci-runner-home-")


def test_nix_build_is_named_where_it_is_missing(nix: Programs) -> None:
    (nix.folder / "nix-build").unlink()
    order = BuildOrder(name="torch", recipe=RECIPE, needs=(), log=Path("build.log"))
    assert outcome(lambda: NixPrograms(ALONE).build(order)) == (
        "nix-build: nix-build is not on PATH; it comes with Nix; see https://nixos.org/download [program-missing]"
    )

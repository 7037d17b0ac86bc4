"""Staged builds: what is put into them, how they are fetched and checked, and the pointers to them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ci_compiler.backends.cache_files import add_archive, entry, held
from ci_compiler.backends.nar import text_archive
from ci_compiler.backends.nix_store import NixStore
from ci_compiler.backends.staged import fetch_staged, point, stage, staged_name, staging, take
from ci_compiler.process import Ended
from ci_compiler.spec.model import Cache
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
    Programs,
    derived,
    fails,
    path,
    says,
)

STAGED, DERIVATION, RECIPE = path("staged"), path("torch-2.8.0.drv"), Path("torch.nix")
CLOSURE = {NUMPY: HASH, TORCH: HASH}
KEYS = ("b:1", "b:2")
KEYED = Cache(url=URL, public_key=KEY, builder_keys=KEYS)


def test_staged_builds_travel_through_a_store_of_their_own_if_there_is_one() -> None:
    assert staging(CACHE) == URL
    assert staging(Cache(url=URL, public_key=KEY, staging="s3://staging")) == "s3://staging"
    assert staged_name("torch") == "torch-staged"


COPY_ALONE = f"{NIX} copy {FRESH} --no-recursive --to file://ci-runner-staged/torch-staged?compression=none {TORCH}"
ADD = "nix-store --add ci-runner-staged/torch-staged"


@pytest.mark.parametrize(
    ("answers", "staged", "said", "commands"),
    [
        ({}, STAGED, "", [COPY_ALONE, ADD, f"{NIX} copy {FRESH} --to {{}} {STAGED}", f"nix-store --delete {STAGED}"]),
        ({f"{COPY_ALONE[:60]}*": fails("no space")}, "", "no space", [COPY_ALONE]),
        (
            {f"{NIX} copy * {STAGED}": fails("denied")},
            STAGED,
            "denied",
            [COPY_ALONE, ADD, f"{NIX} copy {FRESH} --to {{}} {STAGED}", f"nix-store --delete {STAGED}"],
        ),
    ],
)
def test_a_staged_build_states_its_closure_and_old_ones_go(
    nix: Programs, tmp_path: Path, answers: Mapping[str, str], staged: str, said: str, commands: Sequence[str]
) -> None:
    store, old = tmp_path / "staging", path("old-staged")
    store.mkdir()
    add_archive(store, old, b"")
    os.utime(entry(store, old), (0, 0))
    nix.answer({**answers, "nix-store --add *": f'cp "$2/closure.json" {tmp_path}/; {says(STAGED)}'})
    cache = Cache(url=URL, public_key=KEY, staging=f"file://{store}")
    path_, ended = stage(NixStore(seconds=60), cache, "torch", CLOSURE, [TORCH])
    assert (path_, ended.said) == (staged, said)
    assert nix.commands == [command.format("file://HERE/staging") for command in commands]
    assert list(held(store)) == []
    if staged:
        stated = json.loads((tmp_path / "closure.json").read_text("utf-8"))
        assert (stated["closure"], len(stated["build"])) == (CLOSURE, 32)


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A staged build with TORCH, whose closure has NUMPY as well, as the store has it."""
    folder = tmp_path / "torch-staged"
    folder.mkdir()
    (folder / "closure.json").write_text(json.dumps({"closure": CLOSURE | {"--option": HASH}}), "utf-8")
    add_archive(folder, TORCH, text_archive("torch"))
    (folder / "extra.narinfo").write_text("StorePath: --option\n", "utf-8")  # nothing is an option of a command
    folder.chmod(0o555)
    return folder


OPENED = "file://ci-runner-staged"
FETCHED, DISCARDED = f"{NIX} copy {FRESH} --from {URL} HERE/torch-staged", "nix-store --delete HERE/torch-staged"
CONTENT = f"nix-store --query --hash {TORCH} {FRESH} --store {OPENED}"
LACKS = f"nix-store --check-validity --print-invalid {NUMPY} {TORCH}"
HELD = f"nix-store --query --hash {NUMPY} {FRESH} --store {URL}"
PROVED, TRUSTED = "--no-check-sigs", f"--option extra-trusted-public-keys {KEY}"
SIGNED = f"{NIX} store verify {FRESH} --option trusted-public-keys b:1 b:2 --store {OPENED} --no-contents {TORCH}"


def from_cache(trust: str) -> str:
    return f"{NIX} copy {FRESH} {trust} --from {URL} {NUMPY}"


def from_staged(trust: str) -> str:
    return f"{NIX} copy {FRESH} --no-recursive {trust} --from {OPENED} {TORCH}"


ANSWERS = {CONTENT.split(" --store", maxsplit=1)[0] + "*": says(HASH), LACKS: says(NUMPY, TORCH), HELD: says(HASH)}
BUILDERS = "--option extra-trusted-public-keys b:1 b:2"

FETCHES: dict[str, tuple[Mapping[str, str], Mapping[str, str] | None, Sequence[str], str, list[str]]] = {
    "all of it": ({}, CLOSURE, (), "", [CONTENT, LACKS, HELD, from_cache(PROVED), from_staged(PROVED)]),
    "what it states itself": ({}, None, (), "", [CONTENT, LACKS, HELD, from_cache(PROVED), from_staged(PROVED)]),
    "what is not here": ({LACKS: says(TORCH)}, CLOSURE, (), "", [CONTENT, LACKS, from_staged(PROVED)]),
    "what the cache has otherwise": (
        {HELD: says(OTHER_HASH)},
        CLOSURE,
        (),
        "",
        [CONTENT, LACKS, HELD, from_cache(TRUSTED), from_staged(PROVED)],
    ),
    "what the cache lacks": (
        {f"{NIX} copy *{NUMPY}": fails("no such path")},
        CLOSURE,
        (),
        "no such path",
        [CONTENT, LACKS, HELD, from_cache(PROVED), from_cache(PROVED)],
    ),
    "what cannot be copied": (
        {f"{NIX} copy *{TORCH}": fails("no space")},
        CLOSURE,
        (),
        "no space",
        [CONTENT, LACKS, HELD, from_cache(PROVED), from_staged(PROVED)],
    ),
    "another content": (
        {},
        {NUMPY: HASH, TORCH: OTHER_HASH},
        (),
        f"{TORCH} is staged with another content than the manifest states",
        [CONTENT],
    ),
    "content that cannot be read": (
        {"*--hash *file:*": fails("bad entry")},
        None,
        (),
        "bad entry",
        [CONTENT],
    ),
    "what the manifest does not have": (
        {},
        {NUMPY: HASH},
        (),
        "",
        [LACKS.removesuffix(f" {TORCH}")],
    ),
    "what a builder signed": (
        {},
        None,
        [TORCH],
        "",
        [SIGNED, CONTENT, LACKS, from_cache(TRUSTED), from_staged(BUILDERS)],
    ),
    "what no builder signed": (
        {SIGNED.replace(OPENED, "*"): fails("unsigned")},
        None,
        [TORCH],
        "{} has no build that a builder's key signed",
        [SIGNED],
    ),
}


@pytest.mark.parametrize("name", FETCHES)
def test_a_staged_build_is_fetched_and_checked(nix: Programs, build: Path, name: str) -> None:
    answers, closure, signed, said, commands = FETCHES[name]
    nix.answer({**answers, **{command: answer for command, answer in ANSWERS.items() if command not in answers}})
    ended = fetch_staged(NixStore(seconds=60), KEYED, str(build), recipe=RECIPE, closure=closure, signed=signed)
    assert (ended.status, ended.said) == (1 if said else 0, said.format(build))
    assert nix.commands == [FETCHED, *commands, DISCARDED]


@pytest.mark.parametrize(
    "text", [None, "", "[]", "{}", '{"closure": []}', f'{{"closure": {{"{TORCH}": 1}}}}', '{"closure": null}']
)
def test_what_is_no_staged_build_is_refused(nix: Programs, tmp_path: Path, text: str | None) -> None:
    (tmp_path / "torch-staged").mkdir()
    if text is not None:
        (tmp_path / "torch-staged/closure.json").write_text(text, "utf-8")
    ended = fetch_staged(NixStore(seconds=60), KEYED, f"{tmp_path}/torch-staged", recipe=RECIPE)
    assert ended == Ended(status=1, err=f"error: {tmp_path}/torch-staged is not a staged build")
    assert nix.commands == [FETCHED, DISCARDED]


def test_a_staged_build_that_is_gone_says_why(nix: Programs) -> None:
    nix.answer({"*": fails("no such path")})
    assert fetch_staged(NixStore(seconds=60), KEYED, STAGED, recipe=RECIPE).said == "no such path"
    assert nix.commands == [f"{NIX} copy {FRESH} --from {URL} {STAGED}"]


# Pointers.

POINTER = "/nix/store/npsyjr77lfy4bjbfwdxfibbbh0bqf10i-ci-runner-staged-build"


def test_a_pointer_leads_to_the_newest_staged_build_of_a_derivation(tmp_path: Path) -> None:
    store = tmp_path / "staging"
    for keys, url, written in (((), f"file://{store}", []), (KEYS, URL, []), (KEYS, f"file://{store}", [POINTER])):
        cache = Cache(url=URL, public_key=KEY, staging=url if url != URL else "", builder_keys=keys)
        assert point(cache, DERIVATION, STAGED, seconds=60) == Ended(status=0)
        assert list(held(store)) == written
    (archive,) = (store / "nar").iterdir()
    assert archive.read_bytes() == text_archive(f"{STAGED}\n")
    assert (store / "nix-cache-info").read_text("utf-8") == "StoreDir: /nix/store\n"


@pytest.mark.parametrize(
    ("answer", "keys", "commands"),
    [
        (says(STAGED), (), []),
        (fails("no such path"), KEYS, [f"{NIX} store cat {FRESH} --store {URL} {POINTER}"]),
        (f"{says(STAGED)}; exit 1", KEYS, [f"{NIX} store cat {FRESH} --store {URL} {POINTER}"]),
        (says("--option"), KEYS, [f"{NIX} store cat {FRESH} --store {URL} {POINTER}"]),
    ],
)
def test_without_a_pointer_nothing_is_taken(
    nix: Programs, answer: str, keys: tuple[str, ...], commands: list[str]
) -> None:
    nix.answer({"*store cat *": answer})
    cache = Cache(url=URL, public_key=KEY, builder_keys=keys)
    assert take(NixStore(seconds=60), cache, DERIVATION, RECIPE).status == 1
    assert nix.commands == commands


def test_what_a_pointer_leads_to_is_taken_if_a_builder_signed_it(nix: Programs) -> None:
    nix.answer({f"*{POINTER}": says(STAGED), f"*cat {DERIVATION}": derived(TORCH), f"*{STAGED}": fails("gone")})
    assert take(NixStore(seconds=60), KEYED, DERIVATION, RECIPE).said == "gone"
    assert nix.commands == [
        f"{NIX} store cat {FRESH} --store {URL} {POINTER}",
        f"{NIX} store cat {DERIVATION}",
        f"{NIX} copy {FRESH} --from {URL} {STAGED}",
    ]

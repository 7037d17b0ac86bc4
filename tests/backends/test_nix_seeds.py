"""Compiler seeds between builders: when they are fetched and copied, by which commands, and what that says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ci_compiler.backends.job import JobContext
from ci_compiler.backends.nix_seeds import seeds_of, share_seeds, take_seeds
from ci_compiler.backends.nix_store import NixStore
from ci_compiler.backends.own_store import OwnStore
from ci_compiler.secret import Secret
from ci_compiler.spec.model import Cache
from tests.backends.programs import (
    CACHE,
    FRESH,
    KEY,
    NIX,
    NUMPY,
    TORCH,
    URL,
    Programs,
    derived,
    fails,
    outcome,
    path,
    says,
)

DERIVATION, SEED = path("torch-2.8.0.drv"), path("f-compiler-seed-2.8.0")
JOB = JobContext(root=Path(), owner="my-org", cache=CACHE, secrets={}, seconds=60)
KEYED = JOB._replace(secrets={"NIX_CACHE_SIGNING_KEY": Secret("cache-1:hush")})
PUBLIC = JOB._replace(cache=Cache(url=URL, public_key=KEY, public=True))
NOWHERE = (JOB._replace(cache=None), PUBLIC)

ANSWERS = {
    f"{NIX} store cat {DERIVATION}": derived(
        TORCH, uses={f"{SEED}.drv": "out", path("numpy-2.0.drv"): "out"}, src="f-compiler-seed-1"
    ),
    f"{NIX} store cat {SEED}.drv": derived(SEED),
    "nix-store --realise --dry-run *": f"echo '  {SEED}.drv' >&2",
}
READ = [f"{NIX} store cat {DERIVATION}", f"{NIX} store cat {SEED}.drv"]
LOOK = [*READ, f"nix-store --realise --dry-run {DERIVATION}"]
FETCH = f"{NIX} copy {FRESH} --option extra-trusted-public-keys {KEY} --from {URL} {SEED}"
LACKS = f"nix-store --check-validity --print-invalid {SEED}"
SIGNED_HERE = f"{NIX} path-info --sigs {SEED}"
SIGNATURE = f"builder-1:{'A' * 86}=="
PUSH = f"{NIX} copy {FRESH} --to {URL}?secret-key=ci-runner-key/key {SEED}"
VERIFY = f"{NIX} store verify {FRESH} --option trusted-public-keys {KEY} --store {URL} --no-contents --recursive {SEED}"
OTHER = {f"{NIX} store cat {DERIVATION}": derived(TORCH, uses={path("numpy-2.0.drv"): "out"})}

Case = tuple[Callable[..., None], JobContext, Mapping[str, str], list[str], str]

CASES: dict[str, Case] = {
    **{f"nothing is taken, {number}": (take_seeds, job, {}, [], "") for number, job in enumerate(NOWHERE)},
    **{f"nothing is shared, {number}": (share_seeds, job, {}, [], "") for number, job in enumerate(NOWHERE)},
    "no seed to take": (take_seeds, JOB, OTHER, READ[:1], ""),
    "no seed to share": (share_seeds, KEYED, OTHER, READ[:1], ""),
    "a seed that is not built": (take_seeds, JOB, {"nix-store --realise --dry-run *": ""}, LOOK, ""),
    "a seed that is fetched": (take_seeds, JOB, {}, [*LOOK, FETCH], ""),
    "a seed that is built here": (
        take_seeds,
        JOB,
        {f"{NIX} copy *": fails("no such path")},
        [*LOOK, FETCH, FETCH],
        f"{SEED} is built here; it cannot be fetched from {URL}: no such path\n",
    ),
    "a seed that this store copies signed": (share_seeds, KEYED, {}, [*READ, LACKS, PUSH, VERIFY], ""),
    "a seed that this store lacks": (share_seeds, KEYED, {LACKS: says(SEED)}, [*READ, LACKS], ""),
    "a seed that nobody signed": (share_seeds, JOB, {SIGNED_HERE: says(SEED)}, [*READ, LACKS, SIGNED_HERE], ""),
    "a seed that a builder signed": (
        share_seeds,
        JOB,
        {SIGNED_HERE: says(f"{SEED} {SIGNATURE}")},
        [*READ, LACKS, SIGNED_HERE, f"{NIX} copy {FRESH} --to {URL} {SEED}"],
        "",
    ),
    "a seed that the cache refuses": (
        share_seeds,
        KEYED,
        {f"{NIX} copy *": fails("denied")},
        [*READ, LACKS, PUSH],
        f"{SEED}: it cannot be copied to {URL}: denied [push-failed]",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_seed_is_taken_and_shared(nix: Programs, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    call, job, answers, commands, said = CASES[name]
    nix.answer({**ANSWERS, **answers})
    found = outcome(lambda: call(NixStore(seconds=60), job, DERIVATION, Path("torch.nix")))
    assert (found or capsys.readouterr().out) == said
    assert nix.commands == commands


def test_a_cache_that_does_not_answer_is_no_reason_to_fail(nix: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    nix.answer({**ANSWERS, "nix-store * --check-validity *": fails("no route")})
    take_seeds(OwnStore(seconds=60), JOB, DERIVATION, Path("torch.nix"))
    assert capsys.readouterr().out == f"{SEED} is built here; it cannot be fetched from {URL}: no route\n"


def test_the_seeds_of_a_derivation_are_derivations_that_are_called_so(nix: Programs) -> None:
    nix.answer(ANSWERS)
    assert seeds_of(NixStore(seconds=60), DERIVATION) == {f"{SEED}.drv": SEED}
    nix.answer({f"{NIX} store cat {DERIVATION}": derived(NUMPY, uses={SEED: "out"})})
    assert seeds_of(NixStore(seconds=60), DERIVATION) == {}

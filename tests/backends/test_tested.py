"""Records of passed tests in a cache: what is asked for, written, signed and believed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from ci_compiler.backends import tested
from ci_compiler.backends.job import JobContext
from ci_compiler.backends.nar import base32, closure_digest
from ci_compiler.backends.nix_store import NixStore
from ci_compiler.backends.tested import attest, attested, key_name, unsigned
from ci_compiler.secret import Secret
from ci_compiler.spec.model import Cache
from tests.backends.programs import (
    CACHE,
    DUMPED,
    FRESH,
    HASH,
    KEY,
    NIX,
    NUMPY,
    TORCH,
    URL,
    Build,
    Programs,
    fails,
    once,
    outcome,
    says,
)

JOB = JobContext(
    root=Path(), owner="my-org", cache=CACHE, secrets={"NIX_CACHE_SIGNING_KEY": Secret("hush")}, seconds=60
)
ALONE, KEYLESS = JOB._replace(cache=None), JOB._replace(secrets={})
BUILD = Build()
ANSWERS = {
    "nix-store --query --requisites *": says(NUMPY, TORCH),
    "nix-store --dump-db *": says(*DUMPED),
    "nix-store --query --hash *": says(HASH),
}
ASK = [f"nix-store --query --requisites {TORCH}", f"nix-store --dump-db {NUMPY} {TORCH}"]


def record(content: str, test: str) -> str:
    """The path of the record that TORCH with `content` passed `test`."""
    text = json.dumps({"path": TORCH, "content": content, "passed": test}, indent=1) + "\n"
    return f"/nix/store/{base32(hashlib.sha256(text.encode()).digest()[:20])}-ci-runner-tested"


WHOLE = closure_digest(BUILD.closure)
RECORDS = " ".join(record(content, test) for content in (HASH, WHOLE) for test in ("cpu-test", "gpu-test"))
VERIFY = f"{NIX} store verify {FRESH} --option trusted-public-keys {KEY} --store {URL} --no-contents"
KEPT = f"{VERIFY} {RECORDS}"
SIGN = f"{NIX} store sign {FRESH} --key-file ci-runner-key/key --store file://ci-runner-tested {RECORDS}"
COPY = f"{NIX} copy {FRESH} --from file://ci-runner-tested --to {URL} {RECORDS}"
TESTS = ["cpu-test", "gpu-test"]
DENIED = f"torch: it cannot be copied to {URL}: denied [publish-failed]"

Case = tuple[Callable[[NixStore], object], Mapping[str, str], object, Sequence[str]]

CASES: dict[str, Case] = {
    "records that are there": (lambda store: attested(store, JOB, BUILD, [TORCH], TESTS), {}, True, [*ASK, KEPT]),
    "records that are not there": (
        lambda store: attested(store, JOB, BUILD, [TORCH], TESTS),
        {"*verify*": fails("absent")},
        False,
        [*ASK, KEPT],
    ),
    "records without a cache": (lambda store: attested(store, ALONE, BUILD, [TORCH], TESTS), {}, False, ASK),
    "no records without tests": (lambda store: attested(store, ALONE, BUILD, [TORCH], []), {}, True, []),
    "records that were written before": (
        lambda store: attest(store, JOB, BUILD, [TORCH], TESTS),
        {},
        None,
        [*ASK, KEPT],
    ),
    **{
        f"records of a job {what}": (lambda store, job=job: attest(store, job, BUILD, [TORCH], TESTS), {}, None, ASK)
        for what, job in (("without a cache", ALONE), ("without the key", KEYLESS))
    },
    "new records": (
        lambda store: attest(store, JOB, BUILD, [TORCH], TESTS),
        {"*verify*": once(fails("absent"), ":")},
        None,
        [*ASK, KEPT, SIGN, COPY, KEPT],
    ),
    "records that cannot be signed": (
        lambda store: attest(store, JOB, BUILD, [TORCH], TESTS),
        {"*verify*": fails("absent"), "*store sign*": fails("denied")},
        DENIED,
        [*ASK, KEPT, SIGN],
    ),
    "records that cannot be copied": (
        lambda store: attest(store, JOB, BUILD, [TORCH], TESTS),
        {"*verify*": fails("absent"), f"{NIX} copy *": fails("denied")},
        DENIED,
        [*ASK, KEPT, SIGN, COPY],
    ),
    "records that are not signed by the cache's key": (
        lambda store: attest(store, JOB, BUILD, [TORCH], TESTS),
        {"*verify*": fails("absent")},
        f"torch: {URL} holds it, but not signed by cache-1; NIX_CACHE_SIGNING_KEY is another key [publish-unsigned]",
        [*ASK, KEPT, SIGN, COPY, KEPT, KEPT],
    ),
    "records of what the cache has": (
        lambda store: tested.tested_there(store, CACHE, [TORCH], ["cpu-test"]),
        {},
        True,
        [f"nix-store --query --hash {TORCH} {FRESH} --store {URL}", f"{VERIFY} {record(HASH, 'cpu-test')}"],
    ),
    "records that the cache lacks": (
        lambda store: tested.tested_there(store, CACHE, [TORCH], ["cpu-test"]),
        {"*verify*": fails("absent")},
        False,
        [f"nix-store --query --hash {TORCH} {FRESH} --store {URL}", f"{VERIFY} {record(HASH, 'cpu-test')}"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_records_are_these_commands_and_this_answer(nix: Programs, name: str) -> None:
    call, answers, result, commands = CASES[name]
    nix.answer({**answers, **ANSWERS})
    assert outcome(lambda: call(NixStore(seconds=60))) == result
    assert nix.commands == list(commands)


def test_records_that_somebody_else_wrote_are_replaced(nix: Programs, tmp_path: Path) -> None:
    cache = Cache(url=f"file://{tmp_path}/cache", public_key=KEY)
    nix.answer({"*verify*": fails("unsigned"), **ANSWERS})
    nix.answer({"*store sign*": 'cd "$(expr "$*" : ".*file://\\([^ ]*\\)")"; echo info >nix-cache-info'})
    said = str(outcome(lambda: attest(NixStore(seconds=60), JOB._replace(cache=cache), BUILD, [TORCH], ["cpu-test"])))
    assert said.endswith("is another key [publish-unsigned]")
    written = [record(content, "cpu-test")[11:43] for content in (HASH, WHOLE)]
    assert sorted(file.stem for file in (tmp_path / "cache").glob("*.narinfo")) == sorted(written)
    assert b'"passed": "cpu-test"' in b"".join(file.read_bytes() for file in (tmp_path / "cache/nar").iterdir())


def test_a_key_is_called_what_stands_before_its_colon() -> None:
    assert key_name(Cache(url=URL, public_key="my-cache-1:a:b")) == "my-cache-1"
    assert str(unsigned(BUILD, CACHE)).startswith(f"torch: {URL} holds it, but not signed by cache-1; ")

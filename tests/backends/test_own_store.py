"""A store that shares only a build's own paths: what it leaves out, and where it fetches that from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ci_compiler.backends.nix_store import NixStore
from ci_compiler.backends.own_store import OwnStore, store_of
from ci_compiler.backends.protocol import CachePush
from ci_compiler.process import Ended
from ci_compiler.secret import Secret
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
    once,
    outcome,
    path,
    says,
)

SERVED = "https://upstream.example.org"
OWN = Cache(url=URL, public_key=KEY, push=CachePush.OWN, others=(SERVED,))
CUDA = Cache(url=URL, public_key=KEY, push=CachePush.OWN, others=(SERVED,), redistributes=("cuda",))
RECIPE = Path("/repository/torch.nix")
GLIBC, CUDART, ARCHIVE = path("glibc-2.40"), path("cuda_cudart-12.8-lib"), path("cuda_cudart-linux.tar.xz")
DERIVATION, CUDART_DERIVATION = path("torch-2.8.0.drv"), path("cuda_cudart-12.8.drv")
FETCHED = "https://developer.download.nvidia.com/compute/cuda/redist/cuda_cudart-linux.tar.xz"
CLOSURE = {GLIBC: HASH, CUDART: HASH, TORCH: HASH}
PATHS = " ".join(CLOSURE)


def lacks(paths: str, url: str = URL) -> str:
    where = f"{FRESH} --store {url} " if url else ""
    return f"nix-store {where}--check-validity --print-invalid {paths}"


ANSWERS = {
    "nix-instantiate *": says(DERIVATION),
    f"nix-store --query --requisites {DERIVATION}": says(
        path("glibc-2.40.drv"), f"{ARCHIVE}.drv", CUDART_DERIVATION, DERIVATION
    ),
    f"nix-store --query --requisites {TORCH}": says(*CLOSURE),
    f"{NIX} store cat {DERIVATION}": derived(TORCH),
    f"{NIX} store cat {path('glibc-2.40.drv')}": derived(GLIBC),
    f"{NIX} store cat {CUDART_DERIVATION}": derived(path("other"), CUDART, uses={f"{ARCHIVE}.drv": "out"}, src=ARCHIVE),
    f"{NIX} store cat {ARCHIVE}.drv": derived(ARCHIVE, url=FETCHED),
    lacks("*", SERVED): f"{says(CUDART, TORCH)}",
}
CAT = f"{NIX} store cat"
MADE_BY = [
    f"nix-instantiate {RECIPE}",
    f"nix-store --query --requisites {DERIVATION}",
    *[f"{CAT} {CUDART_DERIVATION}"] * 3,
    f"{CAT} {ARCHIVE}.drv",
    *[f"{CAT} {DERIVATION}"] * 2,
]
CLOSED, SERVES = f"nix-store --query --requisites {TORCH}", lacks(PATHS, SERVED)
COPY_ALONE = f"{NIX} copy {FRESH} --no-recursive --to file://ci-runner-cache{{}} {TORCH}"
VERIFY = f"{NIX} store verify {FRESH} --option trusted-public-keys {KEY} --store {URL} --no-contents"
COPY = f"{NIX} copy {FRESH} --option extra-trusted-public-keys {KEY} --no-recursive --from {URL} {TORCH}"
REFERENCES = f"nix-store --query --references {TORCH} {FRESH} --store {URL}"
WALK = [lacks(TORCH), REFERENCES, lacks(f"{GLIBC} {CUDART}")]
WALKED = {REFERENCES: says(TORCH, GLIBC, CUDART), lacks(f"{GLIBC} {CUDART}"): says(GLIBC, CUDART)}
SECRET = Secret("cache-1:hush")

Case = tuple[Callable[[OwnStore], object], Mapping[str, str], object, list[str]]


def fetch(store: OwnStore, recipe: Path | None = RECIPE) -> str:
    ended = store.fetch(OWN, [TORCH], recipe=recipe)
    assert (ended.status != 0) == bool(ended.said)
    return ended.said


CASES: dict[str, Case] = {
    "its own part": (
        lambda store: store.uncarried(OWN, CLOSURE, RECIPE),
        {lacks(TORCH): says(TORCH)},
        {TORCH: ""},
        [SERVES, *MADE_BY, lacks(TORCH)],
    ),
    "its own part with a product": (
        lambda store: store.uncarried(CUDA, CLOSURE, RECIPE),
        {lacks(f"{CUDART} {TORCH}"): says(CUDART, TORCH)},
        {CUDART: "", TORCH: ""},
        [SERVES, *MADE_BY, lacks(f"{CUDART} {TORCH}")],
    ),
    "a push of what is there": (
        lambda store: store.push(OWN, [TORCH], SECRET, RECIPE),
        {},
        Ended(status=0),
        [CLOSED, SERVES, *MADE_BY, lacks(TORCH), f"{VERIFY} {TORCH}"],
    ),
    "a push without a key of what is there": (
        lambda store: store.push(OWN, [TORCH], None, RECIPE),
        {},
        Ended(status=0),
        [CLOSED, SERVES, *MADE_BY, lacks(TORCH)],
    ),
    "a push that cannot be copied": (
        lambda store: store.push(OWN, [TORCH], SECRET, RECIPE).said,
        {lacks(TORCH): says(TORCH), f"{NIX} copy *": fails("no space")},
        "no space",
        [CLOSED, SERVES, *MADE_BY, lacks(TORCH), COPY_ALONE.format("?secret-key=ci-runner-key/key")],
    ),
    "a fetch": (
        fetch,
        WALKED,
        "",
        [*WALK, lacks(f"{GLIBC} {CUDART}", ""), lacks(f"{GLIBC} {CUDART}", ""), lacks(TORCH, "")],
    ),
    "a fetch of each path from where it comes": (
        fetch,
        {
            **WALKED,
            lacks(f"{GLIBC} {CUDART}", ""): once(says(GLIBC, CUDART), says(CUDART)),
            lacks(f"{GLIBC} {CUDART}", SERVED): says(CUDART),
            lacks(TORCH, ""): says(TORCH),
        },
        "",
        [
            *(*WALK, lacks(f"{GLIBC} {CUDART}", ""), *[lacks(f"{GLIBC} {CUDART}", SERVED)] * 2),
            *(f"{NIX} copy --from {SERVED} {GLIBC}", lacks(f"{GLIBC} {CUDART}", ""), *MADE_BY[:6]),
            *(f"nix-store --realise {CUDART_DERIVATION}", lacks(TORCH, ""), COPY),
        ],
    ),
    "a fetch that another cache refuses": (
        fetch,
        {
            **WALKED,
            lacks(f"{GLIBC} {CUDART}", ""): says(GLIBC),
            lacks(GLIBC, SERVED): "",
            f"{NIX} copy *": fails("no route"),
        },
        "no route",
        [*WALK, lacks(f"{GLIBC} {CUDART}", ""), lacks(GLIBC, SERVED), f"{NIX} copy --from {SERVED} {GLIBC}"],
    ),
    "a product that cannot be made": (
        fetch,
        {**WALKED, lacks(f"{GLIBC} {CUDART}", ""): says(CUDART), "nix-store --realise *": fails("no download")},
        "no download",
        [
            *(*WALK, lacks(f"{GLIBC} {CUDART}", ""), lacks(CUDART, SERVED), lacks(f"{GLIBC} {CUDART}", "")),
            *(*MADE_BY[:6], f"nix-store --realise {CUDART_DERIVATION}"),
        ],
    ),
    **{
        f"a path that nobody serves, {recipe}": (
            lambda store, recipe=recipe: fetch(store, recipe),
            {**WALKED, lacks(f"{GLIBC} {CUDART}", ""): says(GLIBC), lacks(GLIBC, SERVED): says(GLIBC)},
            f"{GLIBC} is neither in {URL} nor in {SERVED}",
            [
                *(*WALK, lacks(f"{GLIBC} {CUDART}", ""), lacks(GLIBC, SERVED), lacks(f"{GLIBC} {CUDART}", "")),
                *((*MADE_BY[:2], *[f"{CAT} {path('glibc-2.40.drv')}"] * 2) if recipe else ()),
            ],
        )
        for recipe in (None, RECIPE)
    },
    "the content that it has": (
        lambda store: store.holds(OWN, {NUMPY: HASH, TORCH: HASH}),
        {lacks(f"{NUMPY} {TORCH}"): says(NUMPY), "*--hash*": says(HASH)},
        True,
        [lacks(f"{NUMPY} {TORCH}"), f"nix-store --query --hash {TORCH} {FRESH} --store {URL}"],
    ),
    "other content": (
        lambda store: store.holds(OWN, {TORCH: HASH}),
        {"*--hash*": says(OTHER_HASH)},
        False,
        [lacks(TORCH), f"nix-store --query --hash {TORCH} {FRESH} --store {URL}"],
    ),
    "what users get otherwise": (
        lambda store: store.differing(OWN, {NUMPY: HASH, TORCH: HASH}),
        {lacks(f"{NUMPY} {TORCH}"): says(NUMPY), lacks(NUMPY, SERVED): "", "*--hash*": says(OTHER_HASH)},
        [TORCH, NUMPY],
        [
            *(lacks(f"{NUMPY} {TORCH}"), f"nix-store --query --hash {TORCH} {FRESH} --store {URL}"),
            *(lacks(NUMPY, SERVED), f"nix-store --query --hash {NUMPY} {FRESH} --store {SERVED}"),
        ],
    ),
    "signed paths": (lambda store: store.signed(OWN, [TORCH]), WALKED, True, [*WALK, f"{VERIFY} {TORCH}"]),
    "paths that are not there": (
        lambda store: store.signed(OWN, [TORCH]),
        {lacks(TORCH): says(TORCH)},
        False,
        [lacks(TORCH)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_only_its_own_paths_travel(nix: Programs, name: str) -> None:
    call, answers, result, commands = CASES[name]
    nix.answer(answers)
    nix.answer({command: answer for command, answer in ANSWERS.items() if command not in answers})
    found = outcome(lambda: call(OwnStore(seconds=60)))
    assert (found._replace(seconds=0) if isinstance(found, Ended) else found) == result
    assert nix.commands == commands


@pytest.mark.parametrize("key", [None, SECRET])
def test_absent_paths_are_copied_without_the_rest_of_the_closure(
    nix: Programs, tmp_path: Path, key: Secret | None
) -> None:
    cache = Cache(url=f"file://{tmp_path}/cache", public_key=KEY, push=CachePush.OWN, others=(SERVED,))
    made = 'cd "$(expr "$*" : ".*file://\\([^? ]*\\)")"; ls >"${0%/*}/../seen"; mkdir nar; echo info >nix-cache-info'
    nix.answer(
        {
            f"{NIX} copy *": f"{made}; echo entry >{TORCH[11:43]}.narinfo",
            lacks("*", f"file://{tmp_path}/cache"): says(TORCH),
        }
    )
    nix.answer(ANSWERS)
    assert OwnStore(seconds=60).push(cache, [TORCH], key, RECIPE) == Ended(status=0)
    assert nix.commands[-1] == COPY_ALONE.format("?secret-key=ci-runner-key/key" if key else "")
    assert (tmp_path / "seen").read_text("utf-8").split() == sorted(f"{one[11:43]}.narinfo" for one in (CUDART, GLIBC))
    assert (tmp_path / f"cache/{TORCH[11:43]}.narinfo").read_text("utf-8") == "entry\n"


@pytest.mark.usefixtures("nix")
def test_the_spec_says_what_is_shared() -> None:
    assert [type(store_of(cache, seconds=60)) for cache in (None, CACHE, OWN)] == [NixStore, NixStore, OwnStore]
    OwnStore(seconds=60).check_push(OWN)
    bucket = Cache(url="s3://cache", public_key=KEY)
    assert str(outcome(lambda: OwnStore(seconds=60).check_push(bucket))).startswith("aws: aws is not on PATH; ")

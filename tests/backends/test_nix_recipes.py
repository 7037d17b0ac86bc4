"""Recipes in a job: what is fetched before a build, what is built, shared and proved, and by which commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_compiler.backends.job import (
    BuildOrder,
    BuildResult,
    Interpreter,
    JobContext,
    JoinedVariant,
    NeededVariant,
)
from ci_compiler.backends.nix_programs import NixPrograms
from ci_compiler.backends.protocol import CachePush
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
    OTHER_HASH,
    TORCH,
    Build,
    Programs,
    derived,
    fails,
    once,
    outcome,
    path,
    says,
)

URL, WHERE = CACHE.url, f"{FRESH} --store {CACHE.url}"
DERIVATION, NEEDED, DOC = path("torch-2.8.0.drv"), path("numpy-2.0.drv"), path("doc-torch-2.8.0")
RECIPE = ".flox/pkgs/torch.nix"
ALONE = JobContext(root=Path(), owner="my-org", cache=None, secrets={}, seconds=60)
CACHED = ALONE._replace(cache=CACHE)
ORDER = BuildOrder(name="torch", recipe=RECIPE, needs=(), log=Path("build.log"))
OWN = CACHED._replace(cache=Cache(url="s3://cache", public_key=KEY, push=CachePush.OWN))
BUILD = Build()
NEEDS = ORDER._replace(needs=(NeededVariant(name="numpy", recipe=".flox/pkgs/numpy.nix"),))
STARTED = datetime(2026, 11, 1, tzinfo=UTC)
RESULT = BuildResult(
    derivation=DERIVATION,
    store_path=TORCH,
    outputs=(TORCH,),
    closure_size=144,
    closure={NUMPY: HASH, TORCH: HASH},
    started=STARTED,
    seconds=0,
    built=False,
    python_modules=(NUMPY,),
)
BUILT = RESULT._replace(built=True)

ANSWERS = {
    "nix-instantiate --eval *": says(f'["{NUMPY}"]'),
    "nix-instantiate *numpy.nix": says(NEEDED),
    "nix-instantiate *": says(DERIVATION),
    f"{NIX} store cat {DERIVATION}": derived(TORCH, uses={NEEDED: "out"}, out=TORCH, version="2.8.0"),
    f"{NIX} store cat {NEEDED}": derived(NUMPY),
    "nix-store --realise --dry-run *": "",
    "nix-build *": f"ln -s {TORCH} result-torch",
    "nix-store --query --requisites *": says(NUMPY, TORCH),
    "nix-store --dump-db *": says(*DUMPED),
    f"nix-store --query --hash {NUMPY} {TORCH}*": says(HASH, HASH),
    f"nix-store --query --hash {NUMPY} {WHERE}": says(HASH),
    "nix-store --query --referrers-closure *": 'echo "$3"',
}

READ = f"{NIX} store cat {DERIVATION}"
PLANNED = f"nix-store --realise --dry-run {DERIVATION}"
CLOSURE, DUMP = f"nix-store --query --requisites {TORCH}", f"nix-store --dump-db {NUMPY} {TORCH}"
MODULES = "nix-instantiate --eval"
LACKS, LACKS_THERE = "nix-store --check-validity --print-invalid", f"nix-store {WHERE} --check-validity --print-invalid"
HASHES = f"nix-store --query --hash {NUMPY} {TORCH}"
COPY = f"{NIX} copy {FRESH} --option extra-trusted-public-keys {KEY} --from {URL}"
VERIFY = f"{NIX} store verify {FRESH} --option trusted-public-keys {KEY} --store {URL} --no-contents"

START = [f"nix-instantiate HERE/{RECIPE}", PLANNED]
LOOK = [READ, f"{VERIFY} --recursive {TORCH}"]
NEEDING = [f"nix-store --query --requisites {DERIVATION}", "nix-instantiate HERE/.flox/pkgs/numpy.nix"]
RUN = [f"nix-build {RECIPE} --out-link result-torch", READ]
MADE = [*RUN, CLOSURE, DUMP, MODULES]
COMPARED = [f"{LACKS_THERE} {NUMPY} {TORCH}", f"{HASHES} {WHERE}"]
SHARED = [READ, *MADE, *COMPARED, READ]

TO_BUILD, NEED_TO_BUILD = (f"echo '  {lines}' >&2" for lines in (DERIVATION, f"{DERIVATION}\n  {NEEDED}"))
USES = {f"*--requisites {DERIVATION}": says(NEEDED, DERIVATION)}
UNSIGNED = {"*store verify*": fails("unsigned")}


class Case(NamedTuple):
    """A call in a job, the answers that are special, its result, its commands, and what it prints."""

    job: JobContext
    call: Callable[[NixPrograms], object]
    answers: Mapping[str, str]
    result: object
    commands: list[str]
    printed: str = ""


def build(programs: NixPrograms) -> BuildResult:
    return programs.build(ORDER)


BUILDS = {
    "what is here": Case(ALONE, build, {}, RESULT, [*START, *MADE]),
    "what is nowhere": Case(ALONE, build, {"*--dry-run*": TO_BUILD}, BUILT, [*START, *MADE]),
    "a need that is here": Case(
        ALONE,
        lambda programs: programs.build(NEEDS),
        {"*--dry-run*": TO_BUILD, **USES},
        BUILT,
        [*START, *NEEDING, *MADE],
    ),
    "a need of another repository": Case(
        ALONE,
        lambda programs: programs.build(ORDER._replace(needs=(NeededVariant("numpy", "numpy", "import <other>"),))),
        {"*--dry-run*": TO_BUILD},
        "torch: needs numpy, but its recipe uses another derivation than the recipe of numpy [needs-other]",
        [*START, NEEDING[0], "nix-instantiate --expr import <other>"],
    ),
    "a need that is nowhere, without a cache": Case(
        ALONE,
        lambda programs: programs.build(NEEDS),
        {"*--dry-run*": NEED_TO_BUILD, **USES},
        "torch: needs numpy, which is neither in this machine's store nor in a cache, because the spec names none; "
        "build it first [needs-missing]",
        [*START, *NEEDING, PLANNED],
    ),
    "a need that the cache lacks": Case(
        CACHED,
        lambda programs: programs.build(NEEDS),
        {"*--dry-run*": NEED_TO_BUILD, f"{LACKS} {NUMPY}": says(NUMPY), **USES, **UNSIGNED},
        f"torch: needs numpy, which is neither in this machine's store nor in {URL}; build it first [needs-missing]",
        [
            *(*START, *LOOK, *NEEDING),
            *(f"{NIX} store cat {NEEDED}", f"{LACKS} {NUMPY}", f"{COPY} {NUMPY}", PLANNED),
        ],
    ),
    "a need that was staged": Case(
        CACHED,
        lambda programs: programs.build(NEEDS._replace(staged=(path("scipy-staged"), path("numpy-staged")))),
        {"*--dry-run*": once(NEED_TO_BUILD, TO_BUILD), **USES, **UNSIGNED},
        BUILT,
        [
            *(*START, *LOOK, *NEEDING),
            f"{NIX} copy {FRESH} --from {URL} {path('numpy-staged')}",
            f"nix-store --delete {path('numpy-staged')}",
            *(f"{NIX} store cat {NEEDED}", f"{LACKS} {NUMPY}", PLANNED, *SHARED),
        ],
    ),
    "what the cache has signed": Case(
        CACHED,
        build,
        {"*--dry-run*": once(TO_BUILD, ":")},
        RESULT,
        [*START, *LOOK, f"{COPY} {TORCH}", PLANNED, *MADE, *COMPARED, READ],
    ),
    "a signed build that cannot be fetched": Case(
        CACHED,
        build,
        {"*--dry-run*": TO_BUILD, f"{NIX} copy *": fails("no route")},
        BUILT,
        [*START, *LOOK, *[f"{COPY} {TORCH}"] * 2, *SHARED],
        f"torch is built here; it cannot be fetched from {URL}: no route\n",
    ),
    "a build of something else": Case(
        ALONE,
        build,
        {
            "nix-build *": f"ln -s {DOC} result-torch",
            "*--deriver*": says(path("doc.drv")),
            f"{NIX} store cat {path('doc.drv')}": derived(DOC, TORCH),
            "*--requisites *": says(NUMPY, TORCH, DOC),
            "*--dump-db *": says(*DUMPED, DOC, "00" * 32, "8", "", "0"),
        },
        RESULT._replace(
            derivation=path("doc.drv"),
            store_path=DOC,
            outputs=(TORCH, DOC),
            closure_size=8,
            closure={**RESULT.closure, DOC: HASH},
        ),
        [
            *(*START, *RUN, f"{LACKS} {DOC}", f"nix-store --query --deriver {DOC}"),
            *(f"{NIX} store cat {path('doc.drv')}", f"{CLOSURE} {DOC}", f"{DUMP} {DOC}", MODULES),
        ],
    ),
    "a build with an output that is not there": Case(
        ALONE,
        build,
        {
            READ: derived(TORCH, DOC),
            f"*--requisites {TORCH} {DOC}": fails("not valid"),
            f"{LACKS} *": says(DOC),
        },
        RESULT,
        [*START, *RUN, f"{CLOSURE} {DOC}", f"{LACKS} {TORCH} {DOC}", CLOSURE, DUMP, MODULES],
    ),
    "a build that is not there": Case(
        ALONE,
        build,
        {"*--requisites *": fails("not valid"), f"{LACKS} *": says(TORCH)},
        f"torch: result-torch leads to {TORCH}, which is not valid in the store [result-missing]",
        [*START, *RUN, CLOSURE, f"{LACKS} {TORCH}"],
    ),
    "a build without a link": Case(
        ALONE,
        build,
        {"nix-build *": ":"},
        "torch: the build succeeded, but left no link result-torch [result-missing]",
        [*START, RUN[0]],
    ),
    "a build that fails": Case(
        ALONE,
        build,
        {"nix-build *": "echo no compiler; exit 3"},
        "torch: the build ended with status 3 after 0 s; the end of build.log: [build-failed]",
        [*START, RUN[0]],
        "no compiler\n",
    ),
    "a build that the cache has": Case(CACHED, build, {}, RESULT, [*START, *MADE, *COMPARED, READ]),
    "a build that is staged": Case(
        CACHED,
        build,
        {f"{LACKS_THERE} *": says(TORCH), "nix-store --add *": says(path("staged"))},
        RESULT._replace(staged=path("staged")),
        [
            *(*START, *MADE, COMPARED[0], f"nix-store --query --hash {NUMPY} {WHERE}"),
            f"{NIX} copy {FRESH} --no-recursive --to file://ci-runner-staged/torch-staged?compression=none {TORCH}",
            "nix-store --add ci-runner-staged/torch-staged",
            f"{NIX} copy {FRESH} --to {URL} {path('staged')}",
            *(f"nix-store --delete {path('staged')}", READ),
        ],
    ),
    "a build that differs from that of the cache": Case(
        CACHED,
        build,
        {f"{HASHES} {WHERE}": says(HASH, OTHER_HASH), "*dump-path*": fails("no file"), "*--add*": says(path("staged"))},
        RESULT._replace(
            staged=path("staged"),
            remarks=(f"{URL} has another build of {TORCH} (published), which differs: it cannot be read: no file",),
        ),
        [
            *(*START, *MADE, *COMPARED, LOOK[1], f"{NIX} store dump-path {TORCH}"),
            f"{NIX} copy {FRESH} --no-recursive --to file://ci-runner-staged/torch-staged?compression=none {TORCH}",
            "nix-store --add ci-runner-staged/torch-staged",
            f"{NIX} copy {FRESH} --to {URL} {path('staged')}",
            *(f"nix-store --delete {path('staged')}", READ),
        ],
    ),
    "a build that cannot be staged": Case(
        CACHED,
        build,
        {f"{LACKS_THERE} *": says(TORCH), f"{NIX} copy *": fails("no space")},
        f"torch: {TORCH} cannot be copied to {URL}: no space [push-failed]",
        [
            *(*START, *MADE, COMPARED[0], f"nix-store --query --hash {NUMPY} {WHERE}"),
            f"{NIX} copy {FRESH} --no-recursive --to file://ci-runner-staged/torch-staged?compression=none {TORCH}",
        ],
    ),
    "a build whose cache needs a further program": Case(
        OWN,
        build,
        {},
        "aws: aws is not on PATH; install the AWS CLI: Nix itself copies only whole closures to S3 [program-missing]",
        [],
    ),
}

FETCH = f"{COPY} {TORCH}"
ABSENT = {HASHES: once(fails("not valid"), says(HASH, HASH)), f"{LACKS} *": says(TORCH), f"*--hash {NUMPY}": says(HASH)}
LOOKED = [HASHES, f"{LACKS} {NUMPY} {TORCH}", f"nix-store --query --hash {NUMPY}"]
HELD = [f"{HASHES} {WHERE}"]
PROVED = f"{NIX} copy {FRESH} --no-check-sigs --from {URL} {TORCH}"


def fetch(programs: NixPrograms) -> bool:
    return programs.fetch(BUILD)


FETCHES = {
    "a build that is here": Case(ALONE, fetch, {HASHES: says(HASH, HASH)}, False, [HASHES]),
    "a build that is nowhere": Case(
        ALONE,
        fetch,
        ABSENT,
        f"torch: {TORCH} is not in this machine's store, and the spec names no `cache` to fetch it from "
        "[closure-missing]",
        LOOKED,
    ),
    "a build that the cache has": Case(CACHED, fetch, ABSENT, True, [*LOOKED, *HELD, PROVED, HASHES]),
    "a signed build": Case(
        CACHED,
        fetch,
        {f"{HASHES} {WHERE}": says(HASH, OTHER_HASH), **ABSENT},
        True,
        [*LOOKED, *HELD, FETCH, HASHES],
    ),
    "a build that the cache lacks": Case(
        CACHED,
        fetch,
        {f"{NIX} copy *": fails("no such path"), **ABSENT},
        f"torch: {TORCH} is not in this machine's store, and cannot be fetched from {URL}: no such path "
        "[closure-missing]",
        [*LOOKED, *HELD, PROVED, PROVED],
    ),
    "a build that is not there after all": Case(
        CACHED,
        fetch,
        {**ABSENT, HASHES: fails("not valid")},
        f"torch: {TORCH} is not in this machine's store, and cannot be fetched from {URL}:  [closure-missing]",
        [*LOOKED, *HELD, PROVED, *LOOKED],
    ),
    "another build in the cache": Case(
        CACHED,
        fetch,
        {**ABSENT, HASHES: once(fails("not valid"), says(HASH, OTHER_HASH))},
        f"torch: {URL} has another build of {TORCH} than the one that the manifest describes [content-differs]",
        [*LOOKED, *HELD, PROVED, HASHES],
    ),
    "another build here": Case(
        CACHED,
        fetch,
        {HASHES: once(says(HASH, OTHER_HASH), says(HASH, HASH)), f"{LACKS} *": says(TORCH)},
        True,
        [
            *(HASHES, f"nix-store --query --referrers-closure {TORCH}", f"nix-store --delete {TORCH}"),
            *(f"{LACKS} {NUMPY} {TORCH}", *HELD, PROVED, HASHES),
        ],
    ),
    "another build that was not deleted": Case(
        CACHED,
        fetch,
        {HASHES: says(HASH, OTHER_HASH)},
        False,
        [
            *(HASHES, f"nix-store --query --referrers-closure {TORCH}", f"nix-store --delete {TORCH}"),
            f"{LACKS} {NUMPY} {TORCH}",
        ],
    ),
    "another build that is in use": Case(
        CACHED,
        fetch,
        {HASHES: says(HASH, OTHER_HASH), "nix-store --delete *": fails("in use")},
        f"torch: the store has another build of {TORCH}, which cannot be deleted: in use [content-differs]",
        [HASHES, f"nix-store --query --referrers-closure {TORCH}", f"nix-store --delete {TORCH}"],
    ),
    "a staged build that is gone": Case(
        CACHED,
        lambda programs: programs.fetch(Build(staged=path("staged"))),
        {f"{NIX} copy * {path('staged')}": fails("gone"), f"{NIX} copy *": fails("no such path"), **ABSENT},
        f"torch: {TORCH} is not in this machine's store, and cannot be fetched from {URL}: gone [closure-missing]",
        [*LOOKED, f"{NIX} copy {FRESH} --from {URL} {path('staged')}", *HELD, PROVED, PROVED],
    ),
    "a published build whose staged one is gone": Case(
        CACHED,
        lambda programs: programs.fetch(Build(staged=path("staged"))),
        {f"{NIX} copy * {path('staged')}": fails("gone"), **ABSENT},
        True,
        [*LOOKED, f"{NIX} copy {FRESH} --from {URL} {path('staged')}", *HELD, PROVED, HASHES],
    ),
    "the build of a recipe": Case(
        ALONE,
        lambda programs: programs.fetch_recipe("torch", RECIPE),
        {},
        RESULT,
        [START[0], READ, f"{LACKS} {TORCH}", READ, CLOSURE, DUMP, MODULES],
    ),
    "the build of a recipe of another tree": Case(
        CACHED._replace(recipes=Path("tree")),
        lambda programs: programs.fetch_recipe("torch", RECIPE),
        {f"{LACKS} *": once(says(TORCH), ":")},
        RESULT,
        [
            f"nix-instantiate HERE/tree/{RECIPE}",
            READ,
            f"{LACKS} {TORCH}",
            FETCH,
            f"{LACKS} {TORCH}",
            READ,
            CLOSURE,
            DUMP,
            MODULES,
        ],
    ),
    "the build of a recipe that is nowhere": Case(
        ALONE,
        lambda programs: programs.fetch_recipe("torch", RECIPE),
        {f"{LACKS} *": says(TORCH)},
        f"torch: {TORCH} is neither in this machine's store nor in a cache, because the spec names none; build torch "
        "first [closure-missing]",
        [START[0], READ, f"{LACKS} {TORCH}"],
    ),
}

PROVES = [START[0], READ]
RECORD = path("record")
FIXED = "nix-store --print-fixed-path sha256 {} ci-runner-record"


def prove(programs: NixPrograms) -> None:
    programs.prove(BUILD, RECIPE)


OTHERS = {
    "attributes": Case(
        ALONE,
        lambda programs: programs.evaluate(RECIPE),
        {},
        {"out": TORCH, "version": "2.8.0"},
        [START[0], READ],
    ),
    "several variants of one recipe": Case(
        ALONE,
        lambda programs: programs.build_joined(ORDER, [JoinedVariant("torch", (), Path())]),
        {},
        "joins: torch: a recipe makes one variant [join-unusable]",
        [],
    ),
    "a closure": Case(ALONE, lambda programs: programs.closure(BUILD), {}, (NUMPY, TORCH), [CLOSURE]),
    "the closure of a build that is not here": Case(
        ALONE,
        lambda programs: programs.closure(BUILD),
        {CLOSURE: fails("not valid"), f"{LACKS} *": says(TORCH)},
        (),
        [CLOSURE, f"{LACKS} {TORCH}"],
    ),
    "a closure that Nix does not say": Case(
        ALONE,
        lambda programs: programs.closure(BUILD),
        {CLOSURE: fails("the database is locked")},
        f"{TORCH}: the database is locked [nix]",
        [CLOSURE, f"{LACKS} {TORCH}"],
    ),
    "an interpreter": Case(
        ALONE,
        lambda programs: programs.interpreter(BUILD, Path()),
        {},
        Interpreter(program="", home=TORCH, lacks="has no lib/python3.X/site-packages to import from"),
        [],
    ),
    "records": Case(
        CACHED,
        lambda programs: programs.recorded(["first", "second"]),
        {"*--print-fixed-path*": once(says(RECORD), says(NUMPY)), f"{LACKS_THERE} *": says(NUMPY)},
        ("first",),
        [
            FIXED.format("a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e"),
            FIXED.format("16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4"),
            f"{LACKS_THERE} {RECORD} {NUMPY}",
        ],
    ),
    "records without a cache": Case(ALONE, lambda programs: programs.recorded(["text"]), {}, (), []),
    "records of a cache that does not answer": Case(
        CACHED,
        lambda programs: programs.recorded([]) or programs.recorded(["first"]),
        {f"{LACKS_THERE} *": fails("no route")},
        (),
        [
            FIXED.format("a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e"),
            f"{LACKS_THERE} ",
        ],
    ),
    "a new record": Case(
        CACHED,
        lambda programs: programs.record("text"),
        {"*--add-fixed*": says(RECORD)},
        None,
        [
            "nix-store --add-fixed sha256 ci-runner-text/ci-runner-record",
            f"{NIX} copy {FRESH} --to {URL} {RECORD}",
        ],
    ),
    "a new record without a cache": Case(ALONE, lambda programs: programs.record("text"), {}, None, []),
    "a new record that the cache refuses": Case(
        CACHED,
        lambda programs: programs.record("text"),
        {"*--add-fixed*": says(RECORD), f"{NIX} copy *": fails("denied")},
        f"ci-runner-record: the record cannot be copied to {URL}: denied [push-failed]",
        [
            "nix-store --add-fixed sha256 ci-runner-text/ci-runner-record",
            f"{NIX} copy {FRESH} --to {URL} {RECORD}",
        ],
    ),
    "a secret": Case(
        ALONE._replace(secrets={"KEY": Secret("hush")}),
        lambda programs: programs.given("KEY"),
        {},
        Secret("hush"),
        [],
    ),
    "no secret": Case(
        ALONE,
        lambda programs: programs.given("KEY"),
        {},
        "KEY: is not set; the secret of GitHub's environment goes into the step that publishes [secret-missing]",
        [],
    ),
    "a proof": Case(ALONE, prove, {}, None, [*PROVES, DUMP]),
    "a proof after a fetch": Case(
        CACHED,
        prove,
        {
            "*--dump-db*": once(fails("no dump"), says(*DUMPED)),
            f"*--hash {TORCH}": once(fails("no hash"), says(HASH)),
            f"{LACKS} *": says(TORCH),
        },
        None,
        [
            *(*PROVES, DUMP, f"nix-store --query --hash {TORCH}", f"{LACKS} {TORCH}", *HELD, PROVED),
            *(f"nix-store --query --hash {TORCH}", DUMP),
        ],
    ),
    "an output of another recipe": Case(
        ALONE,
        lambda programs: programs.prove(Build(outputs=(TORCH, DOC)), RECIPE),
        {},
        f"torch: {DOC} is not an output of {RECIPE} at {'c' * 12}, which evaluates to {DERIVATION} [foreign-output]",
        PROVES,
    ),
    "another derivation": Case(
        ALONE,
        lambda programs: programs.prove(Build(derivation=NEEDED), RECIPE),
        {},
        f"torch: {NEEDED} is not the derivation of {RECIPE} at {'c' * 12}, which evaluates to {DERIVATION} "
        "[foreign-output]",
        PROVES,
    ),
    "an output that is not stated": Case(
        ALONE,
        prove,
        {READ: derived(TORCH, DOC)},
        f"torch: {DOC} is an output of {RECIPE} at {'c' * 12}, and the build does not state it [foreign-output]",
        PROVES,
    ),
    "a path that is only in one closure": Case(
        ALONE,
        lambda programs: programs.prove(Build(closure={TORCH: HASH}), RECIPE),
        {f"*--hash {TORCH}": says(HASH)},
        f"torch: {NUMPY} is in the closure of only one of the build that was tested and the one in the store "
        "[content-differs]",
        [*PROVES, f"nix-store --dump-db {TORCH}", f"nix-store --query --hash {TORCH}", CLOSURE],
    ),
    "another content of a path": Case(
        ALONE,
        lambda programs: programs.prove(Build(closure={NUMPY: OTHER_HASH, TORCH: HASH}), RECIPE),
        {f"*--hash {TORCH}": says(HASH), HASHES: says(HASH, HASH), "nix-store --delete *": fails("in use")},
        f"torch: the store has another build of {NUMPY}, which cannot be deleted: in use [content-differs]",
        [
            *(*PROVES, DUMP, f"nix-store --query --hash {TORCH}", CLOSURE, HASHES),
            *(f"nix-store --query --referrers-closure {NUMPY}", f"nix-store --delete {NUMPY}"),
        ],
    ),
    "an upload": Case(ALONE, lambda programs: programs.upload(BUILD), {}, "", []),
    "records of tests": Case(
        CACHED,
        lambda programs: [programs.attested(BUILD, ["cpu-test"]), programs.attest(BUILD, ["cpu-test"])],
        {f"{VERIFY} *": fails("none")},
        [False, None],
        [CLOSURE, DUMP, f"{VERIFY} RECORDS"],
    ),
    "records of tests of what the closure has of a recipe": Case(
        CACHED,
        lambda programs: [
            programs.attested(BUILD, ["cpu-test"], RECIPE),
            programs.attest(BUILD, ["cpu-test"], RECIPE),
        ],
        {READ: derived(NUMPY, DOC)},
        [True, None],
        [*PROVES, f"nix-store --query --requisites {NUMPY}", DUMP, f"{VERIFY} RECORDS", READ],
    ),
}


@pytest.fixture
def run(nix: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Case], object]:
    """Runs a case in a repository where an earlier build has left its link; the result without times."""
    monkeypatch.chdir(tmp_path)
    Path("result-torch").symlink_to("earlier")

    def called(case: Case) -> object:
        nix.answer(case.answers)
        nix.answer({command: answer for command, answer in ANSWERS.items() if command not in case.answers})
        found = outcome(lambda: case.call(NixPrograms(case.job)))
        return found._replace(started=STARTED, seconds=0) if isinstance(found, BuildResult) else found

    return called


@pytest.mark.parametrize("name", [*BUILDS, *FETCHES, *OTHERS])
def test_a_question_of_a_job_is_these_commands_and_this_answer(
    nix: Programs, run: Callable[[Case], object], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = (BUILDS | FETCHES | OTHERS)[name]
    assert run(case) == case.result
    commands = [re.sub(r"(/nix/store/\w{32}-ci-runner-tested ?)+", "RECORDS", command) for command in nix.commands]
    assert [MODULES if command.startswith(MODULES) else command for command in commands] == case.commands
    assert capsys.readouterr().out == case.printed

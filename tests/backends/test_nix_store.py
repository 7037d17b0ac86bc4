"""Nix' store through Nix' own programs: the commands of each question, and what of the answers counts.

Last: what is read of a derivation's file and in one answer is what Nix itself says.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ci_compiler.backends import nix_store
from ci_compiler.backends.nar import text_archive
from ci_compiler.backends.nix_store import NixStore, PathInfo, reachable, signing
from ci_compiler.errors import InputError, StageError
from ci_compiler.process import Ended
from ci_compiler.secret import Secret
from ci_compiler.spec.model import Cache
from tests.backends.programs import CACHE, FRESH, KEY, NIX, Programs, fails, path, says
from tests.runner.jobs.conftest import world, worlds
from tests.runner.jobs.world import TORCH, VISION, World, recipe

__all__ = ["world", "worlds"]

BUILT, NUMPY, DERIVATION = path("torch-2.8.0"), path("numpy-2.0"), path("torch-2.8.0.drv")
URL = CACHE.url
WHERE = f"{FRESH} --store {URL}"
HASH = f"sha256:{'0' * 52}"
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
ABC_32 = "1b8m03r63zqhnjf7l5wnldhh7c134ap5vpj0850ymkq1iyzicy5s"
"""The hash of "abc" (FIPS 180-2, example B.1), and as `nix-hash --type sha256 --to-base32` prints it."""

DUMPED = (BUILT, "00" * 32, "120", DERIVATION, "1", NUMPY, NUMPY, ABC, "24", "", "0")
INFOS = {
    BUILT: PathInfo(content=HASH, size=120, references=(NUMPY,)),
    NUMPY: PathInfo(content=f"sha256:{ABC_32}", size=24, references=()),
}
SECRET = Secret("cache-1:hush")
S3 = Cache(url="s3://cache?region=eu", public_key=KEY)
SSH = Cache(url="ssh-ng://cache", public_key=KEY)
RECIPE = Path("/repository/torch.nix")
SIGNED_TO = f"{NIX} copy {FRESH} --to {{}}secret-key=ci-runner-key/key"
TRUSTED = f"--option trusted-public-keys {KEY}"
VERIFY = f"{NIX} store verify {FRESH} {TRUSTED} --store {URL} --no-contents"
SIGNATURE = f"cache-1:{'A' * 86}=="

Case = tuple[Callable[[NixStore], object], Mapping[str, str], object, list[str]]

CASES: dict[str, Case] = {
    "a recipe": (
        lambda store: store.instantiate(RECIPE),
        {"nix-instantiate *": says(f"{DERIVATION}!dev")},
        DERIVATION,
        [f"nix-instantiate {RECIPE}"],
    ),
    "an expression": (
        lambda store: store.instantiate_expression("torch", "import ./torch.nix"),
        {"nix-instantiate *": says(DERIVATION)},
        DERIVATION,
        ["nix-instantiate --expr import ./torch.nix"],
    ),
    "what remains to be built": (
        lambda store: store.to_build(DERIVATION),
        {"nix-store *": f"{says('will be built:', f'  {DERIVATION}', f'  {BUILT}', DERIVATION)} >&2"},
        frozenset({DERIVATION}),
        [f"nix-store --realise --dry-run {DERIVATION}"],
    ),
    "a deriver": (
        lambda store: store.deriver(BUILT),
        {"nix-store *": says(DERIVATION)},
        DERIVATION,
        [f"nix-store --query --deriver {BUILT}"],
    ),
    "no deriver": (
        lambda store: store.deriver(BUILT),
        {"nix-store *": says("unknown-deriver")},
        "",
        [f"nix-store --query --deriver {BUILT}"],
    ),
    "missing here": (
        lambda store: store.lacks([BUILT, NUMPY]),
        {"nix-store *": says(NUMPY)},
        (NUMPY,),
        [f"nix-store --check-validity --print-invalid {BUILT} {NUMPY}"],
    ),
    "missing there": (
        lambda store: store.lacks([BUILT], URL),
        {},
        (),
        [f"nix-store {WHERE} --check-validity --print-invalid {BUILT}"],
    ),
    "a closure": (
        lambda store: store.closure(BUILT, NUMPY),
        {"nix-store *": says(NUMPY, BUILT, NUMPY)},
        (NUMPY, BUILT),
        [f"nix-store --query --requisites {BUILT} {NUMPY}"],
    ),
    "references here": (
        lambda store: store.references([BUILT]),
        {"nix-store *": says(NUMPY, NUMPY)},
        (NUMPY,),
        [f"nix-store --query --references {BUILT}"],
    ),
    "references there": (
        lambda store: store.references([BUILT], URL),
        {},
        (),
        [f"nix-store --query --references {BUILT} {WHERE}"],
    ),
    "descriptions here": (
        lambda store: (store.described([BUILT, NUMPY]), store.closures([BUILT, NUMPY])),
        {"nix-store *": says(*DUMPED)},
        (INFOS, {BUILT: {BUILT, NUMPY}, NUMPY: {NUMPY}}),
        [f"nix-store --dump-db {BUILT} {NUMPY}"],
    ),
    "descriptions there": (
        lambda store: store.described([BUILT, NUMPY], URL),
        {"nix-store *": says(*DUMPED)},
        INFOS,
        [f"nix-store {WHERE} --dump-db {BUILT} {NUMPY}"],
    ),
    "closures": (
        lambda store: store.closures([BUILT]),
        {"*--requisites *": says(NUMPY, BUILT), "*--dump-db *": says(*DUMPED)},
        {BUILT: {BUILT, NUMPY}},
        [f"nix-store --query --requisites {BUILT}", f"nix-store --dump-db {NUMPY} {BUILT}"],
    ),
    "deletion": (
        lambda store: store.delete([NUMPY]).status,
        {"*--referrers-closure *": says(NUMPY, BUILT), "nix-store --delete *": fails("in use")},
        1,
        [f"nix-store --query --referrers-closure {NUMPY}", f"nix-store --delete {NUMPY} {BUILT}"],
    ),
    "a path that is done with": (
        lambda store: store.discard(NUMPY),
        {"nix-store --delete *": fails("in use")},
        None,
        [f"nix-store --delete {NUMPY}"],
    ),
    "the path of a text": (
        lambda store: store.text_path("note", "abc"),
        {"nix-store *": says(NUMPY)},
        NUMPY,
        ["nix-store --print-fixed-path sha256 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad note"],
    ),
    "a text": (
        lambda store: store.add_text("note", "abc"),
        {"nix-store *": 'read -r text <"$3" || :; echo "$text"'},
        "abc",
        ["nix-store --add-fixed sha256 ci-runner-text/note"],
    ),
    "a folder": (
        lambda store: store.add(Path("/some/folder")),
        {"nix-store *": says(NUMPY)},
        NUMPY,
        ["nix-store --add /some/folder"],
    ),
    "a fetch": (
        lambda store: store.fetch(CACHE, [BUILT, NUMPY]).status,
        {},
        0,
        [f"{NIX} copy {FRESH} --option extra-trusted-public-keys {KEY} --from {URL} {BUILT} {NUMPY}"],
    ),
    "a fetch that fails twice": (
        lambda store: store.fetch(CACHE, [NUMPY], proved=True).said,
        {"nix *": fails("no route")},
        "no route",
        [f"{NIX} copy {FRESH} --no-check-sigs --from {URL} {NUMPY}"] * 2,
    ),
    "a fetch of nothing": (lambda store: store.fetch(CACHE, []), {}, Ended(status=0), []),
    "a copy without the closure": (
        lambda store: store.copy_alone(Path(), [NUMPY, BUILT], [BUILT], options="?compression=none").out,
        {"nix *": "ls *.narinfo"},
        f"{NUMPY[11:43]}.narinfo\n",
        [f"{NIX} copy {FRESH} --no-recursive --to file://.?compression=none {BUILT}"],
    ),
    "a signed copy without the closure": (
        lambda store: store.copy_alone(Path(), [NUMPY], [NUMPY], key=Path("/a key")).status,
        {},
        0,
        [f"{NIX} copy {FRESH} --no-recursive --to file://.?secret-key=/a%20key {NUMPY}"],
    ),
    "a push without a key": (
        lambda store: store.push(CACHE, [BUILT], None, RECIPE).status,
        {},
        0,
        [f"{NIX} copy {FRESH} --to {URL} {BUILT}"],
    ),
    "a push to a store": (
        lambda store: store.push(SSH, [BUILT], SECRET, RECIPE).status,
        {},
        0,
        [
            f"{NIX} store sign {FRESH} --key-file ci-runner-key/key --recursive {BUILT}",
            f"{NIX} copy {FRESH} --to ssh-ng://cache {BUILT}",
        ],
    ),
    "a push that signs nothing": (
        lambda store: store.push(SSH, [BUILT], SECRET, RECIPE).said,
        {"*store sign*": fails("the key is cache-1:hush")},
        "the key is ***",
        [f"{NIX} store sign {FRESH} --key-file ci-runner-key/key --recursive {BUILT}"],
    ),
    "a push": (
        lambda store: store.push(CACHE, [BUILT], SECRET, RECIPE).status,
        {},
        0,
        [f"{SIGNED_TO.format(f'{URL}?')} {BUILT}", f"{VERIFY} --recursive {BUILT}"],
    ),
    "a push that fails": (
        lambda store: store.push(S3, [BUILT], SECRET, RECIPE).said,
        {"nix *": fails("cache-1:hush is refused")},
        "*** is refused",
        [f"{SIGNED_TO.format(f'{S3.url}&')} {BUILT}"],
    ),
    "a push of what is there unsigned": (
        lambda store: store.push(CACHE, [BUILT], SECRET, RECIPE).status,
        {
            f"*verify*--no-contents {NUMPY}": "",
            "*store verify*": fails("unsigned"),
            "*--requisites *": says(NUMPY, BUILT),
            "*--dump-db *": says(*DUMPED),
        },
        0,
        [
            f"{SIGNED_TO.format(f'{URL}?')} {BUILT}",
            f"{VERIFY} --recursive {BUILT}",
            f"nix-store --query --requisites {BUILT}",
            f"{VERIFY} {NUMPY}",
            f"{VERIFY} {BUILT}",
            f"nix-store --dump-db {BUILT}",
            f"nix-store {WHERE} --dump-db {BUILT}",
            f"{NIX} store sign {FRESH} --key-file ci-runner-key/key --store {URL} {BUILT}",
        ],
    ),
    "a text for the cache": (
        lambda store: store.push_text(CACHE, NUMPY).status,
        {},
        0,
        [f"{NIX} copy {FRESH} --to {URL} {NUMPY}"],
    ),
    "a signature here": (
        lambda store: store.is_signed_here(NUMPY),
        {"nix *": says(f"{NUMPY} {SIGNATURE}")},
        True,
        [f"{NIX} path-info --sigs {NUMPY}"],
    ),
    "no signature here": (
        lambda store: store.is_signed_here(NUMPY),
        {"nix *": says(f"{NUMPY} ultimate")},
        False,
        [f"{NIX} path-info --sigs {NUMPY}"],
    ),
    "hashes here": (
        lambda store: store.contents([BUILT, NUMPY]),
        {"nix-store *": says(HASH, "sha256:1")},
        {BUILT: HASH, NUMPY: "sha256:1"},
        [f"nix-store --query --hash {BUILT} {NUMPY}"],
    ),
    "the same content there": (
        lambda store: store.holds(CACHE, {NUMPY: HASH}),
        {"nix-store *": says(HASH)},
        True,
        [f"nix-store --query --hash {NUMPY} {WHERE}"],
    ),
    "other content there": (
        lambda store: store.holds(CACHE, {NUMPY: HASH}),
        {"nix-store *": says("sha256:1")},
        False,
        [f"nix-store --query --hash {NUMPY} {WHERE}"],
    ),
    "no content there": (
        lambda store: store.holds(CACHE, {NUMPY: HASH}),
        {"nix-store *": fails("no such path")},
        False,
        [f"nix-store --query --hash {NUMPY} {WHERE}"],
    ),
    "what the cache has otherwise, or not": (
        lambda store: (
            store.uncarried(CACHE, {BUILT: HASH, NUMPY: HASH, DERIVATION: HASH}, RECIPE),
            store.differing(CACHE, {BUILT: HASH, NUMPY: HASH, DERIVATION: HASH}),
        ),
        {"*--check-validity*": says(NUMPY), "*--hash*": says("sha256:1", HASH)},
        ({BUILT: "sha256:1", NUMPY: ""}, [BUILT]),
        [
            f"nix-store {WHERE} --check-validity --print-invalid {BUILT} {NUMPY} {DERIVATION}",
            f"nix-store --query --hash {BUILT} {DERIVATION} {WHERE}",
        ]
        * 2,
    ),
    "valid signatures": (
        lambda store: [store.signed(CACHE, [BUILT]), store.verified(CACHE, [BUILT, NUMPY])],
        {},
        [True, True],
        [f"{VERIFY} --recursive {BUILT}", f"{VERIFY} {BUILT} {NUMPY}"],
    ),
    "signatures by other keys": (
        lambda store: store.signed_by(["a:1", "b:2"], URL, [NUMPY]),
        {"nix *": fails("unsigned")},
        False,
        [f"{NIX} store verify {FRESH} --option trusted-public-keys a:1 b:2 --store {URL} --no-contents {NUMPY}"],
    ),
    "a file there": (
        lambda store: store.cat(NUMPY, URL).out,
        {"nix *": says("text")},
        "text\n",
        [f"{NIX} store cat {WHERE} {NUMPY}"],
    ),
    "a cache that answers": (lambda store: store.reach(CACHE), {}, None, [f"{NIX} store ping --store {URL}"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_question_is_these_commands_and_this_answer(
    nix: Programs, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, answers, result, commands = CASES[case]
    monkeypatch.chdir(tmp_path)
    nix.answer(answers)
    assert call(NixStore(seconds=60)) == result
    assert nix.commands == commands
    assert not list(nix.temporary.iterdir())


WRONG: dict[str, tuple[Callable[[NixStore], object], Mapping[str, str], str]] = {
    "a recipe with an error": (
        lambda store: store.instantiate(RECIPE),
        {"*": f"echo {DERIVATION}; {fails('undefined variable')}"},
        "torch.nix: undefined variable [recipe-evaluation]",
    ),
    "two derivations": (
        lambda store: store.instantiate_expression("torch", "[ ]"),
        {"*": says(DERIVATION, DERIVATION)},
        "torch: it is not one derivation [recipe-evaluation]",
    ),
    "a query that fails": (
        lambda store: store.closure(BUILT, NUMPY),
        {"*": fails("not valid")},
        f"{NUMPY}: not valid [nix]",
    ),
    "a description that fails": (
        lambda store: store.described([BUILT, NUMPY]),
        {"*": fails("not valid")},
        f"{BUILT}: not valid [nix]",
    ),
    "a description of another form": (
        lambda store: store.described([BUILT, NUMPY]),
        {"*": says(*DUMPED[:5])},
        f"{BUILT}: nix-store --dump-db answers in a form that is not known [nix]",
    ),
    "a file that is nowhere": (
        lambda store: store.inputs(DERIVATION),
        {"*": fails("no such file")},
        f"{DERIVATION}: no such file [nix]",
    ),
    "another file": (
        lambda store: store.outputs(DERIVATION),
        {"*": says("text")},
        f"{DERIVATION}: does not have the form of a derivation [nix]",
    ),
    "a cache that does not answer": (
        lambda store: store.reach(CACHE),
        {"*": fails("no route")},
        f"{URL}: it does not answer here: no route [cache-unreachable]",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_of_nix_is_one_of_the_stage(nix: Programs, case: str) -> None:
    call, answers, message = WRONG[case]
    nix.answer(answers)
    with pytest.raises(StageError) as raised:
        call(NixStore(seconds=60))
    assert str(raised.value) == message


def test_a_program_that_is_missing_is_named(nix: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nix_store, "PROFILE", str(nix.folder / "none"))
    (nix.folder / "nix-instantiate").unlink()
    with pytest.raises(InputError) as raised:
        NixStore(seconds=60)
    assert str(raised.value) == (
        "nix-instantiate: nix-instantiate is not on PATH; install Nix (`apt install nix-bin` on Debian, or see "
        "https://nixos.org/download) [program-missing]"
    )


def test_a_program_that_takes_too_long_is_ended(nix: Programs) -> None:
    nix.answer({"*": "exec sleep 600"})
    assert NixStore(seconds=0.1).cat(NUMPY, URL).said == "nix did not end within 0 s, and was ended"


DERIVED = rf"""Derive([("dev","{BUILT}-dev","",""),("out","{BUILT}","","")],[("{DERIVATION}",["dev","out"])],
["{NUMPY}"],"x86_64-linux","/bin/sh",["-e"],[("builder","/bin/sh"),("text","a\"\n\\\r\t"),("version","2.8.0")])""".replace(
    "\n", ""
)
STRUCTURED = r'Derive([("out","","r:sha256","")],[],[],"","",[],[("__json","{\"name\":\"torch\",\"list\":[1]}")])'


@pytest.mark.parametrize("there", [True, False])
def test_a_derivation_is_read_from_its_file_or_as_nix_prints_it(nix: Programs, tmp_path: Path, there: bool) -> None:
    store, derivation = NixStore(seconds=60), str(tmp_path / "torch.drv")
    nix.answer({f"{NIX} store cat {derivation}": says(DERIVED)})
    if there:
        Path(derivation).write_text(DERIVED, "utf-8")
    assert store.outputs(derivation) == (BUILT, f"{BUILT}-dev")
    assert store.inputs(derivation) == (DERIVATION, NUMPY)
    assert store.attributes(derivation) == {"builder": "/bin/sh", "text": 'a"\n\\\r\t', "version": "2.8.0"}
    assert nix.commands == [f"{NIX} store cat HERE/torch.drv"] * 3 * (not there)


def test_of_structured_attributes_the_texts_count_and_unknown_outputs_are_asked_for(
    nix: Programs, tmp_path: Path
) -> None:
    derivation = tmp_path / "torch.drv"
    derivation.write_text(STRUCTURED, "utf-8")
    nix.answer({"*": says(NUMPY, BUILT)})
    store = NixStore(seconds=60)
    assert store.attributes(str(derivation)) == {"name": "torch"}
    assert store.outputs(str(derivation)) == (BUILT, NUMPY)
    assert nix.commands == ["nix-store --query --outputs HERE/torch.drv"]


@pytest.mark.parametrize(
    ("answer", "modules"),
    [(says(f'["{NUMPY}", 1, "{BUILT}", "{NUMPY}"]'), (NUMPY, BUILT)), (fails("attribute missing"), ())],
)
def test_the_modules_of_a_package_are_evaluated(nix: Programs, answer: str, modules: tuple[str, ...]) -> None:
    nix.answer({"*": answer})
    assert NixStore(seconds=60).python_modules(RECIPE) == modules
    (command,) = nix.commands
    start, end = "nix-instantiate --eval --strict --json --expr { recipe }: ", ".requiredPythonModules"
    assert command.startswith(start)
    assert command.endswith(f"{end} --argstr recipe {RECIPE}")


def test_many_paths_are_asked_for_in_several_commands(nix: Programs) -> None:
    paths = [path(f"{number}") for number in range(1001)]
    nix.answer({"*--hash*": 'shift 2; echo "$*"', "*--references*": 'shift 2; echo "$*"'})
    store = NixStore(seconds=60)
    assert store.contents(paths) == {one: one for one in paths}
    assert store.references(paths) == tuple(paths)
    assert [len(command.split()) - 3 for command in nix.commands] == [500, 500, 1] * 2


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        (lambda store: store.copy(paths=[NUMPY], source=URL), 2),
        (lambda store: store.delete([NUMPY]), 2),
        (lambda store: store.discard(NUMPY), 2),
        (lambda store: store.described([NUMPY]), 1),
        (lambda store: store.copy(paths=[], source=URL), 1),
    ],
)
def test_what_is_known_of_paths_holds_until_the_store_changes(
    nix: Programs, change: Callable[[NixStore], object], asked: int
) -> None:
    nix.answer({"*--requisites*": says(NUMPY), "*--dump-db*": says(*DUMPED[6:])})
    store = NixStore(seconds=60)
    store.closures([NUMPY])
    change(store)
    store.closures([NUMPY])
    assert len([command for command in nix.commands if "--requisites" in command]) == asked


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        (lambda store: store.copy(paths=[NUMPY], to=URL), 2),
        (lambda store: store.sign(Path("key"), SECRET, NUMPY), 2),
        (lambda store: store.copy(paths=[NUMPY], source=URL), 1),
    ],
)
def test_a_valid_signature_is_verified_once_until_the_cache_changes(
    nix: Programs, change: Callable[[NixStore], object], asked: int
) -> None:
    store = NixStore(seconds=60)
    assert store.signed(CACHE, [NUMPY])
    change(store)
    assert store.signed(CACHE, [NUMPY])
    assert len([command for command in nix.commands if "verify" in command]) == asked
    nix.answer({"*verify*": fails("unsigned")})
    assert not store.verified(CACHE, [NUMPY])
    assert not store.verified(CACHE, [NUMPY])
    assert nix.commands == [f"{VERIFY} {NUMPY}"] * 2


@pytest.mark.parametrize("there", [(NUMPY, "ff" * 32, *DUMPED[8:]), (*DUMPED[6:10], "1", DERIVATION)])
def test_what_is_there_unsigned_and_is_not_the_same_is_replaced(
    nix: Programs, tmp_path: Path, there: tuple[str, ...]
) -> None:
    cache = Cache(url=f"file://{tmp_path}/cache", public_key=KEY)
    nix.answer({"*verify*": fails("unsigned"), "*--requisites *": says(NUMPY)})
    nix.answer({"nix-store *cache* --dump-db *": says(*there), "nix-store --dump-db *": says(*DUMPED[6:])})
    store = NixStore(seconds=60)
    refused = store.push(CACHE, [NUMPY], SECRET, RECIPE)
    assert refused == Ended(status=1, err=f"error: another build of {NUMPY} is there, and is not signed; remove it")
    folder = 'folder=$(expr "$*" : ".*file://\\([^?]*\\)"); mkdir "$folder/nar"; cd "$folder"; '
    made = f"{folder} echo new >nar/one.nar; echo entry >{NUMPY[11:43]}.narinfo; echo info >nix-cache-info"
    nix.answer({f"{NIX} copy * --no-recursive *": made})
    assert store.push(cache, [NUMPY], SECRET, RECIPE).status == 0
    assert (tmp_path / f"cache/{NUMPY[11:43]}.narinfo").read_text("utf-8") == "entry\n"
    assert nix.commands[-1] == (
        f"{NIX} copy {FRESH} --no-recursive --to file://ci-runner-cache?secret-key=ci-runner-key/key {NUMPY}"
    )
    nix.answer({f"{NIX} copy * --no-recursive *": fails("no space")})
    assert store.push(cache, [NUMPY], SECRET, RECIPE).said == "no space"


def test_builds_are_compared_file_by_file(nix: Programs) -> None:
    archive = text_archive("here").decode("latin-1")
    shell = "".join(char if char.isalnum() or char in "-()" else f"\\{ord(char):03o}" for char in archive)
    nix.answer({f"{NIX} store dump-path {FRESH} *": f"printf '{shell.replace('here', 'else')}'"})
    nix.answer({f"{NIX} store dump-path *": f"printf '{shell}'"})
    store = NixStore(seconds=60)
    assert store.difference(CACHE, NUMPY) == "1 of 1 file: ."
    assert nix.commands == [f"{NIX} store dump-path {NUMPY}", f"{NIX} store dump-path {WHERE} {NUMPY}"]
    nix.answer({f"{NIX} store dump-path {FRESH} *": fails("no such path")})
    assert store.difference(CACHE, NUMPY) == "it cannot be read: no such path"


def test_the_key_of_a_cache_is_part_of_its_address() -> None:
    assert signing("file:///cache", Path("/a b/key")) == "file:///cache?secret-key=/a%20b/key"
    assert signing("s3://cache?region=eu", Path("/key")) == "s3://cache?region=eu&secret-key=/key"


def test_what_is_not_described_is_taken_to_refer_to_nothing() -> None:
    assert reachable([BUILT, DERIVATION], INFOS) == {BUILT, NUMPY, DERIVATION}


# Nix itself.

ODD = """odd = "a\\"),(\\"b\\\\ \\n \\t"; list = [ "(" "," "," "," "," "),(" "],[" ]; file = ./flake.nix;"""
"""Values that look like other parts of a derivation, and a file of its own."""


def told(*arguments: str) -> list[str]:
    """The words that `nix-store --query` prints."""
    done = subprocess.run(["nix-store", "--query", *arguments], capture_output=True, encoding="utf-8", check=True)
    return done.stdout.split()


def test_a_derivation_is_read_as_nix_reads_it(world: World) -> None:
    world.write("flake", "{ }\n")
    world.write(VISION, recipe(VISION, "1.0", needs=TORCH, extra=ODD))
    store = NixStore(seconds=60)
    derivation = store.instantiate(world.root / f".flox/pkgs/{VISION}.nix")
    assert list(store.outputs(derivation)) == told("--outputs", derivation)
    inputs = store.inputs(derivation)
    assert sorted(inputs) == sorted(told("--references", derivation))
    assert any(one.endswith("-flake.nix") for one in inputs)
    assert store.attributes(derivation)["odd"] == 'a"),("b\\ \n \t'
    with pytest.raises(StageError, match="does not have the form of a derivation"):
        store.outputs(next(one for one in inputs if not one.endswith(".drv")))
    with pytest.raises(StageError):
        store.outputs(f"{derivation}-that-is-not-there")


def test_paths_are_described_as_nix_describes_them_here_and_in_a_cache(world: World) -> None:
    cache = world.cache()
    world.nix_build(f".flox/pkgs/{VISION}.nix", "--no-out-link")
    store = NixStore(seconds=60)
    outputs = store.outputs(store.instantiate(world.root / f".flox/pkgs/{VISION}.nix"))
    paths = told("--requisites", *outputs)
    assert len(paths) > len(outputs)
    assert world.nix("copy", "--to", cache["url"], *outputs).returncode == 0
    for url in ("", cache["url"]):
        infos = store.described(paths, url)
        for one in paths:
            assert [infos[one].content] == told("--hash", one)
            assert [str(infos[one].size)] == told("--size", one)
            assert sorted(infos[one].references) == sorted(told("--references", one))
    assert store.closures(outputs) == {path: set(told("--requisites", path)) for path in outputs}
    with pytest.raises(StageError, match="is not valid"):
        store.described([*paths, f"{paths[0]}-that-is-not-there"])


def test_a_path_that_is_gone_is_no_longer_known(world: World) -> None:
    world.nix_build(f".flox/pkgs/{TORCH}.nix", "--no-out-link")
    store = NixStore(seconds=60)
    (*_, path) = store.outputs(store.instantiate(world.root / f".flox/pkgs/{TORCH}.nix"))
    assert path in store.closures([path])[path]
    assert store.delete([path]).status == 0
    with pytest.raises(StageError, match="is not valid"):
        store.closures([path])

"""What is signed with a variant: its closure, only with what passed its tests, and with the content that was tested."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.backends.cache_files import held
from ci_compiler.runner.jobs.manifest import read_manifest
from ci_compiler.runner.jobs.publish import is_published
from ci_compiler.spec.build import parse_spec
from tests.runner.jobs.world import PYTHON, SPEC, TORCH, VISION, World, built_apart, ci_runner, recipe

JOB = f"python{PYTHON.replace('.', '')}-avx2"
"""The id of the job of the cell."""

PACKAGES = {TORCH: "pytorch", VISION: "torchvision"}


@dataclass(frozen=True, slots=True)
class Fleet:
    """A repository whose runs build TORCH, VISION needs it, and both are published into a signed cache."""

    world: World

    def run(self, *names: str, failed: str = "", again: bool = False, keep: bool = False, key: bool = True) -> int:
        """A run of the tip that builds and tests `names`, of which `failed` fails, and publishes; the exit code.

        With `keep`, the builds of the run before are those of this one. `key`: publishing has the key of the cache.
        """
        folder = self.world.root / "results"
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
            self.world.patch.delenv("NIX_CACHE_SIGNING_KEY", raising=False)
            staged: list[str] = []
            for name in names:
                options = ("--staged", " ".join(staged)) if staged else ()
                assert ci_runner("build", name, "--branch", "main", "--out", "build-output", *options) == 0
                shutil.copytree(self.world.root / "build-output", folder / f"build-{name}")
                staged += filter(None, [self.world.manifest["staged"]])
        result = "failure" if failed in names else "success"
        needs = json.dumps({JOB: {"result": result, "outputs": dict(self.reports(names, failed))}})
        if key:
            self.world.key()
        words = ("build-main-cpu", "--pool", "builder", "--chosen", json.dumps(names), "--commit", self.world.head)
        return ci_runner("publish-run", *words, "--needs", needs, *(["--again"] if again else []))

    def first(self, *names: str, failed: str = "", of: str = "fleet") -> None:
        """A first `run`, which is really made only once for all tests that begin with the same one, `of` this fleet."""

        def make() -> None:
            assert self.run(*names, failed=failed) == 0

        self.world.once("-".join([of, *names, failed]), make)
        self.world.key()

    def reports(self, names: tuple[str, ...], failed: str) -> dict[str, str]:
        """The digests that the jobs report; the results of the tests are written here."""
        found = {}
        for name in names:
            path = self.world.root / f"results/build-{name}/manifest.json"
            content, test = read_manifest(path).content, self.world.root / f"results/cpu-test-{name}/result.json"
            record = {"name": name, "branch": "main", "stage": "cpu-test", "content": content, "passed": name != failed}
            test.parent.mkdir(exist_ok=True)
            test.write_text(json.dumps(record), "utf-8")
            for stage, file in (("build", path), ("cpu-test", test)):
                found[f"{PACKAGES[name]}_{stage}"] = f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
        return found

    def manifest(self, name: str) -> dict[str, Any]:
        """The manifest of a build of the last run."""
        found: dict[str, Any] = json.loads((self.world.root / f"results/build-{name}/manifest.json").read_text("utf-8"))
        return found

    def change(self, name: str, text: str) -> None:
        """Commits a change of a recipe, which makes another derivation of it."""
        path = self.world.root / f".flox/pkgs/{name}.nix"
        path.write_text(path.read_text("utf-8").replace('PATH = "', f'{text} = "1";\n  PATH = "'), "utf-8")
        self.world.commit()

    def published(self, name: str) -> bool:
        """Whether a dispatch of `unpublished` would leave it out."""
        spec = parse_spec((self.world.root / ".github/ci-matrix.yaml").read_bytes(), shown="ci-matrix.yaml")
        return is_published(spec, self.world.root, "main", name)

    def signed(self) -> set[str]:
        """The paths in the cache that have a signature by its key."""
        cache = self.world.folder / "cache"
        every = [
            path for path in held(cache) if "Sig: cache-1:" in next(cache.glob(f"{Path(path).name[:32]}*")).read_text()
        ]
        return {Path(path).name[33:] for path in every}

    def records(self) -> list[Path]:
        """The entries of the records of tests in the cache."""
        return [
            file
            for file in (self.world.folder / "cache").glob("*.narinfo")
            if "-ci-runner-tested\n" in file.read_text()
        ]

    def outcome(self, name: str) -> str:
        """What the last run says of publishing `name`."""
        path = self.world.root / f"publish-output/{name}/published.json"
        found: str = json.loads(path.read_text("utf-8"))["result"]
        return found

    def content(self, path: str) -> str:
        """The hash of what the cache has of `path`."""
        done = self.world.nix("path-info", "--store", self.world.cache()["url"], "--json", path)
        found: str = json.loads(done.stdout)[0]["narHash"]
        return self.world.nix("hash", "to-base32", found).stdout.strip()


@pytest.fixture
def fleet(world: World) -> Fleet:
    def make() -> None:
        world.spec(cache=world.cache())
        (world.root / ".gitignore").write_text("*-output\nresult*\n", "utf-8")
        world.commit()

    world.once("fleet", make)
    return Fleet(world)


# Three pushes, of which the first breaks what the second needs.


def test_what_failed_in_one_run_is_not_signed_with_what_needs_it_in_the_next(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.first(TORCH, VISION, failed=TORCH)
    assert fleet.signed() == set()
    fleet.change(VISION, "second")
    capsys.readouterr()
    assert fleet.run(VISION) == 1
    said = capsys.readouterr()
    assert (
        f"error: {VISION}: {TORCH} is in its closure, and no signed record says that this content passed cpu-test"
        in said.err
    )
    assert "[no-test-record]" in said.err
    assert fleet.signed() == set()
    assert (fleet.published(TORCH), fleet.published(VISION)) == (False, False)
    fleet.change(TORCH, "third")
    assert fleet.run(TORCH, VISION) == 0
    names = {f"{TORCH}-2.8.0", f"{TORCH}-2.8.0-dev", f"{VISION}-0.23.0", f"{VISION}-0.23.0-dev", "ci-runner-tested"}
    assert fleet.signed() == names
    assert (fleet.published(TORCH), fleet.published(VISION)) == (True, True)


def share(fleet: Fleet, **extra: str) -> None:
    """Writes the derivation that TORCH's recipe and VISION's both take from a shared file."""
    shared = fleet.world.root / ".flox/library.nix"
    shared.write_text(recipe("library", "2.8.0", **extra), "utf-8")
    fleet.world.commit()


@pytest.fixture
def undeclared(fleet: Fleet) -> Fleet:
    """A fleet whose VISION is built with TORCH: neither the spec says so, nor a name in a recipe or a derivation."""
    vision = {key: value for key, value in SPEC["packages"]["torchvision"].items() if key != "needs"}
    fleet.world.spec(cache=fleet.world.cache(), packages=SPEC["packages"] | {"torchvision": vision})
    text = recipe(VISION, "0.23.0", 'cat "$need" >"$out"; echo "$need" >>"$out"', needs=TORCH)
    fleet.world.write(VISION, text.replace(f"./{TORCH}.nix", "../library.nix"))
    fleet.world.write(TORCH, "{ ... }: import ../library.nix { }\n")
    share(fleet)
    return fleet


def test_what_failed_is_not_signed_with_what_contains_it_without_declaring_it(
    undeclared: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = undeclared
    fleet.first(TORCH, VISION, failed=TORCH, of="undeclared")
    assert fleet.outcome(VISION) == f"no: {TORCH} did not pass cpu-test"
    assert fleet.signed() == set()
    fleet.change(VISION, "second")
    capsys.readouterr()
    assert fleet.run(VISION) == 1
    said = f"error: {VISION}: {TORCH} is in its closure, and no signed record says that this content passed cpu-test"
    assert said in capsys.readouterr().err
    assert fleet.signed() == set()
    share(fleet, extra='third = "1";')
    assert fleet.run(TORCH, VISION) == 0
    assert fleet.published(VISION)


def test_what_no_test_covers_is_not_signed_with_what_contains_it(
    undeclared: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = undeclared
    spec = json.loads((fleet.world.root / ".github/ci-matrix.yaml").read_text("utf-8"))
    tests = {"untested": {"torchvision-*": "It is a plain wrapper."}}
    spec["packages"]["torchvision"] |= tests
    spec["runners"] = {"builder": SPEC["runners"]["builder"] | {"stages": ["build", "publish"]}}
    spec["runners"]["h100"] = SPEC["runners"]["h100"] | {"stages": ["gpu-test"]}
    (fleet.world.root / ".github/ci-matrix.yaml").write_text(json.dumps(spec), "utf-8")
    fleet.world.commit()
    assert fleet.run(VISION) == 1
    assert (
        f"error: {VISION}: {TORCH} is in its closure, and no test covers {TORCH}, and the spec does not say why "
        "(`untested`) [no-test-record]" in capsys.readouterr().err
    )
    assert fleet.signed() == set()


def test_the_records_of_another_run_let_what_needs_it_be_published_alone(fleet: Fleet) -> None:
    fleet.first(TORCH)
    before = fleet.signed()
    assert not any(name.startswith(VISION) for name in before)
    fleet.change(VISION, "second")
    fleet.world.use_store("second")
    assert fleet.run(VISION) == 0
    assert fleet.published(VISION)
    assert fleet.signed() > before
    assert fleet.world.builds == 1  # of TORCH, which came with its signature from the cache


@pytest.mark.parametrize("forged", ["no signature", "another key"])
def test_a_record_that_publishing_did_not_sign_proves_nothing(
    fleet: Fleet, forged: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.first(TORCH)
    for file in fleet.records():
        lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("Sig: ")]
        file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    if forged == "another key":
        fleet.world.cache("mine")
        paths = [
            line.partition(" ")[2] for file in fleet.records() for line in file.read_text("utf-8").splitlines()[:1]
        ]
        options = ("--store", fleet.world.cache()["url"], "--key-file", str(fleet.world.folder / "mine.secret"))
        assert fleet.world.nix("store", "sign", *options, *paths).returncode == 0
    assert not fleet.published(TORCH)
    fleet.change(VISION, "second")
    assert fleet.run(VISION) == 1
    assert "[no-test-record]" in capsys.readouterr().err
    assert not any(name.startswith(VISION) for name in fleet.signed())
    assert fleet.run(TORCH) == 0
    assert fleet.published(TORCH)


def test_what_is_signed_without_a_record_counts_as_unpublished_until_it_is_tested(fleet: Fleet) -> None:
    fleet.first(TORCH, VISION, failed=TORCH)
    key = fleet.world.folder / "cache.secret"
    target = f"{fleet.world.cache()['url']}?secret-key={key}"
    assert fleet.world.nix("copy", "--to", target, *fleet.manifest(TORCH)["outputs"]).returncode == 0
    assert not fleet.published(TORCH)
    assert fleet.run(VISION) == 1
    assert fleet.run(TORCH, VISION) == 0
    assert (fleet.published(TORCH), fleet.published(VISION)) == (True, True)


def test_a_variant_without_a_test_is_signed_only_with_a_reason(fleet: Fleet) -> None:
    torch = SPEC["packages"]["pytorch"]
    build = SPEC["runners"]["builder"] | {"stages": ["build", "publish"]}
    gpu = SPEC["runners"]["h100"] | {"stages": ["gpu-test"]}

    def declare(**keys: Any) -> None:
        packages = SPEC["packages"] | {"pytorch": torch | keys}
        runners = {"builder": build, "h100": gpu}
        fleet.world.spec(cache=fleet.world.cache(), packages=packages, runners=runners)
        fleet.world.commit()

    declare()
    assert fleet.run(TORCH) == 0
    assert fleet.outcome(TORCH) == f"no: no test covers {TORCH}, and the spec does not say why (`untested`)"
    assert fleet.signed() == set()
    declare(untested={"pytorch-*-cpu-*": "No machine here is slow enough."})
    assert fleet.run(TORCH) == 0
    assert fleet.outcome(TORCH).endswith(", untested (No machine here is slow enough.)")
    assert fleet.signed() == {f"{TORCH}-2.8.0", f"{TORCH}-2.8.0-dev"}


# An entry of the cache without its archive.


@pytest.mark.parametrize("lost", ["all", "a part"])
@pytest.mark.parametrize(("signed", "again"), [(True, False), (True, True), (False, False)])
def test_what_users_cannot_fetch_is_not_published_and_is_put_there_again(
    fleet: Fleet, signed: bool, again: bool, lost: str
) -> None:
    fleet.first(TORCH)
    path, cache = fleet.manifest(TORCH)["store_path"], fleet.world.folder / "cache"
    file = next(cache.glob(f"{Path(path).name[:32]}.narinfo"))
    lines = file.read_text("utf-8").splitlines()
    archive = cache / next(line.partition(" ")[2] for line in lines if line.startswith("URL: "))
    if not signed:
        file.write_text("".join(f"{line}\n" for line in lines if not line.startswith("Sig: ")), "utf-8")
    if lost == "all":
        archive.unlink()
    else:
        archive.write_bytes(archive.read_bytes()[:-1])
    assert not fleet.published(TORCH)
    assert fleet.run(TORCH, keep=True, again=again) == 0
    assert not fleet.outcome(TORCH).startswith("published already")
    assert fleet.published(TORCH)
    assert fleet.world.signed(path)
    fleet.world.use_store("user")
    source = ("--from", fleet.world.cache()["url"], "--option", "trusted-public-keys")
    assert fleet.world.nix("copy", *source, fleet.world.cache()["public-key"], path).returncode == 0


def test_a_build_whose_archive_is_gone_is_staged_for_the_other_machines(fleet: Fleet) -> None:
    fleet.first(TORCH)
    for archive in (fleet.world.folder / "cache/nar").iterdir():
        archive.unlink()
    assert fleet.run(TORCH) == 0
    assert fleet.manifest(TORCH)["staged"]
    fleet.world.use_store("second")
    assert ci_runner("fetch", f"results/build-{TORCH}/manifest.json") == 0


# Builds that differ from machine to machine.


@pytest.fixture
def irreproducible(fleet: Fleet) -> Fleet:
    """A fleet whose TORCH is another one in each store: its content is the number of the build.

    No builder sees what another one built, as if they had begun together.
    """
    built_apart(fleet.world)
    counted = f'echo built >>{fleet.world.folder}/builds; wc -l <{fleet.world.folder}/builds >"$out"'
    fleet.world.write(TORCH, recipe(TORCH, "2.8.0", counted))
    fleet.world.commit()
    return fleet


def test_a_second_build_of_what_is_published_is_not_called_published(
    irreproducible: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = irreproducible
    fleet.first(TORCH, of="irreproducible")
    path, first = fleet.manifest(TORCH)["store_path"], fleet.manifest(TORCH)["closure"]
    fleet.world.use_store("second")
    capsys.readouterr()
    assert fleet.run(TORCH) == 0
    assert fleet.manifest(TORCH)["closure"][path] != first[path]
    cache = fleet.world.cache()["url"]
    assert (
        fleet.outcome(TORCH)
        == f"published already: {cache} keeps another build of {path}, which is signed, and not this one"
    )
    assert fleet.run(TORCH, again=True, keep=True) == 1
    assert f"users of {cache} get another build of {path} than the one that was tested" in capsys.readouterr().err
    assert fleet.content(path) == first[path].removeprefix("sha256:")


def test_what_was_tested_with_another_build_than_the_published_one_is_refused(
    irreproducible: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = irreproducible
    fleet.first(TORCH, of="irreproducible")
    before = fleet.signed()
    fleet.world.use_store("second")
    assert fleet.run(TORCH, VISION) == 1
    assert "[content-differs]" in capsys.readouterr().err
    assert not any(name.startswith(VISION) for name in fleet.signed() - before)
    fleet.world.use_store("third")
    fleet.change(VISION, "third")
    assert fleet.run(VISION) == 0  # with the published build
    assert fleet.published(VISION)


def test_a_test_gets_the_dependency_that_was_built_with_and_not_the_one_that_its_machine_has(
    irreproducible: Fleet,
) -> None:
    fleet = irreproducible
    assert fleet.run(TORCH, VISION, failed=TORCH) == 0
    closure = fleet.manifest(VISION)["closure"]
    (path,) = (path for path in closure if path.endswith(f"{TORCH}-2.8.0"))
    fleet.world.use_store("second")
    assert fleet.world.build() == 0
    assert fleet.world.manifest["closure"][path] != closure[path]
    (fleet.world.root / f"result-{TORCH}").unlink()
    assert ci_runner("fetch", f"results/build-{VISION}/manifest.json") == 0
    shown = fleet.world.nix("path-info", "--json", path)
    assert fleet.world.nix("hash", "to-base32", json.loads(shown.stdout)[0]["narHash"]).stdout.strip() == closure[
        path
    ].removeprefix("sha256:")


def test_the_content_of_every_dependency_must_be_the_one_that_the_manifest_states(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.first(TORCH, VISION, failed=TORCH)
    manifest = fleet.manifest(VISION)
    (path,) = (path for path in manifest["closure"] if path.endswith(f"{TORCH}-2.8.0"))
    manifest["closure"][path] = f"sha256:{'0' * 52}"
    (fleet.world.root / f"results/build-{VISION}/manifest.json").write_text(json.dumps(manifest), "utf-8")
    capsys.readouterr()
    assert fleet.run(TORCH, VISION, keep=True) == 1
    assert f"{VISION}: " in (said := capsys.readouterr().err)
    assert "[content-differs]" in said
    assert not any(name.startswith(VISION) for name in fleet.signed())


# Flox, whose catalog has no content and no signature.


def test_with_flox_the_records_of_other_runs_are_in_the_cache_signed_by_its_key(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    world = fleet.world
    world.spec(backend="flox", cache=world.cache())
    world.commit()
    world.token()
    assert fleet.run(TORCH, key=False) == 0  # no key in the environment: nothing is recorded
    world.git("checkout", "--quiet", "main")
    fleet.change(VISION, "second")
    assert fleet.run(VISION) == 1
    assert "[no-test-record]" in capsys.readouterr().err
    assert fleet.run(TORCH) == 0
    assert "published already" in fleet.outcome(TORCH)
    assert fleet.run(VISION) == 0
    assert list(world.catalog) == [f"my-org/{TORCH}", f"my-org/{VISION}"]
    assert fleet.signed() == {"ci-runner-tested"}

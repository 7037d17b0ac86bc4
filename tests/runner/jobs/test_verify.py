"""Verifying what was published: accepted as publishing left it, refused after any change."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runner.jobs.world import HERE, TORCH, World, ci_runner

REPOSITORY = "my-org/build-torch"
CELL = ".github/workflows/cell.yml"


@pytest.fixture
def published(world: World) -> World:
    """A published build of TORCH, attested by a run on main as `actions/attest` attests it."""

    def make() -> None:
        world.spec(cache=world.cache(), attest=True)
        world.commit()
        assert world.build() == 0
        world.git("checkout", "--quiet", "--detach")
        world.key()
        assert world.publish() == 0
        gh = world.folder / "bin" / "gh"
        gh.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{HERE / "gh"}" "$@"\n', "utf-8")
        gh.chmod(0o755)
        attest(world)

    world.once("published", make)
    world.patch.setenv("GH_STANDIN_ATTESTATIONS", str(world.folder / "attestations.json"))
    world.patch.delenv("NIX_CACHE_SIGNING_KEY", raising=False)
    return world


def attest(world: World, **changes: Any) -> None:
    """The attestation of the checksums file of the build, in place of the earlier one."""
    lines = (world.root / "build-output/subjects.txt").read_text("utf-8").splitlines()
    pairs = (line.split(" ", 1) for line in lines)
    subjects = [{"name": name.removeprefix(" "), "digest": {"sha256": digest}} for digest, name in pairs]
    whole = {"repository": REPOSITORY, "workflow": f"{CELL}@refs/heads/main", "ref": "refs/heads/main"}
    (world.folder / "attestations.json").write_text(json.dumps([whole | {"subject": subjects} | changes]), "utf-8")


def verify(*words: str, repository: str = REPOSITORY) -> int:
    return ci_runner("verify", *(words or (TORCH, "--branch", "main")), "--repository", repository)


def test_what_was_published_is_verified_by_name_by_path_and_by_link(
    published: World, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = published.manifest
    shown = {
        f"{path}: signed, passed cpu-test, attested, built from {published.head} by a run of refs/heads/main"
        for path in manifest["outputs"]
    }
    capsys.readouterr()
    assert verify() == 0
    assert set(capsys.readouterr().out.splitlines()) == shown
    assert len(shown) == 2
    assert verify(f"result-{TORCH}", "--commit", published.head[:12]) == 0
    assert capsys.readouterr().out.startswith(f"{manifest['store_path']}: signed, passed cpu-test, attested")
    published.use_store("second")  # a machine that does not have it
    assert verify(manifest["store_path"]) == 0


def test_the_subjects_of_a_build_are_its_manifest_and_every_output(published: World) -> None:
    subjects = (published.root / "build-output/subjects.txt").read_text("utf-8").splitlines()
    manifest = (published.root / "build-output/manifest.json").read_bytes()
    assert subjects[0] == f"{hashlib.sha256(manifest).hexdigest()}  manifest.json"
    for path, line in zip(published.manifest["outputs"], subjects[1:], strict=True):
        archive = published.folder / "a.nar"
        with archive.open("wb") as file:
            subprocess.run(["nix-store", "--dump", path], stdout=file, check=True)
        assert line == f"{hashlib.sha256(archive.read_bytes()).hexdigest()}  {path}@{published.head}"


def test_a_changed_byte_in_the_cache_is_refused(published: World, capsys: pytest.CaptureFixture[str]) -> None:
    path = published.manifest["store_path"]
    entry = published.folder / "cache" / f"{Path(path).name[:32]}.narinfo"
    fields = dict(line.split(": ", 1) for line in entry.read_text("utf-8").splitlines())
    archive = published.folder / "cache" / fields["URL"]
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    archive.write_bytes(content)
    assert verify() == 1
    assert f"{path}: file://{published.folder}/cache has another content than the signed one" in capsys.readouterr().err
    entry.write_text(entry.read_text("utf-8").replace(fields["NarHash"], f"sha256:{'0' * 52}"), "utf-8")
    assert verify() == 1
    assert "[publish-unsigned]" in capsys.readouterr().err


def test_a_changed_byte_on_this_machine_is_refused(published: World, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(published.manifest["store_path"])
    path.chmod(0o644)
    path.write_text(path.read_text("utf-8").replace("2.8.0", "2.8.1"), "utf-8")
    assert verify(str(path)) == 1
    assert f"{path}: this store has another content than the signed one: its hash is" in capsys.readouterr().err


def test_a_foreign_key_is_refused(published: World, capsys: pytest.CaptureFixture[str]) -> None:
    published.spec(cache=published.cache() | {"public-key": published.cache("other")["public-key"]})
    assert verify() == 1
    assert "has no valid signature by other-1 [publish-unsigned]" in capsys.readouterr().err


def test_the_old_key_counts_while_it_is_a_further_key(published: World, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = published.cache(), published.cache("next")["public-key"]
    published.spec(cache=old | {"public-key": new, "further-keys": [old["public-key"]]}, attest=True)
    assert verify() == 0
    published.spec(cache=old | {"public-key": new}, attest=True)
    assert verify() == 1
    assert "has no valid signature by next-1 [publish-unsigned]" in capsys.readouterr().err


def test_another_commit_is_refused(published: World, capsys: pytest.CaptureFixture[str]) -> None:
    built, path = published.head, published.manifest["store_path"]
    published.git("checkout", "--quiet", "main")
    published.torch("2.8.0", extra='changed = "1";')
    later = published.commit()
    assert verify(path, "--commit", later) == 1
    assert f"is attested as built from {built}, not from {later} [attestation-differs]" in capsys.readouterr().err
    assert verify() == 1  # the branch's tip evaluates to a path that nobody published
    assert "[closure-missing]" in capsys.readouterr().err
    assert verify(path) == 0  # it was built from a commit of the branch
    lines = (published.root / "build-output/subjects.txt").read_text("utf-8")
    (published.root / "build-output/subjects.txt").write_text(lines.replace(built, later), "utf-8")
    attest(published)
    capsys.readouterr()
    assert verify(path) == 1
    assert (
        f"is attested as built from .flox/pkgs/{TORCH}.nix at {later[:12]}, which evaluates to"
        in capsys.readouterr().err
    )


def test_a_missing_attestation_is_refused(published: World, capsys: pytest.CaptureFixture[str]) -> None:
    (published.folder / "attestations.json").write_text("[]", "utf-8")
    assert verify() == 1
    assert f"by {REPOSITORY}/{CELL}: Error: no attestations found for subject sha256:" in capsys.readouterr().err
    attest(published)
    assert verify(repository="another/fork") == 1
    assert "[attestation-missing]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"workflow": ".github/workflows/mine.yml@refs/heads/main"}, "[attestation-missing]"),
        ({"ref": "refs/pull/7/merge"}, "a run of refs/pull/7/merge, which is not a branch of the spec"),
        ({"ref": "refs/tags/main"}, "a run of refs/tags/main, which is not a branch of the spec"),
    ],
)
def test_an_attestation_by_another_run_is_refused(
    published: World, changes: dict[str, str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    attest(published, **changes)
    assert verify() == 1
    assert told in capsys.readouterr().err


def test_the_content_of_another_path_proves_nothing(published: World, capsys: pytest.CaptureFixture[str]) -> None:
    path, subjects = published.manifest["store_path"], published.root / "build-output/subjects.txt"
    subjects.write_text(subjects.read_text("utf-8").replace(path, f"{path}-other"), "utf-8")
    attest(published)
    assert verify(path) == 1
    assert "has its digest, but not under its name: it is another path [attestation-differs]" in capsys.readouterr().err


def test_a_commit_that_is_not_on_the_branch_is_refused(published: World, capsys: pytest.CaptureFixture[str]) -> None:
    own = published.commit(push=False)
    lines = (published.root / "build-output/subjects.txt").read_text("utf-8")
    (published.root / "build-output/subjects.txt").write_text(lines.replace(published.manifest["commit"], own), "utf-8")
    attest(published)
    assert verify() == 1
    assert f"{own} is not on origin/main" in capsys.readouterr().err


def test_what_cannot_be_verified_is_wrong_input(published: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("./README") == 2
    assert "is not in a Nix store" in capsys.readouterr().err
    assert verify(f"{published.folder}/store/{'a' * 32}-something") == 2
    assert "has no variant's name in it" in capsys.readouterr().err
    assert verify(TORCH, "--branch", "main", "--commit", "f" * 7) == 2
    assert "f" * 7 in capsys.readouterr().err
    published.spec()
    assert verify() == 2
    assert "[cache-missing]" in capsys.readouterr().err
    shutil.rmtree(published.folder / "bin")
    published.spec(cache=published.cache())
    assert verify() == 2
    assert "gh is not on PATH; install the GitHub CLI" in capsys.readouterr().err


def test_what_is_signed_without_the_record_of_its_tests_is_refused(
    published: World, capsys: pytest.CaptureFixture[str]
) -> None:
    for entry in (published.folder / "cache").glob("*.narinfo"):
        if "-ci-runner-tested\n" in entry.read_text("utf-8"):
            entry.unlink()
    assert verify() == 1
    said = capsys.readouterr().err
    assert (
        f"file://{published.folder}/cache has no signed record that this content passed cpu-test [no-test-record]"
        in said
    )


def test_nix_alone_verifies_what_the_cache_serves(published: World) -> None:
    """As the guide says, without ci-runner and GitHub; another key, or other content, is refused."""
    path, cache = published.manifest["store_path"], published.cache()

    def run(key: str) -> subprocess.CompletedProcess[str]:
        words = ("--recursive", "--sigs-needed", "1", "--store", cache["url"], "--trusted-public-keys", key, path)
        return published.nix("store", "verify", *words)

    assert run(cache["public-key"]).returncode == 0
    assert run(published.cache("other")["public-key"]).returncode != 0
    for archive in (published.folder / "cache/nar").iterdir():
        archive.write_bytes(archive.read_bytes()[:-1] + b"x")
    assert run(cache["public-key"]).returncode != 0

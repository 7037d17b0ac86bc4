"""What can fail between the spec and an upstream: one clear line each, and the spec stays as it was."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.update import remote
from ci_compiler.update.remote import Bounds
from tests.processes import MINUTES
from tests.recipes.test_affected import Repository
from tests.specs import HASH
from tests.update.conftest import CHECKOUT, FILE, SPEC
from tests.update.upstreams import NIXPKGS, TORCH, VISION, Upstreams, package_index


def fails(fleet: Repository, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that the command fails with, after which the spec is as it was."""
    before = (fleet.root / FILE).read_bytes()
    capsys.readouterr()
    assert fleet.ci("update", *words) == 2
    said = capsys.readouterr()
    assert (fleet.root / FILE).read_bytes() == before
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


def test_no_network(
    fleet: Repository, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI_COMPILE_UPSTREAMS", f"file://{tmp_path}/nothing")
    assert re.search(rf"{re.escape(TORCH)}: cannot be read: .*\[upstream-unreachable\]", fails(fleet, capsys))


@pytest.mark.parametrize(
    ("gone", "lost"),
    [
        (TORCH, ["pytorch", "torchvision"]),
        (VISION, ["pytorch", "torchvision"]),  # the one goes nowhere without the other
        ("my-org/tool", ["tool"]),
        (CHECKOUT, [CHECKOUT]),
        ("flox/flox", ["flox"]),
        (NIXPKGS, []),
    ],
)
def test_an_upstream_that_cannot_be_read_ends_no_check(
    gone: str, lost: list[str], fleet: Repository, actions: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is one finding, and what the others offer is listed."""
    own = "  tool: {recipes: own, branches: [main], upstream: {repository: my-org/tool}}\n  torchvision: {needs"
    spec = SPEC.replace("versions: {pytorch: 2.8.0,", "versions: {tool: 1.0.0, pytorch: 2.8.0,")
    source = f"sources: {{pytorch: {{repository: {TORCH}, tag: v2.8.0, hash: {HASH}, commit: {{}}}}}}, nixpkgs"
    commit = actions.git(TORCH, "rev-parse", "v2.8.0^{commit}")
    spec = spec.replace("publish: false, nixpkgs", f"publish: false, {source.replace('{}', commit)}")
    fleet.write(FILE, spec.replace("  torchvision: {needs", own))
    actions.tag("my-org/tool", "v1.0.1")
    actions.tag(CHECKOUT, "v99.0.0")
    actions.release("2.8.1", "0.23.1", "")
    assert fleet.ci("update", "--check") == 1
    every = [line.split() for line in capsys.readouterr().out.splitlines()]
    (actions.folder / gone).rename(actions.folder / "gone")
    assert fleet.ci("update", "--check") == 1
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith(f"error: {gone}: cannot be read: ")
    assert "[upstream-unreachable]" in line
    assert [row.split() for row in said.out.splitlines()] == [row for row in every if row[1] not in lost]
    assert len(every) == 3 + 3 + 1 + 1 + 1


def test_a_repository_that_answers_with_too_much(
    fleet: Repository, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LISTING", Bounds(MINUTES, 0))
    assert "it is larger than the limit of 0 bytes" in fails(fleet, capsys)


def test_a_source_that_is_too_large(
    fleet: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    upstreams.commit(TORCH, {"large": "".join(f"{number * 7919 % 104729}\n" for number in range(30_000))})
    upstreams.release("2.8.1", "0.23.1", "")
    monkeypatch.setattr(remote, "SOURCE", Bounds(MINUTES, 4096))
    assert f"{TORCH}: cannot be read: " in fails(fleet, capsys)


def test_a_repository_that_does_not_answer_in_time(
    fleet: Repository, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow/git"  # the real one may be done before anybody looks at the clock
    slow.parent.mkdir()
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *ls-remote*) exec sleep 600 ;; esac\nexec {shutil.which("git")} "$@"\n', "utf-8"
    )
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(slow.parent), prepend=os.pathsep)
    monkeypatch.setattr(remote, "LISTING", Bounds(0.2, 1_000_000))
    assert "did not end within 0 s" in fails(fleet, capsys)


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ((429, {"Retry-After": "60"}, b""), "the index limits requests; try again in 60 s"),
        ((500, {}, b""), "the index said 500"),
        ((200, {}, b"<html>"), "the page of the index is not JSON: "),
        ((200, {}, b"[]"), "the page of the index is not a JSON object"),
    ],
)
def test_an_index_that_refuses(
    page: tuple[int, Mapping[str, str], bytes],
    said: str,
    fleet: Repository,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with package_index({"torch": page}) as address:
        monkeypatch.setenv("PIP_INDEX_URL", address)
        assert f"torch: {said}" in fails(fleet, capsys)


def test_a_yanked_release_is_not_taken(
    fleet: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    upstreams.release("2.8.1", "0.23.1", "")
    pages: dict[str, Any] = {"torch": {"2.8.0": False, "2.8.1": True}, "torchvision": {}, "torchaudio": {}}
    with package_index(pages) as address:
        monkeypatch.setenv("PIP_INDEX_URL", address)
        assert fleet.ci("update") == 0
        assert (fleet.root / FILE).read_text("utf-8") == SPEC
        line = fails(fleet, capsys, "pytorch", "--to", "2.8.1")
        assert "2.8.1 was yanked from the index" in line
        assert "[release-yanked]" in line


def test_a_hash_that_differs_on_refetch(
    fleet: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    upstreams.release("2.8.1", "0.23.1", "")
    source = f"sources: {{torchvision: {{repository: {VISION}, tag: v0.23.1, hash: {HASH}}}}}"
    fleet.write(FILE, SPEC.replace("publish: false, nixpkgs", f"publish: false, {source}, nixpkgs"))
    line = fails(fleet, capsys, "--branch", "main")
    assert f"the tag v0.23.1 of {VISION} has the hash sha256-" in line
    assert "[hash-differs]" in line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pytorch", "--to", "2.8.7"), "pytorch: has no release 2.8.7; its newest release is 2.8.0 [unknown-release]"),
        (("pytorch", "--to", "2.7.1"), "--to: no branch is of the line of 2.7.1"),
        (("--to", "2.8.1"), "--to: name the package"),
        (("torch",), "torch: is no package of the spec; did you mean pytorch"),
        (("--new-branch", "new"), "--new-branch: name the one branch to copy"),
        (("--branch", "main", "--new-branch", "edge"), "--new-branch: the spec has the branch 'edge'"),
    ],
)
def test_a_request_that_cannot_be_met(
    words: tuple[str, ...], said: str, fleet: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in fails(fleet, capsys, *words)


def test_nothing_that_is_fetched_is_executed(
    fleet: Repository, upstreams: Upstreams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks that git runs on a checkout, from a template folder, and a filter that attributes name."""
    mark = tmp_path / "executed"
    hook = tmp_path / "template/hooks/post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n", "utf-8")
    hook.chmod(0o755)
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(tmp_path / "template"))
    upstreams.commit(TORCH, {".gitattributes": "* filter=evil\n", ".gitconfig": f'[filter "evil"]\nsmudge = {hook}\n'})
    upstreams.release("2.8.1", "0.23.1", "")
    assert fleet.ci("update", "--branch", "main") == 0
    assert not mark.exists()


def test_the_hash_of_a_source_with_submodules_is_that_of_all_files(fleet: Repository, upstreams: Upstreams) -> None:
    upstreams.commit("o/third", {"code.c": "int x;\n"})
    upstreams.git(TORCH, "submodule", "add", "-q", f"{upstreams.address}/o/third", "third_party/third")
    upstreams.release("2.8.1", "0.23.1", "")
    assert fleet.ci("update", "--branch", "main") == 0
    sources = yaml.safe_load((fleet.root / FILE).read_text("utf-8"))["branches"]["main"]["sources"]
    whole = upstreams.folder / TORCH
    for one in (whole / ".git", whole / "third_party/third/.git"):
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    assert (whole / "third_party/third/code.c").is_file()
    hashed = subprocess.run(["nix-hash", "--type", "sha256", str(whole)], check=True, capture_output=True, text=True)
    assert sources["pytorch"]["hash"] == f"sha256-{b64encode(bytes.fromhex(hashed.stdout.strip())).decode()}"


def test_the_hash_of_a_source_without_submodules_is_that_of_its_archive(
    fleet: Repository, upstreams: Upstreams, tmp_path: Path
) -> None:
    upstreams.commit(VISION, {".gitattributes": "tests export-ignore\n", "tests": "left out\n"})
    upstreams.release("2.8.1", "0.23.1", "")
    assert fleet.ci("update", "--branch", "main") == 0
    sources = yaml.safe_load((fleet.root / FILE).read_text("utf-8"))["branches"]["main"]["sources"]
    for path in (".gitattributes", "version.txt"):
        (tmp_path / "archive").mkdir(exist_ok=True)
        shutil.copy(upstreams.folder / VISION / path, tmp_path / "archive" / path)
    words = ["nix-hash", "--type", "sha256", str(tmp_path / "archive")]
    hashed = subprocess.run(words, check=True, capture_output=True, text=True)
    assert sources["torchvision"]["hash"] == f"sha256-{b64encode(bytes.fromhex(hashed.stdout.strip())).decode()}"

"""What an update leads to is judged before it is written: recipes, versions, work-arounds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.checkers import require
from tests.recipes.test_affected import Repository
from tests.specs import PIN, UNKNOWN_PIN
from tests.update.conftest import FILE, SPEC
from tests.update.upstreams import NIXPKGS, Upstreams

NIXPKGS_FOLDER = Path(__file__).parents[1] / "adoption/nixpkgs"
PATCH = "235aefb7b064954fce09d035c69907ba8a87cbcd"


@pytest.mark.parametrize("has_patch", [True, False])
def test_a_work_around_that_nixpkgs_has_by_itself_is_named(
    fleet: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str], has_patch: bool
) -> None:
    magma = f'{{ version = "2.9.0"; patches = [ "{PATCH if has_patch else "another"}" ]; }}\n'
    upstreams.commit(NIXPKGS, {"pkgs/by-name/ma/magma/package.nix": magma})
    upstreams.release("2.9.0", "0.24.0", "")
    upstreams.nixpkgs("nixos-unstable", torch="2.9.0", torchvision="0.24.0")
    fleet.write(FILE, SPEC.replace("    pnames: {", "    work-arounds: [magma-cuda-13]\n    pnames: {"))
    assert fleet.ci("update", "pytorch", "--to", "2.9", "--branch", "edge") == 0
    named = "`edge` no longer needs `magma-cuda-13`: its nixpkgs has the patch." in capsys.readouterr().out
    assert named is has_patch


def test_an_edit_that_does_not_compile_is_not_written(
    fleet: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    upstreams.release("2.9.0", "0.24.0", "")
    before = SPEC.replace(f"publish: false, nixpkgs: {PIN}", f"nixpkgs: {UNKNOWN_PIN}")
    fleet.write(FILE, before.replace('"2.8.0", torchvision: 0.23.0', '"2.9.0", torchvision: 0.24.0'))
    text = (fleet.root / FILE).read_bytes()
    assert fleet.ci("update", "pytorch", "--to", "2.9.0", "--branch", "main") == 2
    said = capsys.readouterr()
    assert "same-name-same-version" in said.err
    assert said.out == ""
    assert (fleet.root / FILE).read_bytes() == text


def test_without_nix_the_text_says_that_nothing_was_evaluated(
    fleet: Repository,
    upstreams: Upstreams,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    upstreams.release("2.8.1", "0.23.1", "")
    upstreams.nixpkgs("nixos-unstable", torch="2.8.1", torchvision="0.23.1")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("git", "sh"):
        (programs / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(programs))
    assert fleet.ci("update", "--branch", "main") == 0
    assert "`main`: its 4 recipes were not evaluated: " in capsys.readouterr().out


@pytest.mark.parametrize("has", ["2.8.1", "2.8.0"])
def test_the_true_nixpkgs_confirms_the_version_or_nothing_is_written(
    fleet: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str], tmp_path: Path, has: str
) -> None:
    """The file of torch in nixpkgs states 2.8.1; what nixpkgs evaluates to is another matter."""
    require("nix-instantiate")
    upstreams.release("2.8.1", "0.23.1", "")
    upstreams.nixpkgs("nixos-unstable", torch="2.8.1", torchvision="0.23.1")
    true = Path(shutil.copytree(NIXPKGS_FOLDER, tmp_path / "true"))
    for name, before, version in (("torch", "2.8.0", has), ("torchvision", "0.23.0", "0.23.1")):
        file = true / f"{name}.nix"
        file.write_text(file.read_text("utf-8").replace(f'"{before}"', f'"{version}"'), "utf-8")
    is_right = has == "2.8.1"
    assert fleet.ci("update", "--branch", "main", "--nixpkgs", str(true)) == (0 if is_right else 2)
    said = capsys.readouterr()
    variant = "pytorch-python313-cuda12_8-sm90-avx2"
    if is_right:
        assert f"`{variant}: nixpkgs evaluates to version 2.8.1`" in said.out
    else:
        assert f"{variant} evaluates to version 2.8.0; main has pytorch 2.8.1" in said.err
    assert ((fleet.root / FILE).read_text("utf-8") == SPEC) is not is_right

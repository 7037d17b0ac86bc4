"""`ci-compile hash`: the hash of each nixpkgs commit, written into the spec where its commit is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.errors import InputError
from ci_compiler.recipes.nixpkgs_hash import fetched_hash
from ci_compiler.spec.build import load_spec
from tests.checkers import require
from tests.specs import PIN, UNKNOWN_PIN

NIX32 = "14wkjf9r74wkjf9r74wkjf9r74wkjf9r74wkjf9r74wkjf9r74wk"
"""What `nix-prefetch-url` prints for PIN here, and what the spec gets for it."""
SRI = "sha256-k5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5M="
STALE = f"sha256-{'B' * 43}="

BLOCK = f"""\
version: 1
owner: my-org
branches:
  main:
    cuda: "12.8"
    nixpkgs: {PIN}  # the pin
    versions: {{pytorch: 2.8.0}}
  other:
    {{cuda: {{"12.8": {{nixpkgs: "{PIN}", nixpkgs-hash: {STALE}}}}}, nixpkgs: '{PIN}', versions: {{pytorch: 2.8.0}}}}
packages: {{pytorch: {{attribute: torch}}}}
matrix: {{python: ["3.13"], isas: {{x86_64-linux: [avx2]}}, gpus: {{cpu: {{}}, sm90: {{}}}}}}
runners:
  builder: {{runs-on: [self-hosted, linux, x64, b], cpu: [avx2], count: 2}}
  h100: {{runs-on: [self-hosted, linux, x64, gpu-sm90], gpu: sm90, cpu: [avx512]}}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, and a `nix-prefetch-url` that knows one archive."""
    require("nix-hash")
    program = tmp_path / "bin/nix-prefetch-url"
    program.parent.mkdir()
    script = f"""\
#!/bin/sh
echo "$*" >>{tmp_path}/asked
case "$*" in
  "--unpack --type sha256 https://github.com/NixOS/nixpkgs/archive/{PIN}.tar.gz") echo {NIX32} ;;
  *) echo "error: unable to download" >&2; exit 1 ;;
esac
"""
    program.write_text(script, "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/ci-matrix.yaml").write_text(BLOCK, "utf-8")
    return tmp_path


def test_each_commit_gets_its_hash_and_a_wrong_one_is_corrected(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PROGRAM, ["hash", "--root", str(root)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"main: {PIN} has {SRI}",
        f"other: {PIN} has {SRI}",
        f"other: {PIN} has {SRI}, not {STALE}",
    ]
    text = (root / ".github/ci-matrix.yaml").read_text("utf-8")
    assert f"    nixpkgs: {PIN}\n    nixpkgs-hash: {SRI}  # the pin\n" in text
    spec = load_spec(root / ".github/ci-matrix.yaml", shown="x")
    pins = [pin for branch in spec.branches.values() for pin in (branch, *branch.toolkits.values())]
    assert [pin.nixpkgs_hash for pin in pins] == [SRI] * 4
    assert len((root / "asked").read_text("utf-8").splitlines()) == 1, "a commit is fetched once"
    assert run(PROGRAM, ["hash", "--root", str(root)]) == 0
    assert capsys.readouterr().out == "every nixpkgs commit has its hash\n"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"echo {NIX32}; exit 1", NIX32),
        ("exit 0", "nix-prefetch-url printed nothing [nix-failed]"),
        ("echo 'error: gone' >&2; exit 1", "gone"),
        ("", "install Nix; see https://nixos.org/download [nix-missing]"),
    ],
)
def test_a_hash_is_what_a_program_prints_that_succeeds(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":" if script else None)
    if script:
        (tmp_path / "nix-prefetch-url").write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        (tmp_path / "nix-prefetch-url").chmod(0o755)
    with pytest.raises(InputError) as raised:
        fetched_hash(PIN)
    assert said in str(raised.value)


def test_nothing_is_written_if_an_archive_cannot_be_fetched(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = root / ".github/ci-matrix.yaml"
    file.write_text(BLOCK.replace(f"'{PIN}'", UNKNOWN_PIN), "utf-8")
    before = file.read_bytes()
    assert run(PROGRAM, ["hash", "--root", str(root)]) == 2
    assert "unable to download" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_a_place_that_cannot_be_edited_is_said(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = root / ".github/ci-matrix.yaml"
    file.write_text(BLOCK.replace(f"nixpkgs: {PIN}  # the pin", f"nixpkgs:\n      {PIN}"), "utf-8")
    assert run(PROGRAM, ["hash", "--root", str(root)]) == 2
    assert f"cannot be edited here; write `nixpkgs-hash: {SRI}` " in capsys.readouterr().err


def test_the_bundled_spec_cannot_be_edited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PROGRAM, ["hash", "--root", str(tmp_path)]) == 2
    assert "spec-missing" in capsys.readouterr().err

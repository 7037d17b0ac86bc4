"""`ci-compile evaluate --patch`: sources are unpacked and patched by Nix, and nothing is compiled."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ci_compiler.adoption.patching import alike, read
from ci_compiler.adoption.real_nixpkgs import Derivation
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.process import Ended
from tests.adoption.helpers import needs_nix
from tests.checkers.tools import require

pytestmark = needs_nix

SPEC = """\
version: 1
owner: my-org
branches:
  main:
    cuda: "12.8"
    nixpkgs: fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3
    versions: {tool: "2.0"}
packages:
  tool: {title: Tool, recipes: own}
matrix:
  python: ["3.13"]
  isas: {x86_64-linux: [avx2, avx512]}
  gpus: {cpu: {}}
runners:
  x86: {runs-on: [self-hosted, linux, x64], cpu: [avx512]}
publish: {on-shared-machines: true}
"""
NIXPKGS = """\
{ ... }:
let
  text = value: if builtins.isList value then map text value else value;
  mkDerivation = attributes: derivation (builtins.mapAttrs (_: text) attributes // {
    name = "${attributes.pname}-${attributes.version}";
    system = "x86_64-linux";
    builder = "/bin/sh";
    PATH = "/usr/bin:/bin";
    __ignoreNulls = true;
    args = [ "-e" ./setup.sh ];
  }) // { overrideAttrs = layer: mkDerivation (attributes // layer attributes); };
  self = { inherit mkDerivation; library = mkDerivation {
  pname = "library";
  version = "1.0";
  src = ./source;
  postPatch = "substituteInPlace setup.py --replace-fail first second";
}; tool = mkDerivation {
  pname = "tool";
  version = "1.0";
  src = ./source;
  patches = [ ];
  buildInputs = [ (mkDerivation { pname = "library"; version = "1"; phases = [ "heavyPhase" ]; }) ];
  preConfigure = "echo ${mkDerivation { pname = "compiler"; version = "1"; phases = [ "heavyPhase" ]; }}";
  postPatch = "substituteInPlace setup.py --replace-fail '<80.0' '<90'";
}; };
in
self // { callPackage = f: extra: f (builtins.intersectAttrs (builtins.functionArgs f) self // extra); }
"""
SETUP = """\
substituteInPlace() {
    grep -qF -- "$3" "$1" && { sed -i "s/$3/$4/" "$1"; return; }
    test "$2" = --replace-warn && kind=WARNING || kind=ERROR
    echo "substituteStream() in derivation $name: $kind: pattern $3 doesn't match anything in file '$1'" >&2
    test $kind = WARNING
}
unpackPhase() { cp -r "$src" source; chmod -R u+w source; cd source; }
patchPhase() {
    for one in $patches; do echo "applying patch $one"; patch -p1 <"$one"; done
    eval "$postPatch"
}
heavyPhase() { echo "this takes hours"; exit 1; }
for phase in ${phases:-unpackPhase patchPhase heavyPhase}; do
    case $phase in leavePhase) eval "$leavePhase" ;; *) $phase ;; esac
done
"""
PATCH = """\
--- a/setup.py
+++ b/setup.py
@@ -1,2 +1,2 @@
-first
+changed
 setuptools<80.0
"""
PLACE = ".flox/pkgs/tool-python313-cpu-avx2.nix"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two recipes that only add to the miniature's `tool`, and a store of its own."""
    for tool in ("nix-build", "patch"):
        require(tool)
    root, nixpkgs = tmp_path / "repository", tmp_path / "nixpkgs"
    for folder in (root / ".github", root / ".flox/pkgs", nixpkgs / "source", tmp_path / "home"):
        folder.mkdir(parents=True)
    (root / ".github/ci-matrix.yaml").write_text(SPEC, "utf-8")
    (nixpkgs / "default.nix").write_text(NIXPKGS, "utf-8")
    (nixpkgs / "setup.sh").write_text(SETUP, "utf-8")
    (nixpkgs / "fix.patch").write_text(PATCH, "utf-8")
    (nixpkgs / "source/setup.py").write_text("first\nsetuptools<80.0\n", "utf-8")
    for isa in ("avx2", "avx512"):
        text = f'{{ tool }}: tool.overrideAttrs (old: {{ pname = "tool-python313-cpu-{isa}"; version = "2.0"; }})\n'
        (root / f".flox/pkgs/tool-python313-cpu-{isa}.nix").write_text(text, "utf-8")
    settings = {
        "HOME": "home",
        "XDG_CACHE_HOME": "cache",
        "NIX_STORE_DIR": "store",
        "NIX_STATE_DIR": "state",
        "NIX_LOG_DIR": "log",
        "NIX_CONF_DIR": "etc",
    }
    for name, folder in settings.items():
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("NIX_CONFIG", "sandbox = false\nbuild-users-group =\nsubstituters =\nfsync-metadata = false\n")
    monkeypatch.chdir(root)
    subprocess.run(["git", "init", "-q", "-b", "main"], check=True)
    return root


def patch(nixpkgs: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The status and the errors of the command."""
    capsys.readouterr()
    status = run(PROGRAM, ["evaluate", "--patch", "--nixpkgs", str(nixpkgs)])
    return status, capsys.readouterr().err


def test_each_source_is_patched_once_and_nothing_else_is_built(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nixpkgs = repository.parent / "nixpkgs"
    assert patch(nixpkgs, capsys) == (0, "patched: 1 source of 1\n")
    (nixpkgs / "source/setup.py").write_text("first\nsetuptools<82\n", "utf-8")
    status, err = patch(nixpkgs, capsys)
    assert status == 1
    assert f"{PLACE}: `--replace-fail` finds no <80.0 in setup.py (1 more recipe too) [patch-fails]" in err
    default = nixpkgs / "default.nix"
    default.write_text(NIXPKGS.replace("--replace-fail", "--replace-warn"), "utf-8")
    status, err = patch(nixpkgs, capsys)
    assert status == 0
    assert "`--replace-warn` finds no <80.0 in setup.py; the source may have it already" in err


def test_a_patch_that_does_not_apply_and_one_that_the_source_has(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nixpkgs = repository.parent / "nixpkgs"
    (nixpkgs / "default.nix").write_text(NIXPKGS.replace("patches = [ ]", "patches = [ ./fix.patch ]"), "utf-8")
    source = nixpkgs / "source/setup.py"
    for text, problem in {
        "other\nlines\n": "fix.patch does not apply to setup.py",
        "changed\nsetuptools<80.0\n": "the source has fix.patch already, in setup.py",
    }.items():
        source.write_text(text, "utf-8")
        status, err = patch(nixpkgs, capsys)
        assert (status, f"{PLACE}: {problem}" in err) == (1, True), err


def test_the_source_of_a_package_that_a_recipe_changes_is_patched_too(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nixpkgs, source = repository.parent / "nixpkgs", repository / "source"
    source.mkdir()
    (source / "setup.py").write_text("second\n", "utf-8")
    own = 'library.overrideAttrs (old: { version = "2.0"; src = ../../source; })'
    recipe = """{ tool, library }: tool.overrideAttrs (old: {
  pname = "tool-python313-cpu-@isa@"; version = "2.0"; buildInputs = [ (@own@) ];
})
"""
    for isa in ("avx2", "avx512"):
        text = recipe.replace("@isa@", isa).replace("@own@", own)
        (repository / f".flox/pkgs/tool-python313-cpu-{isa}.nix").write_text(text, "utf-8")
    status, err = patch(nixpkgs, capsys)
    problem = f"{PLACE}: library: `--replace-fail` finds no first in setup.py (1 more recipe too) [patch-fails]"
    assert (status, problem in err) == (1, True), err
    assert "patched: 1 source of 2\n" in err
    (source / "setup.py").write_text("first\n", "utf-8")
    assert patch(nixpkgs, capsys) == (0, "patched: 2 sources of 2\n")
    renamed = NIXPKGS.replace('"library";\n  version = "1.0"', '"lib";\n  version = "1.0"')
    (nixpkgs / "default.nix").write_text(renamed, "utf-8")
    unseen = "tool-python313-cpu-avx2: library is not among its inputs, and was not patched\n"
    assert patch(nixpkgs, capsys) == (0, f"{unseen}patched: 1 source of 1\n")


def test_what_the_standin_cannot_look_into_is_named(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nixpkgs, recipe = repository.parent / "nixpkgs", repository / PLACE
    known_there = NIXPKGS.replace('pname = "tool";', 'pname = "tool"; level = "3";')
    (nixpkgs / "default.nix").write_text(known_there, "utf-8")
    recipe.write_text(recipe.read_text("utf-8").replace('"2.0";', '"2.0"; LEVEL = old.level;'), "utf-8")
    status, err = patch(nixpkgs, capsys)
    assert status == 0, err
    assert "tool-python313-cpu-avx2: what it changes was not patched: attribute 'level' missing" in err
    assert err.endswith("patched: 1 source of 1\n")


def test_another_failure_is_reported_in_the_words_of_the_builder() -> None:
    said = "unpacking source archive\ndo not know how to unpack it\nerror: builder for '/nix/store/x.drv' failed\n"
    failed = read(["a"], Ended(status=1, err=said))
    assert failed.problems == ("unpacking or patching fails: do not know how to unpack it",)


def test_recipes_of_other_patches_are_not_alike() -> None:
    def derivation(path: str, **attributes: str) -> Derivation:
        return Derivation(path=path, system="x86_64-linux", outputs={}, attributes={"src": "s", **attributes})

    of = {"a": derivation("1", patches="p"), "b": derivation("2", patches="p"), "c": derivation("3", patches="q")}
    unknown = {"d": derivation("4"), "e": derivation("5")}  # with `__structuredAttrs`, lists are not read
    assert alike(of | unknown) == [("a", "b"), ("c",), ("d",), ("e",)]

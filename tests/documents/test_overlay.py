"""The overlay for plain Nix: what its users get are the very derivations of the recipes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.adoption import known_pins
from ci_compiler.adoption import nix_instantiate as nix
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.documents.overlay.written import Fetched, fetched_branches, overlay
from ci_compiler.errors import InputError
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.rules import judge
from ci_compiler.recipes.identifiers import Mentions, mentions
from ci_compiler.recipes.render import recipes
from ci_compiler.spec.build import bundled_spec
from ci_compiler.variant import RECIPES
from tests.checkers import require
from tests.specs import CACHE, UNKNOWN_PIN, small, spec_of

DRIVER = Path(__file__).with_name("overlay.nix")
STANDIN = Path(nix.__file__).with_name("standin")


def nix_eval(expression: str, scratch: Path) -> Any:
    """The value of a Nix expression. Raises CalledProcessError."""
    require("nix-instantiate")
    words = ["--option", "restrict-eval", "false", "--eval", "--strict", "--json", "--expr", expression]
    done = subprocess.run(
        nix.command(*words), env=nix.environment(scratch), capture_output=True, encoding="utf-8", check=True
    )
    return json.loads(done.stdout)


def users_get(
    folder: Path, recipe_folders: Mapping[str, Path], scratch: Path, tarballs: Mapping[str, Path] | None = None
) -> Any:
    """What the overlay in `folder` gives, by the driver; `recipe_folders` are the recipes by branch."""
    samples = [
        *folder.glob("*.nix"),
        *(one for place in recipe_folders.values() for one in sorted(place.glob("*.nix"))[::8]),
        *(one for place in recipe_folders.values() for one in place.parent.glob("ci-compiler/*.nix")),
    ]
    together = Mentions.together(mentions(path.read_text("utf-8")) for path in samples)
    (scratch / "known.nix").write_text(known_pins.known(), "utf-8")
    given = {
        "standin": str(STANDIN),
        "names": sorted(together.names),
        "members": sorted(together.members),
        "known": str(scratch / "known.nix"),
        "folder": str(folder),
        "recipes": {branch: str(path) for branch, path in recipe_folders.items()},
        "tarballs": {prefix: str(path) for prefix, path in (tarballs or {}).items()},
    }
    (scratch / "given.json").write_text(json.dumps(given), "utf-8")
    return nix_eval(f"import {DRIVER} (builtins.fromJSON (builtins.readFile {scratch}/given.json))", scratch)


def different(found: Any) -> list[str]:
    return [f"{one['branch']} {one['name']}" for one in found["variants"] if one["recipe"] != one["overlay"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The overlay of the bundled stack."""
    root = tmp_path_factory.mktemp("bundled")
    assert run(PROGRAM, ["overlay", str(root / "nix"), "--root", str(root)]) == 0
    return root / "nix"


def written(place: Path, **changes: Any) -> Path:
    """The overlay of the small spec with `changes`."""
    (place / "spec.json").write_text(json.dumps(small(**changes)), "utf-8")
    words = ["overlay", str(place / "nix"), "--root", str(place), "--spec", str(place / "spec.json")]
    assert run(PROGRAM, words) == 0
    return place / "nix"


def test_459_of_459_variants_are_the_derivations_of_their_recipes(folder: Path, tmp_path: Path) -> None:
    spec = bundled_spec()
    judged, folders = judge(spec), {}
    for branch in spec.branches:
        folders[branch] = tmp_path / branch / RECIPES
        for path, text in recipes(spec, judged, branch).items():
            (tmp_path / branch / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / branch / path).write_text(text, "utf-8")
    found = users_get(folder, folders, tmp_path)
    assert different(found) == []
    assert len({one["recipe"] for one in found["variants"]}) == 459
    first, last = found["variants"][0], found["variants"][-1]
    assert found["flake"] == {"newest": first["recipe"], "branch": last["recipe"]}
    chosen = {one["recipe"] for one in found["variants"][:3]}
    assert chosen <= set(found["environment"])  # and the Python packages that they require
    others = {Path(one).name.partition("-")[2] for one in set(found["environment"]) - chosen}
    assert "python3-3.13.drv" in others
    assert not [one for one in others if "torch" in one]  # no other build of torch than the chosen ones
    assert not found["cached"]


def test_own_recipes_are_fetched_at_the_commit_of_their_branch(tmp_path: Path) -> None:
    text = "{ ... }: import ../lib.nix\n"
    tree = tmp_path / ".flox/pkgs"
    tree.mkdir(parents=True)
    nixpkgs = f"https://github.com/NixOS/nixpkgs/archive/{UNKNOWN_PIN}.tar.gz"
    shared = f'(import (fetchTarball "{nixpkgs}") {{ }}).python313Packages.torch\n'
    (tmp_path / ".flox/lib.nix").write_text(shared, "utf-8")
    for name in ("cpu-avx2", "cpu-avx512", "cuda12_8-sm90-avx2", "cuda12_8-sm90-avx512"):
        (tree / f"pytorch-python313-{name}.nix").write_text(text, "utf-8")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=me", "-c", "user.email=me@example.org"]
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-qm", "own"],
        ["update-ref", "refs/remotes/origin/main", "HEAD"],
    ):
        subprocess.run([*git, *words], check=True)
    subprocess.run([*git, "remote", "add", "origin", "git@github.com:my-org/build-pytorch.git"], check=True)
    main = small()["branches"]["main"] | {"versions": {}}
    packages = {"pytorch": {"attribute": "torch", "recipes": "own"}}
    overlay = written(tmp_path, branches={"main": main}, packages=packages)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, encoding="utf-8").stdout.strip()
    assert f'rev = "{head}"' in (overlay / "fleet.nix").read_text("utf-8")
    assert not (overlay / "recipes").exists()
    found = users_get(overlay, {"main": tree}, tmp_path, {"https://github.com/my-org/build-pytorch": tmp_path})
    assert [one["name"] for one in found["variants"]] != []
    assert different(found) == []


@pytest.mark.parametrize(
    ("keys", "branches"),
    [
        ({}, ()),
        ({"recipes": "own"}, ("main",)),
        ({"recipes": {"*-cpu-*": "own"}}, ("main",)),
        ({"recipes": "template", "template": "nix/torch.nix"}, ("main",)),
        ({"overlays": ["nix/overlay.nix"]}, ("main",)),
        ({"shared": [".flox/pkgs/lib"]}, ("main",)),
    ],
)
def test_a_branch_whose_recipes_read_the_repository_is_fetched_whole(
    keys: dict[str, Any], branches: tuple[str, ...]
) -> None:
    packages = {"pytorch": {"attribute": "torch"}, "torchvision": {"needs": ["pytorch"]} | keys}
    assert fetched_branches(plan(spec_of(small(packages=packages)))) == branches


def test_the_flake_and_the_module_name_the_cache_and_its_keys(tmp_path: Path) -> None:
    cache = CACHE["cache"] | {"further-keys": [f"old-1:{'A' * 43}="]}
    keys = [cache["public-key"], *cache["further-keys"]]
    overlay = written(tmp_path, backend="nix", cache=cache)
    settings = nix_eval(f"(import {overlay}/flake.nix).nixConfig", tmp_path)
    assert settings == {"extra-substituters": [cache["url"]], "extra-trusted-public-keys": keys}
    module = nix_eval(
        f"""
        let
          fleetPackages = {{
            enable = true; install = true; gpu = "sm90"; isa = "avx2"; toolkit = null; python = null; branch = null;
          }};
        in builtins.removeAttrs (import {overlay}/module.nix {{
          config = {{ inherit fleetPackages; }};
          lib.mkIf = condition: content: if condition then content else {{ }};
          lib.optional = condition: value: if condition then [ value ] else [ ];
          pkgs.fleetPackages.environment = "environment";
        }}).config [ "nixpkgs" ]
        """,
        tmp_path,
    )
    assert module["environment"]["systemPackages"] == ["environment"]
    assert module["nix"]["settings"] == {"substituters": [cache["url"]], "trusted-public-keys": keys}
    assert all(f"`{key}`" in (overlay / "README.md").read_text("utf-8") for key in keys)
    assert "--impure" not in (overlay / "README.md").read_text("utf-8")
    assert "nix run .#cached-pytorch-python313-cuda12_8-sm90-avx2 #" in (overlay / "README.md").read_text("utf-8")


def test_a_choice_that_is_not_tested_whole_is_noted(tmp_path: Path) -> None:
    require("nix-instantiate")
    overlay = written(tmp_path, matrix=small()["matrix"] | {"gpus": {"cpu": {}, "sm120": {}}})
    for recipe in overlay.glob("recipes/*/*.nix"):
        recipe.write_text(f'{{ ... }}: "{recipe.stem}"', "utf-8")
    for gpu, noted in (("cpu", False), ("sm120", True)):
        expression = f'((import {overlay}).choose {{ gpu = "{gpu}"; isa = "avx512"; }}).torch'
        words = nix.command("--option", "restrict-eval", "false", "--eval", "--expr", expression)
        done = subprocess.run(words, env=nix.environment(tmp_path), capture_output=True, encoding="utf-8", check=True)
        said = (
            "of main is tested in part; cpu-test runs on builder (self-hosted, linux, x64, nix-builder); gpu-test never"
        )
        assert (said in done.stderr) == noted


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ('gpu = "sm75"; isa = "avx2";', "builds nothing for gpu sm75, isa avx2; its GPUs are cpu sm90"),
        ('gpu = "sm90"; isa = "avx";', "builds nothing for gpu sm90, isa avx; for gpu sm90, its isas are avx2 avx512"),
        ('gpu = "sm90"; isa = "avx2"; toolkit = "13.0";', "builds nothing for gpu sm90, isa avx2, toolkit 13.0"),
    ],
)
def test_a_choice_that_is_not_built_says_what_is(asked: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        nix_eval(f"(import {written(tmp_path)}).choose {{ {asked} }}", tmp_path)
    assert message in failed.value.stderr


def test_what_is_recalled_is_not_chosen_and_what_is_not_published_is_left_out(tmp_path: Path) -> None:
    main = small()["branches"]["main"]
    newer = {"cuda": "12.9", "nixpkgs": UNKNOWN_PIN, "versions": {"pytorch": "2.9.1", "torchvision": "0.24.1"}}
    overlay = written(
        tmp_path,
        branches={"main": main, "newer": main | newer, "consumer": main | {"publish": False}},
        recalls={"pytorch-python313-cuda12_9-sm90-avx2": {"because": "its convolutions return NaN"}},
    )
    # Without a nixpkgs, a recipe can only tell its branch.
    for recipe in overlay.glob("recipes/*/*.nix"):
        recipe.write_text(f'{{ ... }}: "{recipe.parent.name}"', "utf-8")
    only = "builtins.intersectAttrs { torch = null; torchvision = null; }"
    found = nix_eval(
        f"""
        let
          fleet = import {overlay};
          choose = wanted: {only} (fleet.choose ({{ gpu = "sm90"; }} // wanted));
        in {{
          branches = fleet.variants;
          sound = choose {{ isa = "avx512"; }};
          recalled = choose {{ isa = "avx2"; }};
          asked = choose {{ isa = "avx2"; toolkit = "12.9"; }};
        }}
        """,
        tmp_path,
    )
    assert sorted(found["branches"]) == ["main", "newer"]
    assert found["sound"] == {"torch": "newer", "torchvision": "newer"}
    assert found["recalled"] == {"torch": "main", "torchvision": "main"}
    assert found["asked"] == {"torchvision": "newer"}


def test_a_spec_that_publishes_nothing_has_no_overlay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = small()["branches"]["main"] | {"publish": False}
    (tmp_path / "spec.json").write_text(json.dumps(small(branches={"main": main})), "utf-8")
    words = ["overlay", str(tmp_path / "nix"), "--root", str(tmp_path), "--spec", str(tmp_path / "spec.json")]
    assert run(PROGRAM, words) == 2
    assert "no branch is published, so there is nothing to serve" in capsys.readouterr().err


@pytest.mark.parametrize(("version", "status"), [("1.2.0", 0), ("1.3.0", 1)])
def test_the_check_compares_the_version(folder: Path, tmp_path: Path, version: str, status: int) -> None:
    (tmp_path / "flash_attn.py").write_text('__version__ = "1.2.0+cu130"', "utf-8")
    wanted = json.dumps({"package": "flash-attn", "version": version, "capability": "9.0", "cuda": "13.0"})
    command = [sys.executable, str(folder / "check.py"), wanted]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (status, "failed" if status else "ok")


def test_the_command_writes_checks_and_repairs_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overlay = written(tmp_path)
    words = ["overlay", str(overlay), "--root", str(tmp_path), "--spec", str(tmp_path / "spec.json"), "--check"]
    assert run(PROGRAM, words) == 0
    (overlay / "fleet.nix").unlink()
    capsys.readouterr()
    assert run(PROGRAM, words) == 1
    assert "nix/fleet.nix: is missing [drift]" in capsys.readouterr().err
    assert run(PROGRAM, words[:-1]) == 0
    assert "8 variants from spec.json" in capsys.readouterr().out


OPEN = {
    "axes": {"torch": ["2.8", "2.9"], "python": {"serves": {"abi3": ["3.12", "3.13"]}}},
    "packages": {
        "kernels": {"recipes": "own", "attribute": "kernels"},
        "common": {"recipes": "own", "attribute": "common", "ignores": ["python", "accelerator", "torch"]},
    },
    "matrix": {
        "values": {"python": "abi3", "isa": "avx2", "torch": ["2.8", "2.9"]},
        "rows": [{"accelerator": ["cpu", "cuda 12.8 sm90", "rocm 7.1 gfx942"]}],
    },
}


def open_overlay(place: Path, **changes: Any) -> Path:
    """The overlay of an open matrix, with recipes that are their own names."""
    versions = {"versions": {"kernels": "1.0", "common": "1.0"}, "cuda": "12.8"}
    spec = spec_of(small(**{"branches": {"main": versions}, **OPEN, **changes}))
    fetched = {"main": Fetched(url="https://example.org/a.git", commit="0" * 40)}
    decided = plan(spec)
    for path, text in overlay(decided, {}, fetched).items():
        local = re.sub(r"builtins\.fetchGit \{[^}]*\} \+ \S+?;", f"{place}/recipes;", text)
        (place / path).write_text(local, "utf-8")
    (place / "recipes").mkdir()
    for name in (variant.name for cell in decided.judged.cells for variant in cell.variants):
        (place / f"recipes/{name}.nix").write_text(f'{{ }}: "{name}"', "utf-8")
    return place


def test_an_open_matrix_is_chosen_from_by_all_its_axes(tmp_path: Path) -> None:
    folder = open_overlay(tmp_path)
    chosen = nix_eval(
        f"""
        let fleet = import {folder}; only = found: {{ inherit (found) kernels common; }};
        in {{
          rocm = only (fleet.choose {{ gpu = "gfx942"; isa = "avx2"; python = "3.13"; torch = "2.8"; }});
          cuda = only (fleet.choose {{ gpu = "sm90"; isa = "avx2"; toolkit = "12.8"; torch = "2.9"; }});
          rows = map (row: [ row.name row.toolkit row.family row.device row.code ]) fleet.rows;
          apps = builtins.attrNames (import {folder}/checks.nix {{
            inherit fleet;
            pkgs = {{ stdenv.hostPlatform.system = "x86_64-linux"; writeShellScript = name: text: name; }};
          }});
        }}""",
        tmp_path,
    )
    assert chosen["rocm"] == {"kernels": "kernels-abi3-torch2_8-rocm7_1-gfx942-avx2", "common": "common-avx2"}
    assert chosen["cuda"] == {"kernels": "kernels-abi3-torch2_9-cuda12_8-sm90-avx2", "common": "common-avx2"}
    assert ["kernels-abi3-torch2_8-rocm7_1-gfx942-avx2", "7.1", "rocm", "", "gfx942"] in chosen["rows"]
    assert ["kernels-abi3-torch2_8-cuda12_8-sm90-avx2", "12.8", "cuda", "cuda", "sm_90"] in chosen["rows"]
    assert "check-kernels-abi3-torch2_8-cpu-avx2" in chosen["apps"]
    module = (folder / "module.nix").read_text("utf-8")
    assert "torch = narrowing" in module
    assert "inherit (cfg) gpu isa toolkit python branch family torch;" in module


@pytest.mark.parametrize("axis", ["system", "with"])
def test_an_axis_whose_name_the_overlay_needs_is_an_error(axis: str, tmp_path: Path) -> None:
    matrix = {"values": {"python": "3.13", "isa": "avx2", axis: "a"}}
    only = {"kernels": {"recipes": "own"}, "common": {"recipes": "own"}}
    with pytest.raises(InputError, match=f"the overlay uses {axis} for something else"):
        open_overlay(tmp_path, axes={axis: ["a"]}, matrix=matrix, packages=only)

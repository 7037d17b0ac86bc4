"""The Nix expression, the flake, the Flox package and the development environment of ci-compiler itself."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from ci_compiler import __version__
from ci_compiler.adoption import nix_instantiate
from tests.checkers.tools import require
from tests.loops import each

ROOT = Path(__file__).parents[2]
STANDIN = Path(__file__).with_name("standin.nix")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@cache
def evaluated() -> dict[str, Any]:
    """What the expressions evaluate to with the stand-in for nixpkgs, by the real `nix-instantiate`."""
    require("nix-instantiate")
    words = [
        "--eval",
        "--strict",
        "--json",
        str(STANDIN),
        "--arg",
        "root",
        str(ROOT),
        "--argstr",
        "system",
        "x86_64-linux",
    ]
    command = nix_instantiate.command(*words, readable=[ROOT])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def names(requirements: list[str]) -> list[str]:
    return sorted(re.split(r"[<>=~\[]", one)[0].replace(".", "-") for one in requirements)


def test_the_package_is_what_pyproject_declares() -> None:
    package = evaluated()["package"]
    assert (package["name"], package["version"]) == (f"ci-compiler-{__version__}", __version__)
    assert sorted(package["dependencies"]) == names(PROJECT["project"]["dependencies"])
    assert package["built"] == names(PROJECT["build-system"]["requires"])
    files = {Path(one).name for one in package["files"].split()}
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    built = {Path(one).parts[0] for one in (*wheel["packages"], *wheel["force-include"])}
    assert files == {"LICENSE", "README.md", "pyproject.toml", *built}
    assert package["wraps"][:3] == ["--suffix", "PATH", ":"]


def test_nix_build_the_flake_its_overlay_and_flox_give_the_same_derivation() -> None:
    found = evaluated()
    same = {found["default"], found["flox"], found["overlay"], *found["flake"].values()}
    assert same == {found["package"]["drvPath"]}
    assert {*found["flake"]} == {*manifest()["options"]["systems"]}


def test_the_apps_of_the_flake_are_the_commands() -> None:
    for apps in each(evaluated()["apps"].values()):
        assert apps["default"] == "ci-compile"
        assert {*apps.values()} == {*PROJECT["project"]["scripts"]}


def manifest() -> dict[str, Any]:
    return tomllib.loads((ROOT / ".flox/env/manifest.toml").read_text("utf-8"))


def test_the_environment_of_developers_has_what_the_gate_needs_beyond_debian() -> None:
    found = manifest()
    assert found["version"] == 1
    gate = (ROOT / ".ci/run").read_text("utf-8")
    for name in ("git", "jq", "nodejs"):
        assert name in found["install"]
        assert name in gate
    for script in (found["hook"]["on-activate"], found["profile"]["common"]):
        require("bash")
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)

"""The smoke test of a build in a store: its own Python, what it propagates, and the driver."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.hardware import Version
from ci_compiler.hardware.families.cuda import libcuda
from ci_compiler.hardware.families.machines import Attempt, UsedDevice
from ci_compiler.runner.jobs import smoke
from tests.runner.jobs.world import GPU_TORCH, PACKAGES, PYTHON, TORCH, VISION, World, ci_runner
from tests.runner.machines import known

GPU_BUILD = {"cuda": "12.8", "architectures": ["sm_90"], "cudnn": 91002, "gpus": [["NVIDIA H200", [9, 0]]]}


def test_a_build_is_tested_from_the_store_with_what_it_propagates(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package_recipes(world)
    monkeypatch.setattr(smoke, "this_machine", lambda *_, **__: known("h200"))
    for name in (TORCH, VISION):
        assert world.build(name) == 0
        options = ("--stage", "cpu-test", "--manifest", "build-output/manifest.json", "--out", "test-output")
        assert ci_runner("smoke", name, *options) == 0, capsys.readouterr()
        report = json.loads(Path("test-output/result.json").read_text("utf-8"))
        path = world.manifest["store_path"]
        assert report["store_path"] == path
        assert report["python"].startswith(str(world.folder / "store"))
        found = {one["check"]: one["message"] for one in report["checks"]}
        assert found["import"].startswith(f"from {path}/lib/python{PYTHON}/site-packages/")


@pytest.mark.parametrize(
    ("modules", "installed", "failed"),
    [
        (f"(import ./python.nix {{ }}) (import ./{TORCH}.nix {{ }})", "$torch", set()),
        (f"(import ./python.nix {{ }}) (import ./{TORCH}.nix {{ }}).dev", "$torch", set()),  # as nixpkgs lists it
        ("(import ./python.nix { })", "$torch", {"import-withPackages"}),
        (f"(import ./{TORCH}.nix {{ }})", "/nowhere", {"import-propagated-user-env-packages"}),
    ],
)
def test_a_build_is_imported_in_each_way_in_which_users_get_it(
    world: World, monkeypatch: pytest.MonkeyPatch, modules: str, installed: str, failed: set[str]
) -> None:
    package_recipes(world, modules=modules, installed=installed)
    monkeypatch.setattr(smoke, "this_machine", lambda *_, **__: known("haswell"))
    assert world.build(TORCH) == 0
    assert world.build(VISION) == 0
    assert ci_runner("smoke", VISION, "--manifest", "build-output/manifest.json") == (1 if failed else 0)
    report = json.loads(Path("test-output/result.json").read_text("utf-8"))
    ways = {one["check"]: one for one in report["checks"] if one["check"].startswith("import")}
    assert [*ways] == ["import", "import-propagated-user-env-packages", "import-withPackages"]
    assert {name for name, one in ways.items() if one["verdict"] != "ok"} == failed
    assert all("No module named 'torch'" in ways[name]["message"] for name in failed)


def test_a_manifest_of_something_else_or_of_nothing_here_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(smoke, "this_machine", lambda *_, **__: known("h200"))
    assert world.build() == 0
    options = ("--manifest", "build-output/manifest.json")
    capsys.readouterr()
    assert ci_runner("smoke", VISION, *options) == 2
    assert "states the name" in capsys.readouterr().err
    assert ci_runner("smoke", TORCH, *options) == 1
    assert "has no lib/python3.X/site-packages" in capsys.readouterr().err
    world.use_store("second")
    assert ci_runner("smoke", TORCH, *options) == 1
    assert "closure-missing" in (err := capsys.readouterr().err)
    assert "`ci-runner fetch build-output/manifest.json` brings it there" in err


def test_a_package_without_its_python_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package_recipes(world, python=False)
    monkeypatch.setattr(smoke, "this_machine", lambda *_, **__: known("h200"))
    assert world.build() == 0
    assert ci_runner("smoke", TORCH, "--manifest", "build-output/manifest.json") == 1
    assert f"propagates no python{PYTHON}" in capsys.readouterr().err


def test_the_driver_is_found_where_only_the_loaders_cache_has_it(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spy = "import glob, os; print(glob.glob(os.environ.get('LD_LIBRARY_PATH', 'none') + '/*'))"
    package_recipes(world, name=GPU_TORCH, behaviour=GPU_BUILD, code=spy)
    world.spec(backend="flox")
    driver = tmp_path / "driver"
    driver.mkdir()
    for library in ("libcuda.so.1", "libnvidia-ptxjitcompiler.so.1", "libc.so.6"):
        (driver / library).touch()
    seen = (UsedDevice(name="NVIDIA H200", capability=Version(9, 0)),)
    found = [Attempt(library=str(driver / "libcuda.so.1"), linked=False, devices=seen)]
    monkeypatch.setattr(libcuda, "attempts", lambda _: found)
    monkeypatch.setattr(smoke, "this_machine", lambda *_, **__: known("h200"))
    world.commit()
    assert world.build(GPU_TORCH) == 0
    options = ("--stage", "gpu-test", "--manifest", "build-output/manifest.json")
    assert ci_runner("smoke", GPU_TORCH, *options) == 0
    said = Path("test-output/probe.log").read_text("utf-8")
    assert "libcuda.so.1" in said
    assert "libnvidia-ptxjitcompiler.so.1" in said
    assert "libc.so.6" not in said


def package_recipes(
    world: World,
    *,
    name: str = TORCH,
    python: bool = True,
    behaviour: dict[str, Any] | None = None,
    code: str = "",
    modules: str = "",
    installed: str = "",
) -> None:
    """Recipes of the stand-ins as nixpkgs builds Python packages: what is propagated is recorded in a file.

    `modules` are the `requiredPythonModules` of VISION in Nix, and `installed` is what it records for users who
    install it ('': no such attribute or file).
    """
    pkgs = world.root / ".flox" / "pkgs"
    shutil.copytree(PACKAGES, pkgs / "packages", ignore=shutil.ignore_patterns("__pycache__"))
    module = pkgs / "packages" / "torch" / "__init__.py"
    module.write_text(module.read_text("utf-8").replace('meet("import")', code or 'meet("import")'), "utf-8")
    (pkgs / "packages" / "behaviour.json").write_text(json.dumps(behaviour or {}), "utf-8")
    base = Path(sys.executable).resolve()
    site = f"$out/lib/python{PYTHON}/site-packages"
    common = 'system = builtins.currentSystem; builder = "/bin/sh"; PATH = "/usr/bin:/bin"; src = ./packages;'
    (pkgs / "python.nix").write_text(
        f'{{ ... }}: derivation {{ name = "python-{PYTHON}"; {common}\n'
        f'args = [ "-e" "-c" "mkdir -p $out/bin; ln -s {base} $out/bin/python{PYTHON}" ]; }}\n',
        "utf-8",
    )
    record = 'mkdir -p $out/nix-support; echo "$python" >$out/nix-support/propagated-build-inputs' if python else ":"
    install = f"mkdir -p {site} $dev; cp -r $src/torch $src/behaviour.json {site}; {record}"
    world.write(
        name,
        f'{{ ... }}: derivation {{ name = "{name}-2.8.0"; outputs = [ "out" "dev" ]; {common}\n'
        f"python = import ./python.nix {{ }}; args = [ \"-e\" \"-c\" ''{install}'' ]; }}\n",
    )
    record = 'mkdir -p $out/nix-support; echo "$torch" "$dev" >$out/nix-support/propagated-build-inputs'
    if installed:
        record += f"; echo {installed} >$out/nix-support/propagated-user-env-packages"
    install = f"mkdir -p {site}; cp -r $src/torchvision {site}; {record}"
    more = f" // {{ requiredPythonModules = [ {modules} ]; }}" if modules else ""
    world.write(
        VISION,
        f'{{ ... }}: derivation {{ name = "{VISION}-0.23.0"; {common}\n'
        f"torch = import ./{name}.nix {{ }}; dev = (import ./{name}.nix {{ }}).dev;\n"
        f"args = [ \"-e\" \"-c\" ''{install}'' ]; }}{more}\n",
    )
    world.commit()

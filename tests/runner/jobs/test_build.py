"""Building with either backend: dependencies are never built, and only a successful build has a manifest."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.runner.jobs.world import GPU_TORCH, SPEC, TORCH, VISION, World, recipe

BACKENDS = pytest.mark.parametrize("backend", ["flox", "nix"])


@BACKENDS
def test_a_build_leaves_its_manifest_its_log_and_a_line_in_the_summary(
    world: World, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.spec(backend=backend)
    assert world.build() == 0
    out, err = capsys.readouterr()
    manifest = world.manifest
    path = str((world.root / f"result-{TORCH}").readlink())
    assert Path(path).read_text("utf-8") == "2.8.0\n"
    assert manifest["store_path"] == path == out.splitlines()[-1]
    assert manifest["derivation"].endswith(f"-{TORCH}-2.8.0.drv")
    assert path in manifest["outputs"]
    assert [one.endswith("-dev") for one in sorted(manifest["outputs"], key=len)] == [False, True]
    for key, value in {
        "name": TORCH,
        "package": "pytorch",
        "version": "2.8.0",
        "branch": "main",
        "commit": world.head,
        "nixpkgs": "f" * 40,
        "backend": backend,
        "built": True,
        "untested": {},
    }.items():
        assert manifest[key] == value
    assert manifest["closure_size"] > 0
    assert manifest["started"].endswith("Z")
    assert set(manifest["machine"]) == {"system", "cpu", "cores"}
    assert os.uname().nodename not in json.dumps(manifest["machine"])
    log = (world.root / "build-output/build.log").read_text("utf-8")
    assert f"building {TORCH}\n" in log
    assert log in out
    assert f"| {TORCH} | build | built |" in world.summary
    assert err == ""


def test_the_manifest_and_the_summary_say_what_a_compiler_seed_had(world: World) -> None:
    said = "ci-compiler: the compiler seed had 20 of 21 host objects"
    world.spec(backend="nix")
    world.write(TORCH, recipe(TORCH, "2.8.0", f'echo "{said}" >"$out"; cat "$out"'))
    world.commit()
    assert world.build() == 0
    assert "20 of 21 host objects from the compiler seed |" in world.summary
    assert world.manifest["seed"] == {"found": 20, "of": 21}
    assert world.build() == 0
    assert (world.manifest["built"], world.manifest["seed"]) == (False, {})


@BACKENDS
def test_a_build_that_fails_leaves_the_end_of_its_log_and_no_manifest(
    world: World, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.built(backend)
    world.write(TORCH, recipe(TORCH, "2.8.0", "seq 1000; echo the compiler has | tr a-z A-Z; exit 3"))
    world.commit()
    capsys.readouterr()
    assert world.build() == 1
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith(f"error: {TORCH}: the build ended with status 1")
    assert err[0].endswith(" [build-failed]")
    assert "    THE COMPILER HAS" in err
    assert err.index("The error in build.log:") <= 41
    assert "| THE COMPILER HAS" in err
    assert [path.name for path in Path("build-output").iterdir()] == ["build.log"]
    log = Path("build-output/build.log").read_text("utf-8")
    assert "\n1\n2\n" in log
    assert f"| {TORCH} | build | failed |" in world.summary


def test_a_result_that_the_store_already_has_is_not_reported_as_built(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(world.folder / "outputs"))
    world.spec(backend="nix")
    assert world.build() == 0
    assert world.manifest["built"] is True
    assert world.build() == 0
    assert world.manifest["built"] is False
    said = [line for line in (world.folder / "outputs").read_text("utf-8").splitlines() if "built" in line]
    assert said == ["built=yes", "built=no"]
    assert world.builds == 1
    assert "already had it" in world.summary


def test_a_test_that_no_pool_runs_is_in_the_manifest_and_in_the_summary(world: World) -> None:
    name = GPU_TORCH.replace("sm90", "sm120")
    world.write(name, recipe(name, "2.8.0"))
    world.commit()
    assert world.build(name) == 0
    reason = "no pool for gpu-test on x86_64-linux has a GPU that runs sm120 beside a CPU that runs avx2"
    assert world.manifest["untested"] == {"gpu-test": reason}
    assert f"no gpu-test: {reason}" in world.summary.replace("\\_", "_")


def test_if_flox_builds_something_else_the_manifest_has_that_result(world: World) -> None:
    world.spec(backend="flox")
    world.write("other", recipe("other", "1"))
    world.commit()
    flox = world.folder / "bin" / "flox"
    flox.unlink()
    flox.write_text(f"#!/bin/sh\nexec nix-build .flox/pkgs/other.nix --out-link result-{TORCH}\n", "utf-8")
    flox.chmod(0o755)
    assert world.build() == 0
    assert world.manifest["store_path"].endswith("-other-1")
    assert world.manifest["derivation"].endswith("-other-1.drv")
    assert world.manifest["store_path"] in world.manifest["outputs"]


# What the recipe evaluates to.

SM90 = "builds for TORCH_CUDA_ARCH_LIST=8.6;9.0; NAME is for 9.0"
EVALUATES: dict[str, tuple[str, str, str]] = {
    "another version": (TORCH, 'version = "2.7.1";', "evaluates to version 2.7.1; main has pytorch 2.8.0"),
    "another GPU": (GPU_TORCH, "preConfigure = ''export TORCH_CUDA_ARCH_LIST=\"8.6;9.0\"'';", SM90),
    "a GPU in a CPU build": (TORCH, 'TORCH_CUDA_ARCH_LIST = "9.0";', "TORCH_CUDA_ARCH_LIST=9.0; NAME is for no GPU"),
    "flags of a larger ISA": (
        TORCH,
        "preConfigure = ''export CXXFLAGS=\"-mavx512f $CXXFLAGS\"'';",
        "CXXFLAGS turns on avx512f; NAME is for avx2",
    ),
    "flags of a smaller ISA": (TORCH, 'CFLAGS = "-mavx";', "CFLAGS does not turn on "),
    "an unknown flag": (TORCH, 'CFLAGS = "-march=i999";', "CFLAGS: -march=i999: unknown 'i999'"),
    "structured attributes": (
        TORCH,
        '__structuredAttrs = true; version = "2.7.1";',
        "evaluates to version 2.7.1; main has pytorch 2.8.0",
    ),
}


@pytest.mark.parametrize(("backend", "case"), [("flox", "another version"), *(("nix", case) for case in EVALUATES)])
def test_a_recipe_that_evaluates_to_another_variant_is_refused_before_the_build(
    world: World, backend: str, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, extra, message = EVALUATES[case]
    world.spec(backend=backend)
    world.write(name, recipe(name, "2.8.0", f"echo built >>{world.folder}/builds", extra=extra))
    world.commit()
    assert world.build(name) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: .flox/pkgs/{name}.nix: ")
    assert "[evaluation-differs]" in said
    assert message.replace("NAME", name) in said
    assert world.builds == 0


@BACKENDS
def test_equal_flags_and_architectures_are_compared_by_meaning(world: World, backend: str) -> None:
    extra = 'version = "2.8.0"; TORCH_CUDA_ARCH_LIST = "9.0a+PTX"; CFLAGS = "-mf16c -mfma -mavx2 -mtune=native";'
    world.spec(backend=backend)
    world.write(GPU_TORCH, recipe(GPU_TORCH, "2.8.0", extra=extra))
    world.commit()
    assert world.build(GPU_TORCH) == 0


# Dependencies.


@BACKENDS
def test_a_dependency_that_is_nowhere_is_not_built(
    world: World, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.spec(backend=backend)
    assert world.build(VISION) == 1
    message = f"needs {TORCH}, which is neither in this machine's store nor in a cache, because the spec names none"
    assert capsys.readouterr().err.startswith(f"error: {VISION}: {message}; build it first [needs-missing]\n")
    world.spec(backend=backend, cache=world.cache())
    assert world.build(VISION) == 1
    message = f"needs {TORCH}, which is neither in this machine's store nor in file://{world.folder}/cache"
    assert capsys.readouterr().err.startswith(f"error: {VISION}: {message}; build it first [needs-missing]\n")
    assert world.builds == 0
    assert f"| {VISION} | build | failed |" in world.summary


@BACKENDS
def test_a_dependency_comes_from_the_store(world: World, backend: str) -> None:
    world.built(backend)
    torch = world.manifest["store_path"]
    assert world.build(VISION) == 0
    assert Path(world.manifest["store_path"]).read_text("utf-8") == f"2.8.0\n{torch}\n"
    assert world.builds == 1


@BACKENDS
def test_a_dependency_comes_from_the_cache(world: World, backend: str) -> None:
    world.built(backend, signed=True)
    torch = world.manifest["store_path"]
    world.use_store("second")
    assert world.build(VISION) == 0
    assert Path(world.manifest["store_path"]).read_text("utf-8") == f"2.8.0\n{torch}\n"
    assert world.builds == 1


def test_unsigned_paths_from_the_cache_are_rejected(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.built(cached=True)
    world.use_store("second")
    assert world.build(VISION) == 1
    assert "needs-missing" in capsys.readouterr().err
    assert world.builds == 1


def test_a_recipe_that_is_built_with_something_else_is_refused(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.write("other", recipe(TORCH, "2.8.0", "echo its own torch"))
    world.write(VISION, recipe(VISION, "0.23.0", needs="other"))
    world.commit()
    assert world.build() == 0
    assert world.build(VISION) == 1
    assert f"{VISION}: needs {TORCH}, but its recipe uses another" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["by its file", "by a path that is computed", "in a shared file"])
def test_a_recipe_that_is_built_with_a_variant_that_the_spec_does_not_name_is_refused(
    world: World, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    packages = {**SPEC["packages"], "torchvision": {}}
    world.spec(packages=packages)
    text, at = recipe(VISION, "0.23.0", needs=TORCH), f".flox/pkgs/{VISION}.nix:2:19"
    if how == "by a path that is computed":
        text, at = text.replace(f"./{TORCH}.nix", f'(./. + "/{TORCH}" + ".nix")'), f".flox/pkgs/{VISION}.nix:1:1"
    if how == "in a shared file":
        (world.root / ".flox/shared.nix").write_text(f"\nimport ./pkgs/{TORCH}.nix", "utf-8")
        text, at = text.replace(f"./{TORCH}.nix", "../shared.nix"), ".flox/shared.nix:2:8"
    world.write(VISION, text)
    world.commit()
    assert world.build(VISION) == 1
    assert capsys.readouterr().err.splitlines()[0] == (
        f"error: {at}: is built with {TORCH}, and the spec does not say so; add pytorch to the `needs` of torchvision, "
        "so that both are tested before either is published [needs-undeclared]"
    )
    assert world.builds == 0


def test_a_recipe_may_read_another_one_without_being_built_with_it(world: World) -> None:
    packages = {**SPEC["packages"], "torchvision": {}}
    world.spec(packages=packages)
    text = recipe(VISION, "0.23.0", extra=f"note = (import ./{TORCH}.nix {{ }}).name;")
    world.write(VISION, text)
    world.commit()
    assert world.build(VISION) == 0
    assert world.builds == 0


# The cache.


def test_a_build_signs_nothing_even_if_a_key_is_given(world: World) -> None:
    secret = world.key()
    world.built(cached=True)
    assert len(world.manifest["outputs"]) == 2
    assert not any("Sig: " in path.read_text("utf-8") for path in (world.folder / "cache").glob("*.narinfo"))
    kept = [path.read_bytes() for path in world.folder.rglob("*") if path.is_file() and path.suffix != ".secret"]
    assert not any(secret.partition(":")[2].encode() in content for content in kept)


def test_a_cache_that_cannot_be_written_fails_the_build(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    (world.folder / "cache").write_text("no folder", "utf-8")
    world.spec(cache=world.cache())
    assert world.build() == 1
    path = Path(f"result-{TORCH}").readlink()
    assert f"{TORCH}: {path} cannot be copied to file://" in capsys.readouterr().err
    assert not Path("build-output/manifest.json").exists()


# Wrong input.


def test_a_name_that_is_not_a_variant_of_the_branch_is_wrong_input(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.build(TORCH.replace("pytorch", "pytorhc")) == 2
    assert world.build(TORCH, "elsewhere") == 2
    assert world.build(GPU_TORCH, "next") == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[-1] for line in lines] == ["[unknown-variant]", "[unknown-branch]", "[variant-not-built]"]
    assert lines[2].endswith(f"{GPU_TORCH} is not built on next, but on main [variant-not-built]")


@pytest.mark.parametrize("state", ["missing", "changed", "untracked"])
def test_a_recipe_that_differs_from_the_commit_is_wrong_input(
    world: World, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = world.root / f".flox/pkgs/{TORCH}.nix"
    if state == "missing":
        world.git("rm", "--quiet", str(path))
    elif state == "changed":
        world.torch("2.8.1")
    else:
        world.write(GPU_TORCH, recipe(GPU_TORCH, "2.8.0"))
    assert world.build(GPU_TORCH if state == "untracked" else TORCH) == 2
    code = "recipe-missing" if state == "missing" else "recipe-changed"
    name = GPU_TORCH if state == "untracked" else TORCH
    err = capsys.readouterr().err
    assert err.startswith(f"error: .flox/pkgs/{name}.nix: ")
    assert f" [{code}]" in err
    assert world.builds == 0


def test_a_recipe_that_cannot_be_evaluated_says_why(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.write(TORCH, "{ ... }: derivation { name = nowhere; }")
    world.commit()
    assert world.build() == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {TORCH}.nix: undefined variable 'nowhere' [recipe-evaluation]\n")


def test_the_evaluation_of_a_recipe_builds_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Else a machine that publishes would build what the recipe imports."""
    made = recipe("made", "1", f'echo built >>{world.folder}/builds; echo "{{ }}" >"$out"')
    world.write(TORCH, f"{{ ... }}: import (({made}) {{ }})")
    world.commit()
    assert world.build() == 1
    assert world.builds == 0
    said = capsys.readouterr().err
    assert "allow-import-from-derivation" in said
    assert said.splitlines()[0].endswith(" [recipe-evaluation]")


def test_settings_of_the_user_do_not_reach_the_recipe(world: World) -> None:
    world.patch.setenv("NIX_PATH", "nixpkgs=/somewhere")
    spy = 'seen = "${builtins.getEnv "HOME"} ${builtins.getEnv "XDG_CONFIG_HOME"} ${builtins.getEnv "NIX_PATH"}";'
    world.write(TORCH, recipe(TORCH, "2.8.0", 'echo "$seen" >"$out"', extra=spy))
    world.commit()
    assert world.build() == 0
    seen = Path(world.manifest["store_path"]).read_text("utf-8")
    assert str(world.folder / "home") not in seen
    assert "/somewhere" not in seen


@pytest.mark.parametrize(("backend", "program"), [("flox", "flox"), ("nix", "nix-build")])
def test_a_program_that_is_missing_is_named(
    world: World, backend: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.spec(backend=backend)
    bare = world.folder / "bare"
    bare.mkdir()
    for name in {"git", "nix", "nix-store", "nix-instantiate", "nix-build"} - {program}:
        found = next(Path(one, name) for one in os.environ["PATH"].split(":") if Path(one, name).exists())
        (bare / name).symlink_to(found)
    world.patch.setenv("PATH", str(bare))
    assert world.build() == 2
    assert capsys.readouterr().err.startswith(f"error: {program}: {program} is not on PATH; ")

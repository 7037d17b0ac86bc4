"""`cache: {push: own}`: the cache gets what no other cache serves, and NVIDIA's libraries only if the spec says so."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.backends.cache_files import held
from tests.runner.jobs.world import TORCH, World, ci_runner, recipe

MANIFEST = "build-output/manifest.json"
LIBRARY = """\
  shell = name: more: derivation ({
    inherit name;
    system = builtins.currentSystem;
    builder = "/bin/sh";
    PATH = "/usr/bin:/bin";
  } // more);
  glibc = shell "glibc-2.40" { args = [ "-c" "echo glibc >$out" ]; };
  archive = shell "cuda_cudart-linux.tar.xz" {
    url = "https://developer.download.nvidia.com/compute/cuda/redist/cuda_cudart-linux.tar.xz";
    args = [ "-c" "echo archive >$out" ];
  };
  cudart = shell "cuda_cudart-12.8" {
    src = archive;
    inherit glibc;
    outputs = [ "out" "lib" ];
    args = [ "-c" "echo $glibc >$out; echo unpacked $glibc >$lib" ];
  };
"""
"""A library that others serve, and one that Nix unpacks from NVIDIA's downloads."""


def stack(world: World, *, signed: bool = False) -> dict[str, str]:
    """A build with `push: own` of a TORCH that needs both libraries, published if `signed`; its closure by name."""
    world.once("stack", partial(build_stack, world))
    if signed:
        world.key()
        assert world.publish() == 0
        world.unstage()
    return {Path(one).name[33:]: one for one in world.manifest["closure"]}


def build_stack(world: World, **cache: Any) -> None:
    """Writes a TORCH that needs both libraries, and builds it."""
    count = f"echo built >>{world.folder}/builds"
    text = recipe(
        TORCH, "2.8.0", f'{count}; cat "$cudart" >"$out"; echo "$cudart" >>"$out"', extra="cudart = cudart.lib;"
    )
    world.write(TORCH, text.replace("derivation {", f"let\n{LIBRARY}in derivation {{", 1))
    served = f"file://{world.folder}/upstream"
    world.spec(cache=world.cache() | {"push": "own", "others": [served]} | cache)
    world.commit()
    path = world.nix_build("--no-out-link", "--expr", f"let\n{LIBRARY}in glibc").stdout.strip()
    secret = world.folder / "upstream.secret"
    key = world.cache("upstream")["public-key"]
    assert world.nix("copy", "--to", f"{served}?secret-key={secret}", path).returncode == 0
    (world.folder / "etc/nix.conf").write_text(f"trusted-public-keys = {key}\n", "utf-8")
    assert world.build() == 0


def staged(world: World) -> set[str]:
    """The names of the paths in the staged build; the cache has nothing else."""
    (path,) = held(world.folder / "cache")
    assert path == world.manifest["staged"]
    assert world.nix("copy", "--from", world.cache()["url"], path).returncode == 0
    return {one.rsplit("/", 1)[1][33:] for one in held(Path(path))}


def test_paths_that_others_serve_and_libraries_of_nvidia_are_left_out(world: World) -> None:
    closure = stack(world)
    torch = f"{TORCH}-2.8.0"
    assert set(closure) == {torch, f"{torch}-dev", "cuda_cudart-12.8-lib", "glibc-2.40"}
    assert staged(world) == {torch, f"{torch}-dev"}


def test_products_that_the_owner_may_redistribute_are_pushed(world: World) -> None:
    build_stack(world, redistributes=["cuda"])
    assert staged(world) == {f"{TORCH}-2.8.0", f"{TORCH}-2.8.0-dev", "cuda_cudart-12.8-lib"}


def test_by_default_whole_closures_are_pushed(world: World) -> None:
    build_stack(world, push="all")
    assert staged(world) == {f"{TORCH}-2.8.0", f"{TORCH}-2.8.0-dev", "cuda_cudart-12.8-lib", "glibc-2.40"}


@pytest.mark.parametrize("signed", [True, False])
def test_another_machine_gets_each_path_from_where_it_comes(world: World, signed: bool) -> None:
    closure = stack(world, signed=signed)
    world.use_store("second")
    assert ci_runner("fetch", MANIFEST) == 0
    assert Path(world.manifest["store_path"]).read_text("utf-8").startswith("unpacked ")
    assert all(Path(path).exists() for path in closure.values())
    assert world.builds == 1


def test_a_path_that_no_cache_serves_is_an_error_on_one_line(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    closure = stack(world)
    world.spec(cache=world.cache() | {"push": "own", "others": [f"file://{world.folder}/empty"]})
    (world.folder / "empty").mkdir()
    world.use_store("second")
    capsys.readouterr()
    assert ci_runner("fetch", MANIFEST) == 1
    err = capsys.readouterr().err
    assert f"{closure['glibc-2.40']} is neither in {world.cache()['url']} nor in file://{world.folder}/empty" in err
    assert len(err.splitlines()) == 1


def test_publishing_signs_what_the_cache_has(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    stack(world)
    world.git("checkout", "--quiet", "--detach")
    world.key()
    assert world.publish() == 0
    key = ("--option", "trusted-public-keys", world.cache()["public-key"])
    where = ("--store", world.cache()["url"])
    assert world.nix("store", "verify", *where, *key, *world.manifest["outputs"]).returncode == 0
    capsys.readouterr()
    assert world.publish() == 0
    assert "published already: " in capsys.readouterr().out


def test_an_own_path_whose_archive_is_gone_is_put_there_again(world: World) -> None:
    stack(world)
    world.key()
    assert world.publish() == 0
    for archive in (world.folder / "cache/nar").iterdir():
        archive.unlink()
    assert world.publish() == 0
    (path,) = (one for one in world.manifest["outputs"] if one.endswith(f"{TORCH}-2.8.0"))
    where = ("--store", world.cache()["url"], "--option", "trusted-public-keys", world.cache()["public-key"])
    assert world.nix("store", "verify", *where, path).returncode == 0  # its content as well


def test_a_user_s_nix_build_takes_the_rest_from_the_recipe(world: World) -> None:
    """Nix builds what the closure lacks, and then still takes the package from the cache (retrySubstitution)."""
    stack(world, signed=True)
    entry = world.cache()
    world.use_store("user")
    options = (
        *("--option", "substituters", f"{entry['url']} file://{world.folder}/upstream"),
        *("--option", "trusted-public-keys", f"{entry['public-key']} {world.cache('upstream')['public-key']}"),
    )
    done = world.nix_build(f".flox/pkgs/{TORCH}.nix", "--no-out-link", *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [world.manifest["store_path"]]
    assert world.builds == 1


def test_to_s3_nothing_is_built_without_the_aws_cli(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    url = "s3://my-cache?region=eu-central-1&endpoint=s3.example.org"
    world.spec(cache=world.cache() | {"push": "own", "others": [], "url": url})
    some = world.folder / "some"
    some.mkdir()
    for name in ("git", "nix", "nix-build", "nix-instantiate", "nix-store"):
        (some / name).symlink_to(shutil.which(name))
    with world.patch.context() as patch:
        patch.setenv("PATH", str(some))
        assert world.build() == 2
    assert "[program-missing]" in capsys.readouterr().err
    assert world.builds == 0

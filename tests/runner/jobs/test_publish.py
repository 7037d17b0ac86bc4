"""Publishing: once, from the branch, with the secret in only one process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.runner.jobs.world import TORCH, World

WHOLE = f"my-org/{TORCH}"
BACKENDS = pytest.mark.parametrize("backend", ["flox", "nix"])


def ready(world: World, backend: str, branch: str = "main") -> str:
    """A build, checked out as actions/checkout does, with the secret set; returns the secret."""

    def make() -> None:
        if branch != "main":
            world.git("checkout", "--quiet", "-b", branch)
            world.commit()
        world.spec(backend=backend, **({"cache": world.cache()} if backend == "nix" else {}))
        world.commit()
        assert world.build() == 0
        world.git("checkout", "--quiet", "--detach")

    world.once(f"ready-{backend}-{branch}", make)
    return world.token() if backend == "flox" else world.key()


def outcome(world: World) -> dict[str, object]:
    content: dict[str, object] = json.loads((world.root / "publish-output/published.json").read_text("utf-8"))
    return content


def test_flox_publishes_from_the_branch_once(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    ready(world, "flox")
    capsys.readouterr()
    assert world.publish() == 0
    entry = {key: world.manifest[key] for key in ("version", "store_path", "branch")} | {"revision": world.head}
    assert world.catalog == {WHOLE: [entry]}
    assert world.git("symbolic-ref", "--short", "HEAD") == "main\n"
    assert capsys.readouterr().out.splitlines()[-1] == f"{TORCH}: 2.8.0 from main at {world.head[:12]}"
    assert outcome(world)["published"] is True
    assert world.publish() == 0
    assert world.catalog == {WHOLE: [entry]}
    assert f"flox show lists {WHOLE}@2.8.0" in capsys.readouterr().out
    assert outcome(world) == {
        "name": TORCH,
        "published": False,
        "result": f"published already: flox show lists {WHOLE}@2.8.0",
    }
    assert f"| {TORCH} | publish | published |" in world.summary
    assert f"| {TORCH} | publish | published already |" in world.summary
    assert world.publish(TORCH, "--again") == 0
    assert world.catalog == {WHOLE: [entry, entry]}


def test_nix_publishes_signed_and_once(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    ready(world, "nix")
    assert not world.signed(world.manifest["store_path"])
    assert world.publish() == 0
    assert all(world.signed(path) for path in world.manifest["outputs"])
    before = {path: path.stat().st_mtime_ns for path in (world.folder / "cache").rglob("*")}
    capsys.readouterr()
    assert world.publish() == 0
    assert {path: path.stat().st_mtime_ns for path in (world.folder / "cache").rglob("*")} == before
    assert f"published already: file://{world.folder}/cache holds it, signed by cache-1" in capsys.readouterr().out


def test_another_branch_publishes_its_own_version_too(world: World) -> None:
    ready(world, "flox")
    assert world.publish() == 0
    world.git("checkout", "--quiet", "-b", "next", "main")
    world.torch("2.9.1")
    world.commit()
    assert world.build(TORCH, "next") == 0
    assert world.publish(branch="next") == 0
    assert [(one["version"], one["branch"]) for one in world.catalog[WHOLE]] == [("2.8.0", "main"), ("2.9.1", "next")]


@BACKENDS
def test_a_build_of_an_older_version_is_not_published(
    world: World, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ready(world, backend)
    document = json.loads((world.root / ".github/ci-matrix.yaml").read_text("utf-8"))
    document["branches"]["main"]["versions"]["pytorch"] = "2.8.1"
    (world.root / ".github/ci-matrix.yaml").write_text(json.dumps(document), "utf-8")
    assert world.publish() == 1
    assert "was built as version 2.8.0, and main is at 2.8.1" in capsys.readouterr().err


@BACKENDS
def test_a_commit_that_is_not_on_the_branch_is_not_published(
    world: World, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ready(world, backend, "feature")
    assert world.publish() == 1
    assert f"main: {world.head} is not on origin/main" in capsys.readouterr().err
    assert world.catalog == {}
    assert not world.signed(world.manifest["store_path"])
    assert f"| {TORCH} | publish | failed |" in world.summary


def test_an_older_commit_of_the_branch_is_published_as_it_is(world: World) -> None:
    ready(world, "flox")
    built = world.head
    world.git("checkout", "--quiet", "main")
    world.torch("9.9")
    world.commit()
    assert world.publish() == 0
    assert world.catalog[WHOLE][0]["revision"] == built
    assert world.git("rev-parse", "origin/main").strip() != built


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("tree-changed", f".flox/pkgs/{TORCH}.nix: differs from the commit; publishing needs a clean tree"),
        ("branch-ahead", "main: has commits that origin/main lacks; push them first"),
    ],
)
def test_a_checkout_that_would_lose_changes_is_refused(
    world: World, state: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ready(world, "flox")
    if state == "tree-changed":
        world.torch("2.8.1")
    else:
        world.git("checkout", "--quiet", "main")
        world.commit(push=False)
    own = world.git("rev-parse", "main")
    assert world.publish() == 1
    assert capsys.readouterr().err == f"error: {told} [{state}]\n"
    assert world.git("rev-parse", "main") == own
    assert world.catalog == {}


@BACKENDS
def test_a_result_that_is_neither_in_the_store_nor_in_the_cache_is_not_built_again(
    world: World, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ready(world, backend)
    if backend == "nix":
        world.spec(backend="nix", cache=world.cache() | {"url": f"file://{world.folder}/empty"})
    world.use_store("second")
    capsys.readouterr()
    assert world.publish() == 1
    assert "[closure-missing]" in capsys.readouterr().err
    assert world.builds == 1


def test_flox_publishes_a_result_from_the_cache_on_another_machine(world: World) -> None:
    world.spec(backend="flox", cache=world.cache())
    world.commit()
    world.key()
    assert world.build() == 0
    world.patch.delenv("NIX_CACHE_SIGNING_KEY")
    world.token()
    world.use_store("second")
    assert world.publish() == 0
    assert [one["store_path"] for one in world.catalog[WHOLE]] == [world.manifest["store_path"]]
    assert world.builds == 1


# The secret.


@pytest.mark.parametrize(("backend", "variable"), [("flox", "FLOX_FLOXHUB_TOKEN"), ("nix", "NIX_CACHE_SIGNING_KEY")])
def test_without_its_secret_nothing_is_published(
    world: World, backend: str, variable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ready(world, backend)
    world.patch.setenv(variable, "")
    capsys.readouterr()
    assert world.publish() == 2
    assert capsys.readouterr().err.startswith(f"error: {variable}: is not set;")
    assert world.git("branch", "--show-current") == ""


def test_an_expired_token_fails_with_the_message_of_flox(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    ready(world, "flox")
    world.token(-1)
    assert world.publish() == 1
    assert "flox publish ended with 1" in (err := capsys.readouterr().err)
    assert "Your FloxHub token has expired." in err


def test_a_key_that_does_not_belong_to_the_cache_is_reported(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    ready(world, "nix")
    world.cache("another")
    world.key("another")
    assert world.publish() == 1
    assert "publish-unsigned" in (err := capsys.readouterr().err)
    assert "not signed by cache-1; NIX_CACHE_SIGNING_KEY is another key" in err


def test_an_invalid_key_is_not_shown(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    ready(world, "nix")
    world.patch.setenv("NIX_CACHE_SIGNING_KEY", "cache-1:hush-hush-hush")
    assert world.publish() == 1
    out, err = capsys.readouterr()
    assert "publish-failed" in err
    assert "hush" not in out + err + world.summary


@BACKENDS
def test_the_secret_is_in_no_command_line_no_file_and_no_other_environment(
    world: World, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = ready(world, backend)
    spy, temporary = world.folder / "spy", world.folder / "temporary"
    spy.mkdir()
    temporary.mkdir()
    for name in ("git", "nix", "nix-store", "nix-instantiate", "nix-build", "flox"):
        found = next(Path(one, name) for one in os.environ["PATH"].split(":") if Path(one, name).exists())
        lines = [
            "#!/bin/sh",
            f'echo {name} "$@" >>{world.folder}/argv',
            f"env | sed 's/^/{name} /' >>{world.folder}/environments",
            'case "$*" in *secret-key=*|*--key-file*)',
            f'stat -c "%a %n" {temporary}/*/key >>{world.folder}/modes;; esac',
            f'PATH={os.environ["PATH"]} exec {found} "$@"',
        ]
        (spy / name).write_text("\n".join(lines), "utf-8")
        (spy / name).chmod(0o755)
    world.patch.setenv("PATH", f"{spy}:{os.environ['PATH']}")
    world.patch.setenv("TMPDIR", str(temporary))
    world.patch.setattr("tempfile.tempdir", None)
    assert world.publish() == 0
    argv, environments = ((world.folder / name).read_text("utf-8") for name in ("argv", "environments"))
    hidden = secret.partition(":")[2] or secret
    assert hidden not in argv
    holders = {line.split()[0] for line in environments.splitlines() if hidden in line}
    assert holders <= {"flox"}
    shown = "".join(capsys.readouterr())
    assert hidden not in shown + world.summary
    known = {world.folder / "environments", world.folder / "cache.secret"}
    files = [path for path in world.folder.rglob("*") if path.is_file() and path not in known]
    assert not [path for path in files if hidden.encode() in path.read_bytes()]
    if backend == "nix":
        assert {line.split()[0] for line in (world.folder / "modes").read_text("utf-8").splitlines()} == {"600"}

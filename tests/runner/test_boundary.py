"""What one job can do to the next one of its slot: with real Nix, and the daemon and nix.conf of the images."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_compiler.runner.upstream import holes
from tests.conftest import OpenFolder
from tests.runner.slot import READ_ONLY, Slot, derivation

SECRET = "flox-or-signing-key"  # noqa: S105  (one that opens nothing)


@pytest.fixture(scope="module")
def slot(open_folder: OpenFolder) -> Iterator[Slot]:
    """A slot with a daemon that trusts one further key."""
    made = Slot(open_folder() / "slot")
    with made.daemon():
        yield made


def refused(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a job's command failed, and not because its program is missing."""
    return done.returncode not in {0, 127}


def test_builds_are_sandboxed_and_signed_by_the_daemon(slot: Slot) -> None:
    path = slot.build("hello", "test ! -e /etc/hostname && echo hello > $out")
    assert slot.job("cat", path).stdout == "hello\n"
    signed = slot.job("nix", "path-info", "--sigs", path).stdout
    assert signed.split()[-1].split(":")[0] == slot.public_key().split(":")[0]


def test_a_job_can_write_nowhere_on_the_volume(slot: Slot) -> None:
    slot.build("something", "echo > $out")
    found = slot.job("find", "/nix", "-writable", "-not", "-type", "l", "-not", "-type", "s", "-print")
    assert (found.returncode, found.stdout) == (1, "")  # 1: the folder of the keys cannot be entered
    assert "/nix/var/ci-runner" in found.stderr


def test_a_job_can_write_to_no_folder_on_its_path(slot: Slot) -> None:
    found = slot.job("bash", "-c", 'for place in ${PATH//:/ }; do test ! -w "$place" || echo "$place"; done')
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        ("touch", "/nix/store/x"),
        ("touch", "/nix/var/nix/gcroots/x"),
        ("mkdir", "/nix/var/nix/profiles/per-user"),
        ("cp", "/bin/true", "/nix/var/nix/profiles/default/bin/ci-runner"),
        ("cat", "/nix/var/ci-runner/builder.key"),
        ("nix-env", "--profile", "/nix/var/nix/profiles/default", "--install", "/nix/store/x"),
        ("env", "NIX_REMOTE=local", "nix-store", "--add", "/etc/passwd"),
        ("mount", "-o", "remount,bind,rw", "/nix"),
        ("unshare", "--user", "--map-root-user", "--mount", "mount", "-o", "remount,bind,rw", "/nix"),
    ],
    ids=lambda command: " ".join(command[:3]),
)
def test_a_job_cannot_change_the_store_itself(slot: Slot, command: tuple[str, ...]) -> None:
    assert refused(slot.job(*command))


@pytest.fixture(scope="module")
def foreign(open_folder: OpenFolder) -> tuple[Path, str]:
    """A cache with the path of a derivation, whose content was exchanged; and the path."""
    folder = open_folder()
    made = Slot(folder / "slot", store="true")
    script = (
        'path=$(nix-build --no-out-link --option substituters "" --option build-users-group "" --option sandbox false'
        ' --expr "$1") && chmod u+w "$path" && echo EVIL >"$path" && chmod 444 "$path"\n'
        'hash=$(nix-hash --type sha256 "$path") size=$(nix-store --dump "$path" | wc -c)\n'
        'printf "%s\\n%s\\n%s\\n\\n0\\n" "$path" "$hash" "$size"'
        " | nix-store --register-validity --reregister --hash-given\n"
        'nix copy --to "file://$0" "$path" && nix-store --export "$path" >"$0/export" && echo "$path"'
    )
    words = ("bash", "-euc", script, str(folder / "cache"), derivation("victim", "echo GOOD > $out"))
    done = made._in_slot(*words)  # noqa: SLF001
    assert done.returncode == 0, done.stderr
    return folder / "cache", done.stdout.split()[-1]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--no-check-sigs",),
        ("--option", "require-sigs", "false"),
        ("--option", "trusted-public-keys", ""),
    ],
    ids=lambda options: " ".join(options) or "plain",
)
def test_nothing_that_no_trusted_key_signed_enters_the_store(
    slot: Slot, foreign: tuple[Path, str], options: tuple[str, ...]
) -> None:
    cache, path = foreign
    assert refused(slot.job("nix", "copy", *options, "--from", f"file://{cache}", path))
    substituter = ("--option", "extra-substituters", f"file://{cache}?trusted=1")
    assert refused(slot.job("nix-store", *options, *substituter, "--realise", path))
    assert refused(slot.job("bash", "-c", f"nix-store --import <{cache}/export"))
    assert not slot.job("cat", path).stdout


def test_a_forged_path_does_not_keep_the_recipe_from_building_it(slot: Slot, foreign: tuple[Path, str]) -> None:
    _, path = foreign
    assert slot.build("victim", "echo GOOD > $out") == path
    assert slot.job("cat", path).stdout == "GOOD\n"


@pytest.mark.parametrize("hook", ["build-hook", "post-build-hook", "pre-build-hook", "diff-hook"])
def test_no_option_of_a_job_makes_the_daemon_run_a_program_or_leave_the_sandbox(slot: Slot, hook: str) -> None:
    options = ("--option", hook, "/usr/bin/false", "--option", "sandbox", "false")
    path = slot.build(hook, f"test ! -e /etc/hostname && echo {hook} > $out", *options)
    assert slot.job("cat", path).stdout == f"{hook}\n"


def test_another_machine_accepts_what_a_trusted_builder_signed(slot: Slot, open_folder: OpenFolder) -> None:
    folder = open_folder()
    other, cache = Slot(folder / "slot"), folder / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    path = slot.build("traveller", "echo traveller > $out")
    assert slot.job("nix", "copy", "--to", f"file://{cache}", path).returncode == 0
    with other.daemon():
        assert refused(other.job("nix", "copy", "--from", f"file://{cache}", path))
    with other.daemon(CI_RUNNER_TRUSTED_KEYS=slot.public_key()):
        assert other.job("nix", "copy", "--from", f"file://{cache}", path).returncode == 0
        assert other.job("cat", path).stdout == "traveller\n"


def test_garbage_is_collected_between_jobs_and_the_key_stays(open_folder: OpenFolder) -> None:
    folder = open_folder()
    made = Slot(folder / "slot")
    with made.daemon():
        path, key = made.build("garbage", "echo > $out"), made.public_key()
    done = made.collect_garbage()
    assert done.returncode == 0, done.stderr
    assert not (made.folder / path.lstrip("/")).exists()
    with made.daemon():
        assert made.public_key() == key


# The attack: a package, its test and a publication, one after another.

PLACES = (
    "/nix/var/nix/profiles/default/bin",
    "/nix/var/nix/profiles/per-user/runner/profile/bin",
    "$HOME/.nix-profile/bin",
    "$HOME/bin",
    "${PATH//:/ }",
)
PLANT = f"""
for place in {" ".join(PLACES)}; do
  mkdir -p "$place" 2>/dev/null
  for name in ci-runner nix nix-store nix-build flox git bash python3; do
    printf '#!/bin/sh\\necho "$SECRET" >/nix/var/stolen\\n' >"$place/$name" && chmod 755 "$place/$name"
  done
done 2>/dev/null
true
"""
STAGED = "etc/staged"
"""The cache that carries a build, in the folder of a slot."""

SIGNED = (
    'nix copy --to "file://$HOME/cache?secret-key=$HOME/key" "$1" && grep --no-filename Sig: "$HOME"/cache/*.narinfo'
)
PUBLISH = {
    "flox": 'ci-runner publish && flox publish -o my-org "$1"',
    "nix": f'ci-runner publish && printf %s "$SECRET" >"$HOME/key" && {SIGNED}',
}
"""How a job of each backend publishes a path: `flox` is a stand-in; the paths of the backend `nix` are signed."""


def attack(tester: Slot, publisher: Slot, backend: str, secret: str) -> tuple[str, subprocess.CompletedProcess[str]]:
    """A build and a test on one slot leave programs wherever they can; a job of another slot then publishes the build.

    Returns the path of the build and what the last job printed. Where the slots differ, a cache carries the build.
    """
    cache = tester.folder / STAGED
    cache.mkdir()
    cache.chmod(0o777)
    with tester.daemon():
        built = tester.build("package", 'eval "$plant"; echo "$plant" > $out', plant=PLANT)
        tester.job("bash", built)
        assert tester.job("nix", "copy", "--to", f"file:///{STAGED}", built).returncode == 0
        key = tester.public_key()
    tester.job("bash", "-c", PLANT)
    if publisher is not tester:
        shutil.copytree(cache, publisher.folder / STAGED)
    script = f'nix copy --from "file:///{STAGED}" "$1" && {PUBLISH[backend]} && command -v bash git python3 nix flox'
    with publisher.daemon(CI_RUNNER_TRUSTED_KEYS=key):
        return built, publisher.job("bash", "-c", script, "job", built, SECRET=secret)


def supplied(folder: Path, store: str = READ_ONLY) -> Slot:
    """A slot whose image has the toolkit and the stand-in for Flox."""
    made = Slot(folder, store)
    made.program("ci-runner", "echo published by the image")
    made.program("flox", 'echo "flox of the image: $*"')
    return made


@pytest.mark.parametrize("backend", ["nix", "flox"])
@pytest.mark.parametrize("slots", [1, 2])
def test_no_program_of_a_package_gets_the_publishing_secret(
    slots: int, backend: str, slot: Slot, open_folder: OpenFolder
) -> None:
    folder = open_folder()
    first = supplied(folder / "first")
    publisher = first if slots == 1 else supplied(folder / "second")
    secret = slot.job("nix", "key", "generate-secret", "--key-name", "cache-1").stdout if backend == "nix" else SECRET
    built, done = attack(first, publisher, backend, secret)
    assert done.returncode == 0, done.stderr
    published, *said, bash, git, python, nix, flox = done.stdout.splitlines()
    assert published == "published by the image"
    expected = "Sig: cache-1:" if backend == "nix" else f"flox of the image: publish -o my-org {built}"
    assert any(line.startswith(expected) for line in said), said
    programs = (bash, git, python, nix, flox)
    assert {str(Path(program).parent) for program in programs} <= {"/usr/bin", "/bin", "/usr/local/bin"}
    for one in (first, publisher):
        assert not (one.folder / "nix/var/stolen").exists()


def test_the_attack_succeeds_where_the_store_belongs_to_the_jobs(open_folder: OpenFolder) -> None:
    """The layout before the daemon: the attack above is a real one."""
    made = supplied(open_folder() / "slot", store="true")
    made.environment["PATH"] = f"/nix/var/nix/profiles/default/bin:{made.environment['PATH']}"
    subprocess.run(["chown", "-R", "1001:1001", made.folder / "nix"], check=True)
    made.job("bash", "-c", PLANT)
    made.job("bash", "-c", "ci-runner publish", SECRET=SECRET)
    assert (made.folder / "nix/var/stolen").read_text("utf-8") == f"{SECRET}\n"


def test_the_doctor_knows_whether_the_nix_of_this_machine_has_a_hole(slot: Slot) -> None:
    version = slot.job("nix", "--version").stdout
    if "2.8." in version:
        assert [hole.name for hole in holes(version)] == ["CVE-2024-27297"]

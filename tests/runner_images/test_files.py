"""What the images are made of, judged where it lies: by hadolint and shellcheck, and by what must not be in it."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ci_compiler import __version__
from ci_compiler.hardware.families.cuda.libcuda import DRIVER_LINK
from ci_compiler.runner.controller.engine import JIT, RUNNER_ENVIRONMENT
from ci_compiler.runner.deployment.kinds import USER
from ci_compiler.runner.deployment.release_pins import pins
from ci_compiler.runner.upstream import holes
from ci_compiler.spec.build import bundled_spec
from tests.checkers import require

from .buildah import IMAGES, STANDIN

CONTAINERFILES = sorted(IMAGES.glob("*/Containerfile"))
SCRIPTS = sorted(file for folder in (IMAGES, STANDIN) for file in folder.rglob("*") if file.is_file())
SCRIPTS = [file for file in SCRIPTS if re.match(rb"#!.*\bbash( -p)?\n", file.read_bytes()[:40])]


def test_there_is_something_to_judge() -> None:
    assert [file.parent.name for file in CONTAINERFILES] == ["builder", "compiler", "controller", "gpu-tester"]
    assert len(SCRIPTS) == 13


@pytest.mark.parametrize("file", CONTAINERFILES, ids=lambda file: file.parent.name)
def test_hadolint_finds_nothing(file: Path) -> None:
    done = subprocess.run([require("hadolint"), file], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_shellcheck_finds_nothing() -> None:
    words = [require("shellcheck"), "--norc", "--severity", "style", *SCRIPTS]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert all(file.stat().st_mode & 0o111 for file in SCRIPTS)


@pytest.mark.parametrize("file", CONTAINERFILES, ids=lambda file: file.parent.name)
def test_an_image_ends_as_a_user_without_rights(file: Path) -> None:
    text = re.sub(r"^#.*$", "", file.read_text("utf-8"), flags=re.MULTILINE)
    assert re.findall(r"^USER (\S+)$", text, re.MULTILINE)[-1] == f"{USER}:{USER}"
    assert not re.search(r"sudo|docker|VOLUME|latest", text)
    assert not re.search(r"^ARG \w+=", text, re.MULTILINE), "a pin has no default"
    assert not re.search(r"https?://", text), "addresses come from the pins"


def test_packages_come_from_a_snapshot_and_python_packages_have_hashes() -> None:
    for name in ("builder", "compiler", "controller"):
        text = (IMAGES / name / "Containerfile").read_text("utf-8")
        assert text.count("apt-get update") == text.count('/use-snapshot "${SNAPSHOT}"') == text.count("ARG SNAPSHOT")
    text = (IMAGES / "builder/requirements.txt").read_text("utf-8")
    pinned = {row.partition("==")[0] for row in re.findall(r"^[a-z0-9._-]+==\S+ ", text, re.MULTILINE)}
    hashed = re.findall(r"^([a-z0-9._-]+)==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert pinned == set(hashed)
    project = tomllib.loads((IMAGES.parent / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {Requirement(one) for one in project["dependencies"]}
    versions = dict(re.findall(r"^([a-z0-9._-]+)==(\S+) ", text, re.MULTILINE))
    assert all(versions[canonicalize_name(one.name)] in one.specifier for one in needed)


SUITES = ("", "-security")


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        (
            "sources.list.d/debian.sources",
            "URIs: http://deb.debian.org/debian\nURIs: http://deb.debian.org/debian-security\n",
            "".join(f"URIs: http://snapshot.debian.org/archive/debian{one}/20261101T000000Z\n" for one in SUITES),
        ),
        (
            "sources.list",
            "deb https://deb.debian.org/debian/ bookworm main\n",
            "deb http://snapshot.debian.org/archive/debian/20261101T000000Z bookworm main\n",
        ),
    ],
)
def test_apt_takes_the_packages_of_a_day(tmp_path: Path, file: str, before: str, after: str) -> None:
    (tmp_path / "apt.conf.d").mkdir()
    (tmp_path / "sources.list.d").mkdir()
    sources = tmp_path / file
    sources.write_text(before, "utf-8")
    script = IMAGES / "builder/use-snapshot"
    subprocess.run([script, "", tmp_path], check=True)
    assert sources.read_text("utf-8") == before
    for wrong in ("yesterday", "20261101T000000Z;id"):
        assert subprocess.run([script, wrong, tmp_path], capture_output=True, check=False).returncode == 1
    subprocess.run([script, "20261101T000000Z", tmp_path], check=True)
    assert sources.read_text("utf-8") == after
    assert 'Check-Valid-Until "false"' in (tmp_path / "apt.conf.d/80snapshot").read_text("utf-8")


def test_an_image_without_sources_of_debian_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://mirror.example.org/debian bookworm main\n", "utf-8")
    words = [IMAGES / "builder/use-snapshot", "20261101T000000Z", tmp_path]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (1, f"use-snapshot: no source of Debian's packages in {tmp_path}\n")


def test_the_gpu_image_asks_for_no_driver() -> None:
    text = (IMAGES / "gpu-tester/Containerfile").read_text("utf-8")
    assert "apt-get" not in text
    assert DRIVER_LINK in (IMAGES / "gpu-tester/link-driver").read_text("utf-8")


def test_the_image_says_what_a_runner_in_a_container_needs() -> None:
    text = (IMAGES / "builder/Containerfile").read_text("utf-8")
    assert all(f"{name}={value} " in text for name, value in RUNNER_ENVIRONMENT.items())
    assert JIT not in text
    assert JIT in (IMAGES / "builder/entrypoint").read_text("utf-8")


def settings(name: str) -> dict[str, str]:
    """The settings in a nix.conf of the builder."""
    lines = (IMAGES / "builder" / name).read_text("utf-8").splitlines()
    pairs = (line.split("=", 1) for line in lines if line and line[0] not in "#!")
    return {key.strip(): value.strip() for key, value in pairs}


def test_the_daemon_keeps_the_system_features_and_collects_no_garbage_in_a_build() -> None:
    found = settings("daemon.nix.conf")
    assert not {"system-features", "min-free", "extra-platforms"} & set(found)
    assert (found["sandbox"], found["sandbox-fallback"], found["max-jobs"]) == ("true", "false", "1")
    assert found["build-dir"].startswith("/nix/")


def test_jobs_are_untrusted_users_of_the_daemon() -> None:
    found = settings("daemon.nix.conf")
    assert (found["trusted-users"], found["build-users-group"]) == ("root", "nixbld")
    assert found["secret-key-files"].startswith("/nix/var/ci-runner/")
    assert set(settings("nix.conf")) == {"experimental-features"}


def test_path_names_only_folders_of_root() -> None:
    """A job can write to its home, and to what `chown` gives to its user; nothing of the store is on PATH."""
    text = (IMAGES / "builder/Containerfile").read_text("utf-8")
    [path] = re.findall(r"^ENV PATH=(\S+)", text, re.MULTILINE)
    assert set(path.split(":")) == {
        f"{place}/{kind}" for place in ("/usr/local", "/usr", "") for kind in ("bin", "sbin")
    }
    given = re.findall(r"--chown=\S+ \S+ (\S+)", text) + re.findall(r"--owner=1001 .*?(/\S+)", text)
    assert given == ["/home/runner/"]
    installed = (IMAGES / "builder/install-nix").read_text("utf-8")
    assert re.findall(r"^chown .*$", installed, re.MULTILINE) == [
        "chown -R root:root /nix",
        "chown root:nixbld /nix/store",
    ]


@pytest.mark.parametrize("name", ["daemon", "job-started.sh", "job-completed.sh"])
def test_what_runs_around_a_job_takes_its_programs_from_the_image(name: str) -> None:
    lines = (IMAGES / "builder" / name).read_text("utf-8").splitlines()
    assert lines[0] == "#!/bin/bash -p"
    assert "PATH=/usr/local/bin:/usr/bin:/bin" in lines[1:15]


def built(*words: str) -> subprocess.CompletedProcess[str]:
    """`build.py` without this environment's packages: it needs none."""
    command = [sys.executable, "-I", "-S", IMAGES / "build.py", *words]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)


@pytest.mark.parametrize("image", ["builder", "gpu-tester"])
def test_images_are_called_what_pools_call_them(image: str) -> None:
    words = built(image, "--owner", bundled_spec().owner, "--print").stdout.split()
    assert words[:2] == ["podman", "build"]
    assert words[words.index("--tag") + 1] in {pool.image for pool in bundled_spec().pools}


def test_a_build_gets_every_pin_that_its_containerfile_asks_for() -> None:
    words = built("builder", "--engine", "buildah", "--print", "--", "--isolation", "chroot").stdout.split()
    given = dict(word.split("=", 1) for word in words if "=" in word)
    asked = set(re.findall(r"^ARG (\w+)$", (IMAGES / "builder/Containerfile").read_text("utf-8"), re.MULTILINE))
    lacking = {f"FLOX_SHA256_{arch}" for arch in ("AMD64", "ARM64")} | {"TOOLKIT_WHEEL"}
    assert asked - set(given) <= lacking | {"TARGETARCH"}
    assert given["BASE_IMAGE"] == pins().base
    assert given["TOOLKIT_VERSION"] == __version__
    assert given["RUNNER_SHA256_AMD64"] == pins().archives["runner"].sha256["amd64"]
    assert words[-3:] == ["--isolation", "chroot", str(IMAGES)]


def test_a_build_argument_that_nothing_asks_for_is_an_error() -> None:
    done = built("gpu-tester", "--arg", "RUNNER_VERSION=1", "--print")
    assert done.returncode == 1
    assert done.stderr == "build.py: gpu-tester has no argument RUNNER_VERSION; it has BUILDER_IMAGE\n"


def test_upstreams_nix_is_pinned_and_has_no_known_hole() -> None:
    archive = pins().archives["nix"]
    assert set(archive.sha256) == set(archive.urls) == {"amd64", "arm64"}
    assert holes(archive.version) == ()


def test_the_pins_say_where_they_come_from() -> None:
    data = json.loads((IMAGES.parent / "ci_compiler/runner/deployment/release_pins.json").read_bytes())
    assert set(data["source"]) == {"chart", "base", "snapshot", *data["archives"]}

"""The images, really built from stand-in archives, and their entry point at work in them."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_compiler import __version__
from ci_compiler.runner.deployment.release_pins import pins
from tests.checkers import require
from tests.processes import MINUTES

from .buildah import IMAGES, Buildah, Container, archives, base_image, buildah, container

SECRET = "jit-c29tZS1wcml2YXRlLWtleQ"  # noqa: S105  (one that opens nothing)
OWN = {"repository": {"full_name": "o/r"}, "pull_request": {"head": {"repo": {"full_name": "o/r"}}}}
FORK = {"repository": {"full_name": "o/r"}, "pull_request": {"head": {"repo": {"full_name": "stranger/r"}}}}


PINNED = "from ci_compiler.runner.deployment.release_pins import pins; print(pins().base)"
"""The installed package brings its data."""


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("buildah")
    folder = tmp_path_factory.mktemp("context")
    for name in ("builder", "gpu-tester", "archives"):
        ignore = shutil.ignore_patterns("*.whl", "*.deb", "*.tar.gz")
        shutil.copytree(IMAGES / name, folder / name, ignore=ignore)
    (folder / "builder/requirements.txt").write_text("", "utf-8")  # the base image has no dependencies and no index
    return folder


@pytest.fixture(scope="module")
def arguments(context: Path) -> dict[str, str]:
    return archives(context)


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    made = buildah(tmp_path_factory.mktemp("storage"))
    yield made
    made.remove()


@pytest.fixture(scope="module")
def base(tool: Buildah) -> str:
    return base_image(tool)


@pytest.fixture(scope="module")
def builder(tool: Buildah, base: str, context: Path, arguments: dict[str, str]) -> str:
    done = tool.build(
        context / "builder/Containerfile", context, "localhost/builder", {"BASE_IMAGE": base, **arguments}
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return "localhost/builder"


@pytest.fixture
def box(tool: Buildah, builder: str) -> Iterator[Container]:
    made = container(tool, builder)
    yield made
    tool.run("rm", made.name)


def event(box: Container, content: dict[str, object]) -> dict[str, str]:
    """The variables of a job whose event is `content`."""
    box.file("/home/runner/event.json").write_text(json.dumps(content), "utf-8")
    return {"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": "/home/runner/event.json", "STANDIN": "job"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"RUNNER_SHA256_AMD64": "0" * 64, "RUNNER_SHA256_ARM64": "0" * 64},
            "has another SHA-256 than RUNNER_SHA256_A",
        ),
        ({"RUNNER_SHA256_AMD64": "", "RUNNER_SHA256_ARM64": ""}, "_64 is not a SHA-256"),
        ({"FLOX_SHA256_AMD64": "f" * 64, "FLOX_SHA256_ARM64": "f" * 64}, "has another SHA-256 than FLOX_SHA256_A"),
    ],
)
def test_an_archive_that_is_not_as_pinned_fails_the_build(
    tool: Buildah, base: str, context: Path, arguments: dict[str, str], change: dict[str, str], told: str
) -> None:
    wrong = {"BASE_IMAGE": base, **arguments, **change}
    done = tool.build(context / "builder/Containerfile", context, "localhost/wrong", wrong)
    assert done.returncode != 0
    assert told.replace("_64", "") in done.stderr + done.stdout


def test_the_builder_has_what_it_needs_and_nothing_else(box: Container) -> None:
    config = box.config()
    environment = dict(pair.split("=", 1) for pair in config["Env"])
    assert config["User"] == "1001:1001"
    assert environment["RUNNER_VERSION"] == "2.999.0"
    for name in ("ACTIONS_RUNNER_HOOK_JOB_STARTED", "ACTIONS_RUNNER_HOOK_JOB_COMPLETED"):
        assert box.file(environment[name]).stat().st_mode & 0o111
    script = f"id -u; ci-runner --version; flox; /opt/ci-compiler/bin/python -c '{PINNED}'"
    told = box.tool.run("run", "--isolation", "chroot", box.name, "bash", "-c", script)
    assert told.split("\n") == ["1001", f"ci-runner {__version__}", "flox 0", pins().base]
    assert not [
        path
        for path in ("/usr/bin/sudo", "/usr/bin/docker", "/archives", "/fetched/flox.deb")
        if box.file(path).exists()
    ]
    assert not box.file("/run/docker.sock").exists()
    assert box.file("/home/runner").stat().st_uid == 1001


def test_a_job_can_write_to_no_program_that_a_later_job_runs(box: Container) -> None:
    """What outlives a job is the volume at /nix; PATH, the hooks and the toolkit are the image's."""
    environment = dict(pair.split("=", 1) for pair in box.config()["Env"])
    kept = ["/nix", *environment["PATH"].split(":"), "/opt/ci-compiler", "/usr/local/lib/ci-runner", "/etc/ci-runner"]
    script = f"find -L {' '.join(kept)} -writable -not -type s -print"
    assert box.tool.run("run", "--isolation", "chroot", box.name, "bash", "-c", script) == ""
    assert environment["NIX_REMOTE"] == "daemon"
    store = box.file("/nix/store").stat()
    assert (store.st_uid, store.st_mode & 0o7777) == (0, 0o1775)
    users = box.file("/etc/group").read_text("utf-8").partition("\nnixbld:")[2].splitlines()[0].split(":")[-1]
    assert users.split(",") == [f"nixbld{number}" for number in range(1, 9)]


def test_a_job_runs_and_its_secret_shows_nowhere(box: Container) -> None:
    with box.started(SECRET, **event(box, OWN)) as runner:
        runner.wait_for("worker: at work")
        shown = [file for file in Path("/proc").glob("[0-9]*/cmdline") if SECRET.encode() in content(file)]
        box.file("/home/runner/_work/notes/go").touch()
        assert runner.process.wait(MINUTES) == 0
    notes = box.file("/home/runner/_work/notes")
    assert not shown
    assert SECRET not in (notes / "commands").read_text("utf-8")
    assert SECRET not in (notes / "environment").read_text("utf-8")
    assert SECRET not in runner.log.read_text("utf-8")
    assert (notes / "user").read_text("utf-8") == "1001\n"
    assert "NIX_CONFIG=cores = " in (notes / "environment").read_text("utf-8")
    assert not list(box.file("/home/runner/_work/repository/repository").iterdir())


def content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def test_a_forks_job_is_refused(box: Container) -> None:
    with box.started(SECRET, **event(box, FORK)) as runner:
        runner.process.wait(MINUTES)
    told = runner.log.read_text("utf-8")
    assert "::error::this job runs code of stranger/r" in told
    assert "worker: at work" not in told


def test_sigterm_finishes_the_job_at_hand(box: Container) -> None:
    with box.started(SECRET, **event(box, OWN)) as runner:
        runner.wait_for("worker: at work")
        runner.terminate()
        runner.wait_for("finishing the job at hand first")
        box.file("/home/runner/_work/notes/go").touch()
        assert runner.process.wait(MINUTES) == 0
    told = runner.log.read_text("utf-8")
    assert "worker: done" in told
    assert "cancelled" not in told


def test_sigterm_stops_a_runner_that_waits(box: Container) -> None:
    with box.started(SECRET, STANDIN="idle") as runner:
        runner.wait_for("listener: waits")
        runner.terminate()
        assert runner.process.wait(MINUTES) == 0
    assert "listener: interrupted" in runner.log.read_text("utf-8")


def test_the_runners_exit_code_is_passed_on(box: Container) -> None:
    with box.started(SECRET, STANDIN="7") as runner:
        assert runner.process.wait(MINUTES) == 7


def test_a_job_that_lacks_space_is_refused(tool: Buildah, builder: str) -> None:
    box = container(tool, builder, free=10**9)
    with box.started(SECRET, **event(box, OWN)) as runner:
        runner.process.wait(MINUTES)
    assert "/nix/store has " in runner.log.read_text("utf-8")
    assert "worker: at work" not in runner.log.read_text("utf-8")


def test_the_gpu_tester_links_the_given_driver_and_contains_none(tool: Buildah, builder: str, context: Path) -> None:
    done = tool.build(context / "gpu-tester/Containerfile", context, "localhost/gpu-tester", {"BUILDER_IMAGE": builder})
    assert done.returncode == 0, done.stderr[-3000:]
    box = container(tool, "localhost/gpu-tester")
    assert not [*box.root.glob("usr/lib/*/libcuda*"), *box.root.glob("usr/lib/*/libnvidia*")]
    for name, donor in DRIVER.items():
        [library] = box.root.glob(f"usr/lib/*/{donor}")
        renamed = library.read_bytes().replace(donor.encode() + b"\0", name.encode().ljust(len(donor) + 1, b"\0"))
        library.with_name(name).write_bytes(renamed)
    box.tool.run("run", "--isolation", "chroot", "--user", "0", box.name, "ldconfig")
    with box.started(SECRET, STANDIN="0") as runner:
        assert runner.process.wait(MINUTES) == 0
    linked = {file.name for file in box.file("/run/opengl-driver/lib").iterdir()}
    assert linked == {"libcuda.so.1", "libnvidia-ml.so.1"}


DRIVER = {
    "libcuda.so.1": "libpthread.so.0",
    "libnvidia-ml.so.1": "libthread_db.so.1",
    "libnvoptix.so.1": "libpthread.so.0",
}
"""Libraries as a driver has them, and those of the C library (with a name as long) that stand in for them."""

"""Images built and run with buildah, by root and without a daemon, in a storage of the test's own."""

import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ci_compiler import __version__
from tests.checkers import require
from tests.checkers.tools import unavailable
from tests.processes import until

IMAGES = Path(__file__).parents[2] / "runner-images"
STANDIN = Path(__file__).with_name("standin")

ABSENT = re.compile(r"(binutils.*|git|git-man|libbinutils|libglib2.0-0|libicu72|libperl5.*|perl-modules-.*|qemu-user)_")
"""Large packages that apt resolves and that the base image has only on record: no test runs a program from them."""

UNPACK = """\
set -euo pipefail
for package in "${@:2}"; do
  dpkg-deb --fsys-tarfile "$package" | tar --extract --directory "$1" --keep-directory-symlink \
    --exclude './usr/share/doc/*' --exclude './usr/share/locale/*' --exclude './usr/share/man/*'
done
"""
"""bash: unpacks packages into a folder, without running their scripts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buildah:
    """buildah with its storage in one folder."""

    program: str
    storage: Path

    def command(self, *words: str | Path) -> list[str]:
        """The command line of a subcommand."""
        places = ["--root", str(self.storage / "root"), "--runroot", str(self.storage / "run")]
        return [self.program, *places, "--storage-driver", "overlay", *map(str, words)]

    def run(self, *words: str | Path) -> str:
        """What a subcommand says on standard output; its failure is an error with all that it said."""
        done = subprocess.run(self.command(*words), capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, f"buildah {words[0]}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout.strip()

    def build(
        self, file: Path, context: Path, tag: str, arguments: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Builds `file`, whether it succeeds or not."""
        pairs = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        words = self.command("bud", "--isolation", "chroot", "--file", file, "--tag", tag, *pairs, context)
        return subprocess.run(words, capture_output=True, encoding="utf-8", check=False)

    def remove(self) -> None:
        """Everything in the storage, mounts included."""
        subprocess.run(self.command("rm", "--all"), capture_output=True, check=False)
        subprocess.run(self.command("rmi", "--all", "--force"), capture_output=True, check=False)
        subprocess.run(["umount", self.storage / "root/overlay"], capture_output=True, check=False)
        shutil.rmtree(self.storage, ignore_errors=True)


def buildah(folder: Path) -> Buildah:
    """buildah, where it can work: as root, with apt beside it."""
    program = require("buildah")
    for tool in ("apt-get", "dpkg-deb"):
        require(tool)
    if os.geteuid() != 0:
        unavailable("building images in a chroot needs root")
    return Buildah(program=program, storage=folder)


def base_image(tool: Buildah) -> str:
    """A minimal Debian with all packages that the Containerfile of the builder installs.

    apt resolves and downloads the packages, so each name must exist. They are unpacked but not configured, which is
    enough here and takes a fraction of the time. The image has no package sources: its builds download nothing.
    """
    packages = _downloaded(tool.storage / "packages")
    container = tool.run("from", "scratch")
    mount = Path(tool.run("mount", container))
    for name in ("bin", "lib", "lib64", "sbin"):
        (mount / "usr" / name).mkdir(parents=True)
        (mount / name).symlink_to(f"usr/{name}")
    for name in ("bin", "lib", "sbin"):
        (mount / "usr/local" / name).mkdir(parents=True)
    _checked(["bash", "-c", UNPACK, "unpack", mount, *(one for one in packages if not ABSENT.match(one.name))])
    for name in ("passwd", "group"):
        shutil.copy(mount / f"usr/share/base-passwd/{name}.master", mount / f"etc/{name}")
    records = [_checked(["dpkg-deb", "--field", package]) for package in packages]
    status = "".join(f"{record}Status: install ok installed\n\n" for record in records)
    (mount / "var/lib/dpkg/status").write_text(status, "utf-8")
    tool.run("config", "--env", "PIP_NO_DEPS=1", container)  # and pip fetches no dependencies
    tool.run("commit", "--quiet", "--rm", container, "localhost/base")
    return "localhost/base"


def _downloaded(folder: Path) -> list[Path]:
    """The packages of a minimal Debian and of the builder, from the sources that this machine's apt is set to."""
    (folder / "partial").mkdir(parents=True)
    nothing = folder / "status"
    nothing.touch()
    settings = {
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "1",
        "Dir::Cache::archives": str(folder),
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Dir::State::status": str(nothing),
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    apt = ["apt-get", "--quiet=2", *options]
    wanted = ["?essential", "apt", *installed(IMAGES / "builder/Containerfile")]
    install = [*apt, "install", "--yes", "--no-install-recommends", "--download-only", *wanted]
    if subprocess.run(install, capture_output=True, check=False).returncode:  # the lists may be missing or too old
        _checked([*apt, "update"])
        _checked(install)
    return sorted(folder.glob("*.deb"))


def installed(file: Path) -> set[str]:
    """The packages that a Containerfile installs."""
    text = file.read_text("utf-8").replace("\\\n", " ")
    commands = re.findall(r"apt-get install ([^&]+)", text)
    return {word for command in commands for word in command.split() if not word.startswith("-")}


def _checked(words: Sequence[str | Path]) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, f"{words[0]}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def archives(folder: Path) -> dict[str, str]:
    """Stand-ins in `folder`/archives for what a build downloads, and the build arguments that take them from there."""
    target = folder / "archives"
    with tarfile.open(target / "runner.tar.gz", "w:gz") as runner:
        runner.add(STANDIN, ".")
    _flox(folder / "flox", target / "flox.deb")
    words = [require("hatchling"), "build", "-t", "wheel", "-d", target]
    subprocess.run(words, cwd=IMAGES.parent, capture_output=True, check=True)
    [wheel] = target.glob("*.whl")
    found = {
        "BACKEND": "flox",
        "RUNNER_VERSION": "2.999.0",
        "TOOLKIT_VERSION": __version__,
        "TOOLKIT_WHEEL": f"/archives/{wheel.name}",
    }
    for name, file in (("RUNNER", "runner.tar.gz"), ("FLOX", "flox.deb")):
        digest = sha256((target / file).read_bytes()).hexdigest()
        for arch in ("AMD64", "ARM64"):
            found |= {f"{name}_URL_{arch}": f"file:///archives/{file}", f"{name}_SHA256_{arch}": digest}
    return found


def _flox(tree: Path, package: Path) -> None:
    """A stand-in for Flox' package: a program, and a store that holds a Nix."""
    control = (
        "Package: flox\nVersion: 0\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: none\n"
    )
    texts = {"DEBIAN/control": control, "usr/bin/flox": "#!/bin/sh\necho flox 0\n"}
    texts["nix/store/nix/bin/nix"] = '#!/bin/sh\ntest "$1" = store\n'  # the daemon answers
    for name, text in texts.items():
        file = tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        file.chmod(0o755)
    profile = tree / "nix/var/nix/profiles/default"
    profile.mkdir(parents=True)
    (profile / "bin").symlink_to("/nix/store/nix/bin")
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, package], capture_output=True, check=True)


STARTER = 'read -r secret && ACTIONS_RUNNER_INPUT_JITCONFIG=$secret exec "$0"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of an image: its root on this machine, and the environment that it is started with."""

    tool: Buildah
    name: str
    root: Path

    @contextmanager
    def started(self, secret: str, **environment: str) -> Iterator["Started"]:
        """Its entry point at work; this buildah takes `secret` on a command line only, so it comes by a pipe."""
        pairs = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
        [program] = self.config()["Entrypoint"]
        words = ["run", "--isolation", "chroot", *pairs, self.name, "bash", "-c", STARTER, program]
        log = self.tool.storage / f"{self.name}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                self.tool.command(*words), stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT
            )
        with process:
            assert process.stdin
            process.stdin.write(f"{secret}\n".encode())
            process.stdin.close()
            try:
                yield Started(process=process, log=log, program=program)
            finally:
                process.kill()

    def config(self) -> dict[str, Any]:
        """Its configuration, as the OCI image format has it."""
        found: dict[str, Any] = json.loads(self.tool.run("inspect", self.name))["OCIv1"]["config"]
        return found

    def file(self, path: str) -> Path:
        """A file of the container, as this machine sees it."""
        return self.root / path.lstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A container's entry point that runs."""

    process: subprocess.Popen[bytes]
    log: Path
    program: str

    def wait_for(self, text: str) -> None:
        """Waits until the log has `text`."""
        until(lambda: text in self.log.read_text("utf-8"))

    def terminate(self) -> None:
        """SIGTERM to the entry point, which in a container of its own would be process 1."""
        os.kill(self._entrypoint(), signal.SIGTERM)

    def _entrypoint(self) -> int:
        """The topmost process below buildah that runs the program."""
        waiting = [self.process.pid]
        while waiting:
            parent = waiting.pop(0)
            for file in Path("/proc").glob("[0-9]*/stat"):
                try:
                    pid, rest = int(file.parent.name), file.read_text("utf-8").rpartition(") ")[2]
                    words = (file.parent / "cmdline").read_text("utf-8").split("\0")
                except OSError:
                    continue
                if int(rest.split()[1]) == parent:
                    if words[0].endswith("bash") and self.program in words[1:3]:
                        return pid
                    waiting.append(pid)
        raise AssertionError(f"no process runs {self.program}")


def container(tool: Buildah, image: str, free: int = 1) -> Container:
    """A fresh container of `image` whose jobs need `free` GB."""
    name = tool.run("from", image)
    tool.run("config", "--env", f"CI_RUNNER_FREE_GB={free}", name)
    return Container(tool=tool, name=name, root=Path(tool.run("mount", name)))

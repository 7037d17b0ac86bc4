"""A slot's containers without an engine: mount namespaces, real Nix, the daemon and the nix.conf of the images."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ci_compiler.runner.controller.store_daemon import CAPABILITIES
from tests.checkers import require
from tests.checkers.tools import unavailable
from tests.processes import MINUTES, until
from tests.runner_images.buildah import IMAGES

BUILDER = IMAGES / "builder"
USER = 1001
[IMAGE_PATH] = re.findall(r"^ENV PATH=(\S+)", (BUILDER / "Containerfile").read_text("utf-8"), re.MULTILINE)

READ_ONLY = "mount -o remount,bind,ro /nix"

JOB = """\
mount --make-rprivate / && {store} && mount -t tmpfs tmpfs /home && mkdir /home/runner && chown {user} /home/runner
cd /home/runner && exec setpriv --reuid {user} --regid {user} --clear-groups --no-new-privs --bounding-set=-all \\
  --inh-caps=-all env -i "$@"
"""


class Slot:
    """A slot whose volume and image are in `folder`. `store` is how jobs mount the volume: read-only by default."""

    def __init__(self, folder: Path, store: str = READ_ONLY) -> None:
        for tool in ("nix", "nix-daemon", "nix-store", "unshare", "setpriv", "busybox"):
            require(tool)
        private = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        if os.geteuid() or subprocess.run(private, capture_output=True, check=False).returncode:
            unavailable("mount namespaces need root here")
        self.folder, self.store = folder, store
        self.environment = {
            "PATH": IMAGE_PATH,
            "HOME": "/home/runner",
            "NIX_REMOTE": "daemon" if store == READ_ONLY else "",
        }
        folder.mkdir(mode=0o755)  # jobs run as another user than the test
        self._in_slot("true")

    def _command(self, *words: str) -> list[str]:
        return ["unshare", "--mount", str(Path(__file__).with_name("slot.sh")), str(self.folder), str(BUILDER), *words]

    def _in_slot(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.defpath, "HOME": "/root", **variables}
        return subprocess.run(
            self._command(*words), env=env, capture_output=True, encoding="utf-8", check=False, timeout=MINUTES
        )

    def program(self, name: str, text: str) -> None:
        """Puts a program into the image."""
        (self.folder / "bin" / name).write_text(f"#!/bin/bash -p\n{text}\n", "utf-8")
        (self.folder / "bin" / name).chmod(0o755)

    @contextmanager
    def daemon(self, **variables: str) -> Iterator[None]:
        """The daemon of a job, started by the image's own program with the capabilities of its container.

        Debian's Nix, unlike upstream's, has no shell for the sandbox.
        """
        bounds = "-all," + ",".join(f"+{name.lower()}" for name in CAPABILITIES)
        confined = ("setpriv", "--no-new-privs", "--inh-caps=-all", f"--bounding-set={bounds}")
        settings = f"extra-sandbox-paths = /bin/sh={shutil.which('busybox')}\nsubstituters =\n"
        env = {"PATH": os.defpath, "HOME": "/root", "NIX_CONFIG": settings, **variables}
        with (self.folder / "daemon.log").open("ab") as log:
            process = subprocess.Popen(
                self._command(*confined, str(BUILDER / "daemon")),
                env=env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            until(lambda: self.job("nix", "store", "ping").returncode == 0)
            yield
        finally:
            os.killpg(process.pid, 15)
            process.wait(MINUTES)

    def collect_garbage(self) -> subprocess.CompletedProcess[str]:
        """Collects garbage as the controller does between jobs."""
        return self._in_slot(str(BUILDER / "daemon"), "--collect-garbage")

    def job(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A command in a job's container: fresh but for the volume, and without capabilities."""
        pairs = [f"{name}={value}" for name, value in (self.environment | variables).items()]
        script = JOB.format(store=self.store, user=USER)
        return self._in_slot("bash", "-c", script, "job", *pairs, *command)

    def build(self, name: str, script: str, *options: str, plant: str = "") -> str:
        """The path of a derivation that a job builds, or a failure with the job's output."""
        done = self.job("nix-build", "--no-out-link", *options, "--expr", derivation(name, script, plant))
        assert done.returncode == 0, done.stderr + (self.folder / "daemon.log").read_text("utf-8")
        return done.stdout.strip()

    def public_key(self) -> str:
        """The public half of the key with which the daemon signs."""
        text = (self.folder / "nix/var/ci-runner/trusted.conf").read_text("utf-8")
        return text.split("=", 1)[1].split()[0]


def derivation(name: str, script: str, plant: str = "") -> str:
    """A derivation that needs nothing but a shell, whose builder runs `script` with the variable `plant`."""
    values = {"name": name, "builder": "/bin/sh", "plant": plant, "script": script}
    texts = "".join(f"{key} = {json.dumps(value)}; ".replace("${", "\\${") for key, value in values.items())
    return f'derivation {{ {texts}system = builtins.currentSystem; args = [ "-c" "eval \\"$script\\"" ]; }}'

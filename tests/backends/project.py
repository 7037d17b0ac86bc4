"""The wheel project in a repository, and the commands of its jobs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ci_compiler.backends.nar import closure_digest
from tests.backends import wheel
from tests.backends.wheel import NAME, TOKEN

SOURCE = Path(__file__).parents[2]
MANIFEST = "build-output/manifest.json"


def leave_result(root: Path, manifest: dict[str, Any]) -> None:
    """Writes the result of a cpu-test of the build that passed."""
    content = closure_digest(manifest["closure"])
    record = {"name": manifest["name"], "branch": manifest["branch"], "stage": "cpu-test", "content": content}
    folder = root / "tested"
    folder.mkdir(exist_ok=True)
    (folder / "result.json").write_text(json.dumps(record | {"passed": True}), "utf-8")


class Project:
    """The wheel project in a repository with a remote, without Nix and Flox on its PATH.

    `folder` is a copy of what `Project.start` made, or `Project.build` after it; `shared` is for all projects.
    """

    def __init__(self, folder: Path, shared: Path) -> None:
        self.root, self.index = folder / "repository", folder / "index"
        wheel.interpreter(folder / "bin", environment=shared / "environment")
        for tool in ("git", "bash", "sh", "rm", "mkdir", "cp", "test", "ln", "cat"):
            if found := shutil.which(tool):
                (folder / "bin" / tool).symlink_to(found)
        self.environment = {
            "PATH": str(folder / "bin"),
            "HOME": str(folder),
            "PYTHONPATH": str(SOURCE),
            "INDEX": str(self.index),
            "GIT_CONFIG_GLOBAL": os.devnull,
            **{f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }

    def start(self) -> None:
        """Makes the repository and its remote."""
        self.root.mkdir()
        wheel.write(self.root)
        self.run("git", "init", "--quiet", "--initial-branch=main")
        self.run("git", "init", "--quiet", "--bare", "../origin.git")
        self.run("git", "remote", "add", "origin", "../origin.git")
        self.declare()

    def declare(self, smoke: dict[str, Any] | None = None, **command: Any) -> None:
        """Commits and pushes a spec with a smoke test, or keys of the package's commands changed."""
        path = self.root / ".github/ci-matrix.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(wheel.spec(smoke, **command)), "utf-8")
        self.commit()

    def commit(self) -> str:
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", "--allow-empty", "--message=change")
        self.run("git", "push", "--quiet", "--set-upstream", "origin", "main")
        return self.run("git", "rev-parse", "HEAD").stdout.strip()

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text, "utf-8")
        self.commit()

    def run(self, *command: str, status: int | None = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        env = self.environment | environment
        done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, encoding="utf-8", check=False)
        assert status in {None, done.returncode}, done.stdout + done.stderr
        return done

    compiler = (sys.executable, "-m", "ci_compiler")

    def compile(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(*self.compiler, *arguments)

    def job(self, *words: str, status: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs `ci-runner`."""
        start = "import sys; from ci_compiler.cli.runner import main; sys.exit(main())"
        return self.run(sys.executable, "-c", start, *words, status=status, **env)

    def build(self, status: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        return self.job("build", NAME, "--branch", "main", status=status, **env)

    def test(self, status: int = 0) -> subprocess.CompletedProcess[str]:
        return self.job("smoke", NAME, "--stage", "cpu-test", "--manifest", MANIFEST, status=status)

    def publish(self, *options: str, status: int = 0, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
        """Publishes by hand, with a cpu-test that passed."""
        place = ("--branch", "main", "--commit", self.manifest["commit"], "--manifest", MANIFEST)
        leave_result(self.root, self.manifest)
        return self.job("publish", NAME, *place, *options, status=status, PUBLISH_TOKEN=token)

    def checks(self) -> dict[str, tuple[str, str]]:
        """The checks of the last test that are not about this machine or machine code: verdict and message by name."""
        found = json.loads((self.root / "test-output/result.json").read_text("utf-8"))["checks"]
        rows = {one["check"]: (one["verdict"], one["message"]) for one in found}
        own = ("machine-", "emulated-cpu", "instructions-", "libraries-", "device-code")
        return {name: row for name, row in rows.items() if not name.startswith(own)}

    @property
    def manifest(self) -> Any:
        return json.loads((self.root / MANIFEST).read_text("utf-8"))

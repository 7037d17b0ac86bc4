"""A world in which compiled workflows run: a repository, machines with their own Nix stores, a cache, artifacts.

The repository is compiled from `stack/`, and its recipes are the compiled ones: they take the nixpkgs of `stack/` for
theirs, since its hash is in the spec and Nix fetches nothing whose hash is in the store. All is below one folder.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

import ci_compiler
from ci_compiler.workflows.pins import pinned
from tests.checkers import require
from tests.runner.jobs.world import PACKAGES

from .act import Run, read_journal, read_log

HERE = Path(__file__).parent
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TAG = f"python{PYTHON.replace('.', '')}"
REPOSITORY = "my-org/build-engine"
FORK = "a-stranger/build-engine"
VERSIONS = {
    "main": {"engine": "1.0.0", "vision": "0.5.0"},
    "cuda-13_0": {"engine": "1.1.0", "vision": "0.6.0"},
}
"""Versions of the packages in each branch's nixpkgs."""

OF_REPOSITORY = {"repository": {"full_name": REPOSITORY, "default_branch": "main", "owner": {"login": "my-org"}}}
"""The repository in every payload."""

MACHINES = ("builder", "tester", "h100", "hosted")
"""The machines by name: one of each pool, and the hosted ones."""

NOT_HOSTED = ("nix", "flox", "ci-compile", "ci-runner", "nvidia-", "qemu-")
"""Prefixes of the programs that a hosted machine lacks until a step installs them.

Nor has one an emulator, of which `tests/runner/jobs/test_emulation.py` proves what it does on any CPU.
"""

STANDIN_FLOX = HERE.parent / "runner/jobs"
"""The folder of a `flox` that refuses what the real one refuses."""

KEY_NAME = "miniature-1"
SECONDS = 1800
"""For one run of act; a hundred times of what it takes would be more."""

IDENTITY = {
    "GIT_AUTHOR_NAME": "A Maintainer",
    "GIT_AUTHOR_EMAIL": "maintainer@example.org",
    "GIT_COMMITTER_NAME": "A Maintainer",
    "GIT_COMMITTER_EMAIL": "maintainer@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


class World:
    """The world below the folder `root`, for a backend. `apart`: each machine has its own store."""

    def __init__(self, root: Path, *, backend: str, apart: bool) -> None:
        self.root = root
        self.apart = apart
        self.backend = backend
        self.origin = root / "origin.git"
        self.clone = root / "clone"
        self.cache = root / "cache"
        self.machines = root / "machines"
        self.journal = root / "journal"
        self.catalog = root / "catalog.json"
        self.runs = 0
        self.github = ""  # the address of a GitHub for the commands of hosted machines, and the repository there
        self.github_token = ""
        self.token = token(valid_for=86400)
        self.hosted = root / "hosted"
        for folder in (self.machines, self.cache, self.hosted, root / "home", root / "tmp"):
            folder.mkdir(parents=True)
        self._make_hosted()
        self._make_stores()
        self._make_repository()

    # Making it.

    def _make_stores(self) -> None:
        for machine in MACHINES:
            self.on(machine, require("nix-store"), "--init")
        self._make_key()
        self._make_nixpkgs()

    def _make_key(self) -> None:
        files = [self.root / "key.sec", self.root / "key.pub"]
        self.on("builder", require("nix-store"), "--generate-binary-cache-key", KEY_NAME, *files)
        self.key, self.public_key = (file.read_text("utf-8").strip() for file in files)

    def _make_nixpkgs(self) -> None:
        """Each branch's nixpkgs, and its hash."""
        self.nixpkgs_hash: dict[str, str] = {}
        for branch, versions in VERSIONS.items():
            source = self._nixpkgs(branch)
            shutil.copytree(HERE / "stack/nixpkgs", source)
            shutil.copytree(PACKAGES, source / "standins", ignore=shutil.ignore_patterns("__pycache__"))
            facts = {"pythonVersion": PYTHON, "program": sys.executable, **versions}
            rows = "".join(f"  {name} = {json.dumps(value)};\n" for name, value in facts.items())
            (source / "here.nix").write_text(f"{{\n{rows}}}\n", "utf-8")
            digest = self.on("hosted", require("nix-hash"), "--type", "sha256", source).strip()
            self.nixpkgs_hash[branch] = f"sha256-{base64.b64encode(bytes.fromhex(digest)).decode()}"
        self.add_nixpkgs("hosted")
        self._supply_builder()

    def _nixpkgs(self, branch: str) -> Path:
        return self.root / "nixpkgs" / branch / "source"  # the name that fetchTarball gives

    def add_nixpkgs(self, machine: str) -> None:
        """Puts the archives of nixpkgs where a machine has them after fetching them."""
        for branch in VERSIONS:
            self.on(machine, require("nix-store"), "--add-fixed", "--recursive", "sha256", self._nixpkgs(branch))

    def _supply_builder(self) -> None:
        """Gives the builder the archives, and a Python as if from a public cache."""
        self.add_nixpkgs("builder")
        build = (require("nix-build"), self._nixpkgs("main"), "--argstr", "system", "x86_64-linux", "--attr", "python")
        self.on("builder", *build, "--no-out-link")

    def _make_hosted(self) -> None:
        """Gives the hosted machine all programs of this machine except those that its jobs must install."""
        for folder in map(Path, os.environ.get("PATH", os.defpath).split(os.pathsep)):
            readable = os.access(folder, os.R_OK | os.X_OK) and folder.is_dir()
            for program in folder.iterdir() if readable else ():
                if not program.name.startswith(NOT_HOSTED) and not (self.hosted / program.name).is_symlink():
                    (self.hosted / program.name).symlink_to(program)

    def install_driver(self) -> None:
        """Gives the machine of the GPU pool its driver."""
        folder = self.machines / "h100" / "driver"
        folder.mkdir(parents=True)
        options = ("-shared", "-fPIC", "-nostdlib", "-ffreestanding", "-o", folder / "libcuda.so.1")
        self._run(require("cc"), *options, HERE / "stack/libcuda.c")

    def _make_origin(self) -> None:
        """The repository, without a commit, and its clone."""
        self.git("init", "--quiet", "--bare", "--initial-branch=main", self.origin, at=self.root)
        self.git("config", "uploadpack.allowAnySHA1InWant", "true", at=self.origin)  # as GitHub does
        self.git("clone", "--quiet", self.origin, self.clone, at=self.root)
        self.git("checkout", "--quiet", "-b", "main")

    def _make_repository(self) -> None:
        self._make_origin()
        self.git("commit", "--quiet", "--allow-empty", "--message", "Begin with nothing")
        shutil.copytree(HERE / "stack/flox", self.clone / ".flox")
        (self.clone / ".github").mkdir()
        self.write_spec()
        self.compile("main")
        self.commit("Begin")
        self.git("checkout", "--quiet", "-b", "cuda-13_0")
        shutil.rmtree(self.clone / ".flox/pkgs")
        self.compile("cuda-13_0")
        self.commit("Begin with CUDA 13.0")
        self.git("push", "--quiet", "origin", "main", "cuda-13_0")
        self.git("checkout", "--quiet", "main")

    def write_spec(self, *replaced: tuple[str, str]) -> None:
        """Writes the spec with texts `replaced` in it."""
        words = {
            "backend": self.backend,
            "version": ci_compiler.__version__,
            "python": PYTHON,
            "cache": f"file://{self.cache}",
            "public-key": self.public_key,
            **{f"nixpkgs-hash-{branch}": digest for branch, digest in self.nixpkgs_hash.items()},
        }
        text = (HERE / "stack/ci-matrix.yaml").read_text("utf-8")
        for word, value in words.items():
            text = text.replace(f"@{word}@", value)
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        (self.clone / ".github/ci-matrix.yaml").write_text(text, "utf-8")

    def compile(self, branch: str) -> None:
        """Compiles workflows and the recipes of `branch` into the clone."""
        for words in (["--branch", branch], ["recipes", "--branch", branch]):
            self._run(HERE / "bin/installed/ci-compile", *words, at=self.clone)

    # Changing it.

    def git(self, *words: str | Path, at: Path | None = None) -> str:
        """The output of a git command in the clone."""
        return self._run(require("git"), *words, at=at or self.clone).strip()

    def commit(self, message: str) -> str:
        """Commits everything in the clone; returns the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def edit(self, path: str, old: str, new: str) -> None:
        """Replaces a text in a file of the clone, which has it."""
        file = self.clone / path
        text = file.read_text("utf-8")
        assert old in text, (old, text)
        file.write_text(text.replace(old, new, 1), "utf-8")

    def new_builder(self) -> None:
        """Replaces the builder by one with an empty store."""
        _remove(self.machines / ("builder" if self.apart else "all"))
        self._supply_builder()

    def remove(self) -> None:
        """Removes the world."""
        _remove(self.root)

    # Running in it.

    def _nix(self) -> str:
        """The folder of Nix' programs on the machines that have them."""
        return str(Path(require("nix-build")).parent)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every process of the world; only PATH comes from the tests' own environment."""
        return {
            "PATH": f"{HERE / 'bin/machine'}{os.pathsep}{self.hosted}",
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "LC_ALL": "C.UTF-8",
            "NIX_REMOTE": "local",
            "NIX_STORE_DIR": str(self.root / "store"),
            "NIX_CONFIG": "sandbox = false\nbuild-users-group =\nsubstituters =",
            "FLOX_STANDIN_CATALOG": str(self.catalog),
            "E2E_FLOX": str(STANDIN_FLOX) if self.backend == "flox" else "",
            "E2E_NIX": self._nix(),
            "E2E_APART": "1" if self.apart else "0",
            "E2E_BIN": str(HERE / "bin"),
            "E2E_GITHUB": self.github,
            "E2E_MACHINES": str(self.machines),
            "E2E_JOURNAL": str(self.journal),
            "E2E_ORIGIN": str(self.origin),
            "E2E_PYTHON": sys.executable,
            "E2E_SOURCE": str(Path(ci_compiler.__file__).parents[1]),
            "E2E_HOSTED": str(HERE / "bin/hosted"),
            "E2E_INSTALLED": str(HERE / "bin/installed"),
            "E2E_REQUIREMENT": f"ci-compiler=={ci_compiler.__version__}",
            **IDENTITY,
        }

    def signed(self, *paths: str, key: str = "") -> bool:
        """Whether the cache holds the closures of paths, each with a valid signature by `key` (the spec's, if '')."""
        command: list[str | Path] = [
            *(HERE / "bin/on-machine", "builder", require("nix"), "--extra-experimental-features", "nix-command"),
            *("store", "verify", "--store", f"file://{self.cache}", "--recursive", "--no-contents"),
            *("--option", "trusted-public-keys", key or self.public_key, *paths),
        ]
        done = subprocess.run(command, env=self.environment, capture_output=True, timeout=SECONDS, check=False)
        return done.returncode == 0

    def cached(self) -> dict[str, bytes]:
        """The files of the cache."""
        return {path.name: path.read_bytes() for path in self.cache.rglob("*") if path.is_file()}

    def ask_store(self, machine: str, query: str, *paths: str) -> str:
        """The answer of a machine's store to a query about paths."""
        return self.on(machine, require("nix-store"), "--query", query, *paths).strip()

    def on(self, machine: str, *command: str | Path) -> str:
        """The output of a command on one of the machines."""
        return self._run(HERE / "bin/on-machine", machine, *command)

    def _run(self, *command: str | Path, at: Path | None = None) -> str:
        done = subprocess.run(
            list(map(str, command)),
            cwd=at or self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    # Events.

    def push(self, workflow: str, branch: str) -> Run:
        """Pushes the clone's branch and runs `workflow` for the push."""
        before = self.git("rev-parse", f"origin/{branch}")
        self.git("push", "--quiet", "origin", branch)
        after = self.git("rev-parse", branch)
        payload = {"ref": f"refs/heads/{branch}", "before": before, "after": after, "deleted": False}
        return self.act("push", workflow, payload, after)

    def dispatch(self, workflow: str, branch: str, *, job: str = "", **inputs: str) -> Run:
        """Starts `workflow`, or only one `job` of it, at `branch` by its form."""
        payload = {"ref": f"refs/heads/{branch}", "inputs": inputs}
        commit = self.git("rev-parse", f"origin/{branch}")
        return self.act("workflow_dispatch", workflow, payload, commit, *(("--job", job) if job else ()))

    def pull_request(self, branch: str, base: str, *, head_repository: str = REPOSITORY, number: int = 7) -> Run:
        """Runs the pull request workflow on the merge of the clone's `branch` into `base`.

        The event names the first commit as the base, as for a request that was opened long ago.
        """
        head, onto = self.git("rev-parse", branch), self.git("rev-parse", f"origin/{base}")
        stale = self.git("rev-list", "--max-parents=0", onto)
        self.git("checkout", "--quiet", "--detach", onto)
        self.git("merge", "--quiet", "--no-ff", "--message", f"Merge {head} into {onto}", head)
        merge = self.git("rev-parse", "HEAD")
        self.git("push", "--quiet", "--force", "origin", f"HEAD:refs/pull/{number}/merge")
        payload = {
            "action": "opened",
            "number": number,
            "pull_request": {
                "number": number,
                "base": {"ref": base, "sha": stale, "repo": {"full_name": REPOSITORY}},
                "head": {"ref": branch, "sha": head, "repo": {"full_name": head_repository}},
            },
        }
        return self.act("pull_request", "pull-request.yml", payload, merge)

    def merge_group(self, branch: str, base: str) -> Run:
        """Runs the pull request workflow on the merge of the clone's `branch` into `base`, as a merge queue does."""
        onto = self.git("rev-parse", f"origin/{base}")
        self.git("checkout", "--quiet", "--detach", onto)
        self.git("merge", "--quiet", "--no-ff", "--message", "Merge a group", branch)
        head, queue = self.git("rev-parse", "HEAD"), f"refs/heads/gh-readonly-queue/{base}/pr-7-{onto}"
        self.git("push", "--quiet", "--force", "origin", f"HEAD:{queue}")
        group = {"head_sha": head, "head_ref": queue, "base_sha": onto, "base_ref": f"refs/heads/{base}"}
        return self.act("merge_group", "pull-request.yml", {"action": "checks_requested", "merge_group": group}, head)

    def act(self, event: str, workflow: str, payload: Mapping[str, Any], commit: str, *options: str) -> Run:
        """Runs a workflow of the compiled files at `commit`, as they are, for an event."""
        folder = self._new_run(payload)
        return self._act(folder, self._tree(folder, commit), event, f".github/workflows/{workflow}", *options)

    def verdict(self, workflow: str, run: Run, results: Mapping[str, str]) -> Run:
        """Runs the verdict job of a compiled workflow after `run`, in which act did not reach it.

        The job is the compiled one, to the letter. Of the jobs that it needs there are stand-ins that end with
        `results`; those that are not named are skipped, and the one that selects says again what it said in `run`.
        """
        last = self.root / f"run-{self.runs}"
        folder = self._new_run(json.loads((last / "event.json").read_text("utf-8")))
        tree = self._tree(folder, self.git("rev-parse", "HEAD", at=last / "tree"))
        compiled = yaml.safe_load((tree / ".github/workflows" / workflow).read_text("utf-8"))
        verdict = compiled["jobs"]["verdict"]
        jobs = {need: _ended(results.get(need, "skipped")) for need in verdict["needs"]}
        passed = compiled["jobs"]["select"].get("with", {})  # the branch and the shard, which it says as well
        jobs["select"] |= {"outputs": _outputs(run.log.said) | passed}
        document = {"name": compiled["name"], "on": "push", "jobs": {**jobs, "verdict": verdict}}
        (tree / "verdict.yml").write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")
        shutil.copytree(run.artifacts, folder / "artifacts")
        return self._act(folder, tree, "push", "verdict.yml")

    def _new_run(self, payload: Mapping[str, Any]) -> Path:
        self.runs += 1
        folder = self.root / f"run-{self.runs}"
        folder.mkdir()
        (folder / "event.json").write_text(json.dumps({**payload, **OF_REPOSITORY}), "utf-8")
        return folder

    def _act(self, folder: Path, tree: Path, event: str, workflow: str, *options: str) -> Run:
        before = self._journal()
        command = [
            *(require("act"), event, "--workflows", workflow, "--eventpath", folder / "event.json"),
            *("--json", "--no-skip-checkout", "--pull=false", "--no-cache-server", "--action-offline-mode"),
            *("--use-new-action-cache", "--action-cache-path", folder / "act"),
            *self._platforms(),
            *self._actions(),
            *("--secret-file", self._secret_file(folder)),
            *options,
        ]
        done = subprocess.run(
            list(map(str, command)),
            cwd=tree,
            env={**self.environment, "E2E_ARTIFACTS": str(folder / "artifacts")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
        (folder / "log").write_text(done.stdout, "utf-8")
        return Run(
            status=done.returncode,
            log=read_log(done.stdout),
            journal=read_journal(self._journal().removeprefix(before)),
            artifacts=folder / "artifacts",
        )

    def _secret_file(self, folder: Path) -> Path:
        """The secrets of GitHub's environment `release`. act has no environments and gives them to every caller."""
        file = folder / "secrets"
        file.write_text("".join(f"{name}={value}\n" for name, value in self._secrets().items()), "utf-8")
        return file

    def _secrets(self) -> dict[str, str]:
        own = {"GITHUB_TOKEN": self.github_token} if self.github else {}
        return {"NIX_CACHE_SIGNING_KEY": self.key, "FLOX_FLOXHUB_TOKEN": self.token, **own}

    def _tree(self, folder: Path, commit: str) -> Path:
        """A checkout of `commit` for act, which reads the workflows, the commit and the repository's name from it."""
        tree = folder / "tree"
        self.git("clone", "--quiet", "--no-checkout", "--shared", self.origin, tree, at=self.root)
        self.git("fetch", "--quiet", "origin", commit, at=tree)
        self.git("checkout", "--quiet", "--detach", commit, at=tree)
        self.git("remote", "set-url", "origin", f"https://github.com/{REPOSITORY}", at=tree)
        for path in (tree / ".github/workflows").glob("*.yml"):  # act refuses `queue`, which has no effect on one run
            path.write_text(re.sub(r"\n *queue: max(?=\n)", "", path.read_text("utf-8")), "utf-8")
        return tree

    def _journal(self) -> str:
        return self.journal.read_text("utf-8") if self.journal.exists() else ""

    @staticmethod
    def _platforms() -> list[str]:
        labels = ("self-hosted", "ubuntu-24.04")
        return [word for label in labels for word in ("--platform", f"{label}=-self-hosted")]

    @staticmethod
    def _actions() -> list[str]:
        """The stand-ins for the actions, each at the commit that the compiled files pin."""
        owners = {"install-nix-action": "cachix", "install-flox-action": "flox"}
        names = sorted(path.name for path in (HERE / "actions").iterdir())
        stood_in = ((str(pinned(f"{owners.get(name, 'actions')}/{name}")), HERE / "actions" / name) for name in names)
        return [word for uses, folder in stood_in for word in ("--local-repository", f"{uses}={folder}")]


def _remove(folder: Path) -> None:
    """Removes a folder with a Nix store in it, whose files nobody may write."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink() and path.is_dir():
            path.chmod(0o700)
    shutil.rmtree(folder)


def token(*, valid_for: int) -> str:
    """A token with the form of FloxHub's, which expires in `valid_for` seconds."""
    end = int(time.time()) + valid_for
    parts: tuple[dict[str, Any], ...] = ({"alg": "none"}, {"sub": "a-maintainer", "exp": end}, {})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


def _ended(result: str) -> dict[str, Any]:
    """A job that ends with `result`."""
    step = {"run": "exit 1" if result == "failure" else "true"}
    return {"runs-on": "ubuntu-24.04", "if": "false" if result == "skipped" else "true", "steps": [step]}


def _outputs(said: str) -> dict[str, str]:
    """The outputs that a `select` job printed."""
    lines = (line.partition("=") for line in said.splitlines())
    return {key: value for key, _, value in lines if key in {"commit", "chosen", "cells", "matrix"}}


Kind = TypeVar("Kind", bound=World)


def in_a_folder(kind: Callable[[Path], Kind]) -> Iterator[Kind]:
    """A world for the tests of a module, in a folder on a disk, which is removed after them."""
    for tool in ("act", "git", "bash"):
        require(tool)
    root = Path(tempfile.mkdtemp(prefix="ci-compiler-", dir="/var/tmp"))
    yield kind(root)
    _remove(root)

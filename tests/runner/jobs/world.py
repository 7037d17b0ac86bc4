"""A small world for the stages: a repository with a remote, recipes that are real derivations, a store and a cache.

Nothing outside of one folder is changed: Nix and git have their own store and configuration there, and `flox` on PATH
is the stand-in next to this module.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.backends.nar import closure_digest
from ci_compiler.cli.app import run
from ci_compiler.cli.runner import PROGRAM
from tests.checkers.tools import require

HERE = Path(__file__).parent
PACKAGES = HERE / "packages"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TORCH = f"pytorch-python{PYTHON.replace('.', '')}-cpu-avx2"
VISION = f"torchvision-python{PYTHON.replace('.', '')}-cpu-avx2"
GPU_TORCH = f"pytorch-python{PYTHON.replace('.', '')}-cuda12_8-sm90-avx2"

SPEC: dict[str, Any] = {
    "version": 1,
    "owner": "my-org",
    "backend": "nix",
    "branches": {
        "main": {
            "cuda": "12.8",
            "nixpkgs": "f" * 40,
            "nixpkgs-hash": "sha256-" + "A" * 43 + "=",
            "versions": {"pytorch": "2.8.0", "torchvision": "0.23.0", "torchaudio": "2.8.0"},
        },
        "next": {
            "cuda": "12.9",
            "nixpkgs": "e" * 40,
            "nixpkgs-hash": "sha256-" + "A" * 43 + "=",
            "versions": {"pytorch": "2.9.1", "torchvision": "0.24.1", "torchaudio": "2.9.1"},
        },
    },
    "packages": {
        "pytorch": {"attribute": "torch"},
        "torchvision": {"needs": ["pytorch"]},
        "torchaudio": {"needs": ["pytorch"]},
        "odd": {"attribute": "odd-one", "branches": ["main"]},
    },
    "matrix": {
        "python": [PYTHON],
        "isas": {"x86_64-linux": ["avx", "avx2", "avx512bf16"]},
        "gpus": {"cpu": {}, "sm90": {}, "sm120": {}},
    },
    "runners": {
        "builder": {"runs-on": ["self-hosted", "linux", "x64", "nix-builder"], "cpu": ["avx512bf16"]},
        "h100": {"runs-on": ["self-hosted", "linux", "x64", "gpu-sm90"], "gpu": "sm90", "cpu": ["avx512bf16"]},
    },
    "publish": {"on-shared-machines": True},
}
SPEC["branches"]["main"]["versions"]["odd"] = "1.0"


def ci_runner(*argv: str | Path) -> int:
    """The exit code of `ci-runner` with these arguments."""
    return run(PROGRAM, [str(word) for word in argv])


def built_apart(world: World) -> None:
    """Has each builder build what others built before, as if it had begun before they ended."""
    world.patch.setattr("ci_compiler.backends.nix_recipes.RecipePrograms._take_earlier", lambda *_: False)


def recipe(name: str, version: str, script: str = 'echo "$name" >"$out"', *, needs: str = "", extra: str = "") -> str:
    """A recipe in Nix alone: two outputs, made by `script` in a shell; `needs` is another recipe's name."""
    imported = f"let need = import ./{needs}.nix {{ }}; in " if needs else ""
    return f"""\
{{ ... }}:
{imported}derivation {{
  name = "{name}-{version}";
  system = builtins.currentSystem;
  builder = "/bin/sh";
  outputs = [ "out" "dev" ];
  PATH = "/usr/bin:/bin";
  {"inherit need;" if needs else ""}
  {extra}
  args = [ "-e" "-c" ''
    echo building {name}
    echo "dev of $out" >"$dev"
    {script}
  '' ];
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The checkout at `root`, with everything else below `folder`."""

    folder: Path
    root: Path
    patch: pytest.MonkeyPatch

    # States.

    def once(self, name: str, make: Callable[[], object]) -> None:
        """Puts all files into the state `name`: the first time by calling `make`, then by copying what `make` left.

        A copy works because every world has the same folder. `make` sets no environment variables, except those of
        `use_store`.
        """
        kept = self.folder.parent / f"kept-{name}"
        if kept.exists():
            self.clear()
            shutil.copytree(kept, self.folder, symlinks=True)
            self._enter()
        else:
            make()
            shutil.copytree(self.folder, kept, symlinks=True, ignore=shutil.ignore_patterns("gc-socket"))

    def built(self, backend: str = "nix", *, cached: bool = False, signed: bool = False) -> None:
        """A build of TORCH, copied to the cache if it is `cached` or `signed`."""

        def make() -> None:
            self.spec(backend=backend, **({"cache": self.cache()} if cached or signed else {}))
            assert self.build() == 0
            if signed:
                self.sign()

        self.once(f"torch-{backend}{'-cached' * cached}{'-signed' * signed}", make)

    def clear(self) -> None:
        """Moves the files of an earlier test away; some are read-only, so that only pytest deletes them."""
        if self.folder.exists():
            self.folder.rename(tempfile.mkdtemp(prefix="used-", dir=self.folder.parent))

    def _enter(self) -> None:
        self.patch.chdir(self.root)
        self._use_state((self.folder / "store-of").read_text("utf-8"))

    # Files.

    def spec(self, **changes: Any) -> None:
        """Writes the spec with top-level keys replaced."""
        path = self.root / ".github" / "ci-matrix.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(SPEC | changes), "utf-8")

    def write(self, name: str, text: str) -> None:
        """Writes the recipe of `name`."""
        path = self.root / ".flox" / "pkgs" / f"{name}.nix"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def torch(self, version: str = "2.8.0", **options: str) -> None:
        """Writes TORCH's recipe, whose builds are counted in the file `builds`."""
        count = f"echo built >>{self.folder}/builds"
        self.write(TORCH, recipe(TORCH, version, f'{count}\n    echo {version} >"$out"', **options))

    def vision(self) -> None:
        """Writes VISION's recipe, which wants both outputs of TORCH's."""
        script = 'cat "$need" >"$out"; echo "$need" >>"$out"; read -r line <"$needDev"'
        self.write(VISION, recipe(VISION, "0.23.0", script, needs=TORCH, extra="needDev = need.dev;"))

    def commit(self, *, push: bool = True) -> str:
        """Commits all files; the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "change")
        if push:
            self.git("push", "--quiet", "--set-upstream", "origin", "HEAD")
        return self.head

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, encoding="utf-8", check=True)
        return done.stdout

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD").strip()

    @property
    def builds(self) -> int:
        """How often TORCH was built."""
        path = self.folder / "builds"
        return len(path.read_text("utf-8").splitlines()) if path.exists() else 0

    @property
    def manifest(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.root / "build-output" / "manifest.json").read_text("utf-8"))
        return content

    @property
    def summary(self) -> str:
        path = self.folder / "summary.md"
        return path.read_text("utf-8") if path.exists() else ""

    # Commands.

    def build(self, name: str = TORCH, branch: str = "main") -> int:
        return ci_runner("build", name, "--branch", branch, "--out", "build-output")

    def publish(self, name: str = TORCH, *options: str, branch: str = "main", commit: str = "") -> int:
        """Publishes the build by hand, with a cpu-test that passed."""
        place = ("--branch", branch, "--commit", commit or self.manifest["commit"])
        given = ("--manifest", "build-output/manifest.json", "--results", str(self.tested(name)))
        return ci_runner("publish", name, *place, *given, *options)

    def tested(self, name: str, **changes: Any) -> Path:
        """A folder with the result of a cpu-test of the build that is here."""
        manifest = json.loads(Path("build-output/manifest.json").read_text("utf-8"))
        content = closure_digest(manifest["closure"])
        record = {"name": name, "branch": manifest["branch"], "stage": "cpu-test", "content": content}
        folder = self.folder / "tested"
        folder.mkdir(exist_ok=True)
        (folder / "result.json").write_text(json.dumps(record | {"passed": True} | changes), "utf-8")
        return folder

    # Nix.

    def use_store(self, name: str) -> None:
        """Another machine, as far as Nix goes: a store with nothing in it, in place of the first at the same path."""
        self._use_state(name)
        store, known = self.folder / "store", self.folder / "store-of"
        if known.exists():
            store.rename(self.folder / f"store-{known.read_text('utf-8')}")
        mine = self.folder / f"store-{name}"
        mine.mkdir(exist_ok=True)
        mine.rename(store)
        known.write_text(name, "utf-8")

    def _use_state(self, name: str) -> None:
        for kind in ("state", "log"):
            self.patch.setenv(f"NIX_{kind.upper()}_DIR", str(self.folder / f"{kind}-{name}"))

    def nix(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["nix", "--extra-experimental-features", "nix-command", *arguments]
        return subprocess.run(command, cwd=self.root, capture_output=True, encoding="utf-8", check=False)

    def nix_build(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["nix-build", *arguments]
        return subprocess.run(command, cwd=self.root, capture_output=True, encoding="utf-8", check=False)

    def cache(self, name: str = "cache") -> dict[str, str]:
        """A cache's entry of the spec; its secret key is the file `NAME.secret` beside it."""
        secret, public = (self.folder / f"{name}.{kind}" for kind in ("secret", "public"))
        if not secret.exists():
            command = ["nix-store", "--generate-binary-cache-key", f"{name}-1", str(secret), str(public)]
            subprocess.run(command, check=True)
        return {"url": f"file://{self.folder}/{name}", "public-key": public.read_text("utf-8").strip()}

    def sign(self) -> None:
        """Copies the build that is here to the cache with its signature, as publishing does; it is then not staged."""
        target = f"{self.cache()['url']}?secret-key={self.folder}/cache.secret"
        assert self.nix("copy", "--to", target, *self.manifest["outputs"]).returncode == 0
        self.unstage()

    def unstage(self) -> None:
        """Makes the manifest that of a build that the cache had."""
        text = json.dumps(self.manifest | {"staged": ""})
        (self.root / "build-output/manifest.json").write_text(text, "utf-8")

    def key(self, name: str = "cache") -> str:
        """The secret key of the cache, set as the publishing secret."""
        text = (self.folder / f"{name}.secret").read_text("utf-8").strip()
        self.patch.setenv("NIX_CACHE_SIGNING_KEY", text)
        return text

    def signed(self, path: str, name: str = "cache") -> bool:
        """Whether the cache holds the closure of `path` with valid signatures by its key."""
        entry = self.cache(name)
        options = ("--recursive", "--option", "trusted-public-keys", entry["public-key"])
        return self.nix("store", "verify", "--store", entry["url"], *options, path).returncode == 0

    # Flox.

    def token(self, seconds: int = 3600) -> str:
        """A FloxHub token that lasts so long from now on, set as the publishing secret."""
        parts = ({"alg": "none"}, {"exp": int(time.time()) + seconds}, {"signature": "fake"})
        words = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
        text = ".".join(words)
        self.patch.setenv("FLOX_FLOXHUB_TOKEN", text)
        return text

    @property
    def catalog(self) -> dict[str, Any]:
        path = self.folder / "catalog.json"
        content: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        return content


def made(folder: Path, patch: pytest.MonkeyPatch) -> World:
    """A world at `folder`, with TORCH's and VISION's recipes on main, pushed; the current folder is its root."""
    for tool in ("git", "nix-build", "nix-store", "nix-instantiate"):
        require(tool)
    programs, home = folder / "bin", folder / "home"
    settings = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(home),
        "NIX_STORE_DIR": str(folder / "store"),
        "NIX_CONF_DIR": str(folder / "etc"),
        "NIX_CONFIG": "sandbox = false\nbuild-users-group =\nsubstituters =\nfsync-metadata = false\n",
        "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "FLOX_STANDIN_CATALOG": str(folder / "catalog.json"),
    }
    for name, value in settings.items():
        patch.setenv(name, value)
    for name in (
        "NIX_REMOTE",
        "NIX_PATH",
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "FLOX_FLOXHUB_TOKEN",
        "NIX_CACHE_SIGNING_KEY",
    ):
        patch.delenv(name, raising=False)
    world = World(folder=folder, root=folder / "repository", patch=patch)
    world.clear()
    world.once("new", lambda: _fill(world))
    return world


def _fill(world: World) -> None:
    for name in ("bin", "home", "etc", "template", "repository"):
        (world.folder / name).mkdir(parents=True)
    flox = world.folder / "bin" / "flox"
    flox.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{HERE / "flox"}" "$@"\n', "utf-8")
    flox.chmod(0o755)
    settings = f"[init]\ndefaultBranch = main\ntemplateDir = {world.folder}/template\n"
    (world.folder / "home/gitconfig").write_text(f"[user]\nname = a\nemail = a@example.com\n{settings}", "utf-8")
    world.patch.chdir(world.root)
    world.use_store("first")
    world.git("init", "--quiet")
    world.git("init", "--quiet", "--bare", str(world.folder / "origin.git"))
    world.git("remote", "add", "origin", str(world.folder / "origin.git"))
    world.spec()
    world.torch()
    world.vision()
    for file in ("env.json", "env/manifest.lock"):
        path = world.root / ".flox" / file
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}\n", "utf-8")
    (world.root / ".gitignore").write_text("*-output\nresult-*\n", "utf-8")
    world.cache()
    world.commit()

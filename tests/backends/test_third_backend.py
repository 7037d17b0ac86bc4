"""A backend is a module and a row: a third one, in `copying.py`, goes through everything that the others do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ci_compiler
from tests.backends.project import leave_result
from tests.specs import small

pytestmark = pytest.mark.slow

PACKAGE = Path(ci_compiler.__file__).parent
NAME = "torchvision-python313-cpu-avx2"
PASSWORD = "correct horse"  # noqa: S105

# What may name Flox outside of the backends, by the reason.
ALLOWED = {
    "recipes are in the folder that Flox reads, and are called as it calls them": (
        "variant.py files/drift.py files/folders.py sync/branches.py plan/lookup.py plan/matrix.py "
        "cli/compiling.py cli/compile/recipes.py adoption/evaluator.py adoption/audit_checks.py "
        "spec/recipe_keys.py recipes/render.py update/own.py api.py"
    ),
    "hosted jobs evaluate recipes with Nix, whatever builds them": "workflows/steps.py",
    "the canary builds with the backend that is chosen": (
        "canary/assumptions.py canary/repository.py canary/table.py canary/workflows.py cli/compile/__init__.py"
    ),
    "tokens of every backend are kept from tests": "runner/jobs/isolation.py",
    "an owner is an organisation on FloxHub": ("spec/model.py adoption/spec_text.py"),
    "whoever starts a fleet chooses its backend": "update/answers.py cli/questions.py cli/compile/init.py",
    "a machine shows what is installed on it": (
        "hardware/machine.py runner/detect/recorded.py runner/detect/this_machine.py cli/runner/detect.py"
    ),
}
NAMES = re.compile(
    r"flox(?!-cuda/)|NIX_CACHE_SIGNING_KEY|nix-build\b.*--out-link|cachix/|backend.*[\"']nix[\"']", re.IGNORECASE
)


class Checkout:
    """A repository with a remote, whose spec has the backend `copy`."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "repository"
        self.environment = {
            **os.environ,
            "HOME": str(folder),
            "PYTHONPATH": str(PACKAGE.parent),
            "GIT_CONFIG_GLOBAL": os.devnull,
            **{f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        self.environment.pop("DEPOT_PASSWORD", None)
        (self.root / ".github").mkdir(parents=True)
        self.write(backend="copy", schedule={"days": ["mon"]})
        (self.root / ".gitignore").write_text("*-output\n", "utf-8")
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("init", "--quiet", "--bare", str(folder / "origin.git"))
        self.git("remote", "add", "origin", str(folder / "origin.git"))

    def write(self, **changes: Any) -> None:
        (self.root / ".github" / "ci-matrix.yaml").write_text(json.dumps(small(**changes)), "utf-8")

    def git(self, *arguments: str) -> str:
        return self.run("git", *arguments).stdout.strip()

    def commit_recipes(self) -> None:
        self.command("ci-compile", "recipes", "--branch", "main")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=first")

    def command(self, *arguments: str, status: int | None = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs `ci-compile` or `ci-runner` with the third backend."""
        script = Path(__file__).with_name("copying.py")
        return self.run(sys.executable, str(script), *arguments, status=status, **environment)

    def run(self, *command: str, status: int | None = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        env = self.environment | environment
        done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, encoding="utf-8", check=False)
        assert status in {None, done.returncode}, done.stdout + done.stderr
        return done


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_it_is_compiled(checkout: Checkout) -> None:
    done = checkout.command("ci-compile")
    workflows = {path.name: path.read_text("utf-8") for path in (checkout.root / ".github/workflows").iterdir()}
    shards = [text for name, text in workflows.items() if name.startswith("build-")]
    assert shards
    shards += [workflows["shard-preflight.yml"], workflows["shard-publish.yml"]]
    assert all("DEPOT_PASSWORD: ${{ secrets.DEPOT_PASSWORD }}" in text for text in shards)
    assert re.search(r"name: Set up Copy\n.*\n +uses: actions/setup-python@", workflows["shard-select.yml"])
    other = re.compile("FLOX_FLOXHUB_TOKEN|NIX_CACHE_SIGNING_KEY|Set up Flox")
    assert not any(map(other.search, workflows.values()))
    assert "publishes into a binary cache" not in done.stderr
    assert "without a `cache` to bring it there" in done.stderr


def test_the_schema_offers_it(checkout: Checkout) -> None:
    schema = json.loads(checkout.command("ci-compile", "schema").stdout)
    assert schema["properties"]["backend"]["enum"] == ["flox", "nix", "command", "copy"]
    assert "or `copy` (cp, cp)" in schema["properties"]["backend"]["description"]


def test_the_commands_that_install_a_variant_are_its_own(checkout: Checkout) -> None:
    shown = checkout.command("ci-compile", "select", "--gpu=none", "--cpu=avx2", "--package=torchvision").stdout
    assert "cp depot/pytorch-python313-cpu-avx2 ." in shown
    assert f"cp depot/{NAME} ." in shown


def test_the_doctor_checks_its_tools_and_its_secret_and_no_nix(checkout: Checkout) -> None:
    def checks(stage: str, password: str) -> dict[str, tuple[str, str]]:
        arguments = ("ci-runner", "doctor", "--for", stage, "--json")
        shown = json.loads(checkout.command(*arguments, status=None, DEPOT_PASSWORD=password).stdout)
        return {one["check"]: (one["verdict"], one["message"]) for one in shown["checks"]}

    publish, build = checks("publish", PASSWORD), checks("build", PASSWORD)
    assert publish["tools"] == build["tools"] == ("ok", "cp")
    assert publish["token"] == ("ok", "the password is long enough")
    assert checks("publish", "short")["token"] == ("failed", "the password is short")
    assert checks("publish", "")["token"] == ("failed", "DEPOT_PASSWORD is not set")
    for name in ("sandbox", "big-parallel", "store-space"):
        assert build[name] == ("skipped", "Copy builds without Nix")
    assert "Nix store" not in build["build-space"][1]


@pytest.mark.slow
def test_a_variant_is_built_fetched_and_published_once(checkout: Checkout) -> None:
    checkout.commit_recipes()
    checkout.git("push", "--quiet", "--set-upstream", "origin", "main")
    built = checkout.command("ci-runner", "build", NAME).stdout.strip()
    assert Path(built).read_bytes() == (checkout.root / f".flox/pkgs/{NAME}.nix").read_bytes()
    manifest = json.loads((checkout.root / "build-output/manifest.json").read_text("utf-8"))
    assert (manifest["backend"], manifest["store_path"], manifest["outputs"]) == ("copy", built, [built])
    assert checkout.command("ci-runner", "fetch", "build-output/manifest.json").stdout.strip() == built
    place = ("--branch", "main", "--commit", manifest["commit"], "--manifest", "build-output/manifest.json")
    leave_result(checkout.root, manifest)
    first = checkout.command("ci-runner", "publish", NAME, *place, DEPOT_PASSWORD=PASSWORD).stdout
    assert first.startswith(f"{NAME}: 0.23.0 from main at ")
    assert (checkout.root.parent / "depot" / f"{NAME}@0.23.0").exists()
    again = checkout.command("ci-runner", "publish", NAME, *place, DEPOT_PASSWORD=PASSWORD).stdout
    assert again == f"{NAME}: published already: the depot has it\n"


def test_a_manifest_holds_only_what_its_own_backend_writes(checkout: Checkout) -> None:
    checkout.commit_recipes()
    checkout.command("ci-runner", "build", NAME)
    path = checkout.root / "build-output/manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(manifest | {"backend": "nix"}), "utf-8")
    refused = checkout.command("ci-runner", "fetch", "build-output/manifest.json", status=2).stderr
    assert "the value of 'store_path' is not what builds write" in refused


def test_no_other_module_names_a_backend() -> None:
    allowed = {name for names in ALLOWED.values() for name in names.split()}
    naming = {
        name
        for name in (path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
        if not name.startswith("backends/") and NAMES.search((PACKAGE / name).read_text("utf-8"))
    }
    assert naming == allowed

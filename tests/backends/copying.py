"""A third backend in a few lines, and the commands with it: `python copying.py ci-runner build …`.

It copies a recipe into a depot, a folder beside the checkout. It knows neither Flox nor Nix.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ci_compiler import backends
from ci_compiler.backends.job import BackendPrograms, BuildOrder, BuildRecord, BuildResult, Interpreter, JobContext
from ci_compiler.backends.protocol import Backend, InstallRequest, OutputForms, SecretEvidence, Tool
from ci_compiler.judgement import Judgement, failed, ok


class Copy(Backend):
    """Copies a file."""

    name = "copy"
    title = "Copy"
    summary = "cp, cp"
    tools = (Tool(name="cp", install="install the coreutils"),)
    secret = "DEPOT_PASSWORD"  # noqa: S105  (its name)
    installer = "actions/setup-python"
    forms = OutputForms(
        derivation=re.compile("[0-9a-f]{64}"), path=re.compile(r"/[\w./-]+"), content=re.compile("[0-9a-f]{64}")
    )

    def check_secret(self, evidence: SecretEvidence) -> Judgement:
        good = len(evidence.text) >= 8
        return ok("the password is long enough") if good else failed("the password is short", "take a longer one")

    def install(self, request: InstallRequest) -> tuple[str, ...]:
        return tuple(f"cp depot/{name} ." for name, _ in request.wanted)

    def programs(self, job: JobContext) -> BackendPrograms:
        return CopyPrograms(job)


class CopyPrograms:
    """A file is built and published by copying it."""

    def __init__(self, job: JobContext) -> None:
        self.job, self.depot = job, job.root.parent / "depot"

    def evaluate(self, recipe: str) -> Mapping[str, str]:
        return {"version": (self.job.root / recipe).read_text("utf-8").partition("@")[2].strip()}

    def outputs(self, recipes: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """A copy contains nothing of another recipe."""
        return dict.fromkeys(recipes, ())

    def build(self, order: BuildOrder) -> BuildResult:
        order.log.write_text("copied\n", "utf-8")
        built = Path(shutil.copy(self.job.root / order.recipe, self.job.root.parent / order.name))
        digest = hashlib.sha256(built.read_bytes()).hexdigest()
        return BuildResult(
            derivation=digest,
            store_path=str(built),
            outputs=(str(built),),
            closure_size=built.stat().st_size,
            closure={str(built): digest},
            started=datetime.now(UTC),
            seconds=0.0,
            built=True,
        )

    def fetch(self, build: BuildRecord) -> bool:
        return not Path(build.store_path).exists()

    def fetch_recipe(self, name: str, recipe: str) -> BuildResult:
        """Whatever a recipe makes is here."""
        return self.build(BuildOrder(name=name, recipe=recipe, needs=(), log=Path(os.devnull)))

    def closure(self, build: BuildRecord) -> tuple[str, ...]:
        return build.outputs

    def interpreter(self, build: BuildRecord, scratch: Path) -> Interpreter:  # noqa: ARG002
        return Interpreter(program=sys.executable, home=build.store_path)

    def prove(self, build: BuildRecord, recipe: str) -> None:
        """A copy is compared with nothing."""

    def upload(self, build: BuildRecord) -> str:  # noqa: ARG002
        """Nothing to wait for."""
        return ""

    def attest(self, build: BuildRecord, tests: Sequence[str], recipe: str = "") -> None:
        """There is no place for records."""

    def attested(self, build: BuildRecord, tests: Sequence[str], recipe: str = "") -> bool:  # noqa: ARG002
        return bool(recipe)

    def is_published(self, name: str, version: str, recipe: str, tests: Sequence[str]) -> bool:  # noqa: ARG002
        return (self.depot / f"{name}@{version}").exists()

    def published(self, build: BuildRecord, tests: Sequence[str]) -> str:
        return "the depot has it" if self.is_published(build.name, build.version, "", tests) else ""

    def publish(self, build: BuildRecord) -> None:
        self.depot.mkdir(exist_ok=True)
        shutil.copy(build.store_path, self.depot / f"{build.name}@{build.version}")
        assert self.job.secrets["DEPOT_PASSWORD"].reveal() not in os.environ.values()


def main(name: str, *arguments: str) -> int:
    """Registers the backend before anything else of the package is imported, and runs a command."""
    backends.BACKENDS += (Copy(),)
    from ci_compiler.cli import compile as compiler
    from ci_compiler.cli import runner
    from ci_compiler.cli.app import run

    program = next(one.PROGRAM for one in (compiler, runner) if one.PROGRAM.name == name)
    return run(program, list(arguments))


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

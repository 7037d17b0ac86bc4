"""What a test works on: a variant, the stage that tests it, and the interpreter that has it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ci_compiler.backends.job import BackendPrograms, Interpreter
from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.hardware.families.machines import Attempt, Machines, machines_of
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.runner.jobs.expectation import Expectation, expectation
from ci_compiler.runner.jobs.files import write_json
from ci_compiler.runner.jobs.manifest import Manifest, expect, read_manifest
from ci_compiler.runner.jobs.needed import Offered, hand_over
from ci_compiler.runner.jobs.setting import StageJob, environment, values_of
from ci_compiler.runner.targets import find
from ci_compiler.spec.model import Spec
from ci_compiler.spec.suites import SmokeTest
from ci_compiler.stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeSubject:
    """What to test: a variant, by a stage, in an interpreter.

    `store_path` and `content`, the hash of its closure, are '' for an interpreter of the user, and `build` and
    `programs`, which keep the records of passed tests, are None. `given`: expectations of the user in place of the
    spec's, by the fields of `Expectation`. `needs` is the folder of the files that were handed over. `attempts` are
    those to use a GPU of this machine. `files` are those of the build, or folders of them.
    """

    spec: Spec
    built: BuiltVariant
    stage: Stage
    interpreter: Interpreter
    given: Mapping[str, Any]
    store_path: str = ""
    content: str = ""
    build: Manifest | None = None
    programs: BackendPrograms | None = None
    needs: Path | None = None
    attempts: tuple[Attempt, ...] = ()
    files: tuple[Path, ...] = ()

    @property
    def machines(self) -> Machines:
        """What the variant's family knows of machines."""
        return machines_of(self.built.cell.family)

    @property
    def name(self) -> str:
        """The variant's name."""
        return self.built.variant.name

    @property
    def expectation(self) -> Expectation:
        """What the test expects."""
        own = {"paths": self.interpreter.paths, "store_path": self.store_path}
        wanted = expectation(self.spec, self.built, self.stage, **own, **self.given)
        return replace(wanted, script=os.fspath(Path(wanted.script).absolute()) if wanted.script else "")

    @property
    def declared(self) -> SmokeTest | None:
        """The test that the spec declares for the stage."""
        smoke = self.spec.packages[self.built.variant.package].smoke
        return smoke.on(gpu=self.stage.needs_gpu) if smoke else None

    @property
    def program(self) -> SmokeTest | None:
        """The declared test that runs a program of the package; None for a test by the interpreter."""
        return self.declared if self.declared and self.declared.run else None

    @property
    def home(self) -> Path:
        """The folder of the package: its store path, or the environment of the user's interpreter."""
        return Path(self.store_path) if self.store_path else Path(self.interpreter.program).parents[1]

    @property
    def values(self) -> dict[str, str]:
        """The values of the variant by name."""
        return values_of(self.spec, self.built)

    @property
    def variables(self) -> dict[str, str]:
        """The variables that its commands get, with the folder of what it needs."""
        needs = {"VARIANT_NEEDS": self.needs.as_posix()} if self.needs else {}
        return environment(self.spec, self.built, self.stage, self.values) | needs

    def write_result(self, path: Path, *, passed: bool, recorded: bool, seconds: float, **more: Any) -> str:
        """Writes the result of the test to `path`, where publishing reads it; returns the digest of the file."""
        return write_json(
            path,
            {
                "name": self.name,
                "branch": self.built.cell.branch,
                "stage": self.stage.name,
                "content": self.content,
                "passed": passed,
                "recorded": recorded,
                "seconds": round(seconds, 1),
                **more,
            },
        )


def of_manifest(
    job: StageJob,
    name: str,
    branch: str,
    stage: Stage,
    path: Path,
    given: Mapping[str, Any],
    *,
    scratch: Path,
    needs: Sequence[Path] = (),
) -> SmokeSubject:
    """The build of the manifest at `path`, in its own interpreter. Raises InputError and StageError.

    `scratch` is an empty folder for what the interpreter needs; it must outlive the test. `needs` are folders of the
    outputs of other builds.
    """
    manifest = read_manifest(path)
    expect(manifest, path, name=name, branch=branch or manifest.branch)
    built = find(job.spec, name, manifest.branch)
    beside = [path.parent.parent] if built.cell.joined else []  # the other variants of the build
    offered = Offered([*needs, *beside], contents=manifest.needs)
    handed = hand_over(job, [built], offered, scratch)
    handed.check(manifest)
    minutes = job.spec.timeouts[stage]
    programs = job.programs(minutes, built=built, folder=path.parent, needs=handed.folder, needed=handed.files)
    if not programs.closure(manifest):
        message = f"{manifest.store_path} is not in this machine's store; `ci-runner fetch {path}` brings it there"
        raise failure(name, Code.CLOSURE_MISSING, message)
    interpreter = programs.interpreter(manifest, scratch)
    return SmokeSubject(
        spec=job.spec,
        built=built,
        stage=stage,
        interpreter=interpreter,
        store_path=interpreter.home,
        content=manifest.content,
        build=manifest,
        programs=programs,
        needs=handed.folder,
        given=given,
        files=tuple(path.parent / output for output in manifest.outputs),
    )


def of_python(spec: Spec, name: str, branch: str, stage: Stage, python: Path, given: Mapping[str, Any]) -> SmokeSubject:
    """The package in the interpreter `python`, whoever built it. Raises InputError and StageError."""
    program = shutil.which(os.fspath(python))
    if program is None:
        raise failure(str(python), Code.NO_PYTHON, "is not an executable program")
    # The link is not resolved: Python finds a virtual environment by the path of the link.
    interpreter = Interpreter(program=os.path.abspath(program))  # noqa: PTH100
    built = find(spec, name, branch)
    return SmokeSubject(spec=spec, built=built, stage=stage, interpreter=interpreter, given=given)

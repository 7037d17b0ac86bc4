"""What every stage of a job has: the spec, a checkout, the publishing secrets, and the backend's programs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ci_compiler.backends import backends
from ci_compiler.backends.job import BackendPrograms, JobContext, NeededFiles, variables
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.plan.matrix import command_values, values_in
from ci_compiler.runner.detect.this_machine import this_machine
from ci_compiler.runner.jobs.publishers import members_of, nights_of, target_of
from ci_compiler.runner.limits import compile_jobs, job_seconds
from ci_compiler.runner.targets import find
from ci_compiler.secret import Secret
from ci_compiler.spec.command import Command
from ci_compiler.spec.model import Spec
from ci_compiler.spec.publishers import RELEASE_TOKEN
from ci_compiler.stages import BUILD, Stage

Secrets = Mapping[str, Secret]
"""The publishing secrets that the environment has, by name."""


@contextmanager
def taking_secrets(declared: Iterable[str] = ()) -> Iterator[Secrets]:
    """The publishing secrets, those with the names that a spec `declared` included.

    Within it, they are not in the environment, so that no program inherits them.
    """
    names = {*(backend.secret for backend in backends()), RELEASE_TOKEN, *declared}
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield {name: Secret(text) for name, text in before.items() if text.strip()}
    finally:
        os.environ.update(before)


class StageJob(NamedTuple):
    """The job of a stage, in the checkout at `root`."""

    spec: Spec
    root: Path
    secrets: Secrets = MappingProxyType({})

    def programs(
        self,
        minutes: int,
        *,
        built: BuiltVariant | Sequence[BuiltVariant] | None = None,
        folder: Path = Path(),
        recipes: Path | None = None,
        needs: Path | None = None,
        needed: tuple[NeededFiles, ...] = (),
    ) -> BackendPrograms:
        """The programs of the spec's backend, for a job of `minutes`. Raises InputError.

        `built` is the variant that they work on, or those of one build, the one whose commands run first; None where
        only a manifest matters. `folder` is the manifest's. `recipes` has the tree to read recipes from, None for
        `root`. `needs` and `needed` are those of the `JobContext`.
        """
        every = () if built is None else (built,) if isinstance(built, BuiltVariant) else tuple(built)
        values = _shared_values([values_of(self.spec, one) for one in every])
        commands = self.spec.packages[every[0].variant.package].command if every else None
        context = JobContext(
            root=self.root,
            owner=self.spec.owner,
            cache=self.spec.cache,
            secrets=self.secrets,
            seconds=job_seconds(minutes),
            folder=folder,
            values=values,
            environment=environment(self.spec, every[0], BUILD, values) if every else {},
            container=command_values(commands, every[0].cell, values)[1] if commands else "",
            commands=commands,
            recipes=recipes,
            needs=needs,
            needed=needed,
        )
        if commands and commands.publisher:
            context = context._replace(**self._publishing(commands, every[0], values))
        return self.spec.backend.programs(context)

    def _publishing(self, commands: Command, built: BuiltVariant, values: Mapping[str, str]) -> dict[str, Any]:
        """What a job knows of a place that files are published to without a command."""

        def every(name: str) -> dict[str, str]:
            return values_of(self.spec, find(self.spec, name, built.cell.branch))

        return {
            "target": partial(target_of, commands, values, self.secrets, self.root, every),
            "whole": partial(members_of, built) if commands.is_whole else None,
            "keep": nights_of(commands),
        }


def environment(spec: Spec, built: BuiltVariant, stage: Stage, values: Mapping[str, str]) -> dict[str, str]:
    """The variables of the commands of a variant in `stage`: its `values`, the declared ones, the compile jobs here."""
    package, pool = spec.packages[built.variant.package], built.route.pools.get(stage)
    if package.command is None:
        return variables(values)
    machine = this_machine(spec.hardware, software=False)
    declared, _ = command_values(package.command, built.cell, values)
    return declared | variables(values) | {"VARIANT_JOBS": str(compile_jobs(package, machine, pool))}


def _shared_values(every: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Each value that all variants of a build share, or all of them, with spaces, where they differ."""
    return {
        name: value if all(one[name] == value for one in every) else " ".join(one[name] for one in every)
        for name, value in (every[0] if every else {}).items()
    }


def values_of(spec: Spec, built: BuiltVariant) -> dict[str, str]:
    """The values of a variant by name."""
    return values_in(spec, built.cell, built.variant.package, built.variant.name)

"""The second build of a stage that takes two: the build of a neighbouring variant, or the last publication.

Nothing here fails because there is no second build: the stage then does without one. The neighbour's manifest comes
from the same run, if its build has ended by then. Its digest is not compared: the second build decides nothing but what
the first one is compared with, and it runs where the builds of the run are tested anyway. Otherwise the neighbour is
what its recipe evaluates to, and the publication is what the recipe of an earlier commit evaluates to; both must be in
this machine's store, or signed in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ci_compiler.backends.checkout import JobCheckout
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, StageError, failure
from ci_compiler.plan.job_graph import with_needs
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.runner.jobs.build import manifest_of
from ci_compiler.runner.jobs.files import write_json
from ci_compiler.runner.jobs.manifest import Builder, Manifest, expect, read_manifest
from ci_compiler.runner.jobs.setting import StageJob
from ci_compiler.runner.targets import find
from ci_compiler.stages import BENCHMARK, BUILD, stages
from ci_compiler.variant import SHARED, recipe_path, variant_name

PUBLICATIONS = 5
"""The most commits that are searched for the last publication. For each, the recipe is evaluated."""


def fetch_second(
    job: StageJob, manifest: Manifest, neighbour: str, path: Path
) -> tuple[Manifest | None, tuple[str, ...]]:
    """Makes a second build available next to that of `manifest`, and writes its manifest to `path`.

    The variant `neighbour` ('': none) comes before the last publication, unless the spec has a floor. A manifest that
    is at `path` before is that of the neighbour in this run. Returns None if there is no second build, and then no
    file remains; also returns why the builds that come before the returned one are not available.
    """
    search = _Search(job, manifest, neighbour, path)
    ways: list[Callable[[], Manifest]] = [search.neighbouring] if neighbour else []
    ways.insert(0 if job.spec.benchmark.floor else len(ways), search.published)
    reasons: list[str] = []
    for way in ways:
        try:
            second = way()
        except (InputError, StageError) as error:
            reasons.append(str(error.findings[0]))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, second.as_json())
            return second, tuple(reasons)
    path.unlink(missing_ok=True)
    return None, tuple(reasons)


class _Search(NamedTuple):
    """The search for a second build next to that of `manifest`, as in `fetch_second`."""

    job: StageJob
    manifest: Manifest
    neighbour: str
    path: Path

    def neighbouring(self) -> Manifest:
        """The build of the neighbour. Raises InputError and StageError if it is not available."""
        spec = self.job.spec
        built = find(spec, self.neighbour, self.manifest.branch)
        programs = self.job.programs(spec.timeouts[BENCHMARK], built=built, folder=self.path.parent)
        if self.path.exists():
            manifest = read_manifest(self.path)
            of = {"name": self.neighbour, "branch": self.manifest.branch, "commit": self.manifest.commit}
            expect(manifest, self.path, **of)
            programs.fetch(manifest)
            return manifest
        result = programs.fetch_recipe(self.neighbour, built.recipe)
        return manifest_of(built, result, commit=self.manifest.commit, machine=_unknown(built))

    def published(self) -> Manifest:
        """The last publication of the variant that is another build. Raises InputError and StageError without one."""
        built = find(self.job.spec, self.manifest.name, self.manifest.branch)
        checkout = JobCheckout(self.job.root)
        commits = checkout.history(self._paths(built), PUBLICATIONS)
        for commit in commits:
            with checkout.tree(commit) as tree:
                if (tree / built.recipe).is_file() and (build := self._publication(built, commit, tree)):
                    return build
        message = f"none of the last {len(commits)} commits that changed its recipe has another build that is published"
        raise failure(built.variant.name, Code.CLOSURE_MISSING, message)

    def _publication(self, built: BuiltVariant, commit: str, tree: Path) -> Manifest | None:
        """What was published of the recipe in the `tree` of `commit`; None if nothing was, or the build at hand."""
        name, spec = built.variant.name, self.job.spec
        programs = self.job.programs(spec.timeouts[BENCHMARK], built=built, folder=self.path.parent, recipes=tree)
        version = programs.evaluate(built.recipe).get("version", built.version)
        if not programs.is_published(name, version, built.recipe, ()):
            return None
        result = programs.fetch_recipe(name, built.recipe)
        if result.store_path == self.manifest.store_path:
            return None
        return replace(manifest_of(built, result, commit=commit, machine=_unknown(built)), version=version)

    def _paths(self, built: BuiltVariant) -> list[str]:
        """The paths of what the recipe of `built` is made of: the recipes of what it needs, and what they read."""
        paths: list[str] = []
        for package in with_needs(self.job.spec, [built.variant.package]):
            suffix = built.cell.suffix
            paths.append(recipe_path(built.variant.name if built.cell.listed else variant_name(package.name, suffix)))
            paths += [*package.shared, *package.overlays]
        return [*paths, SHARED]


def _unknown(built: BuiltVariant) -> Builder:
    """The machine that built a second build, of which no more than the system is known."""
    return Builder(system=built.cell.system, cpu="", cores=0)


def fetch(job: StageJob, path: Path, digest: str | None = None) -> tuple[Manifest, bool]:
    """Fetches the closure of the manifest at `path` unless it is there; also returns whether it was fetched.

    `digest` is that of the manifest, if it is known. Raises InputError if the file has another or is not a manifest,
    and StageError if the closure is not available.
    """
    manifest = read_manifest(path, digest)
    minutes = max(job.spec.timeouts[stage] for stage in stages() if stage is not BUILD)
    return manifest, job.programs(minutes, folder=path.parent).fetch(manifest)

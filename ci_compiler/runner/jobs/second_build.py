"""The second build of a stage that takes two: the build of a neighbouring variant, or the last publication.

Nothing here fails because there is no second build: the stage then does without one. The neighbour's manifest comes
from the same run, if its build has ended by then. Its digest is not compared: the second build decides nothing but what
the first one is compared with, and it runs where the builds of the run are tested anyway. Otherwise the neighbour is
what its recipe evaluates to, and the publication is what the recipe of an earlier commit evaluates to; both must be in
this machine's store, or signed in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ci_compiler.backends.checkout import JobCheckout
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, StageError, failure
from ci_compiler.plan.job_graph import with_needs
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.runner.jobs.build import manifest_of
from ci_compiler.runner.jobs.manifest import Builder, Manifest, expect, read_manifest, write_manifest
from ci_compiler.runner.jobs.setting import programs_of
from ci_compiler.runner.targets import find
from ci_compiler.spec.model import Spec
from ci_compiler.stages import BENCHMARK
from ci_compiler.variant import recipe_path, variant_name

PUBLICATIONS = 5
"""The most commits that are searched for the last publication. For each, the recipe is evaluated."""


def fetch_second(
    spec: Spec, root: Path, manifest: Manifest, neighbour: str, path: Path
) -> tuple[Manifest | None, tuple[str, ...]]:
    """Makes a second build available next to that of `manifest`, and writes its manifest to `path`.

    The variant `neighbour` ('': none) comes before the last publication, unless the spec has a floor. A manifest that
    is at `path` before is that of the neighbour in this run. Returns None if there is no second build, and then no
    file remains; also returns why the builds that come before the returned one are not available.
    """
    search = _Search(spec=spec, root=root, manifest=manifest, neighbour=neighbour, path=path)
    ways: list[Callable[[], Manifest]] = [search.neighbouring] if neighbour else []
    ways.insert(0 if spec.benchmark.floor else len(ways), search.published)
    reasons: list[str] = []
    for way in ways:
        try:
            found = way()
        except (InputError, StageError) as error:
            reasons.append(str(error.findings[0]))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_manifest(found, path)
            return found, tuple(reasons)
    path.unlink(missing_ok=True)
    return None, tuple(reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The search for a second build next to that of `manifest`, as in `fetch_second`."""

    spec: Spec
    root: Path
    manifest: Manifest
    neighbour: str
    path: Path

    def neighbouring(self) -> Manifest:
        """The build of the neighbour. Raises InputError and StageError if it is not available."""
        built = find(self.spec, self.neighbour, self.manifest.branch)
        minutes = self.spec.timeouts[BENCHMARK]
        programs = programs_of(self.spec, self.root, {}, minutes, built=built, folder=self.path.parent)
        if self.path.exists():
            manifest = read_manifest(self.path)
            of = {"name": self.neighbour, "branch": self.manifest.branch, "commit": self.manifest.commit}
            expect(manifest, self.path, **of)
            programs.fetch(manifest)
            return manifest
        result = programs.fetch_recipe(self.neighbour, built.recipe)
        return manifest_of(self.spec, built, result, commit=self.manifest.commit, machine=_unknown(built))

    def published(self) -> Manifest:
        """The last publication of the variant that is another build. Raises InputError and StageError without one."""
        built = find(self.spec, self.manifest.name, self.manifest.branch)
        checkout = JobCheckout(self.root)
        commits = checkout.history(self._paths(built), PUBLICATIONS)
        for commit in commits:
            with checkout.tree(commit) as tree:
                if (tree / built.recipe).is_file() and (found := self._publication(built, commit, tree)):
                    return found
        message = f"none of the last {len(commits)} commits that changed its recipe has another build that is published"
        raise failure(built.variant.name, Code.CLOSURE_MISSING, message)

    def _publication(self, built: BuiltVariant, commit: str, tree: Path) -> Manifest | None:
        """What was published of the recipe in the `tree` of `commit`; None if nothing was, or the build at hand."""
        name, minutes = built.variant.name, self.spec.timeouts[BENCHMARK]
        programs = programs_of(self.spec, self.root, {}, minutes, built=built, recipes=tree)
        version = programs.evaluate(built.recipe).get("version", built.version)
        if not programs.is_published(name, version, built.recipe, ()):
            return None
        result = programs.fetch_recipe(name, built.recipe)
        if result.store_path == self.manifest.store_path:
            return None
        manifest = manifest_of(self.spec, built, result, commit=commit, machine=_unknown(built))
        return replace(manifest, version=version)

    def _paths(self, built: BuiltVariant) -> list[str]:
        """The paths of what the recipe of `built` is made of: the recipes of what it needs, and what they read."""
        found: list[str] = []
        for package in with_needs(self.spec, [built.variant.package]):
            suffix = built.cell.suffix
            found.append(recipe_path(built.variant.name if built.cell.listed else variant_name(package.name, suffix)))
            found += [*package.shared, *package.overlays]
        return found


def _unknown(built: BuiltVariant) -> Builder:
    """The machine that built a second build, of which no more than the system is known."""
    return Builder(system=built.cell.system, cpu="", cores=0)

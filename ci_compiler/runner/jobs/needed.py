"""The files of what a variant needs, handed over to its build and its tests.

They come from builds of the same run, which reported their digests and whose artifacts the job has downloaded, or from
where they are published, by the command `fetch` that the package declares. The manifest of a build states the
content of all of them: a test of the build takes the same, and so does publishing.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ci_compiler.backends.command_files import FOLDER, verify
from ci_compiler.backends.job import NeededFiles
from ci_compiler.backends.nar import closure_digest
from ci_compiler.codes import Code
from ci_compiler.errors import StageError, failure
from ci_compiler.plan.handed import HandedFiles
from ci_compiler.plan.lookup import BuiltVariant, built_variants
from ci_compiler.plan.needs import hands_files, is_fetched
from ci_compiler.plan.pipeline import plan
from ci_compiler.runner.jobs.files import by_digest
from ci_compiler.runner.jobs.manifest import Manifest, read_manifest
from ci_compiler.runner.jobs.setting import StageJob, values_of
from ci_compiler.spec.model import Spec
from ci_compiler.stages import BUILD
from ci_compiler.workflows.artifacts import MANIFEST_FILE, artifact_name


class HandedOver(NamedTuple):
    """What was handed over: `files` below `folder` (None: nothing was needed), and their contents by variant.

    `names` are those of what each variant of the build needs, the other variants of the build included.
    """

    folder: Path | None = None
    files: tuple[NeededFiles, ...] = ()
    contents: Mapping[str, str] = MappingProxyType({})
    names: Mapping[str, Sequence[str]] = MappingProxyType({})

    def check(self, manifest: Manifest) -> None:
        """Raises StageError unless the build of `manifest` had the very same files."""
        for name in sorted({*self.contents, *manifest.needs}):
            if self.contents.get(name) != manifest.needs.get(name):
                message = f"was built with other files of {name} than those that are here; build and test it again"
                raise failure(manifest.name, Code.FILE_DIFFERS, message)


class Offered(NamedTuple):
    """The outputs of other builds in `folders`, and which of them count.

    Any job of a run can upload an artifact with any name. `chosen` are the variants that the run builds, and `reported`
    the digests of manifests by variant, as the jobs that made them reported; None: a person gave the folders, and all
    in them counts. `legs` are variants that other legs of a matrix build, which cannot report: an artifact with the
    name counts, since the build fails if another job has used the name. `contents` are preferred, by variant.
    """

    folders: Sequence[Path] = ()
    chosen: Collection[str] = ()
    reported: Mapping[str, str] | None = None
    legs: Collection[str] = ()
    contents: Mapping[str, str] = MappingProxyType({})

    def manifests(self, wanted: Sequence[BuiltVariant]) -> dict[str, tuple[Manifest, Path]]:
        """The manifests that count of the variants `wanted`, each with its folder. Raises InputError."""
        branch, names = wanted[0].cell.branch, {built.variant.name for built in wanted}
        known = {digest: name for name, digest in (self.reported or {}).items()}
        found: list[tuple[Manifest, Path]] = []
        for digest, path in by_digest(self.folders, MANIFEST_FILE).items():
            if digest in known or self.legs or self.reported is None:
                manifest = read_manifest(path)
                named = self.reported is None or manifest.name in self.legs
                if manifest.branch == branch and (named or known.get(digest) == manifest.name):
                    found.append((manifest, path.parent))
        found.sort(key=lambda one: self.contents.get(one[0].name) == one[0].content)
        return {manifest.name: (manifest, folder) for manifest, folder in found if manifest.name in names}


class _Needed(NamedTuple):
    """What the variants of one build need whose files are handed over.

    `variants` are in build order, without those of the build itself. `gathered` are the names of what is gathered, and
    `names` those of what each variant of the build needs, its neighbours included.
    """

    variants: tuple[BuiltVariant, ...] = ()
    gathered: frozenset[str] = frozenset()
    names: Mapping[str, Sequence[str]] = MappingProxyType({})


def needed_names(built: BuiltVariant) -> set[str]:
    """The names of the variants whose files are handed over to `built`, those of its own build included."""
    return {*_needed(built.spec, [built]).names.get(built.variant.name, ())}


def _needed(spec: Spec, every: Sequence[BuiltVariant]) -> _Needed:
    if not any(hands_files(spec, built.variant.package) for built in every):
        return _Needed()
    decided = plan(spec)
    handed = HandedFiles(spec, decided.judged.cells)
    names = {built.variant.name: handed.needed(built.cell, built.variant.package) for built in every}
    by_name = {
        built.variant.name: built for built in built_variants(decided) if built.cell.branch == every[0].cell.branch
    }
    return _Needed(
        tuple(by_name[name] for name in dict.fromkeys(chain(*names.values())) if name not in names),
        frozenset(name for built in every for name in handed.gathered(built.cell, built.variant.package)),
        names,
    )


def artifacts(spec: Spec, every: Sequence[BuiltVariant]) -> tuple[str, ...]:
    """The names of the artifacts that hold what the variants of one build need, if this run builds it."""
    names = (
        artifact_name(BUILD, built.cell.joined or built.variant.name, built.cell.branch)
        for built in _needed(spec, every).variants
    )
    return tuple(dict.fromkeys(names))


def pattern(names: Sequence[str]) -> str:
    """One pattern that matches `names` alone; download-artifact matches with minimatch, which knows braces."""
    return f"{{{','.join(names)}}}" if len(names) > 1 else "".join(names)


def hand_over(job: StageJob, every: Sequence[BuiltVariant], offered: Offered, scratch: Path) -> HandedOver:
    """What the variants of one build need, each package in a folder of its own below the folder `scratch`.

    Several variants of a package, and what is gathered, have a folder each below that of the package. What the run
    does not build comes from where it is published. Raises StageError for files that are missing, or are not what
    their build made.
    """
    wanted, gathered, names = _needed(job.spec, every)
    if not wanted:
        return HandedOver(names=names)
    found, packages = offered.manifests(wanted), [built.variant.package for built in wanted]
    root, contents, files = scratch / "needs", dict[str, str](), list[NeededFiles]()
    for built in wanted:
        name, package = built.variant.name, built.variant.package
        if name in found:
            manifest, folder = found[name]
            verify(name, folder, manifest.closure)
            contents[name] = manifest.content
        elif name in offered.chosen or not is_fetched(job.spec, package):
            raise _missing(every[0].variant.name, built, chosen=name in offered.chosen)
        else:
            folder = scratch / "fetched" / name
            contents[name] = _fetched(job, built, folder)
        at = root / package / name if packages.count(package) > 1 or name in gathered else root / package
        at.parent.mkdir(parents=True, exist_ok=True)
        _link(at, (folder / FOLDER).resolve())
        command = job.spec.packages[package].command
        files.append(
            NeededFiles(package, at, command.setup if command else "", values_of(job.spec, built), name in gathered)
        )
    return HandedOver(root, tuple(files), contents, names)


def _link(at: Path, folder: Path) -> None:
    """Makes `at` lead to `folder`, or a copy of it where only administrators may make links (Windows)."""
    try:
        at.symlink_to(folder, target_is_directory=True)
    except (OSError, NotImplementedError):
        shutil.copytree(folder, at)


def _fetched(job: StageJob, one: BuiltVariant, folder: Path) -> str:
    """Fetches the published files of `one` to `folder`; returns their content."""
    folder.mkdir(parents=True)
    programs = job.programs(job.spec.timeouts[BUILD], built=one, folder=folder)
    return closure_digest(programs.fetch_recipe(one.variant.name, one.recipe).closure)


def _missing(name: str, need: BuiltVariant, *, chosen: bool) -> StageError:
    needed, package = need.variant.name, need.variant.package
    if chosen:
        message = f"needs the files of {needed}, which this run was to build; see why it did not"
    else:
        message = (
            f"needs the files of {needed}; build it first with `ci-runner build {needed} --out needs/{needed}`, and "
            f"pass `--needs needs`, or declare `packages.{package}.command.fetch`"
        )
    return failure(name, Code.NEEDS_MISSING, message)

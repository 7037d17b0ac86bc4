"""A build that makes several variants: one run of the build script, and a manifest for each result.

The script gets the values that its variants share, and for each value in which they differ all of them, with spaces
between two, in the order of `VARIANT_NAME`, a variant of the script's own package first. What each variant is made of,
the patterns of its package's `files` say, with the variant's values in place of placeholders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ci_compiler.backends.command_files import filled
from ci_compiler.backends.job import BuildOrder, JoinedVariant
from ci_compiler.plan.joins import builds
from ci_compiler.plan.lookup import BuiltVariant, built_variants
from ci_compiler.plan.pipeline import plan
from ci_compiler.runner.jobs.attested import subjects
from ci_compiler.runner.jobs.build import (
    LOG,
    NOTHING,
    Given,
    builder_here,
    commit_of,
    manifest_of,
    read_back,
    write_build,
)
from ci_compiler.runner.jobs.files import output_folder
from ci_compiler.runner.jobs.manifest import Manifest
from ci_compiler.runner.jobs.needed import HandedOver, hand_over
from ci_compiler.runner.jobs.setting import StageJob, values_of
from ci_compiler.runner.jobs.summary import reporting
from ci_compiler.spec.model import Spec
from ci_compiler.stages import BUILD
from ci_compiler.workflows.artifacts import MANIFEST_FILE, SUBJECTS_FILE


def members(spec: Spec, built: BuiltVariant) -> tuple[BuiltVariant, ...]:
    """All variants of the build that makes `built`, in build order; itself if its build makes no other."""
    if not built.cell.joined:
        return (built,)
    made = plan(spec)
    build = next(one for one in builds(made.judged.cells) if any(v == built.variant for _, v in one.variants))
    by_name = {other.variant.name: other for other in built_variants(made) if other.cell.branch == built.cell.branch}
    return tuple(by_name[variant.name] for _, variant in build.variants)


def build_joined(job: StageJob, built: BuiltVariant, out: Path, given: Given = NOTHING) -> dict[str, str]:
    """Runs the build that makes `built` and others, and writes the manifest of each to a folder of `out` with its name.

    Returns the digests of the manifests by name. Raises InputError and StageError, also if the script leaves other
    results than those of its variants.
    """
    spec, every = job.spec, members(job.spec, built)
    output_folder(out, (SUBJECTS_FILE, LOG))
    with (
        reporting(built.cell.joined, BUILD),
        TemporaryDirectory(prefix="ci-runner-build-", ignore_cleanup_errors=True) as scratch,
    ):
        made = _run(job, every, out, hand_over(job, every, given.offered, Path(scratch)))
    digests = {}
    for manifest, remarks in made:
        output_folder(out / manifest.name, (MANIFEST_FILE,))
        digests[manifest.name] = write_build(manifest, out / manifest.name, remarks)
    if spec.attest:
        (out / SUBJECTS_FILE).write_text("".join(subjects(one, digests[one.name]) for one, _ in made), "utf-8")
    return digests


def leader_first(every: Sequence[BuiltVariant]) -> list[BuiltVariant]:
    """`every`, after the variant whose package's build script runs: that of no package that joins another's builds."""
    leader = next(built for built in every if not _joins_another(built))
    return [leader, *(built for built in every if built is not leader)]


def _joins_another(one: BuiltVariant) -> bool:
    rows = one.spec.packages[one.variant.package].joins
    return any(row.package and (row.when is None or row.when.holds(one.cell.axes)) for row in rows)


def _run(
    job: StageJob, every: Sequence[BuiltVariant], out: Path, handed: HandedOver
) -> list[tuple[Manifest, tuple[str, ...]]]:
    spec, (leader, *others) = job.spec, leader_first(every)
    commit = commit_of(spec, job.root, leader)
    values = {built.variant.name: values_of(spec, built) for built in every}
    programs = job.programs(
        spec.timeouts[BUILD], built=[leader, *others], folder=out, needs=handed.folder, needed=handed.files
    )
    order = BuildOrder(name=leader.cell.joined, recipe=leader.recipe, needs=(), log=out / LOG)
    results = programs.build_joined(order, [_member(spec, built, values[built.variant.name], out) for built in every])
    builder = builder_here(spec)
    made: dict[str, Manifest] = {}
    remarks: list[tuple[str, ...]] = []
    contents = dict(handed.contents)
    for built in every:  # in build order, so that what one needs of the others is known
        name = built.variant.name
        manifest = manifest_of(built, results[name], commit=commit, machine=builder)
        manifest, said = read_back(built, manifest, out / name, handed)
        needs = {need: contents[need] for need in handed.names.get(name, ())}
        made[name] = replace(manifest, needs=needs)
        contents[name] = made[name].content
        remarks.append(said)
    return list(zip(made.values(), remarks, strict=True))


def _member(spec: Spec, one: BuiltVariant, values: Mapping[str, str], out: Path) -> JoinedVariant:
    command = spec.packages[one.variant.package].command
    patterns = tuple(filled(pattern, values) for pattern in (command.files if command else ()))
    version = values["version"] if command and command.version else ""
    return JoinedVariant(
        name=one.variant.name,
        patterns=patterns,
        folder=out / one.variant.name,
        version=version,
        python=values["python"],
        package=one.variant.package,
    )

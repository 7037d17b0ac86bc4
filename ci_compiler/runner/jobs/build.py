"""Building a variant: the backend builds its recipe, and the manifest passes the result to the later stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from ci_compiler.backends.checkout import JobCheckout
from ci_compiler.backends.forms import FORMS
from ci_compiler.backends.job import BuildOrder, BuildResult, NeededVariant, OtherVariant, show
from ci_compiler.backends.protocol import NixUse
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, StageError, wrong
from ci_compiler.files.folders import SBOM_FILE
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.plan.needs import Needs
from ci_compiler.publishing.distributions import version_among
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.compiled import ARCHIVE
from ci_compiler.recipes.judged import differences
from ci_compiler.recipes.named import declared, named_at, reached, undeclared
from ci_compiler.recipes.seeds import found_in
from ci_compiler.runner.detect.build_memory import watched_memory
from ci_compiler.runner.detect.this_machine import this_machine
from ci_compiler.runner.jobs.attested import subjects
from ci_compiler.runner.jobs.contained import others_of
from ci_compiler.runner.jobs.device_code import compared
from ci_compiler.runner.jobs.files import output_folder, write_json
from ci_compiler.runner.jobs.manifest import Builder, Manifest, of_plan
from ci_compiler.runner.jobs.needed import HandedOver, Offered, hand_over
from ci_compiler.runner.jobs.setting import StageJob
from ci_compiler.runner.jobs.summary import add_row, reporting
from ci_compiler.runner.targets import find
from ci_compiler.spec.model import Repository, Spec
from ci_compiler.stages import BUILD
from ci_compiler.variant import RECIPES, SHARED, recipe_path, variant_name
from ci_compiler.workflows.artifacts import MANIFEST_FILE, SUBJECTS_FILE

TORCH = "torch"
"""The project whose version manifests state."""

LOG = "build.log"
"""The log's name in a build's output folder."""


class Given(NamedTuple):
    """What a build gets from others: the `staged` builds of what it needs, or what is `offered` of it."""

    staged: tuple[str, ...] = ()
    offered: Offered = Offered()


NOTHING = Given()


def build(job: StageJob, name: str, branch: str, out: Path, given: Given = NOTHING) -> tuple[Manifest, str]:
    """Builds `name` of `branch` in the checkout of `job`, and writes the log and the manifest to `out`.

    Returns the manifest and the digest of its file. A failed build leaves the log and no manifest. Raises InputError
    and StageError.
    """
    built = find(job.spec, name, branch)
    output_folder(out, (MANIFEST_FILE, SBOM_FILE, SUBJECTS_FILE, LOG))
    with reporting(name, BUILD), TemporaryDirectory(prefix="ci-runner-build-", ignore_cleanup_errors=True) as scratch:
        handed = hand_over(job, [built], given.offered, Path(scratch))
        manifest, others = _build(job, built, out, given, handed)
    for remark in others:
        show(remark)
    remarks = [*others, *(f"no {stage}: {reason}" for stage, reason in manifest.untested.items())]
    if manifest.seed:
        remarks.append("{found} of {of} host objects from the compiler seed".format_map(manifest.seed))
    digest = write_build(manifest, out, remarks)
    if job.spec.attest:
        (out / SUBJECTS_FILE).write_text(subjects(manifest, digest), "utf-8")
    return manifest, digest


def write_build(manifest: Manifest, out: Path, remarks: Sequence[str] = ()) -> str:
    """Writes what a build leaves to its folder `out`, and its row to the summary; the digest of the manifest."""
    digest = write_json(out / MANIFEST_FILE, manifest.as_json())
    from ci_compiler.runner.jobs.sbom import sbom_of  # a third of what other stages would import

    (out / SBOM_FILE).write_text(sbom_of(manifest, out), "utf-8")
    remarks = remarks if manifest.built else ["not built: the store or a substituter already had it", *remarks]
    size, seconds = manifest.closure_size, manifest.seconds
    add_row(name=manifest.name, stage=BUILD.name, result="built", seconds=seconds, size=size, remarks=remarks)
    return digest


def staged_builds(text: str) -> tuple[str, ...]:
    """The store paths that `text` lists. Raises InputError for anything else, which would be part of a command line."""
    for word in text.split():
        if not FORMS.path.fullmatch(word):
            raise wrong(
                "--staged", Code.WRONG_OPTION, f"{word!r} is not a store path; the manifest names it as `staged`"
            )
    return tuple(text.split())


def _build(
    job: StageJob, built: BuiltVariant, out: Path, given: Given, handed: HandedOver
) -> tuple[Manifest, tuple[str, ...]]:
    """The manifest of the build, and remarks about other builds of the same derivation."""
    spec = job.spec
    commit = commit_of(spec, job.root, built)
    programs = job.programs(spec.timeouts[BUILD], built=built, folder=out, needs=handed.folder, needed=handed.files)
    needs = tuple(_needed(spec, built))
    name, others = built.variant.name, tuple(_not_needed(built, job.root.resolve()))
    order = BuildOrder(name, built.recipe, needs, out / LOG, given.staged, others)
    # A build takes hours and an evaluation seconds, so this comes first.
    if different := list(differences(spec, built, programs.evaluate(built.recipe))):
        place, code = Place(file=built.recipe), Code.EVALUATION_DIFFERS
        raise StageError([Finding(place=place, code=code, message=message) for message in different])
    with watched_memory(uses_nix=spec.backend.nix is not NixUse.NONE) as peak:
        result = programs.build(order)
    manifest = manifest_of(built, result, commit=commit, machine=builder_here(spec))
    manifest, remarks = read_back(built, manifest, out, handed)
    manifest = replace(manifest, needs=handed.contents)
    if result.built:
        seed = found_in((out / LOG).read_text("utf-8", errors="replace")) or {}
        manifest = replace(manifest, memory=peak.memory, seed=seed)
    return manifest, (*result.remarks, *remarks)


def read_back(
    built: BuiltVariant, manifest: Manifest, folder: Path, handed: HandedOver
) -> tuple[Manifest, tuple[str, ...]]:
    """`manifest` with what its files in `folder` say of their code, and remarks. Raises StageError if that is wrong."""
    code = compared(built, [folder / path for path in manifest.outputs])
    code.check(manifest.name)
    given = [folder / path for path in manifest.closure]
    given += [path for one in handed.files for path in sorted(one.folder.iterdir())]
    torch = version_among(given, TORCH)
    found = replace(manifest, architectures=code.architectures, compilers=code.compilers, torch=torch)
    said = [f"code for {', '.join(code.architectures)}"] if code.architectures else []
    return found, (*said, *code.remarks)


def builder_here(spec: Spec) -> Builder:
    """This machine, as manifests name it."""
    host = this_machine(spec.hardware, software=False)
    return Builder(system=host.system, cpu=host.cpu, cores=host.cores)


def manifest_of(built: BuiltVariant, result: BuildResult, *, commit: str, machine: Builder) -> Manifest:
    """The manifest of a build from `commit` on `machine`."""
    stated = result._asdict()
    del stated["remarks"]
    stated["started"] = result.started.isoformat(timespec="seconds").replace("+00:00", "Z")
    stated["seconds"] = round(result.seconds, 1)
    return Manifest(**stated, **of_plan(built), commit=commit, machine=machine)


def _needed(spec: Spec, built: BuiltVariant) -> Iterator[NeededVariant]:
    """The variants of the same cell that `built` is built with, also those that another repository builds."""
    for package in spec.packages[built.variant.package].needs:
        name, repository = variant_name(package, built.cell.suffix), spec.packages[package].repository
        expression = _expression(repository, built.cell.branch, recipe_path(name)) if repository else ""
        yield NeededVariant(name=name, recipe=recipe_path(name), expression=expression)


def _not_needed(built: BuiltVariant, root: Path) -> Iterator[OtherVariant]:
    """The other variants of the branch, without those that the spec says that `built` is built with."""
    if not built.spec.backend.has_recipes or built.cell.listed:  # the spec cannot say it of a listed variant
        return
    package, others = built.variant.package, others_of(built)
    known = declared(Needs(built.spec, dict.fromkeys([built.cell, *(one.cell for one in others)])), built.cell, package)
    files = list(reached(root / built.recipe, root))
    for other in others:
        name, recipe, needed = other.variant.name, root / other.recipe, other.variant.package
        if name not in known:
            at = (named_at(recipe, files) if recipe in files else None) or Place(str(root / built.recipe), 1, 1)
            place = at._replace(file=Path(at.file).relative_to(root).as_posix())
            yield OtherVariant(name, other.recipe, recipe in files, undeclared(place, package, name, needed))


def _expression(repository: Repository, branch: str, file: str) -> str:
    """The derivation of the recipe `file` of another repository."""
    archive = {
        "url": nix.string(ARCHIVE.format(repository=repository.name, rev=repository.rev[branch])),
        "sha256": nix.string(repository.hash[branch]),
    }
    return f"import ((builtins.fetchTarball {nix.attributes(archive)}) + {nix.string(f'/{file}')}) {{ }}"


def commit_of(spec: Spec, root: Path, built: BuiltVariant) -> str:
    """The commit that is built. Raises InputError if the recipe or script is missing, or differs from the commit.

    A script may read every file of the checkout, so that none may differ, except those that git does not track.
    """
    if not (root / built.recipe).is_file():
        writes = f"there is no such recipe; `ci-compile recipes --branch {built.cell.branch}` writes it"
        message = writes if spec.backend.has_recipes else "there is no such build script; `command.build` declares it"
        raise wrong(built.recipe, Code.RECIPE_MISSING, message)
    checkout = JobCheckout(root)
    if changed := checkout.changed(*([RECIPES, SHARED] if spec.backend.has_recipes else [])):
        more = f", and so do {len(changed) - 1} other files" if len(changed) > 1 else ""
        message = f"differs from the commit that is checked out{more}; a build needs a commit: commit it first"
        raise wrong(changed[0], Code.RECIPE_CHANGED, message)
    return checkout.commit()

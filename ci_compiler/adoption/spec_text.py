"""The text of an adopted spec, laid out as a person would write it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ci_compiler.adoption.axes import entry_of
from ci_compiler.adoption.branches import BranchFacts
from ci_compiler.adoption.packages import package_defaults
from ci_compiler.adoption.spec_yaml import entry, flow
from ci_compiler.hardware import CPU, Hardware
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.model import Matrix, Package, Pool, Source
from ci_compiler.spec.schema import ADDRESS
from ci_compiler.stages import BUILD

OWNER = "my-org"


def spec_text(
    branches: Sequence[BranchFacts],
    packages: Sequence[Package],
    matrix: Matrix,
    systems: Sequence[str],
    hardware: Hardware,
) -> str:
    """The YAML of a spec with these branches, packages and matrix, and a build pool for each of `systems`."""
    lines = [
        f"# yaml-language-server: $schema={ADDRESS}",
        "# Made from existing recipes by `ci-compile adopt`. It is yours now: edit it, and what it states is built.",
        "version: 1",
        f"owner: {OWNER}  # edit: the FloxHub organisation that the variants are published to",
        "",
        "branches:",
        *(line for facts in branches for line in _branch(facts)),
        "",
        "packages:",
        *(line for package in packages for line in _package(package)),
        "",
        "matrix:  # a variant is a package x branch x Python x GPU x ISA",
        *_matrix(matrix, hardware),
        "",
        "runners:  # edit: recipes do not state your machines; `ci-runner labels` shows the labels for one",
        *(line for system in systems for line in _pool(system, hardware)),
    ]
    return "\n".join(lines) + "\n"


def _branch(facts: BranchFacts) -> Iterator[str]:
    branch, remarks = facts.branch, facts.remarks
    yield f"  {flow(branch.name)}:"
    yield from entry("cuda", next(iter(branch.toolkits)), "    ", remarks.get("cuda", ""))
    yield from entry("nixpkgs", branch.nixpkgs, "    ", remarks.get("nixpkgs", ""))
    if branch.nixpkgs_hash:
        yield from entry("nixpkgs-hash", branch.nixpkgs_hash, "    ")
    if branch.allow_broken:
        yield from entry("allow-broken", branch.allow_broken, "    ")
    yield from entry("versions", branch.versions, "    ", _of_versions(facts))
    if branch.sources:
        yield "    sources:"
        for package, source in branch.sources.items():
            yield f"      {package}:"
            for key, value in _source(source).items():
                yield from entry(key, value, "        ")
    if branch.pnames:
        yield from entry("pnames", branch.pnames, "    ")
    if branch.work_arounds:
        yield from entry("work-arounds", branch.work_arounds, "    ")


def _of_versions(facts: BranchFacts) -> str:
    """The remark on the versions: one for all packages, or one per package."""
    remarks = facts.version_remarks
    if len(set(remarks.values())) == 1 and len(remarks) == len(facts.branch.versions):
        return next(iter(remarks.values()))
    return "; ".join(f"{package}: {remark}" for package, remark in remarks.items())


def _source(source: Source) -> dict[str, object]:
    row: dict[str, object] = {"repository": source.repository, "tag": source.tag, "hash": source.hash}
    return row | ({"submodules": True} if source.submodules else {})


def _package(package: Package) -> Iterator[str]:
    row: dict[str, object] = {
        "attribute": package.attribute,
        "title": package.title,
        "needs": package.needs,
        "branches": package.branches,
        "minutes": dict(package.minutes),
        "disk": package.disk,
        "memory": package.memory,
        "jobs": package.jobs,
    }
    usual = {**package_defaults(), "attribute": package.name, "title": package.name, "needs": (), "branches": ()}
    row = {key: value for key, value in row.items() if value != usual[key]}
    if package.repository:
        there = package.repository
        row["repository"] = {"name": there.name, "rev": dict(there.rev), "hash": dict(there.hash)}
    yield from entry(package.name, row, "  ") if row else [f"  {package.name}: {{}}"]


def _matrix(matrix: Matrix, hardware: Hardware) -> Iterator[str]:
    yield from entry("python", matrix.pythons, "  ")
    yield "  isas:"
    for system, isas in matrix.isas.items():
        yield from entry(system, isas, "    ")
    yield "  gpus:"
    for axis in matrix.gpus:
        about = "" if axis.name == CPU else hardware.gpu(axis.name).summary
        yield from entry(axis.name, entry_of(axis), "    ", about)
    if matrix.exclude:
        yield "  exclude:"
        for one in matrix.exclude:
            row: dict[str, object] = {"variants": one.pattern}
            row |= {"branches": one.branches} if one.branches else {}
            yield f"    - {flow(row | {'because': one.because})}"


def _pool(system: str, hardware: Hardware) -> Iterator[str]:
    """A build pool of the same size as the bundled stack's."""
    label = hardware.systems[system].label.lower()
    pool = _bundled_pool(system)
    yield f"  {label}-builder:"
    yield from entry("runs-on", ["self-hosted", "linux", label, "nix-builder"], "    ")
    yield from entry("cpu", [], "    ", "the ISAs of its CPUs; a variant is tested where a pool has its ISA")
    for key in ("cores", "memory", "disk"):
        yield from entry(key, getattr(pool, key), "    ")


def _bundled_pool(system: str) -> Pool:
    return next(pool for pool in bundled_spec().pools if pool.system == system and BUILD in pool.stages)

"""Versions that cannot be: releases that do not belong together, and versions that the pinned nixpkgs does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.hardware import CPU
from ci_compiler.plan.job_graph import needs_of
from ci_compiler.plan.matrix import Cell
from ci_compiler.spec.model import Branch, Package, Spec
from ci_compiler.spec.packages import Pin, RecipeKind
from ci_compiler.spec.releases import TORCH, companions, cudnn_in, first_series, is_of, pins_with, series, version_in


def release_findings(spec: Spec, cells: Iterable[Cell]) -> Iterator[Finding]:
    """An error for each package of a branch whose version cannot be built, or does not belong to that of torch."""
    for branch in spec.branches.values():
        yield from _check_companions(spec, branch)
    yield from dict.fromkeys(_of_compiled(spec, cells))


def _check_companions(spec: Spec, branch: Branch) -> Iterator[Finding]:
    stated = [spec.packages[name] for name in branch.versions if spec.packages[name].on(branch.name)]
    for package in stated:
        torches = [one for one in stated if one.attribute == TORCH and one.name in package.needs]
        for torch in torches or [one for one in stated if one.attribute == TORCH][:1]:
            version, needed = branch.versions[package.name], branch.versions[torch.name]
            right = companions(needed, spec.releases).get(package.attribute, "")
            if right and not is_of(version, right):
                message = (
                    f"{package.name} {version} does not belong to {torch.name} {needed} on {branch.name}, which goes "
                    f"with {right}{'.x' if right == series(right) else ''}"
                )
                path = ("branches", branch.name, "versions", package.name)
                written = package.may_be(RecipeKind.COMPILED) or package.may_be(RecipeKind.TEMPLATE)
                yield spec.finding(path, Code.RELEASE_MISMATCH, message, tolerated=not written)


def _of_compiled(spec: Spec, cells: Iterable[Cell]) -> Iterator[Finding]:
    """The findings on the variants whose recipes are compiled; each as often as there are such variants."""
    for cell in cells:
        branch = spec.branches[cell.branch]
        for variant in cell.variants:
            package = spec.packages[variant.package]
            if cell.listed or package.kind_of(variant.name) is not RecipeKind.COMPILED:
                continue
            if package.attribute == TORCH:
                yield from _check_gpu(spec, branch, package, cell.gpu)
            yield from _check_pin(spec, branch, package, branch.pin(cell.cuda))


def _check_gpu(spec: Spec, branch: Branch, package: Package, gpu: str) -> Iterator[Finding]:
    version = branch.versions[package.name]
    if first := first_series(version, gpu):
        message = (
            f"{gpu} needs {package.name} {first} or newer, and {branch.name} has {version}, whose build refuses the "
            f"architecture"
        )
        yield spec.finding(("branches", branch.name, "versions", package.name), Code.GPU_NEEDS_NEWER_TORCH, message)


def _check_pin(spec: Spec, branch: Branch, package: Package, pin: Pin) -> Iterator[Finding]:
    """A recipe without a source of its own has the version of the pinned nixpkgs."""
    version, has = branch.versions[package.name], version_in(pin.nixpkgs, package.attribute)
    if not has or has == version or package.name in pin.sources or _replaces_source(spec, package, pin):
        return
    pins = pins_with(package.attribute, version)
    there = f"; {' and '.join(pins)} has it" if pins else ""
    message = (
        f"{branch.name} says {package.name} {version}, and its nixpkgs {pin.nixpkgs} has {has}{there}: take that "
        f"version or another nixpkgs, or add the source of {version} under `sources`"
    )
    yield spec.finding(("branches", branch.name, "versions", package.name), Code.VERSION_NOT_OF_PIN, message)


def _replaces_source(spec: Spec, package: Package, pin: Pin) -> bool:
    """Whether Nix of the repository's own may set another version."""
    own = (spec.work_arounds[name] for name in pin.work_arounds if name in spec.work_arounds)
    attributes = {name for table in package.attributes.values() for name in table}
    return bool(package.overlays or attributes & {"src", "version"} or any(one.overlay for one in own))


def uses_cudnn(spec: Spec, cell: Cell, package: str) -> bool:
    """Whether `package` in `cell` is PyTorch, or needs it, for a GPU that cuDNN supports."""
    return cell.gpu != CPU and spec.hardware.gpu(cell.gpu).cudnn and bool(_torches(spec, package))


def cudnn_of(spec: Spec, cell: Cell, package: str) -> str:
    """The version of cuDNN in `package` in `cell`, or its series (`9.x`); '' without cuDNN, or if it is not known."""
    here = all(torch.repository is None for torch in _torches(spec, package))
    known = here and uses_cudnn(spec, cell, package)
    return cudnn_in(spec.branches[cell.branch].pin(cell.cuda).nixpkgs, cell.cuda) if known else ""


def _torches(spec: Spec, package: str) -> list[Package]:
    names = (*needs_of(spec, package), package)
    return [spec.packages[name] for name in names if spec.packages[name].attribute == TORCH]

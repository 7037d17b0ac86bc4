"""What the pinned nixpkgs cannot give: releases that do not belong together, other versions, attributes, arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, nearest
from ci_compiler.hardware import CPU
from ci_compiler.plan.job_graph import needs_of
from ci_compiler.plan.matrix import Cell
from ci_compiler.spec.axes import SHORT_FAMILY
from ci_compiler.spec.model import Branch, Package, Spec
from ci_compiler.spec.packages import Pin, RecipeKind
from ci_compiler.spec.releases import (
    TORCH,
    arguments_in,
    attribute_of,
    companions,
    companions_of_torch,
    dnn_in,
    first_series,
    is_called,
    is_of,
    pins_with,
    python_refusal,
    series,
    toolkit_refusal,
    version_in,
)


def release_findings(spec: Spec, cells: Iterable[Cell]) -> Iterator[Finding]:
    """An error for each package that cannot be built as declared, or does not belong to the torch of its branch."""
    for package in spec.packages.values():
        if package.may_be(RecipeKind.COMPILED):
            yield from _check_attribute(spec, package)
    for branch in spec.branches.values():
        yield from _check_companions(spec, branch)
    yield from dict.fromkeys(_of_compiled(spec, cells))  # several toolkits may have one pin


def _check_attribute(spec: Spec, package: Package) -> Iterator[Finding]:
    """Whether the package, and torch among its needs, are what they are called."""
    path, right = ("packages", package.name, "attribute"), attribute_of(package.name)
    if right and not is_called(package.attribute, right):
        message = (
            f"{package.name} is {right} in nixpkgs, and the attribute says {package.attribute}: each recipe of "
            f"{package.name} would override {package.attribute}"
        )
        yield spec.finding(path, Code.WRONG_ATTRIBUTE, message)
    needs = {spec.packages[need].attribute: need for need in package.needs}
    if needs and TORCH not in needs and package.attribute in companions_of_torch():
        listed = ", ".join(f"{need} is {attribute}" for attribute, need in needs.items())
        message = (
            f"{package.name} is built with torch, and nothing that it needs has that attribute ({listed}): each recipe "
            f"would take nixpkgs' own torch"
        )
        yield spec.finding(("packages", package.name, "needs"), Code.WRONG_ATTRIBUTE, message)


def _check_companions(spec: Spec, branch: Branch) -> Iterator[Finding]:
    stated = [spec.packages[name] for name in branch.versions if spec.packages[name].on(branch.name)]
    for package in stated:
        torches = [other for other in stated if other.attribute == TORCH and other.name in package.needs]
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
    """The findings on the variants whose recipes are compiled."""
    compiled = [
        (cell.branch, variant.package, cell.toolkit, cell.family, cell.target, cell.python)
        for cell in cells
        for variant in cell.variants
        if spec.backend.has_recipes
        and not cell.listed
        and spec.packages[variant.package].kind_of(variant.name) is RecipeKind.COMPILED
    ]
    for name, package_name, toolkit, family, gpu, python in dict.fromkeys(compiled):
        if spec.packages[package_name].attribute == TORCH:
            kit = toolkit if family == SHORT_FAMILY else ""
            yield from _check_torch(spec, spec.branches[name], spec.packages[package_name], kit, gpu, python)
    for name, package_name, toolkit, family in dict.fromkeys(one[:4] for one in compiled):
        branch, package = spec.branches[name], spec.packages[package_name]
        yield from _check_pin(spec, branch, package, branch.pin(toolkit))
        yield from _check_arguments(spec, package, branch.pin(toolkit), family)


def _check_torch(
    spec: Spec, branch: Branch, package: Package, toolkit: str, gpu: str, python: str
) -> Iterator[Finding]:
    """Whether the release of torch knows the GPU, the toolkit and the Python."""
    version = branch.versions[package.name]
    path = ("branches", branch.name, "versions", package.name)
    if first := first_series(version, gpu):
        message = (
            f"{gpu} needs {package.name} {first} or newer, and {branch.name} has {version}, whose build refuses the "
            f"architecture"
        )
        yield spec.finding(path, Code.GPU_NEEDS_NEWER_TORCH, message)
    if toolkit and (refusal := toolkit_refusal(version, toolkit)):
        yield spec.finding(path, Code.TOOLKIT_NOT_OF_TORCH, f"{package.name} {version} {refusal}")
    if refusal := python_refusal(version, python):
        yield spec.finding(path, Code.PYTHON_NOT_OF_TORCH, f"{package.name} {version} {refusal}")


def _check_pin(spec: Spec, branch: Branch, package: Package, pin: Pin) -> Iterator[Finding]:
    """A recipe without a source of its own has the version of the pinned nixpkgs."""
    version, has = branch.versions[package.name], version_in(pin.nixpkgs, package.attribute)
    if not has or has == version or package.name in pin.sources or _has_overlays(spec, package, pin):
        return
    pins = pins_with(package.attribute, version)
    there = f"; {' and '.join(pins)} has it" if pins else ""
    message = (
        f"{branch.name} says {package.name} {version}, and its nixpkgs {pin.nixpkgs} has {has}{there}: take that "
        f"version or another nixpkgs, or add the source of {version} under `sources`"
    )
    yield spec.finding(("branches", branch.name, "versions", package.name), Code.VERSION_NOT_OF_PIN, message)


def _check_arguments(spec: Spec, package: Package, pin: Pin, family: str) -> Iterator[Finding]:
    """Whether the function in the pinned nixpkgs takes the arguments that a recipe overrides."""
    taken = arguments_in(pin.nixpkgs, package.attribute)
    if not taken or _has_overlays(spec, package, pin):
        return
    given: dict[str, tuple[str, ...]] = {name: ("arguments", name) for name in package.overrides[family].arguments}
    if package.at == "leaf":
        given |= {spec.packages[need].attribute: ("needs",) for need in package.needs}
    for name, path in given.items():
        if name not in taken:
            near = nearest(name, taken, only_near=True)
            message = f"{package.attribute} takes no argument {name!r} in nixpkgs {pin.nixpkgs}{near}"
            yield spec.finding(("packages", package.name, *path), Code.UNEXPECTED_ARGUMENT, message)


def _has_overlays(spec: Spec, package: Package, pin: Pin) -> bool:
    """Whether an overlay of the repository's own may replace the package, and set another version."""
    own = (spec.work_arounds[name] for name in pin.work_arounds if name in spec.work_arounds)
    return bool(package.overlays) or any(work_around.overlay for work_around in own)


def uses_dnn(spec: Spec, cell: Cell, package: str) -> bool:
    """Whether `package` in `cell` is PyTorch, or needs it, for a GPU that the library for neural networks supports."""
    return cell.target != CPU and spec.hardware.gpu(cell.target).dnn and bool(_torches(spec, package))


def dnn_of(spec: Spec, cell: Cell, package: str) -> str:
    """The version of that library in `package` in `cell`, or its series (`9.x`); '' without it, or if unknown."""
    here = all(torch.repository is None for torch in _torches(spec, package))
    known = here and uses_dnn(spec, cell, package)
    return dnn_in(spec.branches[cell.branch].pin(cell.toolkit).nixpkgs, cell.toolkit) if known else ""


def _torches(spec: Spec, package: str) -> list[Package]:
    names = (*needs_of(spec, package), package)
    return [spec.packages[name] for name in names if spec.packages[name].attribute == TORCH]

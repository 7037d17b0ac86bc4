"""The text of a compiled recipe: a Nix expression that overrides a package of nixpkgs.

It stands whole in a self-contained recipe, and once for all variants that share it otherwise (`recipes.thin`). What
differs between packages, branches, GPUs and ISAs comes from the spec, the presets, the hardware tables and the named
pieces; this module puts it in order.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from ci_compiler.files.drift import MARK
from ci_compiler.hardware import Gpu
from ci_compiler.hardware.families import family_of, nixpkgs
from ci_compiler.plan.job_graph import needs_of
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes import parameters, proof, seeds
from ci_compiler.recipes.capabilities import sets_capabilities
from ci_compiler.recipes.subject import Subject, fetch
from ci_compiler.recipes.work_arounds import Piece, switched_off
from ci_compiler.spec.model import Spec
from ci_compiler.spec.placeholders import fill
from ci_compiler.spec.presets import handed_on
from ci_compiler.variant import RECIPES, SHARED, recipe_path, variant_name

ARCHIVE = "https://github.com/{repository}/archive/{rev}.tar.gz"
NIXPKGS = "NixOS/nixpkgs"

CAPABILITY = "gpuArchSM"
"""The name that a recipe gives to the capability."""

FLAGS, NEEDS, DESCRIPTION, RUNS_ON = "cpuFlags", "needs", "description", "runsOn"
"""The names that a recipe gives to the flags of the ISA, the packages that it needs, and what it says of itself."""

_JOBS = """\
# The lower of both numbers counts: nixpkgs' hooks read NIX_BUILD_CORES, setup.py reads MAX_JOBS.
: $((NIX_BUILD_CORES = MAX_JOBS = NIX_BUILD_CORES < MAX_JOBS ? NIX_BUILD_CORES : MAX_JOBS))"""
"""Shell code after `MAX_JOBS` is set. nixpkgs' setup script sets NIX_BUILD_CORES to 1 or more."""

_APPENDED = frozenset({"requiredSystemFeatures"})
"""Attributes whose values are added to those that nixpkgs' own recipe has."""

_PACKAGE = re.compile(r"@(pkgs(?:\.[A-Za-z_][A-Za-z0-9_'-]*)+)@")
"""A text that stands for a package of nixpkgs."""


def render(subject: Subject) -> str:
    """The recipe of `subject`."""
    return "\n".join([*head(subject), "", seeds.head(subject), "", *expression(subject), ""])


def head(subject: Subject) -> list[str]:
    """The first lines of a recipe: where it comes from, and what it is for."""
    return [origin(subject.spec), nix.comment(f"{subject.package.title} {subject.version} for {_target(subject)}.")]


def origin(spec: Spec) -> str:
    """The first line of every compiled Nix file."""
    return nix.comment(
        f"{MARK} from {spec.document.file}. Do not edit: change the spec, then run `ci-compile recipes`."
    )


def expression(subject: Subject) -> list[str]:
    """The expression of the package, as lines or groups of lines."""
    return ["let", nix.indent("\n\n".join(_bindings(subject))), "in", _body(subject)]


def _target(subject: Subject) -> str:
    """The GPU and CPU that it is built for, for people."""
    system = subject.spec.hardware.systems[subject.cell.system]
    cpu = f"{system.title} CPUs with {subject.isa.title}"
    if subject.gpu is None:
        return cpu
    return f"{_named(subject.gpu, more=f': {subject.gpu.summary}')} and {cpu}"


def _named(gpu: Gpu, *, more: str = "") -> str:
    """The architecture and the name of a GPU with what there is to say of it; its name alone if that is all."""
    family = family_of(gpu.family)
    if gpu.name in gpu.architecture:
        return f"{family.vendor} {gpu.name}"
    return f"{family.vendor} {gpu.architecture} ({gpu.name}{more})"


# The `let`.


def _bindings(subject: Subject) -> Iterator[str]:
    # Assumes `pinned-nixpkgs`.
    yield f"nixpkgs = {_tarball(NIXPKGS, subject.pin.nixpkgs, subject.pin.nixpkgs_hash)};"
    yield f"pkgs = import nixpkgs {_nixpkgs_arguments(subject)};"
    yield "inherit (pkgs) lib;"
    if subject.package.at == "leaf":
        for need in subject.package.needs:
            yield _needed(subject, need)
    if not subject.is_shared:
        if subject.capabilities:
            yield f"{capability_comment(subject)}\n{CAPABILITY} = {nix.string(subject.values['capability'])};"
        yield f"{nix.comment(f'{subject.isa.title}: {subject.isa.cpus}.')}\n{FLAGS} = {nix.words(subject.isa.flags)};"
    yield from seeds.bindings(subject)


def capability_comment(subject: Subject) -> str:
    """What is to be known of the spelling of a GPU's capability."""
    return nix.comment(fill(subject.override.capability, subject.values))


def _tarball(repository: str, rev: str, digest: str) -> str:
    arguments = {"url": nix.string(ARCHIVE.format(repository=repository, rev=rev))}
    if digest:
        arguments["sha256"] = nix.string(digest)
    return f"builtins.fetchTarball {nix.attributes(arguments)}"


def _nixpkgs_arguments(subject: Subject) -> str:
    config, spelled = {"allowUnfree": "true"}, nixpkgs(subject.cell.family)
    if subject.gpu is not None:
        config[spelled["support"]] = "true"
    if spelled["capabilities"] and sets_capabilities(subject.spec, subject.package, subject.cell):
        one = len(subject.capabilities) == 1
        config[spelled["capabilities"]] = f"[ {CAPABILITY} ]" if one else nix.words(subject.capabilities)
    arguments = {"system": nix.string(subject.values["system"]), "config": nix.attributes(config)}
    if overlays := list(_overlays(subject)):
        arguments["overlays"] = nix.block("[", overlays, "]")
    return nix.attributes(arguments)


def _overlays(subject: Subject) -> Iterator[str]:
    for piece in subject.pieces:
        if piece.overlay:
            yield f"{nix.comment(fill(piece.why, subject.values))}\n{fill(piece.overlay, subject.values)}"
    for path in subject.package.overlays:
        yield f"(import {_relative(path, SHARED if subject.is_shared else RECIPES)})"
    if subject.package.at == "set":
        yield from _in_the_sets(subject)


def _relative(path: str, folder: str) -> str:
    """A path from the repository's root as a Nix path from `folder`."""
    relative = posixpath.relpath(path, folder)
    return relative if relative.startswith(".") else f"./{relative}"


def _in_the_sets(subject: Subject) -> Iterator[str]:
    """The overlays that put the package and all that it needs into their package sets."""
    members: dict[str, list[str]] = {"top": [], "python": []}
    for need in needs_of(subject.spec, subject.package.name):
        members[subject.spec.packages[need].set].append(_needed(subject, need))
    before = {"top": "prev", "python": "pprev"}[subject.package.set]
    name = nix.name(subject.package.attribute)
    members[subject.package.set].append(f"{name} = {_override(subject, f'{before}.{name}')};")
    if top := members["top"]:
        yield nix.block("(final: prev: {", top, "})")
    if python := members["python"]:
        extension = nix.block("(pfinal: pprev: {", python, "})")
        extensions = nix.block("pythonPackagesExtensions = prev.pythonPackagesExtensions ++ [", [extension], "];")
        yield nix.block("(final: prev: {", [extensions], "})")


def _needed(subject: Subject, need: str) -> str:
    """The binding of a needed package, called as its attribute in nixpkgs."""
    package = subject.spec.packages[need]
    why = nix.comment(f"The {package.title} of this very cell: the derivation that its own recipe builds.")
    name = attribute(subject, need)
    return f"{why}\n{name} = {f'{NEEDS}.{name}' if subject.is_shared else imported(subject, need)};"


def attribute(subject: Subject, need: str) -> str:
    """The attribute of a needed package, as Nix writes it."""
    return nix.name(subject.spec.packages[need].attribute)


def imported(subject: Subject, need: str) -> str:
    """The derivation of a needed package of this cell, by its own recipe."""
    recipe = recipe_path(variant_name(need, subject.cell.suffix))
    repository = subject.spec.packages[need].repository
    if repository is None:
        return f"import ./{PurePosixPath(recipe).name} {{ }}"
    tarball = _tarball(repository.name, repository.rev[subject.branch.name], repository.hash[subject.branch.name])
    return f"import (({tarball}) + {nix.string(f'/{recipe}')}) {{ }}"


# The body.


def _body(subject: Subject) -> str:
    sets = {"top": "pkgs", "python": f"pkgs.{subject.python_packages}"}
    package = f"{sets[subject.package.set]}.{nix.name(subject.package.attribute)}"
    return package if subject.package.at == "set" else _override(subject, package)


def _override(subject: Subject, package: str) -> str:
    """The override of `package`, a Nix expression."""
    entries = [f"{key} = {value};" for key, value in _attributes(subject).items()]
    arguments = [f"{nix.name(key)} = {_value(subject, item)};" for key, item in subject.override.arguments.items()]
    if subject.package.at == "leaf" and subject.package.needs:
        needs = " ".join(nix.name(subject.spec.packages[need].attribute) for need in subject.package.needs)
        arguments.insert(0, f"inherit {needs};")
    if len(arguments) == 1 and "\n" not in arguments[0]:
        package = f"({package}.override {{ {arguments[0]} }})"
    elif arguments:
        package = f"({nix.block(f'{package}.override {{', arguments, '}')})"
    return nix.block(f"{package}.overrideAttrs (old: {{", "\n\n".join(entries).split("\n"), "})")


def _value(subject: Subject, item: object) -> str:
    """A JSON value of the spec as a Nix expression, its placeholders replaced."""

    def text(written: str) -> str:
        if written == "@capability@":
            return CAPABILITY
        package = _PACKAGE.fullmatch(written)
        return package[1] if package else nix.string(fill(written, subject.values))

    return nix.value(_spread(item, subject.capabilities), text)


def _spread(item: object, capabilities: Sequence[str]) -> object:
    """`item` with one entry per capability in place of `@capability@` in lists, in a build for several GPUs."""
    if isinstance(item, Mapping):
        return {key: _spread(one, capabilities) for key, one in item.items()}
    if isinstance(item, list) and len(capabilities) > 1:
        several = {"@capability@": capabilities, "@sm@": [capability.replace(".", "") for capability in capabilities]}
        return [part for one in item for part in (several.get(one, [one]) if isinstance(one, str) else [one])]
    return item


def _attributes(subject: Subject) -> dict[str, str]:
    """The attributes that the recipe overrides, Nix expressions by name."""
    made, override, values = {"pname": nix.string(subject.pname)}, subject.override, subject.values
    if subject.source is not None and not override.source_overlay:
        made["version"] = nix.string(subject.version)
        made["src"] = fetch(subject.source, fetcher="pkgs", tag=subject.source.tag)
        made["patches"] = "[ ]"
    if override.build_flags:
        made["ninjaFlags"] = nix.words([fill(flag, values) for flag in override.build_flags])
    for key, item in override.attributes.items():
        value = _value(subject, item)
        made[nix.name(key)] = f"lib.unique ((old.{key} or [ ]) ++ {value})" if key in _APPENDED else value
    for key, items in _inputs(subject).items():
        made[nix.name(key)] = f"(old.{nix.name(key)} or [ ]) ++ {nix.listed(items)}"
    flags = [*(flag for piece in subject.pieces for flag in piece.cmake), *override.cmake_flags]
    if flags:
        made["cmakeFlags"] = f"(old.cmakeFlags or [ ]) ++ {nix.words([fill(flag, values) for flag in flags])}"
    if patched := [_shell(subject, piece, piece.post_patch) for piece in subject.pieces if piece.post_patch]:
        made["postPatch"] = _appended("postPatch", patched)
    made["preConfigure"] = _appended("preConfigure", _pre_configure(subject))
    built = [_shell(subject, piece, "\n".join(piece.pre_build)) for piece in subject.pieces if piece.pre_build]
    if built := [*built, *filter(None, [proof.of_configuration(subject)])]:
        made["preBuild"] = _appended("preBuild", built)
    if proven := [*seeds.at_the_end(subject), *filter(None, [proof.of_libraries(subject)])]:
        made["preFixup"] = _appended("preFixup", proven)
    made |= seeds.attributes(subject)
    made["passthru"] = f"(old.passthru or {{ }}) // {nix.attributes(_passthru(subject))}"
    made["meta"] = f"(old.meta or {{ }}) // {nix.attributes(_meta(subject))}"
    return made


def _appended(hook: str, texts: Iterable[str]) -> str:
    """The shell code of a hook after that of nixpkgs, whose last line need not have an end."""
    return f'(old.{hook} or "") + "\\n" + {nix.lines(texts)}'


def _inputs(subject: Subject) -> dict[str, list[str]]:
    """The packages that the recipe adds to the inputs, Nix expressions by attribute."""
    added = {
        key: [f"pkgs.{fill(package, subject.values)}" for package in packages]
        for key, packages in subject.override.inputs.items()
    }
    scope = "" if subject.package.at == "leaf" else "pfinal."
    needed = [subject.spec.packages[need] for need in subject.package.needs if subject.package.set == "python"]
    if outputs := [
        f"{scope}{nix.name(package.attribute)}.{handed_on(package)}" for package in needed if handed_on(package)
    ]:
        key = "propagatedBuildInputs"
        added[key] = [*outputs, *added.get(key, ())]
    return added


def _pre_configure(subject: Subject) -> Iterator[str]:
    yield 'export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} $CXXFLAGS"'
    yield 'export CFLAGS="${lib.concatStringsSep " " cpuFlags} $CFLAGS"'
    if subject.gpu is not None:
        yield from nixpkgs(subject.cell.family)["host-flags"]
    for key, value in subject.override.environment.items():
        yield nix.escape_lines(f"export {key}={parameters.quoted(fill(str(value), subject.values))}")
    if "MAX_JOBS" in subject.override.environment:
        yield _JOBS
    for piece in subject.pieces:
        exports = [f"export {key}={fill(value, subject.values)}" for key, value in piece.exports.items()]
        if exports or piece.pre_configure:
            yield _shell(subject, piece, "\n".join([*exports, *([piece.pre_configure] if piece.pre_configure else [])]))
    yield from seeds.before_configure(subject)


def _shell(subject: Subject, piece: Piece, text: str) -> str:
    """The piece's shell code after a comment with its reason."""
    return f"{nix.escape_lines(nix.comment(fill(piece.why, subject.values)))}\n{fill(text, subject.values)}"


def _passthru(subject: Subject) -> dict[str, str]:
    return {
        "gpuArch": "null" if subject.gpu is None else nix.string(subject.values["gpu"]),
        "cpuISA": nix.string(subject.values["isa"]),
        **{key: _value(subject, item) for key, item in subject.override.passthru.items()},
    }


def _meta(subject: Subject) -> dict[str, str]:
    title = f"{subject.package.title} {subject.version}"
    python = f" for Python {subject.cell.python}" if subject.package.set == "python" else ""
    runs_on = (
        ['${lib.concatMapStringsSep "\\n" (line: "- ${line}") runsOn}']
        if subject.is_shared
        else [nix.escape_lines(f"- {line}") for line in runs_on_lines(subject)]
    )
    return {
        "description": DESCRIPTION if subject.is_shared else nix.string(description(subject)),
        "longDescription": nix.lines([nix.escape_lines(f"{title}{python}, built for one kind of hardware:"), *runs_on]),
        "platforms": nix.words([subject.values["system"]]),
        **({"broken": "false"} if subject.pin.allow_broken else {}),
    }


def description(subject: Subject) -> str:
    """The package's description, one line."""
    gpu, cpu = subject.gpu, f"CPUs with {subject.isa.title}"
    target = cpu if gpu is None else f"{_named(gpu)} and {cpu}"
    return f"{subject.package.title} for {target}"


def runs_on_lines(subject: Subject) -> Iterator[str]:
    """What the variant runs on, and what it does without."""
    if subject.gpu is not None and subject.toolkit is not None:
        family, named = family_of(subject.cell.family), nixpkgs(subject.cell.family)["named"]
        yield f"GPU: {subject.gpu.summary} ({named} {', '.join(subject.capabilities)})"
        driver = max(subject.toolkit.lowest_driver, subject.gpu.driver)
        kit = f"{family.toolkit} {subject.cell.toolkit}"
        yield f"{kit}, {family.vendor} driver {driver} or newer" if driver else kit
    elif subject.gpu is not None:
        yield f"GPU: each with {subject.gpu.summary}"
    yield f"CPU: {subject.isa.cpus}"
    for off in switched_off(subject.spec, subject.cell, subject.package.name):
        yield f"Without {off}"

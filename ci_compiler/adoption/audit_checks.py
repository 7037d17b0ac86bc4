"""Defects of a recipe: where it builds something else than its name and the spec say, or what cannot work.

A defect is wrong in itself, whoever wrote the recipe. Another style is none. What depends on a nixpkgs that is not
known, or that only the build shows, is left open. `CHECKS` has every check of a recipe that was evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from ci_compiler.adoption.evaluation import Evaluation, texts
from ci_compiler.adoption.evaluator import name_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, about
from ci_compiler.hardware import ALL, CPU, Hardware, Isa
from ci_compiler.hardware.families import family_of, files_of, nixpkgs
from ci_compiler.hardware.features import UnknownFlagError, declaration, features, least, refined
from ci_compiler.hardware.pairs import hardware_problems
from ci_compiler.plan.matrix import Cell
from ci_compiler.recipes.capabilities import capabilities_of
from ci_compiler.recipes.judged import another_version
from ci_compiler.spec.model import RecipeKind, Spec
from ci_compiler.spec.releases import facts
from ci_compiler.units import grouped
from ci_compiler.variant import VariantName

_DEFINITION = re.compile(r"-D(\w+)(?::\w+)?=(.+)", re.DOTALL)
_CMAKE = "cmakeFlags"
_PYTHON = re.compile(r"-python\d{2,}-")
_FLAG_VARIABLES = ("CXXFLAGS", "CFLAGS", "NIX_CFLAGS_COMPILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRecipe:
    """A recipe of the variant `name` in `cell`, what it evaluates to, and the evaluations of all recipes by name."""

    spec: Spec
    cell: Cell
    name: str
    evaluation: Evaluation
    others: Mapping[str, Evaluation]

    @property
    def package(self) -> str:
        """The package of the variant."""
        return package_in(self.cell, self.name)

    @property
    def own(self) -> bool:
        """Whether the recipe is the repository's own."""
        return self.spec.packages[self.package].kind_of(self.name) is RecipeKind.OWN

    @property
    def kit(self) -> str:
        """What sentences call the toolkit of its family."""
        return family_of(self.cell.family).kit

    @property
    def spelled(self) -> Mapping[str, Any]:
        """How nixpkgs spells what builds for its family get."""
        return nixpkgs(self.cell.family)

    @property
    def torch(self) -> Evaluation:
        """The torch that the recipe builds or uses; the package itself if there is none."""
        return self.evaluation.torch or self.evaluation

    @property
    def nodes(self) -> tuple[tuple[str, Evaluation], ...]:
        """All that the recipe makes or changes, each with the beginning of a message: the package, and what is inside.

        What another recipe makes, such as the torch that a torchvision imports, begins as that recipe's own messages.
        """
        evaluation, recipes = self.evaluation, {other.path for other in self.others.values()}
        inside = (*filter(None, [evaluation.torch]), *evaluation.inner)
        return (
            ("", evaluation),
            *(("" if node.path in recipes - {evaluation.path} else f"its {label(node)}: ", node) for node in inside),
        )

    @property
    def parts(self) -> tuple[tuple[str, Evaluation], ...]:
        """The nodes that no other recipe makes."""
        return tuple((whose, node) for whose, node in self.nodes if whose or node is self.evaluation)

    def about(self, whose: str, node: Evaluation, attribute: str, code: Code, message: str) -> Finding:
        """A finding about a node: in the recipe where a shared file sets it, since what is wrong may be in either."""
        place, mine = node.places.get(attribute) or Place(str(node.path), 1, 1), str(self.evaluation.path)
        if not whose or place.file == mine:
            return about(place, code, f"{whose}{message}")
        return about(Place(mine, 1, 1), code, f"{whose}{message} (set in {place.file}:{place.line})")

    @property
    def is_known(self) -> bool:
        """Whether the facts about the recipe's nixpkgs are known."""
        return self.evaluation.pin in facts()["pins"]


def package_in(cell: Cell, name: str) -> str:
    """The package of the variant `name` of the cell."""
    return next(variant.package for variant in cell.variants if variant.name == name)


def label(node: Evaluation) -> str:
    """What messages call a package inside a recipe."""
    if node.package != "other":
        return node.package
    last = node.attribute.rpartition(".")[2]
    return node.pname if last.startswith(("build", "mk")) else last


def at(recipe: Evaluation, attribute: str, code: Code, message: str) -> Finding:
    """A finding about a recipe, at the place of its attribute, or else at the beginning of its file."""
    return about(recipe.places.get(attribute) or Place(str(recipe.path), 1, 1), code, message)


def impossible(name: str, path: Path, spec: Spec) -> Iterator[Finding]:
    """Why Flox cannot address, or nothing can build, what the recipe at `path` is called."""
    hardware, parts = spec.hardware, VariantName.parse(name)
    place = Place(str(path), 1, 1)
    if "." in name:
        right = str(parts.spelled(hardware)) if parts else name
        message = f"{name!r} contains a dot, and a Flox attribute path contains none; call it {right.replace('.', '_')}"
        yield about(place, Code.DOTTED_NAME, message)
    if parts is None:
        return
    isa, gpu = hardware.isas.get(parts.spelled(hardware).isa), hardware.gpus.get(parts.target)
    toolkit = hardware.toolkits.get(parts.toolkit)
    if isa and gpu and toolkit:
        yield from (about(place, code, problem) for code, problem in hardware_problems(gpu, toolkit, isa.system))


# The name and the nixpkgs.


def _name(recipe: AuditedRecipe) -> Iterator[Finding]:
    """A `pname` that is the name of a variant in another cell."""
    pname = recipe.evaluation.pname
    if _PYTHON.search(pname) and pname != recipe.name and not pname.endswith(f"-{recipe.cell.suffix}"):
        message = f"pname is {pname!r}, which is not the variant {recipe.name}"
        yield at(recipe.evaluation, "pname", Code.PNAME_DIFFERS, message)


def _python(recipe: AuditedRecipe) -> Iterator[Finding]:
    wanted = recipe.cell.python
    for whose, node in recipe.parts:
        built, plain = node.python, node.attribute.startswith(("python3Packages.", "pythonPackages."))
        if built not in {"", wanted} and (recipe.is_known or not plain):
            message = f"its name says Python {wanted}; it builds with {built}"
            yield recipe.about(whose, node, "", Code.WRONG_PYTHON, message)


def _nixpkgs(recipe: AuditedRecipe) -> Iterator[Finding]:
    branch, pin = recipe.spec.branches[recipe.cell.branch], recipe.evaluation.pin
    wanted = branch.pin(recipe.cell.toolkit).nixpkgs
    if wanted and pin != wanted and not (recipe.own and not pin):
        taken = f"takes nixpkgs {pin}" if pin else "takes the nixpkgs that it is called with"
        message = f"{taken}; {branch.name} is pinned to {wanted}"
        yield at(recipe.evaluation, "nixpkgs", Code.WRONG_PIN, message)


def _version(recipe: AuditedRecipe) -> Iterator[Finding]:
    branch, evaluation = recipe.spec.branches[recipe.cell.branch], recipe.evaluation
    wanted = branch.versions.get(recipe.package, "")
    # Recipes of the repository's own may have further pins.
    known = "version" in evaluation.sets or not (recipe.own or "release" in evaluation.unknown)
    if known and not re.match(rf"{re.escape(wanted)}[^\d.]", evaluation.version):
        for message in another_version(branch.name, recipe.package, wanted, evaluation.version):
            yield at(evaluation, "version", Code.EVALUATION_DIFFERS, message)


def _alias(recipe: AuditedRecipe) -> Iterator[Finding]:
    for whose, part in recipe.parts:
        if part.attribute.endswith(".pytorch"):
            message = f"{part.attribute} is an alias; take {part.attribute[:-7]}torch"
            yield recipe.about(whose, part, "", Code.PYTORCH_ALIAS, message)


def _platforms(recipe: AuditedRecipe) -> Iterator[Finding]:
    """A system that is not the variant's, and another system for which the compiler refuses the recipe's flags."""
    cell, platforms, hardware = recipe.cell, recipe.evaluation.platforms, recipe.spec.hardware
    if platforms and cell.system not in platforms:
        message = f"meta.platforms is {', '.join(platforms)}, not {cell.system}"
        yield at(recipe.evaluation, "meta.platforms", Code.WRONG_PLATFORMS, message)
        return
    flags = [flag for _, part in recipe.parts for name in part.flags for flag in _machine_flags(part, name)]
    cpu = cell.system.partition("-")[0]
    others = [system for system in hardware.systems if system in platforms and not system.startswith(f"{cpu}-")]
    if flags and others and hardware.isa(cell.isa).flags:
        message = f"meta.platforms has {', '.join(others)} too, for which {flags[0]!r} does not compile"
        yield at(recipe.evaluation, "meta.platforms", Code.WRONG_PLATFORMS, message)


# The GPU and the toolkit.


def _gpu(recipe: AuditedRecipe) -> Iterator[Finding]:
    """The toolkit where it does not belong or is missing, and another GPU than its name's; at most one finding."""
    cell, evaluation, torch = recipe.cell, recipe.evaluation, recipe.torch
    if cell.target == CPU:
        for family in files_of("nixpkgs.json"):
            yield from _in_cpu_recipe(recipe, family)
        return
    support = recipe.spelled["support"]
    off = torch.package == "torch" and torch.pin and cell.family not in torch.families
    if torch.override.get(support) is False or off:
        message = f"{recipe.kit} is turned off, but the recipe is for a GPU"
        yield at(torch, f"override.{support}", Code.CUDA_OFF, message)
        return
    if cell.target in {ALL.name, cell.family}:
        return
    wanted = capabilities_of(recipe.spec.hardware, cell)
    asked = [each for each in _targets(recipe) if each[3]]
    problems = (_wrong_target(recipe, *each, wanted) for each in asked)
    if problem := next(filter(None, problems), None):
        yield problem
    if not asked and torch.package == "torch" and (torch is evaluation or torch.override or torch.pin):
        message = f"gpuTargets is not set, so that torch has nixpkgs' default architectures, and {_right(cell, wanted)}"
        yield at(torch, "override.gpuTargets", Code.WRONG_GPU, message)


def _in_cpu_recipe(recipe: AuditedRecipe, family: str) -> Iterator[Finding]:
    """The toolkit of `family` in a recipe for CPUs."""
    support, torch = nixpkgs(family)["support"], recipe.torch
    message = f"{family_of(family).kit} is turned on, but the recipe is for CPUs only"
    for whose, node in recipe.parts:
        if node is not torch and node.override.get(support):
            yield recipe.about(whose, node, f"override.{support}", Code.CUDA_IN_CPU_RECIPE, message)
    stated = torch.override.get(support)
    if family in torch.families and (torch.pin or stated):
        where = f"override.{support}" if stated else f"config.{support}"
        yield at(torch, where, Code.CUDA_IN_CPU_RECIPE, message)
    elif recipe.evaluation.config.get(support):
        message = f"config.{support} is set, but the recipe is for CPUs only"
        yield at(recipe.evaluation, f"config.{support}", Code.CUDA_IN_CPU_RECIPE, message)


def _right(cell: Cell, wanted: Sequence[str]) -> str:
    """What the architectures should be."""
    right = ", ".join(wanted)
    return f"its name says {right}" if (cell.target,) == (*wanted,) else f"{cell.target} is {right}"


def _wrong_target(
    recipe: AuditedRecipe, whose: str, node: Evaluation, where: str, targets: tuple[str, ...], wanted: Sequence[str]
) -> Finding | None:
    """What is wrong with the architectures `targets` that a node asks for; None if nothing is."""
    attribute, spelled = where.rsplit(".", 1)[-1], recipe.spelled
    known = [target for target in targets if re.fullmatch(spelled["any-target"], target)]
    if attribute in {*spelled["arguments"], spelled["capabilities"], spelled["architectures"]}:
        for target in known:
            if not re.fullmatch(spelled["target"], target):
                message = f"{attribute} contains {target!r}; torch takes '{', '.join(wanted)}'"
                return recipe.about(whose, node, where, Code.GPU_TARGET_NOTATION, message)
    if {re.sub(spelled["noise"], "", one) for one in known} - {re.sub(spelled["noise"], "", one) for one in wanted}:
        message = f"{attribute} is {', '.join(targets)}, and {_right(recipe.cell, wanted)}"
        if attribute == spelled["architectures"] and spelled["capabilities"] and node.torch and len(targets) > 1:
            message += f"; nixpkgs has it from torch.{spelled['capabilities']}, which gpuTargets does not change"
        return recipe.about(whose, node, where, Code.WRONG_GPU, message)
    return None


def _targets(recipe: AuditedRecipe) -> Iterator[tuple[str, Evaluation, str, tuple[str, ...]]]:
    """The GPUs that the nodes ask for, as written, in each way in which they do: node, attribute, targets."""
    spelled = recipe.spelled
    general, code = spelled["capabilities"], re.compile(spelled["code-flag"])
    yield "", recipe.evaluation, f"config.{general}", texts(recipe.evaluation.config.get(general))
    for whose, node in recipe.nodes:
        for name in (*spelled["arguments"], general):
            yield whose, node, f"override.{name}", texts(node.override.get(name))
        for where, name, value in _variables(node):
            is_list = re.fullmatch(spelled["architecture-variables"], name)
            yield whose, node, where, _list(value) if is_list else tuple(dict.fromkeys(code.findall(value)))


def _variables(node: Evaluation) -> Iterator[tuple[str, str, str]]:
    """The variables of a build, and the definitions that CMake gets: the place's attribute, the name, the value."""
    yield from ((f"exports.{name}", name, value) for name, value in node.exports.items())
    definitions = filter(None, map(_DEFINITION.fullmatch, node.cmake_flags))
    yield from ((_CMAKE, match[1], match[2]) for match in definitions)


def _list(value: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[;,\s]+", value) if word)


def _toolkit(recipe: AuditedRecipe) -> Iterator[Finding]:
    torch, kit, spelled = recipe.torch, recipe.cell.toolkit, recipe.spelled
    packages, said = spelled["packages"], f"its name says {recipe.kit} {kit}"
    plain = torch.toolkit_attribute == packages
    has = torch.toolkit_version if recipe.cell.family in torch.families else ""
    if kit and torch.toolkit_attribute.startswith(packages) and (recipe.is_known or not plain) and has not in {"", kit}:
        why = f", since no overlay replaces the {packages} of its nixpkgs" if plain else ""
        message = f"{said}; it builds with {has}{why}"
        yield at(recipe.evaluation, "nixpkgs.overlays", Code.CUDA_IN_NAME, message)
    for whose, node in recipe.parts if kit else ():
        sets = (re.fullmatch(spelled["toolkit-set"], str(node.override.get(packages))),)
        stated = [(f"override.{packages}", match[1]) for match in filter(None, sets)]
        variables = spelled["toolkit-variables"]
        stated += [(where, value) for where, name, value in _variables(node) if re.fullmatch(variables, name)]
        for where, value in stated:
            if re.match(r"\d+\.\d", value) and not re.match(rf"{re.escape(kit)}(?!\d)", value):
                message = f"{said}; {where.rsplit('.', 1)[-1]} says {value}"
                yield recipe.about(whose, node, where, Code.CUDA_IN_NAME, message)


# The flags of the compiler.


def _machine_flags(recipe: Evaluation, variable: str) -> tuple[str, ...]:
    """The flags in `variable` that choose instructions."""
    flags = recipe.flags.get(variable, ())
    return tuple(flag for flag in flags if flag.startswith("-m") and not flag.startswith("-mtune="))


def _flags(recipe: AuditedRecipe) -> Iterator[Finding]:
    """Flags, also those of what is inside, that turn on more than the ISA in its name, or no more than a lower one."""
    isa, evaluation = recipe.spec.hardware.isa(recipe.cell.isa), recipe.evaluation
    for whose, part in recipe.nodes:
        stated = ((_machine_flags(part, name), name) for name in _FLAG_VARIABLES)
        for flags, variables in grouped(filter(itemgetter(0), stated), itemgetter(0)).items():
            names = " and ".join(name for _, name in variables)
            for code, message in _wrong_flags(names, flags, isa, recipe.spec.hardware):
                yield recipe.about(whose, part, "preConfigure", code, message)
    for whose, part in recipe.parts if isa.flags else ():
        changed = part.package == "torch" and (part is evaluation or part.sets)
        if changed and not any(_machine_flags(part, name) for name in _FLAG_VARIABLES):
            message = f"no compiler flag turns on {isa.title}"
            yield recipe.about(whose, part, "preConfigure", Code.WRONG_CPU_FLAGS, message)


def _wrong_flags(names: str, flags: tuple[str, ...], isa: Isa, hardware: Hardware) -> Iterator[tuple[Code, str]]:
    """What is wrong with `flags`, which the variables `names` have, for `isa`.

    Fewer features than those of `isa` are no defect, unless a lower ISA has them all.
    """
    try:
        turned_on, wanted = features(flags), features(isa.flags)
    except UnknownFlagError as error:
        yield Code.UNKNOWN_FLAG, f"{names}: {error}"
        return
    if more := turned_on - wanted:
        remedy = f"declare it so ({declaration(refined(isa, flags))}), or remove the flags"
        message = f"flags in {names} turn on {', '.join(least(more))}, which {isa.name} does not have; {remedy}"
        yield Code.FLAGS_EXCEED_ISA, message
    lacking = wanted - turned_on
    lower = (hardware.isa(name) for name in hardware.runs(isa.includes))
    titles = (other.title for other in lower if turned_on <= features(other.flags))
    if lacking and (title := next(titles, "") if turned_on else "what every CPU has"):
        message = f"flags in {names} turn on no more than {title}; {isa.name} has {', '.join(least(lacking))} too"
        yield Code.WRONG_CPU_FLAGS, message


# The torch of a package.


def _system_features(recipe: AuditedRecipe) -> Iterator[Finding]:
    """A torch that replaces what only large builders offer."""
    for whose, part in recipe.parts:
        replaces = part.package == "torch" and "requiredSystemFeatures" in part.sets
        if replaces and "big-parallel" not in part.required_system_features:
            message = 'requiredSystemFeatures replaces nixpkgs\' "big-parallel"'
            yield recipe.about(whose, part, "requiredSystemFeatures", Code.BIG_PARALLEL_MISSING, message)


def _propagated(recipe: AuditedRecipe) -> Iterator[Finding]:
    """A torch that users do not get."""
    evaluation = recipe.evaluation
    if evaluation.package in {"torchvision", "torchaudio"} and "out" not in evaluation.propagated_outputs:
        message = "propagates torch without its output `out`, which has site-packages; add torch.out"
        yield at(evaluation, "propagatedBuildInputs", Code.TORCH_NOT_PROPAGATED, message)


def _another_torch(recipe: AuditedRecipe) -> Iterator[Finding]:
    """A torch that is not the cell's, or a second one."""
    torch = recipe.evaluation.torch
    for variant in recipe.cell.variants if torch else ():
        other = recipe.others.get(variant.name)
        is_torch = recipe.spec.packages[variant.package].attribute == "torch"
        if is_torch and other is not None and torch and torch.drv_path != other.drv_path:
            message = f"its torch is not the derivation that {name_of(other.path)} builds; import that recipe"
            yield at(recipe.evaluation, "override.torch", Code.ANOTHER_TORCH, message)
            return
    if len(recipe.evaluation.torches) > 1:
        message = "two torches are among what it is built with, and only one can be imported; take one everywhere"
        yield at(recipe.evaluation, "propagatedBuildInputs", Code.ANOTHER_TORCH, message)


CHECKS: tuple[Callable[[AuditedRecipe], Iterator[Finding]], ...] = (
    _name,
    _python,
    _nixpkgs,
    _version,
    _alias,
    _platforms,
    _gpu,
    _toolkit,
    _flags,
    _system_features,
    _propagated,
    _another_torch,
)
"""The checks of a recipe whose variant fits the axes."""

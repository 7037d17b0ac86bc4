"""Errors in existing recipes, found by what the recipes evaluate to.

Each recipe of a checkout is evaluated, and so is the recipe that the spec compiles to in its place. Each difference is
one finding, at its place, whose code says what kind of error it is.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ci_compiler.adoption.audit_names import unlike_their_names
from ci_compiler.adoption.audit_own import at, hands_on_no_torch, impossible, wrong_in_itself
from ci_compiler.adoption.audit_text import wrong_counts, wrong_gpu_in_text
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import evaluate, find_recipes, name_of, parse
from ci_compiler.adoption.known_pins import known_pins
from ci_compiler.adoption.unknown import another_release, notes
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, nearest
from ci_compiler.hardware import CPU, Gpu, Isa
from ci_compiler.hardware.features import UnknownFlagError, declaration, features, least, refined
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.rules import RULES, judge
from ci_compiler.recipes.affected import read_by_recipes
from ci_compiler.recipes.capabilities import capabilities_of
from ci_compiler.recipes.render import NO_TEMPLATES, recipes
from ci_compiler.spec.model import Branch, Spec
from ci_compiler.spec.packages import RecipeKind
from ci_compiler.variant import VariantName

_ABOUT_THE_GPU = {Code.CUDA_OFF, Code.WRONG_GPU, Code.UNKNOWN_RECIPE, *(rule.code for rule in RULES)}
"""The codes after which the text of a recipe is not checked, since it is unclear which GPU is the right one."""

_NOTATION = re.compile(r"\d+\.\d+[a-z]?(\+PTX)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """An audit of one branch: the spec, its cells by variant name, and the evaluations of the compiled recipes."""

    spec: Spec
    branch: Branch
    cells: Mapping[str, Cell]
    wanted: Mapping[str, Evaluation]


def audit(
    root: Path,
    spec: Spec,
    branch: str,
    *,
    timeout: float = 120.0,
    templates: Mapping[str, str] = NO_TEMPLATES,
    say: Callable[[str], object] = str,
) -> tuple[Finding, ...]:
    """Everything wrong with the recipes under `root` as those of `branch`, by file and line.

    Compiled recipes are compared with what the spec compiles to; the repository's own only with their names.
    `templates` are the texts of the spec's templates, by path. `timeout` is in seconds, for all evaluations together.
    `say` is called with each line about what could not be compared, because the stand-in does not know it.
    Raises InputError where there are no recipes or no Nix.
    """
    paths = find_recipes(root)
    judged = judge(spec)
    cells = {v.name: cell for cell in judged.cells if cell.branch == branch for v in cell.variants}
    own = {
        variant.name
        for cell in cells.values()
        for variant in cell.variants
        if spec.packages[variant.package].kind_of(variant.name) is RecipeKind.OWN
    }
    groups = {path: cells[name].variants[0].package for path in paths if (name := name_of(path)) in own}
    found, failed = evaluate(root, paths, timeout=timeout, groups=groups)
    this = Audit(
        spec=spec,
        branch=spec.branches[branch],
        cells=cells,
        wanted=_wanted(root, spec, recipes(spec, judged, branch, templates), timeout),
    )
    done = {one.path for one in found}
    lacking = [path for path in dict.fromkeys(paths) if path not in done]
    findings = [*_missing(this, root, paths)]
    findings += [one for path, one in zip(lacking, failed, strict=True) if name_of(path) not in own]
    opaque = {path: cells[name_of(path)] for path in lacking if name_of(path) in own}
    findings += parse(list(opaque), timeout=timeout)
    findings += unlike_their_names({path: cell for path, cell in opaque.items() if not cell.listed})
    findings += [] if own else wrong_counts(root, judged)
    by_name = {name_of(one.path): one for one in found}
    for line in notes(found):
        say(line)
    findings += [
        one for name in cells.keys() & by_name.keys() - own for one in another_release(spec, cells[name], by_name[name])
    ]
    for path in paths:
        if (name := name_of(path)) in own and cells[name].listed:
            findings += impossible(name, path, spec.hardware)
    for name, one in by_name.items():
        if name in own:
            findings += wrong_in_itself(cells[name], one, spec.hardware, known_pins().versions)
        else:
            findings += _of_compiled(this, name, one, by_name)
    return tuple(sorted(set(findings), key=lambda finding: (finding.place, finding.code, finding.message)))


def _of_compiled(this: Audit, name: str, one: Evaluation, others: Mapping[str, Evaluation]) -> list[Finding]:
    mine = list(_known(this, name, one, others) if name in this.cells else _unknown(this, name, one))
    if not any(finding.code in _ABOUT_THE_GPU for finding in mine):
        mine += wrong_gpu_in_text(this.spec, one, _gpus(this, one))
    return mine


def _wanted(root: Path, spec: Spec, compiled: Mapping[str, str], timeout: float) -> dict[str, Evaluation]:
    """The evaluations of the recipes that the spec compiles to, by name, with the files of `root` that they read."""
    with tempfile.TemporaryDirectory(prefix="ci-compile-") as folder:
        scratch = Path(folder)
        for path in read_by_recipes(spec):
            (scratch / path).parent.mkdir(parents=True, exist_ok=True)
            if (root / path).is_dir():
                shutil.copytree(root / path, scratch / path, dirs_exist_ok=True)
            elif (root / path).is_file():
                shutil.copy(root / path, scratch / path)
        paths = [path for path in compiled if path.endswith(".nix")]
        for path in paths:
            (scratch / path).parent.mkdir(parents=True, exist_ok=True)
            (scratch / path).write_text(compiled[path], "utf-8")
        found, _ = evaluate(scratch, [scratch / path for path in paths], timeout=timeout) if paths else ((), ())
    return {name_of(one.path): one for one in found}


def _missing(this: Audit, root: Path, paths: tuple[Path, ...]) -> Iterator[Finding]:
    here = {name_of(path) for path in paths}
    here |= {str(parts.spelled(this.spec.hardware)) for parts in map(VariantName.parse, here) if parts}
    for name in this.cells:
        if name not in here:
            message = (
                f"{name} is in the spec and has no recipe; `ci-compile recipes --branch {this.branch.name}` writes it"
            )
            yield Finding(place=Place(file=str(root)), code=Code.MISSING_RECIPE, message=message)


# Recipes that the spec does not know.


def _unknown(this: Audit, name: str, one: Evaluation) -> Iterator[Finding]:
    """Why the spec does not know a recipe."""
    parts = VariantName.parse(name)
    right = parts and parts.spelled(this.spec.hardware)
    if right != parts:
        message = f"{name!r} contains a dot, and a Flox attribute path contains none; call it {right}"
        yield at(one, "", Code.DOTTED_NAME, message)
    elif parts and parts.cuda not in {"", *this.branch.toolkits}:
        message = f"its name says CUDA {parts.cuda}; {this.branch.name} has {', '.join(this.branch.toolkits)}"
        yield at(one, "pname", Code.CUDA_IN_NAME, message)
    elif impossible := list(_impossible(this, one)):
        yield from impossible
    else:
        message = f"{name} is not in the spec{nearest(name, this.cells)}"
        yield at(one, "", Code.UNKNOWN_RECIPE, message)


def _impossible(this: Audit, one: Evaluation) -> Iterator[Finding]:
    """The first rule that a recipe breaks, with its GPUs, its toolkit and, if it states one, its system."""
    toolkit = this.spec.hardware.toolkits.get(one.cuda_version)
    if toolkit is None or not one.cuda_support:
        return
    system = one.platforms[0] if len(one.platforms) == 1 else ""
    for gpu in _gpus(this, one):
        for rule in RULES:
            about_host = rule.code is Code.GPU_HOST
            problem = rule.problem(gpu, toolkit, system) if system or not about_host else ""
            if problem:
                yield at(one, "meta.platforms" if about_host else "override.gpuTargets", rule.code, problem)
                return


def _gpus(this: Audit, one: Evaluation) -> list[Gpu]:
    """The GPU architectures that a recipe builds for, in any notation; if it states none, that of its cell."""
    own = one.gpu_targets or tuple(re.split(r"[; ]+", one.exports.get("TORCH_CUDA_ARCH_LIST", "")))
    targets = own if any(own) else one.torch.gpu_targets if one.torch else ()
    cell = this.cells.get(name_of(one.path))
    if not any(targets) and cell and cell.gpu in this.spec.hardware.gpus:
        return [this.spec.hardware.gpus[cell.gpu]]
    digits = {re.sub(r"\D", "", target.split("+")[0]) for target in targets}
    return [gpu for gpu in this.spec.hardware.gpus.values() if gpu.name.removeprefix("sm") in digits]


# Recipes that the spec knows.


def _known(this: Audit, name: str, one: Evaluation, others: Mapping[str, Evaluation]) -> Iterator[Finding]:
    cell, want = this.cells[name], this.wanted.get(name)
    if want is None:  # a recipe of the repository's own: there is nothing to compare it with
        return
    if one.pname != want.pname:
        yield at(one, "pname", Code.PNAME_DIFFERS, f"pname is {one.pname!r}; the recipe of {name} has {want.pname!r}")
    yield from _check_nixpkgs(this, one, want)
    yield from _check_hardware(this, cell, one, want)
    own_torch = one.torch if one.torch and one.torch.path == one.path else None
    for part, whose in ((one, ""), (own_torch, "its torch: ")):
        if part is None:
            continue
        if "big-parallel" not in part.required_system_features and "big-parallel" in want.required_system_features:
            message = f'{whose}requiredSystemFeatures lacks "big-parallel"'
            yield at(part, "requiredSystemFeatures", Code.BIG_PARALLEL_MISSING, message)
        if part.attribute.endswith(".pytorch"):
            yield at(
                part, "", Code.PYTORCH_ALIAS, f"{whose}{part.attribute} is an alias; take {part.attribute[:-7]}torch"
            )
    yield from _check_torch(this, cell, one, others)
    yield from hands_on_no_torch(one)
    yield from _check_rest(one, want)


def _check_nixpkgs(this: Audit, one: Evaluation, want: Evaluation) -> Iterator[Finding]:
    if one.pin != want.pin:
        taken = f"takes nixpkgs {one.pin}" if one.pin else "takes the nixpkgs that it is called with"
        yield at(one, "nixpkgs", Code.WRONG_PIN, f"{taken}; {this.branch.name} is pinned to {want.pin}")
    here = {attribute for overlay in one.overlays for attribute in overlay}
    for overlay in want.overlays:
        for attribute in overlay:
            if attribute not in here and one.pin:
                message = f"no overlay sets {attribute}, as the recipes of {this.branch.name} do"
                yield at(one, "nixpkgs.overlays", Code.OVERLAY_MISSING, message)
    for attribute in sorted(here & want.overlaid.keys()):
        if one.overlaid.get(attribute) != want.overlaid[attribute]:
            message = f"its overlay changes {attribute} in another way than the recipes of {this.branch.name}"
            yield at(one, "nixpkgs.overlays", Code.OVERLAY_MISSING, message)


def _check_hardware(this: Audit, cell: Cell, one: Evaluation, want: Evaluation) -> Iterator[Finding]:
    if one.platforms != want.platforms:
        shown = ", ".join(one.platforms) or "none"
        yield at(
            one, "meta.platforms", Code.WRONG_PLATFORMS, f"meta.platforms is {shown}, but it is built for {cell.system}"
        )
    for name in ("CXXFLAGS", "CFLAGS"):
        yield from _check_flags(one, want, name, this.spec.hardware.isas.get(cell.isa))
    if cell.gpu == CPU:
        if one.cuda_support or one.config.get("cudaSupport") or one.gpu_targets:
            where = "override.cudaSupport" if one.override.get("cudaSupport") else "config.cudaSupport"
            yield at(one, where, Code.CUDA_IN_CPU_RECIPE, "CUDA is turned on, but the recipe is for CPUs only")
        return
    if one.package == "torch":
        yield from _check_targets(this, cell, one)
    if one.pin and not one.config.get("cudaSupport"):
        yield at(one, "config.cudaSupport", Code.CUDA_OFF, "config.cudaSupport is not set, but the recipe is for a GPU")


def _check_targets(this: Audit, cell: Cell, one: Evaluation) -> Iterator[Finding]:
    wrong = [target for target in one.gpu_targets if not _NOTATION.fullmatch(target)]
    capabilities = capabilities_of(this.spec.hardware, cell)
    want = ", ".join(capabilities)
    if not one.cuda_support:
        yield at(one, "override.cudaSupport", Code.CUDA_OFF, "CUDA is turned off, but the recipe is for a GPU")
    elif wrong:
        message = f"gpuTargets contains {wrong[0]!r}; torch takes {want!r}"
        yield at(one, "override.gpuTargets", Code.GPU_TARGET_NOTATION, message)
    elif impossible := list(_impossible(this, one)):
        yield from impossible
    elif one.gpu_targets != capabilities:
        message = f"gpuTargets is {', '.join(one.gpu_targets) or 'not set'}, and {cell.gpu} is {want}"
        yield at(one, "override.gpuTargets", Code.WRONG_GPU, message)


def _check_flags(one: Evaluation, want: Evaluation, name: str, isa: Isa | None) -> Iterator[Finding]:
    """Findings about the CPU features that the flags in `name` turn on beside those of the recipe's own ISA."""
    given = tuple(flag for flag in one.flags.get(name, ()) if flag.startswith("-m"))
    try:
        here, wanted = features(given), features(want.flags.get(name, ()))
    except UnknownFlagError as error:
        yield at(one, "preConfigure", Code.UNKNOWN_FLAG, f"{name}: {error}")
        return
    if isa and here - wanted:
        message = (
            f"{name} turns on {', '.join(least(here - wanted))}, which {isa.name} does not have: declare it so "
            f"({declaration(refined(isa, given))}), or remove the flags"
        )
        yield at(one, "preConfigure", Code.FLAGS_EXCEED_ISA, message)
    if wanted - here:
        message = f"{name} does not turn on {', '.join(least(wanted - here))}"
        yield at(one, "preConfigure", Code.WRONG_CPU_FLAGS, message)


def _check_torch(this: Audit, cell: Cell, one: Evaluation, others: Mapping[str, Evaluation]) -> Iterator[Finding]:
    """A finding if a package is not built with the torch that its cell's torch recipe builds."""
    if one.torch is None:
        return
    for variant in cell.variants:
        other = others.get(variant.name)
        is_torch = this.spec.packages[variant.package].attribute == "torch"
        if is_torch and other is not None and one.torch.drv_path != other.drv_path:
            message = f"its torch is not the derivation that {variant.name} builds; import that recipe"
            yield at(one, "override.torch", Code.ANOTHER_TORCH, message)


_REST = ("ninja_flags", "max_jobs", "cmake_flags", "python", "sources", "patches")


def _check_rest(one: Evaluation, want: Evaluation) -> Iterator[Finding]:
    """Differences from the compiled recipe that no other check reports."""
    for name in _REST:
        here, wanted = getattr(one, name), getattr(want, name)
        if name == "ninja_flags":  # compiled recipes limit ninja's jobs by MAX_JOBS
            here = tuple(flag for flag in here if flag != f"-j{want.max_jobs}")
        if here != wanted:
            yield _differs(one, name, here, wanted)
    for kind, mine, theirs in (
        ("exports", one.exports, want.exports),
        ("passthru", one.passthru, want.passthru),
        ("config", one.config, want.config),
    ):
        seen = {*want.flags, *one.flags, "MAX_JOBS", "cudaSupport"}
        seen |= {"cudaCapabilities"} if kind == "passthru" else set()  # those of gpuTargets, which are checked
        for key in sorted((mine.keys() | theirs.keys()) - seen):
            if mine.get(key) != theirs.get(key) and not (kind == "config" and not one.pin):
                yield _differs(one, f"{kind}.{key}", mine.get(key), theirs.get(key))
    for phase in ("postPatch",):
        if one.attributes.get(phase) != want.attributes.get(phase):
            yield at(one, phase, Code.DIFFERS_FROM_SPEC, f"{phase} differs from the spec's recipe")


def _differs(one: Evaluation, name: str, here: object, wanted: object) -> Finding:
    message = f"{name} is {_shown(here)}; the spec's recipe has {_shown(wanted)}"
    return at(one, _PLACES.get(name, name), Code.DIFFERS_FROM_SPEC, message)


_PLACES = {"ninja_flags": "ninjaFlags", "cmake_flags": "cmakeFlags", "max_jobs": "preConfigure", "sources": "src"}


def _shown(value: object) -> str:
    if value is None or value in ((), ""):
        return "not set"
    text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= 100 else text[:97] + "…"

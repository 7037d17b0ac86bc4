"""Defects in existing recipes, and differences from compiled ones, found by what the recipes evaluate to.

    recipes  ->  evaluations  ->  findings on each  ->  causes
    files        by Nix           defects              one for many files

1. Each recipe of a checkout is evaluated, and so is the recipe that the spec compiles to in its place.
2. `audit_defects`, `audit_flags`, `audit_names`, `audit_text`: what is wrong in a recipe itself, whoever wrote it.
3. `comparison`: what the compiler would write in another way.
4. `audit_causes`: findings with one cause become one.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ci_compiler.adoption.audit_causes import AuditCause, causes_of
from ci_compiler.adoption.audit_defects import AuditedRecipe, at, defects, impossible
from ci_compiler.adoption.audit_names import unlike_their_names
from ci_compiler.adoption.audit_text import wrong_counts, wrong_gpu_in_text
from ci_compiler.adoption.comparison import Pair, as_compiled, causes
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluation_cache import reached
from ci_compiler.adoption.evaluator import evaluate, find_recipes, name_of, parse
from ci_compiler.adoption.unknown import notes
from ci_compiler.codes import Code, Severity
from ci_compiler.errors import Finding, Place, nearest
from ci_compiler.hardware import Gpu
from ci_compiler.outside import bytes_of
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.rules import HARDWARE_CODES, Judged, hardware_problems, judge
from ci_compiler.recipes.affected import read_by_recipes
from ci_compiler.recipes.identifiers import mentions
from ci_compiler.recipes.render import NO_TEMPLATES, recipes
from ci_compiler.spec.model import Spec
from ci_compiler.spec.packages import RecipeKind
from ci_compiler.variant import VariantName, recipe_path

_ABOUT_THE_GPU = {
    Code.CUDA_OFF, Code.WRONG_GPU, Code.GPU_TARGET_NOTATION, Code.UNKNOWN_RECIPE, *HARDWARE_CODES,
}  # fmt: skip
"""The codes after which the text of a recipe is not checked, since it is unclear which GPU is the right one."""

_OF_A_PATH = re.compile(r"No such file or directory|does not exist|access to absolute path")
_QUOTED_PATH = re.compile(r"'(/[^']+)'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What an audit found: `defects`, wrong in themselves, `notes` on texts, `differences` from compiled recipes."""

    defects: tuple[AuditCause, ...]
    differences: tuple[AuditCause, ...]
    notes: tuple[AuditCause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Audit:
    """An audit of the branch `branch`: its recipes, its cells by variant name, and what the recipes evaluate to.

    `wanted` are the evaluations of the compiled recipes by name, `failed` the findings of recipes without an
    evaluation.
    """

    root: Path
    spec: Spec
    judged: Judged
    branch: str
    paths: tuple[Path, ...]
    cells: Mapping[str, Cell]
    found: Mapping[str, Evaluation]
    failed: Mapping[Path, Finding]
    wanted: Mapping[str, Evaluation]

    def is_own(self, name: str) -> bool:
        """Whether the recipe of the variant `name` is the repository's own; False for an unknown name."""
        return name in self.cells and _is_own(self.spec, self.cells[name], name)


def audit(
    root: Path,
    spec: Spec,
    branch: str,
    *,
    timeout: float = 120.0,
    templates: Mapping[str, str] = NO_TEMPLATES,
    compares_own: bool = False,
    say: Callable[[str], object] = str,
) -> Audited:
    """The defects of the recipes under `root` as those of `branch`, and how they differ from what the spec compiles to.

    The repository's own recipes differ from nothing, or, with `compares_own`, from those that the spec would compile in
    their place. `templates` are the texts of the spec's templates, by path. `timeout` is in seconds, for all
    evaluations together. `say` is called with each line about what could not be compared, because the stand-in does not
    know it. Raises InputError where there are no recipes or no Nix.
    """
    paths, judged = find_recipes(root), judge(spec)
    cells = {v.name: cell for cell in judged.cells if cell.branch == branch for v in cell.variants}
    own = [path for path in paths if (name := name_of(path)) in cells and _is_own(spec, cells[name], name)]
    groups = {path: cells[name_of(path)].variants[0].package for path in own}
    found, failed = evaluate(root, paths, timeout=timeout, groups=groups)
    for line in notes(found):
        say(line)
    compiled = recipes(as_compiled(spec, branch) if compares_own else spec, judged, branch, templates)
    by_name, done = {name_of(one.path): one for one in found}, {one.path for one in found}
    lacking = [path for path in dict.fromkeys(paths) if path not in done]
    this = _Audit(
        root=root,
        spec=spec,
        judged=judged,
        branch=branch,
        paths=paths,
        cells=cells,
        found=by_name,
        failed=dict(zip(lacking, failed, strict=True)),
        wanted=_wanted(root, spec, compiled, by_name, timeout),
    )
    counts = [] if own else wrong_counts(root, judged)
    return _audited(this, [*_defects(this, timeout), *counts])


def _audited(this: _Audit, findings: Iterable[Finding]) -> Audited:
    """The causes of `findings`, defects apart from notes, and the differences."""
    causes = causes_of(findings)
    return Audited(
        defects=tuple(one for one in causes if one.code.severity is not Severity.NOTE),
        differences=_differences(this),
        notes=tuple(one for one in causes if one.code.severity is Severity.NOTE),
    )


def _defects(this: _Audit, timeout: float) -> Iterator[Finding]:
    yield from _missing(this)
    yield from _of_opaque(this, timeout)
    yield from _of_names(this)
    for name, one in this.found.items():
        yield from _of_evaluated(this, name, one)


def _is_own(spec: Spec, cell: Cell, name: str) -> bool:
    package = next(variant.package for variant in cell.variants if variant.name == name)
    return spec.packages[package].kind_of(name) is RecipeKind.OWN


def _wanted(
    root: Path, spec: Spec, compiled: Mapping[str, str], found: Mapping[str, Evaluation], timeout: float
) -> dict[str, Evaluation]:
    """The evaluations of the recipes that the spec compiles to, by name, with the files of `root` that they read.

    A recipe that is as compiled, and reads what the compiled one reads, has the evaluation that was `found`.
    """
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
        names = {path: name_of(scratch / path) for path in paths}
        same = {
            names[path]: found[names[path]]
            for path in paths
            if names[path] in found and _is_alike(path, root, scratch, {*names.values(), *found})
        }
        rest = [scratch / path for path in paths if names[path] not in same]
        made, _ = evaluate(scratch, rest, timeout=timeout) if rest else ((), ())
    return same | {name_of(one.path): one for one in made}


def _is_alike(recipe: str, one: Path, other: Path, siblings: Collection[str]) -> bool:
    """Whether the file `recipe` has the same text in both folders, and so has all that it reads.

    False for a recipe that may ask for one of its `siblings` by name without reading its file.
    """
    first, second = (
        {path.relative_to(root): bytes_of(path) for path in reached(root / recipe, root)}
        for root in (one.resolve(), other.resolve())
    )
    if first != second:
        return False
    unread = set(siblings) - {name_of(path) for path in first}
    texts = (data.decode(errors="replace") for path, data in first.items() if path.suffix == ".nix")
    return all(mentions(text).names.isdisjoint(unread) for text in texts)


def _differences(this: _Audit) -> tuple[AuditCause, ...]:
    """How recipes differ from the compiled ones in their place, by package and group."""
    both = [name for name in this.found if name in this.wanted and name in this.cells]
    pairs = [
        Pair(
            package=next(one.package for one in this.cells[name].variants if one.name == name),
            path=this.found[name].path,
            count=1,
            here=this.found[name],
            there=this.wanted[name],
        )
        for name in both
    ]
    return tuple(
        AuditCause(
            code=Code.RECIPE_DIFFERS,
            message=str(cause),
            findings=tuple(
                Finding(place=Place(file=str(path)), code=Code.RECIPE_DIFFERS, message="; ".join(map(str, several)))
                for path, several in cause.by_path.items()
            ),
        )
        for cause in causes(pairs)[1]
    )


# Recipes that cannot be evaluated, and names.


def _missing(this: _Audit) -> Iterator[Finding]:
    here = {name_of(path) for path in this.paths}
    here |= {str(parts.spelled(this.spec.hardware)) for parts in map(VariantName.parse, here) if parts}
    folder = this.paths[0].parent if this.paths[0].name != "default.nix" else this.paths[0].parent.parent
    for name in this.cells:
        if name not in here:
            place = Place(file=str(folder / Path(recipe_path(name)).name))
            message = f"{name} is in the spec and has no recipe; `ci-compile recipes --branch {this.branch}` writes it"
            yield Finding(place=place, code=Code.MISSING_RECIPE, message=message)


def _of_opaque(this: _Audit, timeout: float) -> Iterator[Finding]:
    """Why recipes cannot be evaluated, and what is wrong with them all the same.

    A recipe of the repository's own may need something that is not here; then its text alone is judged.
    """
    opaque = {path: this.cells[name_of(path)] for path in this.failed if this.is_own(name_of(path))}
    for path, finding in this.failed.items():
        if path not in opaque:
            yield finding
        elif why := _wrong_path(this.root.resolve(), finding):
            yield replace(finding, message=why)  # in a shared file, one finding for all that import it
    yield from parse(list(opaque), timeout=timeout)
    yield from unlike_their_names({path: cell for path, cell in opaque.items() if not cell.listed})


def _wrong_path(root: Path, finding: Finding) -> str:
    """What is wrong with the path that an evaluation failed for; '' if it failed for another reason."""
    said = finding.message
    paths = [Path(text) for text in _QUOTED_PATH.findall(said) if _OF_A_PATH.search(said)]
    for path in paths:
        if path.is_relative_to(root) and not path.exists():
            return f"needs {path.relative_to(root)}, which does not exist"
        if path.is_relative_to("/home") and not path.is_relative_to(root):
            return f"needs {path}, which is outside of the repository"
    return ""


def _of_names(this: _Audit) -> Iterator[Finding]:
    """What is wrong with the names of recipes that fit no axis."""
    for path in this.paths:
        name = name_of(path)
        if this.is_own(name) and this.cells[name].listed:
            yield from impossible(name, path, this.spec)


# Recipes that were evaluated.


def _of_evaluated(this: _Audit, name: str, one: Evaluation) -> list[Finding]:
    """The defects of a recipe."""
    cell = this.cells.get(name)
    if cell is None:
        mine = list(_unknown(this, name, one))
    elif cell.listed:
        return []
    else:
        mine = list(defects(AuditedRecipe(spec=this.spec, cell=cell, name=name, one=one), this.found))
    if not any(finding.code in _ABOUT_THE_GPU for finding in mine):
        mine += wrong_gpu_in_text(this.spec, one, _gpus(this, one))
    return mine


def _unknown(this: _Audit, name: str, one: Evaluation) -> Iterator[Finding]:
    """Why the spec does not know a recipe."""
    parts, toolkits = VariantName.parse(name), this.spec.branches[this.branch].toolkits
    if "." in name:
        yield from impossible(name, one.path, this.spec)
    elif parts and parts.toolkit not in {"", *toolkits}:
        message = f"its name says CUDA {parts.toolkit}; {this.branch} has {', '.join(toolkits)}"
        yield at(one, "pname", Code.CUDA_IN_NAME, message)
    elif finding := _impossible(this, one):
        yield finding
    else:
        message = f"{name} is not in the spec{nearest(name, this.cells)}"
        yield at(one, "", Code.UNKNOWN_RECIPE, message)


def _impossible(this: _Audit, one: Evaluation) -> Finding | None:
    """The first rule that a recipe breaks, with its GPUs, its toolkit and, if it states one, its system."""
    toolkit = this.spec.hardware.toolkits.get(one.cuda_version)
    if toolkit is None or not one.cuda_support:
        return None
    system = one.platforms[0] if len(one.platforms) == 1 else ""
    for gpu in _gpus(this, one):
        for code, problem in hardware_problems(gpu, toolkit, system):
            about_host = code is Code.GPU_HOST
            if system or not about_host:
                return at(one, "meta.platforms" if about_host else "override.gpuTargets", code, problem)
    return None


def _gpus(this: _Audit, one: Evaluation) -> list[Gpu]:
    """The GPU architectures that a recipe builds for, in any notation; if it states none, that of its cell."""
    own = one.gpu_targets or tuple(re.split(r"[; ]+", one.exports.get("TORCH_CUDA_ARCH_LIST", "")))
    targets: Iterable[str] = own if any(own) else one.torch.gpu_targets if one.torch else ()
    cell = this.cells.get(name_of(one.path))
    if not any(targets) and cell and cell.target in this.spec.hardware.gpus:
        return [this.spec.hardware.gpus[cell.target]]
    digits = {re.sub(r"\D", "", target.split("+")[0]) for target in targets}
    return [gpu for gpu in this.spec.hardware.gpus.values() if gpu.name.removeprefix("sm") in digits]

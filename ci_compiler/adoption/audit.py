"""Defects in existing recipes, and differences from compiled ones, found by what the recipes evaluate to.

    recipes  ->  evaluations  ->  findings on each  ->  causes
    files        by Nix           defects              one for many files

1. Each recipe of a checkout is evaluated, and so is the recipe that the spec compiles to in its place.
2. `audit_checks`, `audit_text`: what is wrong in a recipe itself, whoever wrote it.
3. `comparison`: what the compiler would write in another way.
4. `causes`: findings with one cause become one.

Recipes of one package are written alike: what each sets is the same in all, or follows from its toolkit, target, ISA or
Python. A value that nearly all others with the same toolkit (or target, …) have in another way, and that no recipe with
the same values on two axes shares, is a slip of the hand or a choice that the name hides: a patch that is missing,
another revision, a flag that was left out. Whether it is wrong is not known here.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ci_compiler.adoption.audit_checks import CHECKS, AuditedRecipe, at, impossible, label, package_in
from ci_compiler.adoption.audit_text import FEWEST, NEARLY_ALL, unlike_their_names, wrong_counts, wrong_gpu_in_text
from ci_compiler.adoption.causes import Cause, causes_of
from ci_compiler.adoption.comparison import Pair, as_compiled, short, written_values
from ci_compiler.adoption.comparison import causes as causes_of_pairs
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import evaluate, find_recipes, name_of, outcomes_of, parse, parts_of_message
from ci_compiler.codes import Code, Severity
from ci_compiler.errors import Finding, Place, about, nearest
from ci_compiler.hardware import Gpu
from ci_compiler.hardware.families import DEFAULT, NONE, family_of, files_of, nixpkgs
from ci_compiler.hardware.pairs import HARDWARE_CODES, hardware_problems
from ci_compiler.outside import bytes_of
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.rules import Judged, judge
from ci_compiler.recipes.affected import read_by_recipes
from ci_compiler.recipes.identifiers import mentions
from ci_compiler.recipes.named import declared, named_at, reached, undeclared
from ci_compiler.recipes.render import NO_TEMPLATES, recipes
from ci_compiler.spec.model import Spec
from ci_compiler.spec.packages import RecipeKind
from ci_compiler.units import counted, grouped
from ci_compiler.variant import VariantName, recipe_path, toolkit_tag

_AXES = ("target", "isa", "toolkit", "python")
_GROUPINGS = tuple(axes for size in (0, 1, 2) for axes in combinations(_AXES, size))
FEWEST_ALIKE = 3
"""The fewest recipes with one value on an axis that are compared."""

MOST_SHOWN = 3
"""The most values that a finding shows of a recipe; it counts the others."""

_OF_ITS_OWN = frozenset({"description", "longDescription", "platforms"})
"""The attributes that differ by themselves, or that have a check of their own."""


class _Recipe(NamedTuple):
    cell: Cell
    evaluation: Evaluation
    written: Mapping[str, str]
    values: Mapping[str, str]  # as `written`, without the words of its own name


_Groups = dict[tuple[str, ...], list[_Recipe]]
"""Recipes by their values on some axes."""


def unlike_the_others(
    found: Mapping[str, Evaluation], cells: Mapping[str, Cell], known: Collection[str]
) -> Iterator[Finding]:
    """A finding for each recipe of `found`, by name, that differs from the others; none for the files `known`."""
    for names in grouped(found, lambda name: package_in(cells[name], name)).values():
        recipes = {name: _recipe(cells[name], name, found[name]) for name in names}
        yield from _of_a_package(recipes, known)


def _on(cell: Cell, axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(getattr(cell, axis) for axis in axes)


def _of_a_package(recipes: Mapping[str, _Recipe], known: Collection[str]) -> Iterator[Finding]:
    """The findings of one package; a value that few recipes have, such as a rare target, explains what they do."""
    peers: dict[tuple[str, ...], _Groups] = {axes: {} for axes in _GROUPINGS}
    for axes, recipe in product(_GROUPINGS, recipes.values()):
        peers[axes].setdefault(_on(recipe.cell, axes), []).append(recipe)
    usual = {axis: median(map(len, peers[axis,].values())) for axis in _AXES}
    common = [
        recipe
        for recipe in recipes.values()
        if str(recipe.evaluation.path) not in known
        and all(
            len(peers[axis,][_on(recipe.cell, (axis,))]) >= max(2, min(FEWEST_ALIKE, usual[axis])) for axis in _AXES
        )
    ]
    said: dict[Path, list[str]] = {}
    for attribute in dict.fromkeys(key for recipe in recipes.values() for key in recipe.values):
        tables = {axes: _usual(attribute, groups) for axes, groups in peers.items()}
        best = max(sum(count for _, count in table.values()) for axes, table in tables.items() if len(axes) < 2)
        for recipe in common:
            if against := _against(recipe, attribute, tables, peers, best):
                said.setdefault(recipe.evaluation.path, []).append(against)
    for path, texts in said.items():
        more = f"; and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else ""
        yield about(Place(str(path), 1, 1), Code.UNLIKE_THE_OTHERS, "; ".join(texts[:MOST_SHOWN]) + more)


def _usual(attribute: str, groups: _Groups) -> dict[tuple[str, ...], tuple[str, int]]:
    """The usual value of an attribute in each group, and how many have it."""
    counts = {key: Counter(recipe.values.get(attribute, "") for recipe in group) for key, group in groups.items()}
    return {key: counter.most_common(1)[0] for key, counter in counts.items()}


def _against(
    recipe: _Recipe,
    attribute: str,
    tables: Mapping[tuple[str, ...], Mapping[tuple[str, ...], tuple[str, int]]],
    peers: Mapping[tuple[str, ...], _Groups],
    best: int,
) -> str:
    """How the others have an attribute that `recipe` has in a way that nothing in its name tells; else ''.

    A value that is unusual in all, and usual among those with the same values on some axes, follows from these; the
    value that is usual in all follows only from the axis that tells most values of the attribute, `best` of them.
    """
    value, least, found = recipe.values.get(attribute, ""), len(peers[()][()]), ""
    for axes, table in tables.items():
        key = _on(recipe.cell, axes)
        group, (usual, count) = peers[axes][key], table[key]
        if count < NEARLY_ALL * len(group):
            continue
        tells = value != tables[()][()][0] or sum(alike for _, alike in table.values()) >= best
        if usual == value and count > 1 and tells:
            return ""
        shared = " ".join(filter(None, key))
        if usual != value and count >= FEWEST and (count < least or (count == least and not found)):
            typical = next(one.written.get(attribute, "") for one in group if one.values.get(attribute, "") == usual)
            others = f"{counted(count, 'other recipe')}{shared and f' of {shared}'}"
            own = short(recipe.written.get(attribute, ""))
            least, found = count, f"{attribute} is {own}, and {short(typical)} in {others}"
    return found


def _recipe(cell: Cell, name: str, evaluation: Evaluation) -> _Recipe:
    own = _own_words(cell, name)
    written = {
        f"{'' if node is evaluation else f'{label(node)}: '}{attribute}": str(value)
        for node in evaluation.nodes
        for attribute, value in written_values(node).items()
        if attribute not in _OF_ITS_OWN and value
    }
    return _Recipe(cell, evaluation, written, {attribute: own.sub("@", value) for attribute, value in written.items()})


def _own_words(cell: Cell, name: str) -> re.Pattern[str]:
    """A pattern of the spellings of a cell's values: `sm90`, `9.0`, `90`, `12.8`, `12_8`."""
    digits = cell.target.removeprefix("sm")
    python, toolkit = cell.python.replace(".", ""), cell.toolkit.replace(".", "_")
    words = {name, cell.suffix, cell.target, cell.isa, cell.python, cell.toolkit, toolkit_tag(cell.toolkit), toolkit}
    words |= {f"{cell.family}{toolkit}"} if toolkit else set()
    words |= {digits, f"{digits[:-1]}.{digits[-1:]}", python, f"python{python}"}
    listed = sorted(map(re.escape, words - {"", "."}), key=len, reverse=True)
    return re.compile(rf"(?<![A-Za-z\d.])(?:{'|'.join(listed)})(?![\d.])")


_ABOUT_THE_GPU = {
    Code.CUDA_OFF, Code.WRONG_GPU, Code.GPU_TARGET_NOTATION, Code.UNKNOWN_RECIPE, *HARDWARE_CODES,
}  # fmt: skip
"""The codes after which the text of a recipe is not checked, since it is unclear which GPU is the right one."""

_OF_A_PATH = re.compile(r"No such file or directory|does not exist|access to absolute path")
_QUOTED_PATH = re.compile(r"'(/[^']+)'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What an audit found: `defects`, wrong in themselves, `notes` on texts, `differences` from compiled recipes."""

    defects: tuple[Cause, ...]
    differences: tuple[Cause, ...]
    notes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchAudit:
    """An audit of the branch `branch`: its recipes, its cells by variant name, and what the recipes evaluate to.

    `failed` has the findings of recipes without an evaluation.
    """

    root: Path
    spec: Spec
    branch: str
    paths: tuple[Path, ...]
    cells: Mapping[str, Cell]
    timeout: float
    found: Mapping[str, Evaluation] = field(default_factory=dict)
    failed: Mapping[Path, Finding] = field(default_factory=dict)

    def findings(self) -> Iterator[Finding]:
        """The defects and notes."""
        yield from _missing(self)
        yield from _of_opaque(self)
        for path in self.paths:
            if self.is_own(path) and self.cells[name_of(path)].listed:
                yield from impossible(name_of(path), path, self.spec)
        needs = Needs(self.spec, dict.fromkeys(self.cells.values()))
        for name, evaluation in self.found.items():
            found = _of_evaluated(self, name, evaluation)
            yield from found
            if Code.ANOTHER_TORCH not in {finding.code for finding in found}:  # which says the same
                yield from _undeclared(self, needs, name, evaluation)

    def causes(self, further: Iterable[Finding] = ()) -> tuple[Cause, ...]:
        """The causes of all findings, with the notes on recipes that are unlike the others and have no rare defect."""
        causes = causes_of([*self.findings(), *further])
        rare = {file for cause in causes if len(cause.files) < FEWEST for file in cause.files}
        own = {name: one for name, one in self.found.items() if self.is_own(one.path) and not self.cells[name].listed}
        return (*causes, *causes_of(unlike_the_others(own, self.cells, rare)))

    def is_own(self, path: Path) -> bool:
        """Whether the recipe is the repository's own; False for one that the spec does not know."""
        cell, name = self.cells.get(name_of(path)), name_of(path)
        return cell is not None and self.spec.packages[package_in(cell, name)].kind_of(name) is RecipeKind.OWN


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
    judged = judge(spec)
    this = prepared(root, spec, branch, timeout, judged)
    cells, by_name, own = this.cells, this.found, any(map(this.is_own, this.paths))
    for line in (*notes(by_name.values(), set(filter(this.is_own, this.paths))), *_unseen(this)):
        say(line)
    compiled = recipes(as_compiled(spec, branch) if compares_own else spec, judged, branch, templates)
    causes = this.causes([] if own else wrong_counts(root, judged))
    wanted = _wanted(root, spec, compiled, by_name, timeout)
    pairs = [
        Pair(package_in(cells[name], name), recipe.path, recipe, wanted[name])
        for name, recipe in by_name.items()
        if name in wanted and name in cells
    ]
    return Audited(
        defects=tuple(cause for cause in causes if cause.code.severity is not Severity.NOTE),
        differences=causes_of_pairs(pairs)[1],
        notes=tuple(cause for cause in causes if cause.code.severity is Severity.NOTE),
    )


def prepared(root: Path, spec: Spec, branch: str, timeout: float, judged: Judged | None = None) -> BranchAudit:
    """The recipes under `root` as those of `branch`, evaluated; the arguments and errors are those of `audit`."""
    cells = {v.name: cell for cell in (judged or judge(spec)).cells if cell.branch == branch for v in cell.variants}
    this = BranchAudit(root=root, spec=spec, branch=branch, paths=find_recipes(root), cells=cells, timeout=timeout)
    own = {path: cells[name_of(path)].variants[0].package for path in this.paths if this.is_own(path)}
    outcomes = outcomes_of(root, this.paths, timeout=timeout, groups=own)
    by_name = {name_of(path): recipe for path, recipe in outcomes.items() if isinstance(recipe, Evaluation)}
    failed = {path: finding for path, finding in outcomes.items() if isinstance(finding, Finding)}
    return replace(this, found=by_name, failed=failed)


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
        siblings = {*names.values(), *found}
        same = {
            name: found[name]
            for path, name in names.items()
            if name in found and _is_alike(path, root, scratch, siblings)
        }
        rest = [scratch / path for path, name in names.items() if name not in same]
        evaluations, _ = evaluate(scratch, rest, timeout=timeout) if rest else ((), ())
    return same | {name_of(recipe.path): recipe for recipe in evaluations}


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


# Recipes that cannot be evaluated, and names.


def _missing(this: BranchAudit) -> Iterator[Finding]:
    names = {name_of(path) for path in this.paths}
    names |= {str(parts.spelled(this.spec.hardware)) for parts in map(VariantName.parse, names) if parts}
    first = this.paths[0]
    folder = first.parent if first.name != "default.nix" else first.parent.parent
    for name in this.cells:
        if name not in names:
            message = f"{name} is in the spec and has no recipe; `ci-compile recipes --branch {this.branch}` writes it"
            yield about(folder / Path(recipe_path(name)).name, Code.MISSING_RECIPE, message)


def _of_opaque(this: BranchAudit) -> Iterator[Finding]:
    """Why recipes cannot be evaluated, and what is wrong with them all the same.

    A recipe of the repository's own may need something that is not here; then its text alone is judged.
    """
    opaque = {path: this.cells[name_of(path)] for path in this.failed if this.is_own(path)}
    for path, finding in this.failed.items():
        if path not in opaque:
            yield finding
        elif why := _wrong_path(this.root.resolve(), finding):
            yield replace(finding, message=why)  # in a shared file, one finding for all that import it
    yield from parse(list(opaque), timeout=this.timeout)
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


# Recipes that were evaluated.


def _of_evaluated(this: BranchAudit, name: str, recipe: Evaluation) -> list[Finding]:
    """The defects of a recipe."""
    cell = this.cells.get(name)
    if cell is None:
        findings = list(_unknown(this, name, recipe))
    elif cell.listed or cell.family not in {NONE, *files_of("nixpkgs.json")}:  # the checks know nothing of others
        return []
    else:
        audited = AuditedRecipe(spec=this.spec, cell=cell, name=name, evaluation=recipe, others=this.found)
        findings = [finding for check in CHECKS for finding in check(audited)]
    in_text = cell is None or cell.family in {DEFAULT, NONE}  # whose products and numbers the text is searched for
    if in_text and not any(finding.code in _ABOUT_THE_GPU for finding in findings):
        findings += wrong_gpu_in_text(this.spec, recipe, _gpus(this, recipe))
    return findings


def _undeclared(this: BranchAudit, needs: Needs, name: str, recipe: Evaluation) -> Iterator[Finding]:
    """Recipes that it imports, and of which the spec does not say that it is built with them."""
    cell = this.cells.get(name)
    if cell is None or cell.listed:  # the spec cannot say it of a listed variant
        return
    package, imports = package_in(cell, name), {*recipe.imports}
    known = declared(needs, cell, package) | {name}
    for other in this.paths:
        wanted = name_of(other)
        if other in imports and wanted in this.cells.keys() - known:
            place = named_at(other, (recipe.path, *recipe.imports)) or Place(str(recipe.path), 1, 1)
            yield undeclared(place, package, wanted, package_in(this.cells[wanted], wanted))


def _unknown(this: BranchAudit, name: str, recipe: Evaluation) -> Iterator[Finding]:
    """Why the spec does not know a recipe."""
    parts, toolkits = VariantName.parse(name), this.spec.branches[this.branch].toolkits
    if "." in name:
        yield from impossible(name, recipe.path, this.spec)
    elif parts and parts.toolkit not in {"", *toolkits}:
        message = f"its name says {family_of(DEFAULT).toolkit} {parts.toolkit}; {this.branch} has {', '.join(toolkits)}"
        yield at(recipe, "pname", Code.CUDA_IN_NAME, message)
    elif finding := next(_broken_rules(this, recipe), None):
        yield finding
    else:
        yield at(recipe, "", Code.UNKNOWN_RECIPE, f"{name} is not in the spec{nearest(name, this.cells)}")


def _broken_rules(this: BranchAudit, recipe: Evaluation) -> Iterator[Finding]:
    """The rules that a recipe breaks, with its GPUs, its toolkit and, if it states one, its system."""
    toolkit = this.spec.hardware.toolkits.get(recipe.toolkit_version)
    system = recipe.platforms[0] if len(recipe.platforms) == 1 else ""
    for gpu in _gpus(this, recipe) if toolkit and recipe.toolkit_support else ():
        for code, problem in hardware_problems(gpu, toolkit, system) if toolkit else ():
            about_host = code is Code.GPU_HOST
            if system or not about_host:
                yield at(recipe, "meta.platforms" if about_host else "override.gpuTargets", code, problem)


def _gpus(this: BranchAudit, recipe: Evaluation) -> list[Gpu]:
    """The GPU architectures that a recipe builds for, in any notation; if it states none, that of its cell."""
    own = recipe.gpu_targets or tuple(re.split(r"[; ]+", recipe.exports.get(nixpkgs(DEFAULT)["architectures"], "")))
    targets: Iterable[str] = own if any(own) else recipe.torch.gpu_targets if recipe.torch else ()
    cell = this.cells.get(name_of(recipe.path))
    if not any(targets) and cell and cell.target in this.spec.hardware.gpus:
        return [this.spec.hardware.gpus[cell.target]]
    digits = {re.sub(r"\D", "", target.split("+")[0]) for target in targets}
    return [gpu for gpu in this.spec.hardware.gpus.values() if gpu.name.removeprefix("sm") in digits]


# What the stand-in for nixpkgs does not know.


_WORDS = {"release": "version", "arguments": "arguments", "inputs": "inputs"}


def notes(found: Iterable[Evaluation], own: Collection[Path] = ()) -> Iterator[str]:
    """What was not checked in how many recipes, for each package and nixpkgs that the stand-in does not know.

    What is inside the recipes that are not the repository's `own` is the compiler's.
    """

    def inside(one: Evaluation) -> tuple[Evaluation, ...]:
        return one.nodes if one.path in own else tuple(filter(None, [one, one.torch]))

    counts = Counter(
        key
        for evaluation in found
        for key in {
            (part.pin, part.attribute.rpartition(".")[2], part.unknown) for part in inside(evaluation) if part.unknown
        }
    )
    for (pin, attribute, unknown), count in sorted(counts.items()):
        *first, last = (_WORDS[word] for word in unknown)
        what = " and ".join(filter(None, [", ".join(first), last]))
        where = f"nixpkgs {pin}" if pin else "the nixpkgs that recipes are called with"
        yield (
            f"not checked in {counted(count, 'recipe')}: the {what} of {attribute} in {where}, which "
            f"are not known here; `--nixpkgs real` evaluates with it"
        )


def _unseen(this: BranchAudit) -> Iterator[str]:
    """What was not looked at, and why: recipes and packages inside them that cannot be evaluated."""
    opaque = [finding.message for path, finding in this.failed.items() if this.is_own(path)]
    for why, same in grouped(opaque, lambda message: parts_of_message(message)[0]).items():
        yield f"only the text of {counted(len(same), 'recipe')} was checked, which cannot be evaluated here: {why}"
    if inside := sum(evaluation.unseen for evaluation in this.found.values()):
        yield f"not checked: {counted(inside, 'package')} inside recipes, which cannot be evaluated here"

"""What texts say: GPUs that a recipe does not build for, wrong counts of variants, recipes unlike their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path

from ci_compiler.adoption.comparison import short
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import name_of
from ci_compiler.adoption.evaluator import text_of as text_at
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, about
from ci_compiler.hardware import ALL, BASELINE, CPU, Gpu, Hardware
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.outside import text_of
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.rules import Judged
from ci_compiler.spec.model import Spec
from ci_compiler.units import grouped
from ci_compiler.variant import toolkit_tag

_PREFIX = family_of(DEFAULT).prefix
_SM = re.compile(rf"\b{_PREFIX}[_-]?(\d{{2,3}})\b", re.IGNORECASE)
_COMMENT = re.compile(r"(?:^|\s)#(.*)$", re.MULTILINE)
_COUNT = re.compile(r"(?<![\w./-])(\d{1,6})[ -](?:\w+[ -])?variants?\b", re.IGNORECASE)
LARGEST_DOCUMENT = 1_000_000

NEARLY_ALL = 0.8
"""The share of a package's recipes that must state an axis in the same way."""

FEWEST = 4
"""The fewest recipes from which a custom is read."""

_OPEN = frozenset({"", CPU, ALL.name, BASELINE})
"""Values of axes that recipes do not state."""

_STRING = re.compile(r'"([A-Za-z0-9_.+-]+)"')

_FORMS: Mapping[str, tuple[Code, tuple[Callable[[str], str], ...]]] = {
    "target": (Code.WRONG_GPU, (str, lambda gpu: gpu.removeprefix("sm"), lambda gpu: f"{gpu[2:-1]}.{gpu[-1:]}")),
    "isa": (Code.WRONG_CPU_FLAGS, (str, lambda isa: isa.replace("_", "."), lambda isa: isa.replace("_", "-"))),
    "toolkit": (
        Code.CUDA_IN_NAME,
        (str, lambda toolkit: toolkit.replace(".", "_"), toolkit_tag),
    ),
    "python": (
        Code.WRONG_PYTHON,
        (str, lambda python: python.replace(".", ""), lambda python: f"python{python.replace('.', '')}"),
    ),
}
"""The axes: the code of a finding, and the ways in which recipes write a value."""


def wrong_gpu_in_text(spec: Spec, one: Evaluation, targets: Sequence[Gpu]) -> Iterator[Finding]:
    """The GPUs that a recipe's comments and descriptions list as its own but that it does not build for, each once.

    A GPU that runs the recipe's machine code all the same may be named. A line lists a GPU beside one of the recipe's,
    or is a title: the first line of the file, or the description. Any other line that names only other GPUs may be
    advice, such as which variant to take for them.
    """
    mine = {gpu.name for gpu in targets}
    runs = {gpu.name for gpu in spec.hardware.gpus.values() if any(gpu.runs_code_of(target) for target in targets)}
    found: dict[str, tuple[Place, str, list[str]]] = {}
    for what, place, line, is_title in _lines(one):
        named = _gpus_in(spec.hardware, line)
        wrong = [gpu for gpu in named if gpu not in mine | runs]
        if wrong and (is_title or len(wrong) < len(named)):
            found.setdefault(", ".join(wrong), (place, short(line), []))[2].append(what)
    built = f"builds for {', '.join(sorted(mine))}" if mine else "builds for no GPU"
    for wrong_ones, (place, line, whats) in found.items():
        where = ", ".join(dict.fromkeys(whats))
        message = f"its text ({where}) says {line!r} ({wrong_ones}), but the recipe {built}"
        yield about(place, Code.TEXT_NAMES_ANOTHER_GPU, message)


def _lines(recipe: Evaluation) -> Iterator[tuple[str, Place, str, bool]]:
    """The lines that people read in a recipe: what the line is, its place, its text, whether it is a title."""
    text = text_of(recipe.path, errors="replace")
    for match in _COMMENT.finditer(text):
        place = _place(recipe.path, text, match.start(1))
        yield "a comment", place, match[1], place.line == 1
    for key, words in (("meta.description", recipe.description), ("meta.longDescription", recipe.long_description)):
        for line in words.splitlines():
            yield key, recipe.places.get(key) or Place(str(recipe.path), 1, 1), line, key == "meta.description"


def _place(path: Path, text: str, index: int) -> Place:
    """The place of a character of a file's text."""
    return Place(str(path), text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))


def _gpus_in(hardware: Hardware, text: str) -> list[str]:
    """The GPU architectures that `text` names, by number or product, leaving out descriptions of CPUs."""
    for isa in hardware.isas.values():
        text = text.replace(isa.cpus, "")
    found = {f"{_PREFIX}{match[1]}" for match in _SM.finditer(text)} & hardware.gpus.keys()
    pattern, owner = _products(hardware)
    found |= {owner[match[0].lower()] for match in pattern.finditer(text)}
    return sorted(found)


@cache
def _products(hardware: Hardware) -> tuple[re.Pattern[str], dict[str, str]]:
    """A pattern that matches every product's name, the longest first, and the GPU of each product."""
    owner = {product.lower(): gpu.name for gpu in hardware.gpus.values() for product in gpu.products}
    names = sorted(owner, key=len, reverse=True)
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names))})(?![\w-])", re.IGNORECASE), owner


def wrong_counts(root: Path, judged: Judged) -> Iterator[Finding]:
    """Counts of variants in the Markdown files of `root` that match no count in the matrix."""
    right = counts(judged)
    for path in sorted([*root.glob("*.md"), *root.glob("docs/*.md")]):
        if path.is_symlink() or path.stat().st_size > LARGEST_DOCUMENT:
            continue
        text = text_of(path, errors="replace")
        for match in _COUNT.finditer(text):
            if int(match[1]) not in right:
                total = max(right)
                message = f"says {match[1]} variants; the matrix has {total} in all, and nothing in it is {match[1]}"
                yield about(_place(path, text, match.start()), Code.WRONG_COUNT, message)


def counts(judged: Judged) -> set[int]:
    """Every correct count of variants: the total, the counts by up to three axes of the matrix together, and those of a
    toolkit with the CPU variants beside it."""
    axes = ("branch", "package", "python", "toolkit", "gpu", "isa", "system")
    keys = [
        (cell.branch, variant.package, cell.python, cell.toolkit, cell.target, cell.isa, cell.system)
        for cell in judged.cells
        for variant in cell.variants
    ]
    by_toolkit = Counter((branch, toolkit) for branch, _, _, toolkit, *_ in keys)
    found = {len(keys), *(count + by_toolkit[branch, ""] for (branch, toolkit), count in by_toolkit.items() if toolkit)}
    for size in range(1, 4):
        for chosen in combinations(range(len(axes)), size):
            found |= set(Counter(tuple(key[at] for at in chosen) for key in keys).values())
    return found


# Recipes that cannot be evaluated.


def unlike_their_names(cells: Mapping[Path, Cell]) -> Iterator[Finding]:
    """A finding for each recipe of `cells` whose text lacks the value of an axis, though most others have theirs.

    Recipes that only call a shared builder say what they build in a few strings: `sm = "90"; isa = "avx2"`. Where
    nearly all recipes of a package have the value of an axis as a string, one that lacks it builds something else than
    its name tells.
    """
    strings = {path: frozenset(_STRING.findall(text_at(path))) for path in cells}
    for paths in grouped(cells, lambda path: name_of(path).removesuffix(f"-{cells[path].suffix}")).values():
        for axis, (code, forms) in _FORMS.items():
            stating = {path: value for path in paths if (value := getattr(cells[path], axis)) not in _OPEN}
            customs = ({path: form(value) for path, value in stating.items()} for form in forms)
            lacking = ({p: text for p, text in custom.items() if text not in strings[p]} for custom in customs)
            custom = next((few for few in lacking if len(few) <= (1 - NEARLY_ALL) * len(stating)), {})
            for path, text in custom.items() if len(stating) >= FEWEST else ():
                message = f'its name says {stating[path]}, but "{text}" is nowhere in it, unlike in the others'
                yield about(Place(str(path), 1, 1), code, message)

"""Prose in recipes and documents: GPUs that a recipe does not build for, and wrong counts of variants."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path

from ci_compiler.adoption.comparison import short
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.hardware import Gpu, Hardware
from ci_compiler.outside import text_of
from ci_compiler.plan.rules import Judged
from ci_compiler.spec.model import Spec

_SM = re.compile(r"\bsm[_-]?(\d{2,3})\b", re.IGNORECASE)
_COMMENT = re.compile(r"(?:^|\s)#(.*)$", re.MULTILINE)
_COUNT = re.compile(r"(?<![\w./-])(\d{1,6})[ -](?:\w+[ -])?variants?\b", re.IGNORECASE)
LARGEST_DOCUMENT = 1_000_000


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
        yield Finding(place=place, code=Code.TEXT_NAMES_ANOTHER_GPU, message=message)


def _lines(one: Evaluation) -> Iterator[tuple[str, Place, str, bool]]:
    """The lines that people read in a recipe: what the line is, its place, its text, whether it is a title."""
    text = text_of(one.path, errors="replace")
    for match in _COMMENT.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        column = match.start(1) - text.rfind("\n", 0, match.start(1))
        yield "a comment", Place(file=str(one.path), line=line, column=column), match[1], line == 1
    for key, words in (("meta.description", one.description), ("meta.longDescription", one.long_description)):
        place = one.places.get(key) or Place(file=str(one.path), line=1, column=1)
        for line_of_text in words.splitlines():
            yield key, place, line_of_text, key == "meta.description"


def _gpus_in(hardware: Hardware, text: str) -> list[str]:
    """The GPU architectures that `text` names, by number or product, leaving out descriptions of CPUs."""
    for isa in hardware.isas.values():
        text = text.replace(isa.cpus, "")
    found = {f"sm{match[1]}" for match in _SM.finditer(text)} & hardware.gpus.keys()
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
                line = text.count("\n", 0, match.start()) + 1
                place = Place(file=str(path), line=line, column=match.start() - text.rfind("\n", 0, match.start()))
                total = max(right)
                message = f"says {match[1]} variants; the matrix has {total} in all, and nothing in it is {match[1]}"
                yield Finding(place=place, code=Code.WRONG_COUNT, message=message)


def counts(judged: Judged) -> set[int]:
    """Every correct count of variants: the total, the counts by up to three axes of the matrix together, and those of a
    toolkit with the CPU variants beside it."""
    axes = ("branch", "package", "python", "cuda", "gpu", "isa", "system")
    keys = [
        (cell.branch, variant.package, cell.python, cell.toolkit, cell.target, cell.isa, cell.system)
        for cell in judged.cells
        for variant in cell.variants
    ]
    by_toolkit = Counter((branch, cuda) for branch, _, _, cuda, *_ in keys)
    found = {len(keys), *(count + by_toolkit[branch, ""] for (branch, cuda), count in by_toolkit.items() if cuda)}
    for size in range(1, 4):
        for chosen in combinations(range(len(axes)), size):
            found |= set(Counter(tuple(key[at] for at in chosen) for key in keys).values())
    return found

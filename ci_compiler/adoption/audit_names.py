"""What is wrong in recipes that cannot be evaluated here, by their texts alone.

Recipes that only call a shared builder say what they build in a few strings: `sm = "90"; isa = "avx2"`. Where nearly
all recipes of a package have the value of an axis as a string, one that lacks it builds something else than its name
tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ci_compiler.adoption.evaluator import name_of, text_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.hardware import ALL, BASELINE, CPU
from ci_compiler.plan.matrix import Cell

NEARLY_ALL = 0.8
"""The share of a package's recipes that must state an axis in the same way."""

FEWEST = 4
"""The fewest recipes from which a custom is read."""

_OPEN = frozenset({"", CPU, ALL.name, BASELINE})
"""Values of axes that recipes do not state."""

_STRING = re.compile(r'"([A-Za-z0-9_.+-]+)"')

_FORMS: Mapping[str, tuple[Code, tuple[Callable[[str], str], ...]]] = {
    "target": (
        Code.WRONG_GPU,
        (str, lambda gpu: gpu.removeprefix("sm"), lambda gpu: f"{gpu[2:-1]}.{gpu[-1:]}"),
    ),
    "isa": (Code.WRONG_CPU_FLAGS, (str, lambda isa: isa.replace("_", "."), lambda isa: isa.replace("_", "-"))),
    "toolkit": (
        Code.CUDA_IN_NAME,
        (str, lambda cuda: cuda.replace(".", "_"), lambda cuda: f"cuda{cuda.replace('.', '_')}"),
    ),
    "python": (
        Code.WRONG_PYTHON,
        (str, lambda python: python.replace(".", ""), lambda python: f"python{python.replace('.', '')}"),
    ),
}
"""The axes: the code of a finding, and the ways in which recipes write a value."""


def unlike_their_names(cells: Mapping[Path, Cell]) -> Iterator[Finding]:
    """A finding for each recipe of `cells` whose text lacks the value of an axis, though most others have theirs."""
    packages: dict[str, dict[Path, frozenset[str]]] = {}
    for path, cell in cells.items():
        package = name_of(path).removesuffix(f"-{cell.suffix}")
        packages.setdefault(package, {})[path] = frozenset(_STRING.findall(text_of(path)))
    for strings in packages.values():
        for axis, (code, forms) in _FORMS.items():
            stating = {path: value for path in strings if (value := getattr(cells[path], axis)) not in _OPEN}
            for form in forms if len(stating) >= FEWEST else ():
                lacking = [path for path, value in stating.items() if form(value) not in strings[path]]
                if len(lacking) <= (1 - NEARLY_ALL) * len(stating):
                    for path in lacking:
                        wanted = form(stating[path])
                        message = (
                            f'its name says {stating[path]}, but "{wanted}" is nowhere in it, unlike in the others'
                        )
                        yield Finding(place=Place(file=str(path), line=1, column=1), code=code, message=message)
                    break

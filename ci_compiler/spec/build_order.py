"""The order in which packages are built, and what forbids one: a package that needs itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci_compiler.spec.packages import Package


def in_build_order(packages: Mapping[str, Package]) -> tuple[Package, ...]:
    """`packages` with each after those it needs, otherwise as declared. Raises ValueError, naming a circle."""
    done: dict[str, Package] = {}
    waiting = dict(packages)
    while waiting:
        ready = _ready(waiting, always=False) or _ready(waiting, always=True)[:1]
        if not ready:
            raise ValueError(circle_in_words(circle(waiting)))
        done |= {name: waiting.pop(name) for name in ready}
    return tuple(done.values())


def _ready(waiting: Mapping[str, Package], *, always: bool) -> list[str]:
    return [
        name for name, one in waiting.items() if all(need not in waiting for need in one.built_after(always=always))
    ]


def circle(packages: Mapping[str, Package]) -> tuple[str, ...]:
    """The shortest circle of the first package that needs itself, each name before one it needs; () if none does."""
    for first in packages:
        paths: list[tuple[str, ...]] = [(first,)]
        seen = {first}
        for path in paths:  # grows on the way
            needs = packages[path[-1]].built_after(always=True)
            if first in needs:
                return path
            new = [need for need in needs if need in packages and need not in seen]
            seen.update(new)
            paths += [(*path, need) for need in new]
    return ()


def circle_in_words(names: Sequence[str]) -> str:
    """The message about a circle."""
    first, *others = names
    if not others:
        return f"{first} needs itself"
    return f"{first} needs {', which needs '.join([*others, first])}; one of them must not need the next"

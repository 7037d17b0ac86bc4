"""Plain values become values of the declared types, entries know their names, and items their places in a list."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any

import pytest

from ci_compiler.backends import backends
from ci_compiler.backends.protocol import Backend
from ci_compiler.spec.declare import declared, entries, form, key
from ci_compiler.spec.read import read
from ci_compiler.stages import BUILD, PUBLISH, Stage


class Colour(Enum):
    """What a scalar may be."""

    RED = "red"
    BLUE = "blue"


@declared()
class Part:
    """An entry of a list or of a mapping."""

    name: str = "unnamed"
    index: int = -1
    owner: str = "nobody"
    colour: Colour = key("Its colour.", default=Colour.RED)
    made_at: Stage | None = key("Where it is made.", name="stage", default=None)


@declared()
class Whole:
    """What has parts."""

    owner: str
    listed: tuple[Part, ...] = key("Parts in order.", default=())
    named: tuple[Part, ...] = key("Parts by name.", written=Mapping[str, Part], convert=entries, default=())
    deep: Mapping[str, tuple[Part, ...]] = key("Lists of parts by name.", default={})
    minutes: Mapping[Stage, int] = key("The time that stages take.", default={BUILD: 60, PUBLISH: 10})
    plain: Mapping[str, int] = key("Numbers.", default={})


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (int, 5, 5),
        (Any, {"a": [1]}, {"a": [1]}),
        (Annotated[str, form(pattern="^x$")], "x", "x"),
        (Annotated[tuple[Colour, ...], form("colours")], ["red"], (Colour.RED,)),
        (Colour, "blue", Colour.BLUE),
        (Stage, "publish", PUBLISH),
        (Backend, backends()[-1].name, backends()[-1]),
        (tuple[str, ...], ["b", "a"], ("b", "a")),
        (tuple[tuple[int, ...], ...], [[1], [2, 3]], ((1,), (2, 3))),
        (Mapping[Stage, Colour], {"build": "red"}, {BUILD: Colour.RED}),
        (Colour | None, "red", Colour.RED),
        (None | Colour, "red", Colour.RED),
        (tuple[int, ...] | None, [1], (1,)),
        (tuple[int, ...] | str, [1], [1]),
        (tuple[int, ...] | str | None, "x", "x"),
        (Part, {"colour": "blue", "stage": "build"}, Part(colour=Colour.BLUE, made_at=BUILD)),
        (Part, None, Part()),
    ],
)
def test_a_value_is_read_as_its_type(kind: Any, value: Any, expected: Any) -> None:
    found = read(kind, value)
    assert (type(found), found) == (type(expected), expected)


def test_fields_that_are_not_keys_come_from_the_place_of_an_entry() -> None:
    whole = read(
        Whole,
        {"listed": [{}, {"colour": "blue"}], "named": {"a": None, "b": {}}, "deep": {"x": [{}], "y": [{}, {}]}},
        owner="me",
        other="a field of no class",
    )
    assert whole == Whole(
        owner="me",
        listed=(Part(index=0, owner="me"), Part(index=1, owner="me", colour=Colour.BLUE)),
        named=(Part(name="a", owner="me"), Part(name="b", owner="me")),
        deep={
            "x": (Part(name="x", index=0, owner="me"),),
            "y": (Part(name="y", index=0, owner="me"), Part(name="y", index=1, owner="me")),
        },
    )


@pytest.mark.parametrize(
    ("row", "minutes", "plain"),
    [
        ({}, {BUILD: 60, PUBLISH: 10}, {}),
        ({"minutes": {"build": 5}, "plain": {"a": 1}}, {BUILD: 5, PUBLISH: 10}, {"a": 1}),
        ({"minutes": {}}, {BUILD: 60, PUBLISH: 10}, {}),
    ],
)
def test_entries_of_a_table_replace_its_defaults_one_by_one(
    row: dict[str, Any], minutes: dict[Stage, int], plain: dict[str, int]
) -> None:
    whole = read(Whole, row, owner="me")
    assert (whole.minutes, whole.plain) == (minutes, plain)

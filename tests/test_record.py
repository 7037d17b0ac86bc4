"""A record behaves as the frozen dataclass with slots and keyword-only fields that it replaces."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

import pytest

from ci_compiler.record import record


class _Shape:
    """Named like both classes, so that their `repr` is comparable."""

    name: str
    sides: int = 4
    tags: list[str] = field(default_factory=list)
    note: str = field(default="fixed", init=False)


def body() -> dict[str, Any]:
    return {name: value for name, value in vars(_Shape).items() if name not in {"__dict__", "__weakref__"}}


PLAIN: Any = dataclass(frozen=True, slots=True, kw_only=True)(type("Shape", (), body()))
RECORD: Any = record(type("Shape", (), body()))


@pytest.fixture(params=[PLAIN, RECORD], ids=["dataclass", "record"])
def shape(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_it_has_its_values_and_defaults(shape: Any) -> None:
    one = shape(name="square")
    assert is_dataclass(shape)
    assert [each.name for each in fields(one)] == ["name", "sides", "tags", "note"]
    assert asdict(one) == {"name": "square", "sides": 4, "tags": [], "note": "fixed"}
    assert repr(shape(name="a", sides=3)).endswith("Shape(name='a', sides=3, tags=[], note='fixed')")
    assert one.tags is not shape(name="square").tags
    assert not hasattr(one, "__dict__")


def test_it_is_compared_by_type_and_values(shape: Any) -> None:
    one = shape(name="square", tags=())
    assert one == shape(name="square", tags=())
    assert one != shape(name="square", tags=(), sides=5)
    assert one != ("square", 4, (), "fixed")
    assert hash(one) == hash(shape(name="square", tags=())) == hash(("square", 4, (), "fixed"))
    assert {one: 1}[shape(name="square", tags=())] == 1


def test_a_changed_copy_is_made_by_replace(shape: Any) -> None:
    assert replace(shape(name="square"), sides=3) == shape(name="square", sides=3)


@pytest.mark.parametrize("values", [{}, {"sides": 3}, {"name": "a", "colour": "red"}])
def test_missing_and_unknown_fields_are_errors(shape: Any, values: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        shape(**values)


def test_a_position_is_an_error(shape: Any) -> None:
    with pytest.raises(TypeError):
        shape("square")


def test_it_cannot_be_changed(shape: Any) -> None:
    one = shape(name="square")
    with pytest.raises(FrozenInstanceError):
        one.name = "circle"
    with pytest.raises(FrozenInstanceError):
        del one.name
    assert one.name == "square"


@record
class Named:
    """A record that checks its values."""

    name: str

    def __post_init__(self) -> None:
        """Raises ValueError for an empty name."""
        if not self.name:
            message = "empty"
            raise ValueError(message)

    def __repr__(self) -> str:
        return self.name


@record
class Numbered(Named):
    """A record that inherits a field and the check."""

    number: int = 0


def test_it_inherits_fields_and_checks_them() -> None:
    assert (Numbered(name="a").name, Numbered(name="a", number=2).number) == ("a", 2)
    assert repr(Named(name="own")) == "own"
    assert Numbered(name="a") != Named(name="a")
    for kind in (Named, Numbered):
        with pytest.raises(ValueError, match="empty"):
            kind(name="")

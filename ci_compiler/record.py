"""Records: frozen dataclasses with slots and keyword-only fields, which share their methods.

`dataclasses` compiles an `__init__`, an `__eq__` and so on for each class, which takes ten times as long as the rest of
making it. Commands make a hundred classes at their start, so those that every command imports are records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, NamedTuple, Never, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


class _Layout(NamedTuple):
    """The names of a record's fields, their defaults, and the functions that make defaults.

    `values` returns the values of the fields, and `check` is the record's `__post_init__`.
    """

    names: frozenset[str]
    defaults: Mapping[str, Any]
    factories: Mapping[str, Callable[[], Any]]
    values: Callable[[Any], Any]
    check: Callable[[Any], None] | None


_put = object.__setattr__


def _init(self: Any, **values: Any) -> None:
    names, defaults, factories, _, check = self.__layout__
    if values.keys() != names:
        made = {name: make() for name, make in factories.items() if name not in values} if factories else {}
        values = {**defaults, **made, **values}
        if values.keys() != names:
            wrong = ", ".join(sorted(names ^ values.keys()))
            message = f"{type(self).__name__}: missing or unknown: {wrong}"
            raise TypeError(message)
    for name, value in values.items():
        _put(self, name, value)
    if check:
        check(self)


def _eq(self: Any, other: object) -> bool:
    values = type(self).__layout__.values
    return bool(values(self) == values(other)) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(type(self).__layout__.values(self))


def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self))
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _frozen(self: Any, name: str, *_: object) -> Never:
    message = f"{type(self).__name__}.{name} cannot be changed"
    raise FrozenInstanceError(message)


_METHODS = {
    "__init__": _init, "__eq__": _eq, "__hash__": _hash, "__repr__": _repr,
    "__setattr__": _frozen, "__delattr__": _frozen,
}  # fmt: skip


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(cls: Class) -> Class:
    """Turns a class into a frozen dataclass with slots and keyword-only fields. Methods that the class has are kept."""
    for name, method in _METHODS.items():
        if name not in vars(cls):
            setattr(cls, name, method)
    made: Any = dataclass(init=False, eq=False, repr=False, slots=True, kw_only=True)(cls)
    every = fields(made)
    made.__layout__ = _Layout(
        names=frozenset(one.name for one in every),
        defaults={one.name: one.default for one in every if one.default is not MISSING},
        factories={one.name: one.default_factory for one in every if one.default_factory is not MISSING},
        values=attrgetter(*(one.name for one in every)),
        check=getattr(cls, "__post_init__", None),
    )
    return made  # type: ignore[no-any-return]

"""How the keys of the spec are declared: once, as the fields of dataclasses.

`key` declares a field's description, form and default; `form` names a form that several fields share. The JSON Schema
(`schema`) and the reader (`read`) follow from these declarations. A field without `key` is not a key of the file: the
reader fills it from the context, such as the name that a mapping gives to its entry.

The modules of the spec's classes do without `from __future__ import annotations`: their annotations are types already,
which spares every command the time to evaluate them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, NamedTuple, TypeVar, dataclass_transform, get_type_hints

from ci_compiler.backends import backends
from ci_compiler.backends.protocol import Backend
from ci_compiler.stages import Stage, stages

Class = TypeVar("Class", bound=type)

TABLES: Mapping[Any, Callable[[], tuple[Any, ...]]] = {Stage: stages, Backend: backends}
"""The types whose values are the rows of a table, which the file states by name."""


class Form:
    """Keywords of JSON Schema that a value must match; with a `name` they become a definition of the schema."""

    __slots__ = ("name", "rules")

    def __init__(self, name: str, rules: Mapping[str, Any]) -> None:
        self.name = name
        self.rules = rules


class Key(NamedTuple):
    """A key of the spec: its field, its name in the file, the type of its value there, and what the schema says of it.

    `default` is MISSING unless the schema publishes one. `convert` makes the field's value from what was read.
    """

    field: str
    name: str
    type: Any
    rules: Mapping[str, Any]
    required: bool
    default: Any
    convert: Callable[[Any], Any]


def form(name: str = "", **rules: Any) -> Form:
    """The form that JSON Schema's keywords describe, for use in `Annotated`; `name` makes it a definition."""
    return Form(name, rules)


def key(
    description: str = "",
    *,
    name: str = "",
    default: Any = MISSING,
    published: bool = True,
    written: Any = None,
    convert: Callable[[Any], Any] = lambda value: value,
    **rules: Any,
) -> Any:
    """A field that is a key of the spec, with its description and further keywords of JSON Schema.

    `name` is the key's name if it is not the field's name in kebab case. A key without a `default` is required. The
    schema states the default unless it is '' or None, or `published` is False; a default mapping with entries makes the
    value a table with these keys alone, each with its own default. `written` is the type in the file if it is not the
    field's type, and `convert` turns a value of that type into the field's.
    """
    said = {"description": description} if description else {}
    stated = MISSING if default is None or default == "" or not published else default
    metadata = {"name": name, "default": stated, "written": written, "convert": convert, "rules": said | rules}
    if isinstance(default, Mapping):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


def optional(description: str, **more: Any) -> Any:
    """A key that may be left out, which the schema gives no default; `more` is as for `key`."""
    return key(description, default=None, **more)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(key, field))
def declared(name: str = "", **rules: Any) -> Callable[[Class], Class]:
    """Turns a class into a frozen dataclass whose keys are a definition of the schema, with further keywords for it.

    `name` is the definition's name if it is not the class's name in kebab case. The first paragraph of the docstring is
    its description.
    """

    def decorate(cls: Class) -> Class:
        made: Any = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        made.__form__ = Form(name or _kebab(cls.__name__), rules)
        return made  # type: ignore[no-any-return]

    return decorate


def form_of(cls: Any) -> Form:
    """The form that `declared` gives a class."""
    found: Form = cls.__form__
    return found


@cache
def keys_of(cls: Any) -> tuple[Key, ...]:
    """The keys of a declared class, in the order of its fields."""
    types = get_type_hints(cls, include_extras=True)
    return tuple(
        Key(
            field=one.name,
            name=one.metadata["name"] or one.name.replace("_", "-"),
            type=one.metadata["written"] or types[one.name],
            rules=one.metadata["rules"],
            required=one.default is MISSING and one.default_factory is MISSING,
            default=one.metadata["default"],
            convert=one.metadata["convert"],
        )
        for one in fields(cls)
        if one.metadata
    )


@cache
def plain_fields(cls: Any) -> tuple[str, ...]:
    """The names of the fields of a declared class that are not keys."""
    return tuple(one.name for one in fields(cls) if not one.metadata)


def entries(mapping: Mapping[str, Any]) -> tuple[Any, ...]:
    """Converts a mapping to its entries, each of which has its name as a field."""
    return tuple(mapping.values())


def _kebab(name: str) -> str:
    return "".join(f"-{char.lower()}" if char.isupper() else char for char in name).removeprefix("-")

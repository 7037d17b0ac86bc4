"""Reading valid plain values into the declared classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from ci_compiler.spec.declare import TABLES, Key, keys_of, plain_fields


def read(kind: Any, value: Any, **given: Any) -> Any:
    """`value`, which the schema has accepted, as a value of the type `kind`.

    `given` fills the fields that are not keys. For the entries of a mapping it also holds their `name`, and for the
    items of a list their `index`. A union of several types is left as it is, for the key's `convert`.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return read(arguments[0], value, **given)
    if origin is tuple:
        return tuple(read(arguments[0], item, **{**given, "index": index}) for index, item in enumerate(value))
    if origin is Mapping:
        of_key, of_value = arguments
        return {read(of_key, one): read(of_value, item, **{**given, "name": one}) for one, item in value.items()}
    if is_dataclass(kind) and kind not in TABLES:
        return _read_object(kind, value or {}, given)
    if origin in {Union, UnionType}:
        alternatives = [one for one in arguments if one is not NoneType]
        return read(alternatives[0], value, **given) if len(alternatives) == 1 else value
    return _scalar(kind, value)


def _scalar(kind: Any, value: Any) -> Any:
    if kind in TABLES:
        return next(row for row in TABLES[kind]() if row.name == value)
    return kind(value) if isinstance(kind, type) and issubclass(kind, Enum) else value


def _read_object(cls: Any, row: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    values = {key.field: _read_key(key, row[key.name], given) for key in keys_of(cls) if key.name in row}
    return cls(**values, **{name: given[name] for name in plain_fields(cls) if name in given})


def _read_key(key: Key, value: Any, given: Mapping[str, Any]) -> Any:
    made = key.convert(read(key.type, value, **given))
    return {**key.default, **made} if isinstance(key.default, Mapping) else made

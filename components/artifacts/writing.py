"""How a typed value becomes JSON structure plus two flat number columns. `reading` is its inverse."""

import dataclasses
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter

LEFT_OUT = "left_out"
"""Marks fields in the `metadata` of a dataclass: records of those who do not use them are the bytes that they were before
there were such fields."""


@dataclass(slots=True)
class Columns:
    """The numbers of all `tuple[int, ...]` and `tuple[float, ...]` fields, end to end, in the order of the walk.

    `fields` names the fields of every record type met, so that a reader knows what each position means.
    """

    ints: list[int] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    fields: dict[str, list[str]] = field(default_factory=dict)


Writer = Callable[[Any, Columns], Any]


@lru_cache(maxsize=512)
def writer(annotation: Any) -> Writer:
    """The function that turns a value declared as `annotation` into JSON structure.

    A record becomes the list of its fields; a tuple of numbers becomes its length, the numbers go to their column.

    **Example** `writer(tuple[int, ...])((7, 8, 9), columns)` returns 3 and leaves `columns.ints == [7, 8, 9]`.
    """
    if is_record(annotation):
        return _record_writer(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return _tuple_writer(arguments)
    if origin is list:
        return _sequence_writer(writer(arguments[0]))
    if origin is not None and issubclass_safe(origin, Mapping):
        return _mapping_writer(arguments)
    if optional_of(annotation) is not None:
        return _optional_writer(writer(optional_of(annotation)))
    return _leaf_writer(annotation)


def record_fields(cls: type[Any]) -> dict[str, Any]:
    """The fields of a dataclass or a pydantic model in order: name -> annotation."""
    if issubclass(cls, BaseModel):
        return {name: info.annotation for name, info in cls.model_fields.items()}
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def num_always_written(cls: type[Any]) -> int:
    """How many fields of a record stand in every row: all but those at its end that are marked with `LEFT_OUT`."""
    marked = [LEFT_OUT in f.metadata for f in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
    num_marked = marked.count(True)
    assert not any(marked[: len(marked) - num_marked]), f"{cls.__qualname__}: only fields at the end can be left out"
    return len(record_fields(cls)) - num_marked


def is_record(annotation: Any) -> bool:
    """Whether values of this type are written field by field."""
    return isinstance(annotation, type) and (dataclasses.is_dataclass(annotation) or issubclass(annotation, BaseModel))


def issubclass_safe(candidate: Any, cls: type[Any]) -> bool:
    """`issubclass`, False for what is no class."""
    return isinstance(candidate, type) and issubclass(candidate, cls)


def optional_of(annotation: Any) -> Any:
    """X for `X | None`, else None."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return None
    members = [member for member in get_args(annotation) if member is not type(None)]
    return members[0] if len(members) == 1 and len(get_args(annotation)) == 2 else None


def plain(annotation: Any) -> bool:
    """Whether JSON holds values of this type as they are."""
    return annotation in (str, bool, type(None)) or get_origin(annotation) is Literal


def _record_writer(cls: type[Any]) -> Writer:
    if num_always_written(cls) < len(record_fields(cls)):
        return _shortened_writer(cls)
    names = list(record_fields(cls))
    writers = [None if plain(a) else writer(a) for a in record_fields(cls).values()]

    def write(value: Any, columns: Columns) -> Any:
        if type(value) is not cls:
            raise TypeError(f"expected {cls.__qualname__}, got {type(value).__qualname__}")
        columns.fields[cls.__qualname__] = names
        return [
            getattr(value, name) if write_field is None else write_field(getattr(value, name), columns)
            for name, write_field in zip(names, writers, strict=True)
        ]

    return write


def _shortened_writer(cls: type[Any]) -> Writer:
    """For records whose last fields are left out at their defaults, and out of the names too where no row holds them."""
    names, num_always = list(record_fields(cls)), num_always_written(cls)
    defaults = [f.default for f in dataclasses.fields(cls)]
    writers = [writer(annotation) for annotation in record_fields(cls).values()]

    def write(value: Any, columns: Columns) -> Any:
        if type(value) is not cls:
            raise TypeError(f"expected {cls.__qualname__}, got {type(value).__qualname__}")
        num_written = len(names)
        while num_written > num_always and getattr(value, names[num_written - 1]) == defaults[num_written - 1]:
            num_written -= 1
        if num_written > len(columns.fields.get(cls.__qualname__, ())):
            columns.fields[cls.__qualname__] = names[:num_written]
        return [writers[place](getattr(value, names[place]), columns) for place in range(num_written)]

    return write


def _tuple_writer(arguments: tuple[Any, ...]) -> Writer:
    if arguments == (int, ...):

        def write_ints(value: Any, columns: Columns) -> Any:
            columns.ints.extend(value)
            return len(value)

        return write_ints
    if arguments == (float, ...):

        def write_floats(value: Any, columns: Columns) -> Any:
            columns.floats.extend(value)
            return len(value)

        return write_floats
    if arguments[-1:] == (...,):
        return _sequence_writer(writer(arguments[0]))
    writers = [writer(argument) for argument in arguments]
    return lambda value, columns: [write(v, columns) for write, v in zip(writers, value, strict=True)]


def _sequence_writer(write: Writer) -> Writer:
    return lambda value, columns: [write(v, columns) for v in value]


def _mapping_writer(arguments: tuple[Any, ...]) -> Writer:
    key = get_args(arguments[0])[0] if get_origin(arguments[0]) is Annotated else arguments[0]
    if key is not str:
        raise TypeError(f"a mapping must have str keys to be stored, not {arguments[0]}")
    write = writer(arguments[1])
    # Sorted, because equal mappings must give equal bytes whatever their insertion order.
    return lambda value, columns: {key: write(value[key], columns) for key in sorted(value)}


def _optional_writer(write: Writer) -> Writer:
    return lambda value, columns: None if value is None else write(value, columns)


def _leaf_writer(annotation: Any) -> Writer:
    if plain(annotation):
        return lambda value, columns: value
    if annotation is float:
        return lambda value, columns: float(value)
    if annotation is int:
        return lambda value, columns: operator.index(value)
    if annotation is Any:
        return lambda value, columns: _write_any(value)
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    return lambda value, columns: adapter.dump_python(value, mode="json")


def _write_any(value: Any) -> Any:
    """Untyped JSON; a tuple is marked, because JSON alone would bring it back as a list."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"a mapping must have str keys to be stored, not {sorted(map(repr, value))}")
        written = {key: _write_any(value[key]) for key in sorted(value)}
        return {"$dict": written} if len(written) == 1 and next(iter(written)).startswith("$") else written
    if isinstance(value, tuple):
        return {"$tuple": [_write_any(v) for v in value]}
    if isinstance(value, list):
        return [_write_any(v) for v in value]
    return value

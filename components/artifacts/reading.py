"""How JSON structure and number columns become a typed value again. The inverse of `writing`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args, get_origin

from pydantic import TypeAdapter

from components.artifacts.writing import (
    is_record,
    issubclass_safe,
    num_always_written,
    optional_of,
    plain,
    record_fields,
)

FieldTable = tuple[tuple[str, tuple[str, ...]], ...]
"""The stored field names of each record type, hashable: (("Candidate", ("tokens", …)), …)."""


@dataclass(slots=True)
class Cursor:
    """How far the number columns have been read."""

    ints: list[int]
    floats: list[float]
    next_int: int = 0
    next_float: int = 0

    def take_ints(self, num_ints: int) -> tuple[int, ...]:
        """The next numbers. Raises ValueError when there are not so many, or when less than none are asked for."""
        start, self.next_int = self.next_int, _end(self.next_int, num_ints, self.ints)
        return tuple(self.ints[start : self.next_int])

    def take_floats(self, num_floats: int) -> tuple[float, ...]:
        """The same of the other column."""
        start, self.next_float = self.next_float, _end(self.next_float, num_floats, self.floats)
        return tuple(self.floats[start : self.next_float])

    @property
    def exhausted(self) -> bool:
        """Whether exactly all numbers were taken."""
        return self.next_int == len(self.ints) and self.next_float == len(self.floats)


def _end(start: int, count: int, column: Sequence[object]) -> int:
    """No number is read twice: a structure of a few bytes could else name any amount of them."""
    if not 0 <= count <= len(column) - start:
        raise ValueError(f"{count} numbers are named where {len(column) - start} are left")
    return start + count


Reader = Callable[[Any, Cursor], Any]


@lru_cache(maxsize=512)
def reader(annotation: Any, table: FieldTable) -> Reader:
    """The function that turns JSON structure into a value of `annotation`.

    Fields that were added to a record since it was written take their defaults.
    """
    if is_record(annotation):
        return _record_reader(annotation, table)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return _tuple_reader(arguments, table)
    if origin is list:
        return _list_reader(reader(arguments[0], table))
    if origin is not None and issubclass_safe(origin, Mapping):
        return _mapping_reader(reader(arguments[1], table))
    if optional_of(annotation) is not None:
        return _optional_reader(reader(optional_of(annotation), table))
    return _leaf_reader(annotation)


def _record_reader(cls: type[Any], table: FieldTable) -> Reader:
    annotations = record_fields(cls)
    names = dict(table).get(cls.__qualname__)
    if names is None:
        return _no_fields(cls)
    unknown = sorted(set(names) - set(annotations))
    if unknown:
        raise ValueError(f"{cls.__qualname__} was stored with the fields {unknown}, which it no longer has")
    readers = [None if plain(annotations[name]) else reader(annotations[name], table) for name in names]
    num_always = min(num_always_written(cls), len(names))

    def read(tree: Any, cursor: Cursor) -> Any:
        if not num_always <= len(tree) <= len(names):
            raise ValueError(f"{len(tree)} values for the {len(names)} fields of {cls.__qualname__}")
        return cls(
            **{
                name: value if read_field is None else read_field(value, cursor)
                for name, value, read_field in zip(names, tree, readers, strict=False)
            }
        )

    return read


def _no_fields(cls: type[Any]) -> Reader:
    """For a record type of which the stored value holds no instance."""

    def read(tree: Any, cursor: Cursor) -> Any:
        raise ValueError(f"the fields of {cls.__qualname__} were not stored")

    return read


def _tuple_reader(arguments: tuple[Any, ...], table: FieldTable) -> Reader:
    if arguments == (int, ...):
        return lambda tree, cursor: cursor.take_ints(tree)
    if arguments == (float, ...):
        return lambda tree, cursor: cursor.take_floats(tree)
    if arguments[-1:] == (...,):
        read = reader(arguments[0], table)
        return lambda tree, cursor: tuple([read(v, cursor) for v in tree])
    readers = [reader(argument, table) for argument in arguments]
    return lambda tree, cursor: tuple([read(v, cursor) for read, v in zip(readers, tree, strict=True)])


def _list_reader(read: Reader) -> Reader:
    return lambda tree, cursor: [read(v, cursor) for v in tree]


def _mapping_reader(read: Reader) -> Reader:
    return lambda tree, cursor: {key: read(v, cursor) for key, v in tree.items()}


def _optional_reader(read: Reader) -> Reader:
    return lambda tree, cursor: None if tree is None else read(tree, cursor)


def _leaf_reader(annotation: Any) -> Reader:
    if plain(annotation) or annotation is int:
        return lambda tree, cursor: tree
    if annotation is float:
        return lambda tree, cursor: float(tree)
    if annotation is Any:
        return lambda tree, cursor: _read_any(tree)
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    return lambda tree, cursor: adapter.validate_python(tree)


def _read_any(tree: Any) -> Any:
    if isinstance(tree, dict):
        if tree.keys() == {"$tuple"}:
            return tuple(_read_any(v) for v in tree["$tuple"])
        if tree.keys() == {"$dict"}:
            return {key: _read_any(v) for key, v in tree["$dict"].items()}
        return {key: _read_any(v) for key, v in tree.items()}
    if isinstance(tree, list):
        return [_read_any(v) for v in tree]
    return tree

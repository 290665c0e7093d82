"""Typed values as JSON, with their tuples of numbers in two flat columns. Pydantic checks the types in both directions."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

_INTS, _FLOATS, _TUPLE = "$ints", "$floats", "$tuple"
_INT64 = range(-(2**63), 2**63)
_PLAIN = frozenset({str, int, float, bool, type(None)})
_STR = frozenset({str})


@lru_cache(maxsize=256)
def is_record(cls: Any) -> bool:
    """Whether values of this type are written as a mapping of fields."""
    return is_dataclass(cls) or issubclass(cls, BaseModel)


@lru_cache(maxsize=64)
def record_adapter(cls: Any) -> TypeAdapter[Any]:
    """The validator of a record and everything in it; unknown fields are refused. The record is in a tuple, because pydantic
    takes no config for a dataclass itself."""
    return TypeAdapter(tuple[cls], config=ConfigDict(extra="forbid", revalidate_instances="always"))


@dataclass(slots=True)
class Columns:
    """All tuples of ints and of floats, concatenated in the order of the JSON, and how many numbers have been read.

    **Example** `write((7, 8, 9))` returns `{"$ints": 3}` and appends the numbers to `ints`; `read` reverses this.
    """

    ints: list[int] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    num_ints_read: int = 0
    num_floats_read: int = 0

    def write(self, value: Any) -> Any:
        """A validated value as JSON. Raises TypeError for a value that JSON cannot represent."""
        kind: Any = type(value)
        if kind in _PLAIN:
            return value
        if kind is tuple:
            return self._tuple_written(value)
        if kind is dict:
            return self._mapping_written(value)
        if kind is list:
            return [each if type(each) in _PLAIN else self.write(each) for each in value]
        if is_record(kind):
            return self._record_written(value)
        if isinstance(value, float):  # numpy's
            return float(value)
        if isinstance(value, Mapping):
            return self._mapping_written(value)
        raise TypeError(f"a {kind.__qualname__} cannot be stored")

    def read(self, tree: dict[str, Any]) -> Any:
        """The value of a JSON object, for use as `object_hook`."""
        if len(tree) != 1:
            return tree
        ((mark, inner),) = tree.items()
        match mark:
            case "$ints":
                start, self.num_ints_read = self.num_ints_read, _end(self.num_ints_read, inner, len(self.ints))
                return tuple(self.ints[start : self.num_ints_read])
            case "$floats":
                start, self.num_floats_read = self.num_floats_read, _end(self.num_floats_read, inner, len(self.floats))
                return tuple(self.floats[start : self.num_floats_read])
            case "$tuple":
                return tuple(inner)
        return {mark[1:]: inner} if mark.startswith("$$") else tree

    def check_all_read(self) -> None:
        """Raise ValueError unless all numbers were read."""
        if (self.num_ints_read, self.num_floats_read) != (len(self.ints), len(self.floats)):
            raise ValueError(f"{len(self.ints)} ints and {len(self.floats)} floats do not match the structure")

    def _tuple_written(self, value: tuple[Any, ...]) -> dict[str, Any]:
        kinds = set(map(type, value))
        if kinds == {float}:
            self.floats.extend(value)
            return {_FLOATS: len(value)}
        if kinds == {int} and min(value) in _INT64 and max(value) in _INT64:
            self.ints.extend(value)
            return {_INTS: len(value)}
        return {_TUPLE: [each if type(each) in _PLAIN else self.write(each) for each in value]}

    def _record_written(self, value: Any) -> dict[str, Any]:
        tree = {}
        kind: Any = type(value)
        for name, default in _defaults(kind):
            each = getattr(value, name)
            if type(each) not in _PLAIN:
                tree[name] = self.write(each)
            elif each != default:
                tree[name] = each
        return tree

    def _mapping_written(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        if not _STR.issuperset(map(type, value)):
            raise TypeError(f"a mapping must have str keys to be stored, not {sorted(map(repr, value))}")
        # Sorted: equal mappings must give equal bytes in any insertion order.
        tree = {key: each if type(each := value[key]) in _PLAIN else self.write(each) for key in sorted(value)}
        if len(tree) == 1 and (key := next(iter(tree))).startswith("$"):
            return {f"${key}": tree[key]}  # escaped: the marks are objects of one key too
        return tree


@lru_cache(maxsize=64)
def _defaults(cls: Any) -> tuple[tuple[str, Any], ...]:
    """The fields of a record in order, each with the default at which it is left out, or MISSING.

    So a new field with a default changes no bytes where it is unused. Floats are always written: -0.0 equals 0.0.
    """
    if issubclass(cls, BaseModel):
        return tuple((name, MISSING) for name in cls.model_fields)
    return tuple((f.name, MISSING if isinstance(f.default, float) else f.default) for f in fields(cls))


def _end(start: int, count: int, size: int) -> int:
    """No number is read twice: otherwise a structure of a few bytes could name any number of them."""
    if not 0 <= count <= size - start:
        raise ValueError(f"{count} numbers are named where {size - start} are left")
    return start + count

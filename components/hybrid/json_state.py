"""States that survive JSON exactly, so that a resumed run goes on as an uninterrupted one."""

from dataclasses import asdict
from functools import cache
from typing import Any, Self, cast

from pydantic import TypeAdapter


class JsonState:
    """A frozen dataclass of plain values, and its way through JSON."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """The state as values of JSON, from which `from_json` makes an equal one."""
        return asdict(cast(Any, self))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The state from what `to_json` returned, also after JSON has made lists of tuples."""
        return cast(Self, _adapter(cast(Any, cls)).validate_python(value))


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)

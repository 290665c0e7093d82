"""The fields of an untrusted body: read one by one, and refused in one line with the field, its value and the remedy."""

import json
import marshal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from components.gateway.base import RequestRefused

T = TypeVar("T")
_SHOWN_CHARACTERS = 80
NOTHING: tuple[Any, ...] = (None, "", [], {})
"""Values of a field that say as much as its absence."""
_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Parts of content that are text, and the field that holds it."""


@dataclass(frozen=True, slots=True)
class Fields:
    """An object within a body, and the path to it."""

    values: Mapping[str, Any]
    path: str = ""

    def has(self, name: str) -> bool:
        return self.values.get(name) not in NOTHING

    def name_field(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def refuse(self, name: str, why: str, *, code: str = "", unsupported: tuple[str, ...] = ()) -> RequestRefused:
        """The error for the field `name`; `why` says what is wrong and the remedy."""
        field, shown = self.name_field(name), shorten(json.dumps(self.values.get(name)))
        return RequestRefused(f"{field} {shown} {why}", field=field, code=code, unsupported=unsupported)

    def read_string(self, name: str, default: str | None = None) -> str:
        value = self.values.get(name, default)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.refuse(name, "is no text; send a string")
        return value

    def read_name(self, name: str) -> str:
        value = self.values.get(name)
        if not isinstance(value, str) or not value:
            raise self.refuse(name, "is no name; send a string that is not empty")
        return value

    def read_flag(self, name: str) -> bool:
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.refuse(name, "is neither true nor false; send one of them")
        return bool(value)

    def read_integer(self, name: str, low: int, high: int) -> int | None:
        value = self.values.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high):
            raise self.refuse(name, f"is out of range; send an integer from {low} to {high}")
        return value

    def read_number(self, name: str, low: float, high: float) -> float | None:
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.refuse(name, f"is out of range; send a number from {low:g} to {high:g}")
        return float(value)

    def read_fields(self, name: str) -> "Fields":
        """The object `name`; one without fields where it is absent."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.refuse(name, "is no object; send one")
        return Fields(value or {}, self.name_field(name))

    def list_fields(self, name: str, start: int = 0) -> Iterator["Fields"]:
        """The objects of the list `name` from `start` on; none where it is absent."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, list):
            raise self.refuse(name, "is no list; send one")
        place = self.name_field(name)
        for position, each in enumerate((value or ())[start:], start):
            if not isinstance(each, dict):
                raise Fields({str(position): each}, place).refuse(str(position), "is no object; send one")
            yield Fields(each, f"{place}.{position}")

    def read_content(self, name: str, between: str = "\n") -> str:
        """The text of a field that is a text or a list of parts of text."""
        value = self.values.get(name)
        if isinstance(value, str):
            return value
        if not isinstance(value, list):
            raise self.refuse(name, "is no content; send a text or a list of text parts")
        return between.join(map(read_part, self.list_fields(name)))

    def count_unread(self, *read: str) -> int:
        """How many fields say something and are not among `read`."""
        return sum(name not in read and value not in NOTHING for name, value in self.values.items())


@dataclass(slots=True)
class KnownItems:
    """What the items of the last list were read as. One that begins with these is checked and read from there on.

    **Example** an agent sends three messages, and then these with two more: two are read.
    """

    _written: bytes = b""
    _found: list[Any] = field(default_factory=list)

    def count(self, items: object) -> int:
        """How many items of a list are known: all those of the last one, or none."""
        number = len(self._found)
        is_longer = isinstance(items, list) and len(items) >= number > 0
        return number if is_longer and _write_exactly(items[:number]) == self._written else 0  # type: ignore[index]

    def read(self, body: Fields, name: str, num_known: int, read: Callable[[Fields], T]) -> Sequence[T]:
        """What each item of the list `name` is read as, of which `num_known` are known. Raises what `read` raises."""
        found: list[T] = [*self._found[:num_known], *map(read, body.list_fields(name, num_known))]
        self._written, self._found = _write_exactly(body.values.get(name)), found
        return found


def _write_exactly(items: Any) -> bytes:
    """JSON's values as bytes, other ones for 1, 1.0 and True, which are equal in Python; of a version that shares nothing."""
    return marshal.dumps(items, 0)


def shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def read_part(part: Fields) -> str:
    """The text of one part of content."""
    field = _TEXTS.get(part.read_string("type", ""))
    if field is None:
        raise part.refuse("type", "is not read; send text parts only: a prompt holds no images, audio or files")
    return part.read_string(field)

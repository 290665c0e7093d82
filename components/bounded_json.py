"""JSON from outside, bounded before it is parsed: a short document can make a hundred times its own size of objects."""

import json
import re
from collections.abc import Callable
from typing import Any

MAX_VALUES = 500_000
"""Values of one document; each takes some hundred bytes and a tenth of a microsecond."""
_MARKS = ("[", "{", ",")
"""Before each value but the first, one of them stands."""
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_STRING_BYTES = re.compile(_STRING.pattern.encode(), re.DOTALL)


def bounded_json(
    content: str | bytes,
    *,
    max_length: int | None = None,
    max_values: int = MAX_VALUES,
    object_hook: Callable[[dict[str, Any]], Any] | None = None,
) -> Any:
    """The value that `content` spells; `object_hook`, as that of `json.loads`, makes something else of its objects.

    Raises ValueError for all that is wrong with it: longer than `max_length` (characters of text, else bytes), more than
    `max_values` values, nested too deep, a number of thousands of digits, or no JSON.

    **Example** `'[[], {"a": 1}]'` has three values beside itself.
    """
    if max_length is not None and len(content) > max_length:
        raise ValueError(f"JSON of length {len(content)}; at most {max_length} is read")
    if _num_marks(content) > max_values and (found := _num_marks(_without_strings(content))) > max_values:
        raise ValueError(f"JSON of {found} values; at most {max_values} are read")
    try:
        return json.loads(content, object_hook=object_hook)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deep") from error


def _num_marks(content: str | bytes) -> int:
    if isinstance(content, str):
        return sum(map(content.count, _MARKS))
    return sum(content.count(mark.encode()) for mark in _MARKS)


def _without_strings(content: str | bytes) -> str | bytes:
    return _STRING.sub("", content) if isinstance(content, str) else _STRING_BYTES.sub(b"", content)

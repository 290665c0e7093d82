"""Untrusted JSON, checked before it is parsed: its objects may take a hundred times the size of the document."""

import json
import re
from collections.abc import Callable
from typing import Any

MAX_VALUES = 500_000
"""Values of one document; each takes about a hundred bytes and 0.1 microseconds."""
_MARKS = ("[", "{", ",")
"""Each value but the first follows one of them."""
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


def parse_bounded_json(
    content: str | bytes,
    *,
    max_length: int | None = None,
    max_values: int = MAX_VALUES,
    object_hook: Callable[[dict[str, Any]], Any] | None = None,
    parse_int: Callable[[str], Any] | None = None,
) -> Any:
    """The parsed `content`; `object_hook` and `parse_int` are those of `json.loads`.

    Raises ValueError if it is longer than `max_length` (characters of text, or bytes), has more than `max_values` values or a
    number of thousands of digits, is nested too deep, or is not JSON.

    **Example** `'[[], {"a": 1}]'` has three values besides itself.
    """
    if max_length is not None and len(content) > max_length:
        raise ValueError(f"JSON of length {len(content)}; at most {max_length} is read")
    text = content if isinstance(content, str) else content.decode(json.detect_encoding(content), "surrogatepass")
    if _num_marks(text) > max_values and (found := _num_marks(_STRING.sub("", text))) > max_values:
        raise ValueError(f"JSON of {found} values; at most {max_values} are read")
    try:
        return json.loads(text, object_hook=object_hook, parse_int=parse_int)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deep") from error


def _num_marks(text: str) -> int:
    return sum(map(text.count, _MARKS))

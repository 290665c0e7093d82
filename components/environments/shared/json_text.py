"""JSON from agents, limited in length and depth before it is parsed."""

import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from components.environments.shared.text import quote_start
from components.errors import MalformedAction

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
"""Or an unterminated string: searching its end from every quote would take quadratic time."""
_FENCED = re.compile(r"```[A-Za-z]*[ \t]*\n(.*?)(?:\n[ \t]*)?```", re.DOTALL)


def parse_json(text: str, *, max_characters: int, max_depth: int) -> Any:
    """The value of `text` as strict JSON. Raises MalformedAction for text that is too long or deep, NaN, or a duplicate key.

    **Example** `'[{"tool": "pay"}]'` has depth 2.
    """
    if len(text) > max_characters:
        raise MalformedAction(f"{len(text)} characters; at most {max_characters} are allowed")
    if _depth(text) > max_depth:
        raise MalformedAction(f"{quote_start(text)} is nested deeper than {max_depth}")
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except ValueError as error:
        raise MalformedAction(f"{quote_start(text)} is not JSON: {error}") from error


def strip_fence(text: str) -> str:
    """The content of the last block between ``` lines, for models that answer in Markdown; other text unchanged."""
    blocks: Sequence[str] = _FENCED.findall(text) if "```" in text else ()
    return blocks[-1] if blocks else text


def _depth(text: str) -> int:
    """The deepest nesting of brackets outside strings; arbitrary for text that is no JSON."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[{\]}]", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len({*keys}) != len(keys):
        raise ValueError(f"the keys {keys} name one twice")
    return dict(pairs)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")

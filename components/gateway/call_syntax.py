"""How a model writes tool calls, found in what its chat template writes of one, and calls read from its answers."""

import json
import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.gateway.conversation import CLOSES_CALL, OPENS_CALL

NAME, ARGUMENTS = "name-of-a-tool", {"argument-of-a-tool": "value-of-an-argument"}
"""A call that no chat template changes."""
Schemas = Mapping[str, Mapping[str, Any]]
"""The JSON schemas of tools' arguments by the tools' names."""
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnswer:
    """An answer's text without its calls, and they: names with their arguments as JSON text."""

    text: str
    calls: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSyntax:
    """Blocks of one or several calls from `opens` to `closes`."""

    opens: str = OPENS_CALL
    closes: str = CLOSES_CALL

    def read(self, text: str, schemas: Schemas) -> ReadAnswer:
        """The calls in an answer. One in another form, or of a tool without schema, makes all of it text; nothing is repaired.

        **Example** 'ok <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>': "ok" and one call of add.
        """
        calls: list[tuple[str, str]] = []
        rest: list[str] = []
        at = 0
        while (start := text.find(self.opens, at)) >= 0 and (self.opens or at == 0):
            block = self._read_block(text, start + len(self.opens), schemas)
            if block is None or (not self.opens and text[:start].strip()):
                return ReadAnswer(text=text)
            rest.append(text[at:start])
            calls += block[0]
            at = block[1]
        if not calls or (not self.closes and text[at:].strip()):
            return ReadAnswer(text=text)
        return ReadAnswer(text="".join([*rest, text[at:]]).strip(), calls=tuple(calls))

    @abstractmethod
    def _read_block(self, text: str, at: int, schemas: Schemas) -> tuple[list[tuple[str, str]], int] | None:
        """The calls that begin at `at`, and where the block ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSyntax(CallSyntax):
    """Calls as JSON objects, several of them after `between`."""

    between: str = CLOSES_CALL + OPENS_CALL
    name_key: str = "name"
    arguments_key: str = "arguments"

    @classmethod
    def find(cls, one: str, two: str | None) -> "JsonSyntax | None":
        """That of a turn with one call of `NAME` with `ARGUMENTS`, and of one with two of them, as a chat template writes them;
        None if it does not write JSON. `two` None: it takes one call a turn.

        **Example** '<tool_call>\\n{"name": …, "arguments": {…}}\\n</tool_call>' has the fields of `JsonSyntax()`.
        """
        found = _find_call(one, 0)
        if found is None:
            return None
        start, end, name_key, arguments_key = found
        opens, closes, between = one[:start].strip(), one[end:].strip(), ""
        if two is not None and (first := _find_call(two, 0)) and (second := _find_call(two, first[1])):
            between = two[first[1] : second[0]].strip()
        return cls(
            opens=opens, closes=closes, between=_drop_space(between), name_key=name_key, arguments_key=arguments_key
        )

    def _read_block(self, text: str, at: int, schemas: Schemas) -> tuple[list[tuple[str, str]], int] | None:
        calls = []
        while True:
            at = _skip_space(text, at)
            try:
                value, at = _DECODER.raw_decode(text, at)
            except (ValueError, RecursionError):
                return None
            call = self._read_call(value, schemas)
            if call is None:
                return None
            calls.append(call)
            further = _skip_marks(text, at, self.between) if self.between else None
            if further is None or not text.startswith("{", _skip_space(text, further)):
                end = _skip_marks(text, at, self.closes)
                return None if end is None else (calls, end)
            at = further

    def _read_call(self, value: Any, schemas: Schemas) -> tuple[str, str] | None:
        name = value.get(self.name_key) if isinstance(value, dict) else None
        if not isinstance(name, str) or name not in schemas:
            return None
        arguments = value.get(self.arguments_key)
        text = write_arguments(arguments) if isinstance(arguments, dict) else None
        return None if text is None else (name, text)


def write_arguments(arguments: Mapping[str, Any]) -> str | None:
    """Arguments as JSON text; None for what JSON or UTF-8 has not, as an infinite number or half a character."""
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (ValueError, RecursionError):
        return None
    return text


def _find_call(text: str, at: int) -> tuple[int, int, str, str] | None:
    """Where the JSON object of `NAME` and `ARGUMENTS` begins and ends after `at`, and its keys of the two."""
    mark = text.find(NAME, at)
    while (at := text.find("{", at, mark)) >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except ValueError:
            value, end = None, at
        if isinstance(value, dict) and NAME in value.values() and ARGUMENTS in value.values():
            keys = {json.dumps(each): key for key, each in value.items()}
            return at, end, keys[json.dumps(NAME)], keys[json.dumps(ARGUMENTS)]
        at += 1
    return None


def _drop_space(text: str) -> str:
    return "".join(text.split())


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None, "no space is space, too"
    return found.end()


def _skip_marks(text: str, at: int, marks: str) -> int | None:
    """The place after `marks`, between whose characters may be space; None if they do not stand at `at`."""
    for mark in _drop_space(marks):
        at = _skip_space(text, at)
        if text[at : at + 1] != mark:
            return None
        at += 1
    return at

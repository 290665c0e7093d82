"""Calls that a chat template writes field by field, not as one JSON object: in tags, as Python, or in marks of its own."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.gateway.call_syntax import NAME, CallSyntax, Schemas, write_arguments
from components.gateway.literals import list_kinds, read_literal, read_typed, require_match

_KEY, _OTHER_KEY, _NUMBER, _OTHER_NUMBER, _STRING = "key_of_one", "key_of_two", 7310529, 7310533, "string-of-one"
_TEXT = "it's\n  \"code\": if a < b && c[0] == '\\n': return {a, b} # </b>\n"
_VALUES: dict[str, tuple[str, Sequence[Any]]] = {
    "text": ("string", (_TEXT, "")),
    "digits": ("string", ("12", "true")),
    "number": ("number", (-1.5, 12)),
    "flag": ("boolean", (True, False)),
    "nothing": ("null", (None, None)),
    "many": ("array", ([1, "it's", True], [])),
    "named": ("object", ({"a": {"b": "c"}}, {})),
}
_SCHEMA = {"properties": {key: {"type": kind} for key, (kind, _) in _VALUES.items()}}
_NAME_OF_FIELD = re.compile(r"[\w.$@-]+")

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSyntax(CallSyntax):
    """Calls as a name and arguments between fixed marks. Without a `quote` around strings the schema of a tool says what the
    text of a value is.

    **Example** '<function=f>\\n<parameter=a>\\nb\\n</parameter>\\n</function>': f with the argument a.
    """

    quote: str
    after_name: re.Pattern[str]
    after_key: re.Pattern[str]
    after_value: re.Pattern[str]
    """Of these two patterns the group `key` is what comes before a key, `call` what comes before another call's name, and `end`
    what ends a block."""

    @classmethod
    def find(cls, write: Callable[[Sequence[Call]], str | None]) -> "FieldSyntax | None":
        """That of turns with calls as `write` has them of a chat template; None if one of them could not be read back."""
        names = f"{NAME}-1", f"{NAME}-2"
        full = {_KEY: _NUMBER, _OTHER_KEY: _OTHER_NUMBER}
        alone = _split(write([(names[0], full)]), names[0], *map(str, (_KEY, _NUMBER, _OTHER_KEY, _OTHER_NUMBER)))
        bare = _split(write([(names[0], {})]), names[0])
        pair = _split(write([(names[0], {_KEY: _NUMBER}), (names[1], {})]), names[0], _KEY, str(_NUMBER), names[1])
        bare_pair = _split(write([(names[0], {}), (names[1], {})]), *names)
        quoted = _split(write([(names[0], {_KEY: _STRING})]), names[0], _KEY, _STRING)
        if alone is None or bare is None or pair is None or bare_pair is None or quoted is None:
            return None
        opens, before_key, after_key, between, _, closes = alone
        opens, quote = opens.lstrip(), quoted[2].removeprefix(after_key)
        joins, bare_closes, bare_joins = pair[3], bare[1], bare_pair[1]
        if not opens or opens[0].isalnum():
            return None
        if joins.endswith(opens):  # each call is a block
            closes, bare_closes = (each.removesuffix(opens).rstrip() for each in (joins, bare_joins))
            joins = bare_joins = ""
        make = _loosen if quote else re.escape
        found = cls(
            opens=opens,
            closes=closes,
            quote=quote,
            after_name=_make_pattern(make, end=bare_closes, call=bare_joins, key=before_key),
            after_key=re.compile(make(after_key)),
            after_value=_make_pattern(make, end=closes, call=joins, key=between),
        )
        return found if found._reads_back(write) else None

    def _reads_back(self, write: Callable[[Sequence[Call]], str | None]) -> bool:
        calls = [(NAME, {key: values[number] for key, (_, values) in _VALUES.items()}) for number in (0, 1)]
        for each in ([calls[0]], [calls[0], (NAME, {}), calls[1]]):
            text = write(each)
            read = self.read(text, {NAME: _SCHEMA}).calls if text is not None else ()
            if [(name, json.loads(arguments)) for name, arguments in read] != each:
                return False
        return True

    def _read_block(self, text: str, at: int, schemas: Schemas) -> tuple[list[tuple[str, str]], int] | None:
        calls = []
        while True:
            for name in sorted(schemas, key=len, reverse=True):
                found = self.after_name.match(text, at + len(name)) if text.startswith(name, at) else None
                if found is not None:
                    break
            else:
                return None
            try:
                arguments, found = self._read_arguments(text, found, schemas[name])
            except (ValueError, RecursionError):
                return None
            written = write_arguments(arguments)
            if written is None:
                return None
            calls.append((name, written))
            at = found.end()
            if found.lastgroup == "end":
                return calls, at

    def _read_arguments(
        self, text: str, found: re.Match[str], schema: Mapping[str, Any]
    ) -> tuple[dict[str, Any], re.Match[str]]:
        """The arguments of the call whose name `found` follows, and what follows them. Raises ValueError."""
        arguments: dict[str, Any] = {}
        while found.lastgroup == "key":
            end_of_key = require_match(self.after_key.search(text, found.end()))
            key, at = text[found.end() : end_of_key.start()], end_of_key.end()
            declared = schema.get("properties")
            kinds = list_kinds(declared[key], schema) if isinstance(declared, dict) and key in declared else None
            if key in arguments or (kinds is None and not _NAME_OF_FIELD.fullmatch(key)):
                raise ValueError(key)
            if self.quote:
                arguments[key], at = read_literal(text, at, self.quote)
                found = require_match(self.after_value.match(text, at))
            else:
                found = require_match(self.after_value.search(text, at))
                arguments[key] = read_typed(text[at : found.start()], kinds or {"string"})
        return arguments, found


def _split(text: str | None, *marks: str) -> list[str] | None:
    """What stands before, between and after the marks; None unless they follow each other in the text."""
    parts = []
    for mark in marks:
        part, found, text = (text or "").partition(mark)
        if not found:
            return None
        parts.append(part)
    return [*parts, text or ""]


def _loosen(text: str) -> str:
    """The pattern of a text with any space where it has some."""
    return r"\s*".join(map(re.escape, re.split(r"\s+", text)))


def _make_pattern(make: Callable[[str], str], **texts: str) -> re.Pattern[str]:
    """What finds one of the texts, the first of those that begin at one place."""
    return re.compile("|".join(f"(?P<{name}>{make(text)})" for name, text in texts.items() if text))

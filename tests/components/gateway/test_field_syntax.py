"""Calls that published chat templates write in tags, as Python or in marks of their own: read as they are written, and strictly."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from components.gateway.base import AgentToolCall, Message
from components.gateway.call_syntax import CallSyntax, ReadAnswer
from components.gateway.literals import list_kinds
from components.gateway.written_turns import TurnWriter
from tests.components.gateway.talks import ADD, say
from tests.components.gateway.test_written_turns import READ_CALLS, Published, join

FIELDS = sorted(READ_CALLS["tags"] | READ_CALLS["python"] | READ_CALLS["marks"])
WRITERS: dict[str, TurnWriter] = {}
TEXTS = st.lists(
    st.sampled_from(
        [*"'\"\\<>&{}[](),:=\t", "\n", "</parameter>", "<tool_call>", "</arg_value>", "if a < b:\n", "é", "12", "None", "b=", "')"]
    )
).map("".join) | st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=6)
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
NESTED = st.recursive(
    NUMBERS | st.booleans() | st.none() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.from_regex("[a-z_]{1,4}", fullmatch=True), inner, max_size=3),
    max_leaves=5,
)
OF_KIND: Mapping[str, st.SearchStrategy[Any]] = {
    "string": TEXTS,
    "number": NUMBERS,
    "boolean": st.booleans(),
    "array": st.lists(NESTED, max_size=3),
    "object": st.dictionaries(st.from_regex("[a-z_]{1,4}", fullmatch=True), NESTED, max_size=3),
}
SCHEMA = {"properties": {f"{kind}_{place}": {"type": kind} for kind in OF_KIND for place in "ab"}}
SCHEMAS = {"run": SCHEMA, "run_all": SCHEMA}
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["run", "run_all"]),
        st.fixed_dictionaries({}, optional={f"{kind}_{place}": each for kind, each in OF_KIND.items() for place in "ab"}),
    ),
    min_size=1,
    max_size=3,
)


def writer_of(name: str) -> TurnWriter:
    if name not in WRITERS:
        WRITERS[name] = TurnWriter.under(Published(name))
    return WRITERS[name]


def syntax_of(name: str) -> CallSyntax:
    syntax = writer_of(name).syntax
    assert syntax is not None
    return syntax


def write(name: str, calls: list[tuple[str, dict[str, Any]]]) -> str:
    """The turn of calls as the template writes it, from the first call on."""
    told = [AgentToolCall(call_id=str(n), name=each, arguments=json.dumps(args)) for n, (each, args) in enumerate(calls)]
    text = join(writer_of(name).write([say("q"), Message(role="assistant", text="", calls=tuple(told))], [ADD]))
    turn = text[text.rindex(syntax_of(name).opens + calls[0][0], text.rindex("q")) if len(calls) == 1 else text.index(
        syntax_of(name).opens, text.rindex("q")) :]
    return turn


@pytest.mark.parametrize("name", FIELDS)
@given(calls=CALLS)
def test_calls_are_read_as_the_template_writes_them(name: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    pass

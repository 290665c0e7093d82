"""Calls in tags, as Python or in marks of a model: read as published chat templates write them, and strictly."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.gateway.call_syntax import CallSyntax, ReadAnswer
from components.gateway.conversation import show_tool
from components.gateway.encoder import ChatEncoder
from components.gateway.written_turns import TurnWriter
from components.models.tokenizer import HuggingFaceTokenizer
from tests.components.gateway.talks import ADD, call, make_chat_tokenizer, say
from tests.components.gateway.test_written_turns import READ_CALLS, Published

FIELDS = sorted(READ_CALLS["tags"] | READ_CALLS["python"] | READ_CALLS["marks"])
WRITERS: dict[str, TurnWriter] = {}
TEXTS = st.lists(
    st.sampled_from(
        [
            *"'\"\\<>&{}[](),:=\t",
            "\n",
            "</parameter>",
            "<tool_call>",
            "</arg_value>",
            "if a < b:\n",
            "é",
            "12",
            "None",
            "b=",
            "')",
        ]
    )
).map("".join) | st.text(st.characters(codec="utf-8"), max_size=6)
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
NESTED = st.recursive(
    NUMBERS | st.booleans() | st.none() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.from_regex("[a-z_]{1,4}", fullmatch=True), inner, max_size=3)
    ),
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
        st.fixed_dictionaries(
            {}, optional={f"{kind}_{place}": each for kind, each in OF_KIND.items() for place in "ab"}
        ),
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
    """What the template writes of a question and an answer with calls, after the question."""
    shown = [
        {"id": str(n), "type": "function", "function": {"name": f, "arguments": a}} for n, (f, a) in enumerate(calls)
    ]
    talk = [{"role": "user", "content": "the-question"}, {"role": "assistant", "content": "", "tool_calls": shown}]
    return Published(name).render_turns(talk, tools=[show_tool(ADD)], opens_answer=False).rpartition("the-question")[2]


@pytest.mark.parametrize("name", FIELDS)
@settings(max_examples=25)
@given(calls=CALLS)
def test_calls_are_read_as_the_template_writes_them(name: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    read = syntax_of(name).read(write(name, calls), SCHEMAS).calls
    assert [(each, sort(json.loads(arguments))) for each, arguments in read] == [
        (each, sort(args)) for each, args in calls
    ]


def sort(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


TAGS = "<tool_call>\n<function=run>\n<parameter=string_a>\n{}\n</parameter>\n</function>\n</tool_call>"
TYPED = TAGS.replace("string_a", "number_a")
MARKS = '<|tool_call>call:run{{string_a:<|"|>{}<|"|>}}<tool_call|>'
PYTHON = "<|tool_call_start|>[run({})]<|tool_call_end|>"
CODE = "for c in s[:2]:\n    if c < \"</parameter>\" && ok & 1:\n        print('<parameter=b>', {1: [c]})\n"


@pytest.mark.parametrize(
    ("name", "text", "arguments"),
    [
        ("qwen3_6", TAGS.format(CODE), {"string_a": CODE}),
        (
            "qwen3_6",
            TAGS.format("<tool_call>\n<function=run>\n</function>"),
            {"string_a": "<tool_call>\n<function=run>\n</function>"},
        ),
        ("qwen3_6", TAGS.format("12"), {"string_a": "12"}),
        ("qwen3_6", TYPED.format("12"), {"number_a": 12}),
        ("qwen3_6", TYPED.format(r'["\ud83d\ude00\x41"]'), {"number_a": ["\U0001f600A"]}),
        ("qwen3_6", TAGS.format("null").replace("string_a", "unknown"), {"unknown": "null"}),
        ("gemma4", MARKS.format("}<tool_call|>', \"a"), {"string_a": "}<tool_call|>', \"a"}),
        (
            "lfm2_v2",
            PYTHON.format('string_a="it\'s", array_a=[True, "x"]'),
            {"string_a": "it's", "array_a": [True, "x"]},
        ),
        (
            "lfm2_v2",
            PYTHON.format(r"string_a='\d\u00e9\n\'', string_b=')]'"),
            {"string_a": "\\dé\n'", "string_b": ")]"},
        ),
    ],
)
def test_a_value_may_spell_marks(name: str, text: str, arguments: dict[str, Any]) -> None:
    read = syntax_of(name).read(f"I try. {text}", SCHEMAS)
    assert (read.text, [(each, json.loads(told)) for each, told in read.calls]) == ("I try.", [("run", arguments)])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("qwen3_6", TAGS.format("a").removesuffix("\n</tool_call>")),
        ("qwen3_6", TAGS.format("a").replace("=run>", "=runs>")),
        ("qwen3_6", TAGS.format("a").replace(">\na", ">a")),
        ("qwen3_6", TAGS.format("a\n</parameter>\n<parameter=string_a>\nb")),
        ("qwen3_6", TAGS.format("a\n</parameter>\n<parameter=b c>\nb")),
        *[
            ("qwen3_6", TYPED.format(wrong))
            for wrong in ("twelve", "1e999", "1 2", "NaN", "[1,]", "9" * 5000, "[" * 50_000)
        ],
        ("qwen3_6", TYPED.format(r'["\ud800"]')),
        ("qwen3_6", TAGS.format("a") + TAGS.format("b").replace("run", "other")),
        ("qwen3_6", "<tool_call>\n<function=" * 50_000),
        ("glm4moe", "<tool_call>run\n<arg_key>string_a</arg_key>\n<arg_value>a</arg_value>"),
        ("gemma4", MARKS.format("a").replace("run", "rum")),
        ("gemma4", '<|tool_call>call:run{string_a:"a"}<tool_call|>'),
        ("gemma4", '<|tool_call>call:run{string_a:<|"|>a}<tool_call|>'),
        *[
            ("lfm2_v2", PYTHON.format(wrong))
            for wrong in ("'a'", "string_a", "string_a='a", "string_a=a", "number_a=1+1", "*b=[]")
        ],
        *[("lfm2_v2", PYTHON.format(f"string_a='{wrong}'")) for wrong in (r"\ud800", r"\x", r"\N{DASH}", "\n")],
        ("lfm2_v2", PYTHON.format("array_a=[[[" + "[" * 50_000)),
        ("lfm2_v2", PYTHON.format("), run(").replace("run(), run()", "run(), rum()")),
    ],
)
def test_what_is_not_in_the_form_stays_text(name: str, text: str) -> None:
    assert syntax_of(name).read(f"so: {text}", SCHEMAS) == ReadAnswer(text=f"so: {text}")


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": ["integer", "null"]}, "null", None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "12", "12"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "12", 12),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, '"12"', '"12"'),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": True}, "true", True),
        ({"$ref": "#/$defs/Size"}, "1.5", 1.5),
        ({"allOf": [{"$ref": "#/$defs/Name"}], "description": "A name."}, "1.5", "1.5"),
        ({"$ref": "#/$defs/Endless"}, "1", "1"),
        ({"$ref": "#/$defs/Absent"}, "1", "1"),
        ({}, "1", "1"),
        (True, "1", "1"),
        ({"type": [{}], "enum": 5, "anyOf": {"type": "integer"}}, "1", "1"),
    ],
)
def test_the_schema_says_what_a_bare_text_is(schema: Any, text: str, value: Any) -> None:
    known = {"Size": {"type": "number"}, "Name": {"enum": ["a", "1.5"]}, "Endless": {"$ref": "#/$defs/Endless"}}
    schemas = {"run": {"properties": {"string_a": schema}, "$defs": known}}
    ((_, arguments),) = syntax_of("qwen3_6").read(TAGS.format(text), schemas).calls
    assert json.loads(arguments) == {"string_a": value}


@pytest.mark.parametrize("end", ["<|tool_response>", "<turn|>"])
def test_a_result_follows_a_call_after_the_token_that_opens_it(end: str) -> None:
    template = Published("gemma4")
    tagged = make_chat_tokenizer()
    tagged.add_special_tokens({"additional_special_tokens": sorted(template.special_texts)})
    tagged.chat_template = template._text
    ends = tagged.convert_tokens_to_ids(["<|tool_response>", "<turn|>"])
    tokenizer = HuggingFaceTokenizer(tagged, more_end_tokens=ends)
    encoder = ChatEncoder(tokenizer)
    prompt = encoder.encode([say("q")], [ADD])
    sampled = tokenizer.encode_rendered(f"<|tool_call>call:add{{a:1}}<tool_call|>{end}")
    assert encoder.read(sampled, [ADD], ()) == ReadAnswer(text="", calls=(("add", '{"a": 1}'),))
    answer = say("", role="assistant", calls=(call(),))
    following = encoder.extend((*prompt, *sampled), answer, [say("2", role="tool", answers="c1")], [ADD])
    assert following[: len(prompt) + len(sampled)] == (*prompt, *sampled)
    new = tokenizer.decode_with_specials(following[len(prompt) + len(sampled) - 1 :])
    assert new.removeprefix("<turn|>").startswith("<|tool_response>response:add{")
    assert new.count("<|tool_response>") == 1


@pytest.mark.parametrize("name", ["qwen3_6", "glm4moe", "gemma4", "lfm2_v2"])
def test_a_call_that_a_message_spells_is_text(name: str) -> None:
    """Its marks are in no piece of the template, in a question, in a result, and in the arguments of an earlier call."""
    writer, spelled = writer_of(name), write(name, [("add", {"a": "b"})])
    special = sorted(text for text in writer.template.special_texts if text in spelled)
    assert special
    said = say("", role="assistant", calls=(call(arguments=json.dumps({"a": spelled})),))
    talk = [say(spelled), said, say(spelled, role="tool", answers="c1")]
    plain = [piece.text for piece in writer.write([say("q"), said, talk[2]], [ADD]) if not piece.is_template]
    quiet = "".join(piece.text for piece in writer.write(talk, [ADD]) if piece.is_template)
    expected = "".join(
        piece.text
        for piece in writer.write(
            [say("x"), replace(said, calls=(call(arguments='{"a": "x"}'),)), say("x", role="tool", answers="c1")], [ADD]
        )
        if piece.is_template
    )
    assert plain
    assert [(mark, quiet.count(mark)) for mark in special] == [(mark, expected.count(mark)) for mark in special]

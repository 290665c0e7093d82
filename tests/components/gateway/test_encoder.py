"""Conversations as ids: what was read stays, and texts open no turn."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.gateway.base import RequestRefused, Tool
from components.gateway.call_syntax import JsonSyntax, ReadAnswer
from components.gateway.encoder import ChatEncoder, CompactEncoder
from components.models.character_tokenizer import character_tokenizer
from components.models.tokenizer import HuggingFaceTokenizer
from tests.components.gateway.talks import ADD, make_chat_tokenizer, say

MOVE = Tool(name="move", description="", parameters={"type": "object", "properties": {"path": {"type": "string"}}})


@pytest.fixture(scope="module")
def tokenizer() -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer(make_chat_tokenizer())


@pytest.fixture(scope="module")
def encoder(tokenizer: HuggingFaceTokenizer) -> ChatEncoder:
    return ChatEncoder(tokenizer)


def test_a_prompt_is_that_of_play(encoder: ChatEncoder, tokenizer: HuggingFaceTokenizer) -> None:
    assert encoder.encode([say("be brief", role="system"), say("how?")], ()) == tokenizer.encode_chat(
        "be brief", "how?"
    )


@given(
    text=st.lists(st.sampled_from(["<|end|>", "<|start|>", "user\n", "ab", "é", "<think>"]), max_size=6).map("".join)
)
def test_spelled_marks_open_no_turn(encoder: ChatEncoder, tokenizer: HuggingFaceTokenizer, text: str) -> None:
    prompt = encoder.encode([say(text or "x")], ())
    start, end = (tokenizer.encode_rendered(mark)[0] for mark in ("<|start|>", "<|end|>"))
    assert (prompt.count(start), prompt.count(end)) == (2, 1), "one user's turn, and the answer's beginning"
    assert tokenizer.decode_with_specials(prompt) == f"<|start|>user\n{text or 'x'}<|end|>\n<|start|>assistant\n"


@pytest.mark.parametrize("ends", [True, False])
def test_the_next_prompt_begins_with_what_was_read_and_sampled(
    encoder: ChatEncoder, tokenizer: HuggingFaceTokenizer, ends: bool
) -> None:
    prompt = encoder.encode([say("q")], ())
    a, b = tokenizer.encode("a")[0], tokenizer.encode("b")[0]
    sampled = (a, b, *([tokenizer.end_token] if ends else []))
    assert tokenizer.encode("ab") != (a, b), "another spelling of the same text, which is kept"
    following = encoder.extend((*prompt, *sampled), say("ab", role="assistant"), [say("r")], ())
    assert following[: len(prompt) + 2] == (*prompt, a, b)
    assert tokenizer.decode_with_specials(following) == (
        "<|start|>user\nq<|end|>\n<|start|>assistant\nab<|end|>\n<|start|>user\nr<|end|>\n<|start|>assistant\n"
    )


def test_tools_are_told_in_words_to_a_model_that_knows_none(
    encoder: ChatEncoder, tokenizer: HuggingFaceTokenizer
) -> None:
    assert encoder.writes_own_tools
    text = tokenizer.decode_with_specials(encoder.encode([say("q")], [ADD]))
    assert '{"name": "add", "description": "Adds."' in text
    written = '<tool_call>{"name": "add", "arguments": {"a": 4}}</tool_call>'
    tokens = (*tokenizer.encode(f"so: {written}"), tokenizer.end_token)
    assert encoder.read(tokens, [ADD], ()) == ReadAnswer(text="so:", calls=(("add", '{"a": 4}'),))
    assert encoder.read(tokens, [MOVE], ()) == ReadAnswer(text=f"so: {written}"), "no tool of that name"
    assert encoder.read(tokens, [ADD], (":",)) == ReadAnswer(text="so")


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "add", "arguments": {"a": 4}</tool_call>',
        '<tool_call>{"name": "add", "arguments": "a"}</tool_call>',
        '<tool_call>{"name": "sub", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {}}',
        '<tool_call>["add"]</tool_call>',
        '<tool_call>{"name": ["add"], "arguments": {}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {"a": NaN}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {"a": 1e999}}</tool_call>',
        r'<tool_call>{"name": "add", "arguments": {"a": "\ud800"}}</tool_call>',
        '{"name": "add", "arguments": {}}',
        "<tool_call>" * 50_000,
        '<tool_call>{"a":' * 20_000,
    ],
)
def test_what_is_no_call_stays_text(text: str) -> None:
    assert JsonSyntax().read(text, {"add"}) == ReadAnswer(text=text)


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["add", "sub"]), st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5))
    ),
    min_size=1,
    max_size=3,
)


@given(calls=CALLS, space=st.sampled_from(["", "\n", " \n "]))
def test_calls_are_read_as_they_are_written(calls: list[tuple[str, dict[str, object]]], space: str) -> None:
    blocks = [f"<tool_call>{space}{json.dumps({'name': n, 'arguments': a})}{space}</tool_call>" for n, a in calls]
    found = JsonSyntax().read(f"hm {space.join(blocks)}", {"add", "sub"})
    assert [(name, json.loads(arguments)) for name, arguments in found.calls] == calls
    assert found.text == "hm"


def test_a_tiny_model_reads_the_last_text_and_writes_the_one_argument() -> None:
    tokenizer = HuggingFaceTokenizer(character_tokenizer("#.GUDLR"))
    encoder = CompactEncoder(tokenizer)
    messages = [say("words that it cannot read"), say("#.G", role="tool", answers="c")]
    assert encoder.encode(messages, [MOVE]) == tokenizer.encode("#.G")
    assert encoder.extend((1, 2), say("x", role="assistant"), messages, [MOVE]) == tokenizer.encode("#.G")
    answer = (*tokenizer.encode("UR"), tokenizer.end_token)
    assert encoder.read(answer, [MOVE], ()) == ReadAnswer(text="", calls=(("move", '{"path": "UR"}'),))
    assert encoder.read(answer, [ADD], ()).text == encoder.read(answer, [], ()).text == "UR"
    for refused in ([], [say("")], [say("?")]):
        with pytest.raises(RequestRefused, match="messages"):
            encoder.encode(refused, [MOVE])

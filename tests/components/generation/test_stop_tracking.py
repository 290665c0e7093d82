"""Where an answer ends by its text: at stop strings over token borders and split characters, and by its thinking."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from components.errors import ConfigurationError
from components.generation.base import GenerationRequest, before_stop
from components.generation.stop_tracking import StopTracker
from components.models.character_tokenizer import character_tokenizer
from components.models.tokenizer import HuggingFaceTokenizer
from tests.components.generation.tiny_models import make_tagged_tokenizer

TOKENIZER = HuggingFaceTokenizer(make_tagged_tokenizer())
END = TOKENIZER.end_token
THINK, UNTHINK = (make_tagged_tokenizer().convert_tokens_to_ids(tag) for tag in ("<think>", "</think>"))


def ids(text: str) -> list[int]:
    """One token a byte, "ab" and each tag."""
    return list(make_tagged_tokenizer().encode(text, add_special_tokens=False))


def request(prompt: Sequence[int] = (5,), **settings: Any) -> GenerationRequest:
    values: dict[str, Any] = {"max_new_tokens": 10**6, "seeds_K": (0,), "temperature": 1.0, **settings}
    return GenerationRequest(prompt_tokens=tuple(prompt), **values)


def length_of(
    tokens: Sequence[int], asked: GenerationRequest, tokenizer: HuggingFaceTokenizer = TOKENIZER
) -> tuple[int, bool]:
    """How many of the tokens the answer has, and whether a stop string ended it."""
    answer = StopTracker(asked, tokenizer)
    for token in tokens:
        assert not answer.is_over
        assert 1 <= answer.remaining <= asked.longest_answer - answer.num_tokens
        answer.add(token)
        if answer.is_over or token == tokenizer.end_token:
            break
    return answer.num_tokens, answer.is_stopped


@pytest.mark.parametrize(
    ("text", "stop", "num_tokens", "read"),
    [
        ("xaby", ("ab",), 2, "x"),
        ("xaby", ("xa",), 2, ""),
        ("xaby", ("b",), 2, "xa"),
        ("x\ny\n\nz", ("\n\n",), 5, "x\ny"),
        ("aéb", ("é",), 3, "a"),
        ("a€uro€ b", ("€ ",), 11, "a€uro"),
        ("日本語。本", ("。", "語本"), 12, "日本語"),
        ("xaby", ("q", "aby", "ab"), 2, "x"),
        ("xabyab", ("by",), 3, "xa"),
        ("xx日本語です", ("日本語です",), 17, "xx"),
        ("none", ("never",), 4, "none"),
    ],
)
def test_an_answer_ends_with_the_token_that_completes_a_string(
    text: str, stop: tuple[str, ...], num_tokens: int, read: str
) -> None:
    tokens = ids(text)
    found, stopped = length_of(tokens, request(stop=stop))
    assert (found, stopped) == (num_tokens, text != "none")
    assert before_stop(TOKENIZER.decode(tokens[:found]), stop) == read


def whole_length(
    tokens: Sequence[int], asked: GenerationRequest, tokenizer: HuggingFaceTokenizer = TOKENIZER
) -> tuple[int, bool]:
    """The rule itself: every prefix is decoded from its beginning."""
    opened, closed_at = False, None
    for num_tokens in range(1, len(tokens) + 1):
        text = tokenizer.decode(tokens[:num_tokens])
        opened = opened or text.lstrip().startswith("<think>")
        if opened and closed_at is None and "</think>" in text:
            closed_at = num_tokens
        limit = asked.max_new_tokens
        if asked.max_thinking_tokens is not None and opened:
            limit = asked.max_thinking_tokens if closed_at is None else closed_at + asked.max_new_tokens
        stopped = any(string in text for string in asked.stop)
        if stopped or num_tokens >= limit or tokens[num_tokens - 1] == tokenizer.end_token:
            return num_tokens, stopped
    return len(tokens), False


pieces = st.sampled_from([*"ab <>/tx\n", "é", "日", "<think>", "</think>", "ab"])
raw_tokens = st.one_of(st.integers(0, 257), st.integers(270, 280), st.sampled_from([THINK, UNTHINK, END]))
streams = st.one_of(st.lists(pieces, max_size=30).map("".join).map(ids), st.lists(raw_tokens, max_size=40))
stops = st.lists(st.lists(pieces, min_size=1, max_size=3).map("".join), max_size=3, unique=True).map(tuple)
budgets = st.one_of(st.none(), st.integers(2, 12))


@given(tokens=streams, stop=stops, thinking=budgets, limit=st.integers(1, 12))
def test_looking_at_the_newest_tokens_finds_what_reading_everything_finds(
    tokens: list[int], stop: tuple[str, ...], thinking: int | None, limit: int
) -> None:
    asked = request(stop=stop, max_thinking_tokens=thinking, max_new_tokens=limit)
    assert length_of(tokens, asked) == whole_length(tokens, asked)


def test_tokens_without_text_may_lie_between_those_of_a_string() -> None:
    unknown = 275  # a model may have more ids than its tokenizer
    tokens = [*ids("xa"), *[unknown] * 20, *ids("b")]
    assert length_of(tokens, request(stop=("xab",))) == (23, True)


def make_joining_tokenizer(decoder: Any, *pieces: str) -> HuggingFaceTokenizer:
    """A tokenizer of a few pieces that its decoder joins."""
    backend = Tokenizer(models.WordLevel({piece: number for number, piece in enumerate(pieces)}, unk_token=pieces[0]))
    backend.decoder = decoder
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    tokenizer.add_special_tokens({"eos_token": "<|end|>"})
    return HuggingFaceTokenizer(tokenizer)


METASPACE = make_joining_tokenizer(decoders.Metaspace(), "x", "▁", "y", "▁x")
WORDPIECE = make_joining_tokenizer(decoders.WordPiece(cleanup=False), "x", "##x", "##y", "y")


@given(
    tokenizer=st.sampled_from([METASPACE, WORDPIECE]),
    tokens=st.lists(st.integers(0, 3), max_size=40),
    stop=st.lists(st.sampled_from(["#", "##x", " x", " ", "xy", " y x", "xyyx", "x x"]), max_size=2, unique=True),
)
def test_decoders_that_read_the_first_token_otherwise_do_not_mislead(
    tokenizer: HuggingFaceTokenizer, tokens: list[int], stop: list[str]
) -> None:
    asked = request(stop=tuple(stop))
    assert length_of(tokens, asked, tokenizer) == whole_length(tokens, asked, tokenizer)


@pytest.mark.parametrize(
    ("text", "num_tokens"),
    [
        ("<think>abc</think>xyz", 6),  # closed within 4, then 2
        ("<think>xx</think>xyz", 6),  # closed at exactly 4
        ("<think>xxx</think>xyz", 4),  # would close at 5
        ("<think>xxxxxxx", 4),  # never closed
        ("<think></think>x</think>yz", 4),  # closed twice: the second is part of the answer
        ("<think></think><think>xyz", 4),  # thinks again: part of the answer
        ("xyz<think>abc</think>", 2),  # does not begin with it
        ("x</think>yz", 2),
        (" <think>x</think>xyz", 6),
        ("\n\nxyz", 2),
        ("<think>x</think>y", 4),  # shorter than it may be
    ],
)
def test_thinking_has_a_budget_and_the_answer_after_it_its_own(text: str, num_tokens: int) -> None:
    found, stopped = length_of(ids(text), request(max_thinking_tokens=4, max_new_tokens=2))
    assert (found, stopped) == (num_tokens, False)


def test_thinking_that_the_prompt_opened_counts_from_the_first_token() -> None:
    opened = TOKENIZER.encode_chat("", "x", {"thinking": True})
    asked = request(opened, max_thinking_tokens=4, max_new_tokens=2)
    assert StopTracker(asked, TOKENIZER).limit == 4
    assert length_of(ids("xyz</think>abyz"), asked) == (6, False)
    assert length_of(ids("xyzxyz"), asked) == (4, False)
    closed = TOKENIZER.encode_chat("", "x", {"thinking": False})
    assert length_of(ids("xyzxyz"), request(closed, max_thinking_tokens=4, max_new_tokens=2)) == (2, False)


def test_a_stop_string_ends_thinking_too() -> None:
    asked = request(stop=("ab",), max_thinking_tokens=9, max_new_tokens=9)
    assert length_of(ids("<think>xabx</think>"), asked) == (3, True)


def test_what_no_text_of_an_answer_holds_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"agents\.<role>\.stop '<\|end\|>': it is a special token .*remove it"
    ):
        StopTracker(request(stop=("x", "<|end|>")), TOKENIZER)
    special = make_tagged_tokenizer()
    special.add_special_tokens({"additional_special_tokens": ["</think>"]})
    with pytest.raises(ConfigurationError, match=r"max_thinking_tokens 5: </think> is a special token .*leave it out"):
        StopTracker(request(max_thinking_tokens=5), HuggingFaceTokenizer(special))


def test_a_budget_that_the_tags_alone_exceed_is_refused() -> None:
    """One token a tag here, one a character in a tokenizer of characters."""
    StopTracker(request(max_thinking_tokens=2), TOKENIZER)
    with pytest.raises(ConfigurationError, match=r"max_thinking_tokens 1: .* alone are 2 tokens .*at least 2"):
        StopTracker(request(max_thinking_tokens=1), TOKENIZER)
    plain = HuggingFaceTokenizer(character_tokenizer("<think>/xy"))
    StopTracker(request(max_thinking_tokens=15), plain)
    with pytest.raises(ConfigurationError, match=r"max_thinking_tokens 14: .* alone are 15 tokens"):
        StopTracker(request(max_thinking_tokens=14), plain)


def test_a_request_without_either_reads_no_text() -> None:
    assert not request().ends_by_text
    assert request(stop=("x",)).ends_by_text
    assert request(max_thinking_tokens=1).ends_by_text

"""Text to bytes and back, without loss."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.generation.api.tokenizer import ByteTokenizer

TOKENIZER = ByteTokenizer()
any_text = st.text(st.characters(exclude_categories=["Cs"]))


def test_tokens_are_the_bytes_of_utf_8_and_two_more() -> None:
    assert TOKENIZER.encode("é\n") == (195, 169, 10)
    assert TOKENIZER.encode_chat("Hi", "a") == (72, 105, 257, 97)
    assert TOKENIZER.end_token == 256


@settings(deadline=None)
@given(any_text)
def test_every_text_comes_back(text: str) -> None:
    tokens = TOKENIZER.encode(text)
    assert TOKENIZER.decode(tokens) == text
    assert all(0 <= token < 256 for token in tokens)
    assert TOKENIZER.encode_answer(text, ended=True) == (*tokens, TOKENIZER.end_token)
    assert TOKENIZER.encode_answer(text, ended=False) == tokens


@settings(deadline=None)
@given(any_text, any_text)
def test_instructions_and_state_are_kept_apart(instructions: str, state: str) -> None:
    tokens = TOKENIZER.encode_chat(instructions, state)
    assert TOKENIZER.split(tokens) == (instructions, state)
    assert TOKENIZER.decode(tokens) == instructions + state
    assert TOKENIZER.split(TOKENIZER.encode(state)) == ("", state)


@settings(deadline=None)
@given(st.lists(st.integers(0, 257)))
def test_any_tokens_have_a_text(tokens: list[int]) -> None:
    TOKENIZER.decode(tokens).encode()


def test_half_a_surrogate_pair_is_refused_in_a_prompt_and_replaced_in_an_answer() -> None:
    with pytest.raises(ConfigurationError, match=r"ud83d.*position 1"):
        TOKENIZER.encode("a\ud83d")
    assert TOKENIZER.decode(TOKENIZER.encode_answer("a\ud83db\ud83d\ude00", ended=True)) == "a�b😀"

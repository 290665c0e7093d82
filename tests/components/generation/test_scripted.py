"""The fake engine keeps the generator's contract."""

from pathlib import Path

import pytest

from components.errors import ConfigurationError, StaleEngine
from components.generation.base import GenerationRequest
from components.schema import PolicyVersion
from tests.components.generation.scripted import CharacterTokenizer, ScriptedGenerator

VERSION = PolicyVersion(policy="p", step=3, weights_digest="d")
TOKENIZER = CharacterTokenizer("abc0123456789")


def request(prompt: str, seeds: tuple[int, ...], limit: int = 9, temperature: float = 1.0) -> GenerationRequest:
    return GenerationRequest(
        prompt_tokens=TOKENIZER.encode(prompt), seeds_K=seeds, max_new_tokens=limit, temperature=temperature
    )


def engine() -> ScriptedGenerator:
    return ScriptedGenerator(lambda prompt, seed: f"{prompt}{seed}", TOKENIZER, VERSION)


def test_answers_depend_on_prompt_and_seed_and_end_with_the_end_token() -> None:
    first, second = engine().generate([request("a", (1, 2)), request("b", (3,))], VERSION)
    assert [TOKENIZER.decode(c.tokens) for c in (*first, *second)] == ["a1", "a2", "b3"]
    assert all(c.tokens[-1] == TOKENIZER.end_token and c.finish_reason == "stop" for c in (*first, *second))
    assert {c.version for c in first} == {VERSION}


def test_the_limit_counts_the_end_token() -> None:
    whole, cut = (engine().generate([request("abc", (1,), limit)], VERSION)[0][0] for limit in (5, 4))
    assert (whole.finish_reason, len(whole.tokens)) == ("stop", 5)
    assert (cut.finish_reason, TOKENIZER.decode(cut.tokens), len(cut.tokens)) == ("length", "abc1", 4)


def test_greedy_does_not_look_at_the_seeds() -> None:
    (answers,) = engine().generate([request("a", (1, 2), temperature=0.0)], VERSION)
    assert [TOKENIZER.decode(c.tokens) for c in answers] == ["a0", "a0"]


def test_logprobs_are_negative_and_equal_those_of_scoring() -> None:
    (answers,) = engine().generate([request("a", (1, 20))], VERSION)
    assert all(value < 0 for c in answers for value in c.logprobs)
    assert [c.logprobs for c in answers] == engine().score([(1,), (1,)], [c.tokens for c in answers])


def test_another_version_is_stale_until_it_is_loaded() -> None:
    newer = PolicyVersion(policy="p", step=4, weights_digest="e")
    held = engine()
    with pytest.raises(StaleEngine, match="step=4"):
        held.generate([request("a", (1,))], newer)
    held.load(Path("nowhere"), newer)
    assert held.version == newer
    assert len(held.generate([request("a", (1,))], newer)) == 1
    with pytest.raises(StaleEngine):
        ScriptedGenerator(lambda prompt, seed: "", TOKENIZER).generate([], VERSION)


def test_the_tokenizer_is_one_token_a_character() -> None:
    assert TOKENIZER.encode("9") == (13,)
    assert TOKENIZER.encode("cab") == (3, 1, 2)
    assert TOKENIZER.decode((3, 1, 2, 0)) == "cab"
    assert TOKENIZER.encode_chat("a", "b") == (1, 2)
    with pytest.raises(ConfigurationError, match="'z'"):
        TOKENIZER.encode("az")

"""What an engine keeps of prompts changes no bit of an answer, is bounded, and is that of the weights it holds."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.config import TransformersGeneration
from components.generation.base import GenerationRequest
from components.generation.local.engine import TransformersGenerator
from components.generation.local.prefix_cache import BLOCK_TOKENS, PrefixCache
from components.schema import PolicyVersion
from tests.components.generation.tiny_models import full_logprobs, random_model, save_model

MOST_TOKENS = 5 * BLOCK_TOKENS - 7
"""No whole number of blocks: a block's padding has no positions."""


@pytest.fixture(scope="module", params=["qwen3-float32", "llama-float32", "qwen3-bfloat16"])
def loaded(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[TransformersGenerator, PolicyVersion, Any]:
    family, dtype = request.param.split("-")
    return load(tmp_path_factory.mktemp("model"), family=family, dtype=dtype)


def load(folder: Path, *, seed: int = 3, family: str = "qwen3", **config: Any) -> tuple[Any, PolicyVersion, Any]:
    model = random_model(seed=seed, family=family)
    model.config.max_position_embeddings = MOST_TOKENS
    version = save_model(model, folder)
    engine = TransformersGenerator(TransformersGeneration(**config))
    engine.load(folder, version)
    return engine, version, model


def make_request(prompt: tuple[int, ...], seed: int = 5) -> GenerationRequest:
    return GenerationRequest(prompt_tokens=prompt, seeds_K=(seed,), max_new_tokens=6, temperature=1.0)


tokens = st.integers(0, 10)
prompts = st.lists(tokens, min_size=1, max_size=MOST_TOKENS - 6).map(tuple)


@settings(max_examples=20)
@given(prompt=prompts, data=st.data())
def test_an_answer_is_the_same_to_the_bit_whatever_was_read_before(
    loaded: Any, prompt: Any, data: st.DataObject
) -> None:
    engine, version, _ = loaded
    request = make_request(prompt)
    engine.forget_prefixes()
    cold = engine.generate_on_kept([request], version)
    engine.forget_prefixes()
    for _ in range(data.draw(st.integers(1, 4))):
        shared = prompt[: data.draw(st.integers(0, len(prompt)))]
        other = (shared + tuple(data.draw(st.lists(tokens, min_size=1, max_size=90))))[: MOST_TOKENS - 6]
        engine.generate_on_kept([make_request(other, seed=1)], version)
    assert engine.generate_on_kept([request], version) == cold
    assert engine.generate_on_kept([request], version) == cold


def test_answers_are_the_model_s(loaded: Any) -> None:
    engine, version, model = loaded
    prompt = tuple(number * number % 11 for number in range(200))
    ((completion,),) = engine.generate_on_kept([make_request(prompt)], version)
    expected = full_logprobs(model, prompt, completion.tokens)
    assert completion.logprobs == pytest.approx(expected, abs=0.2 if "bfloat16" in str(engine._dtype) else 1e-5)


def test_requests_together_share_what_was_read(loaded: Any) -> None:
    engine, version, _ = loaded
    begun = tuple(number * 7 % 11 for number in range(150))
    requests = [make_request((*begun, number), seed=number) for number in range(5)]
    alone = [engine.generate_on_kept([request], version)[0] for request in requests]
    together = engine.generate_on_kept(requests, version)
    for one, other in zip(alone, together, strict=True):
        assert other[0].logprobs == pytest.approx(
            one[0].logprobs, abs=0.2 if "bfloat16" in str(engine._dtype) else 1e-5
        )


def test_a_prompt_costs_what_is_new_in_it(loaded: Any) -> None:
    engine, version, _ = loaded
    engine.forget_prefixes()
    fed: list[int] = []

    def count(module: Any, args: Any, kwargs: Any) -> None:
        fed.append(kwargs["input_ids"].numel())

    hook = engine._model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        prompt = (4,) * (3 * BLOCK_TOKENS + 5)
        engine.generate_on_kept([make_request(prompt)], version)
        assert fed[:4] == [BLOCK_TOKENS] * 4
        del fed[:]
        engine.generate_on_kept([make_request((*prompt, 3, 2))], version)
        assert fed[:2] == [BLOCK_TOKENS, 1], "the block with the last token alone"
    finally:
        hook.remove()


def test_other_weights_have_read_nothing(tmp_path: Path) -> None:
    engine, version, _ = load(tmp_path / "a")
    request = make_request((4,) * 200)
    before = engine.generate_on_kept([request], version)
    fresh, other, _ = load(tmp_path / "b", seed=4)
    engine.load(tmp_path / "b", other)
    assert engine.generate_on_kept([request], other) == fresh.generate_on_kept([request], other)
    engine.load(tmp_path / "a", version)
    assert engine.generate_on_kept([request], version) == before


@given(
    texts=st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4), min_size=1, max_size=12), most=st.integers(0, 6)
)
def test_what_is_kept_is_bounded_and_begins_its_prompts(texts: list[list[int]], most: int) -> None:
    import torch

    block = (torch.zeros(1, 1, BLOCK_TOKENS, 1), torch.zeros(1, 1, BLOCK_TOKENS, 1))
    size = sum(each.nbytes for each in block)
    cache = PrefixCache(most * size)
    for text in texts:
        prompt = [token for number in text for token in (number,) * BLOCK_TOKENS]
        cache.keep(prompt, [block] * len(text))
        assert cache.num_bytes <= most * size
        assert len(cache.find([*prompt, 1])) == min(len(text), most), (
            "of the last prompt its beginning, as far as it fits"
        )

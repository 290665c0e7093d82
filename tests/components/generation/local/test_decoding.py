"""The in-process engine against plain `generate` and whole forwards, with more work than places."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from components.errors import ConfigurationError
from components.generation.base import GenerationRequest
from components.generation.local.engine import TransformersGenerator
from tests.components.generation.tiny_models import full_logprobs, random_model, save_model
from tests.sections import choose_generation

END = 1
WIDE = 65536


def engine_of(model: Any, folder: Path, *, max_batch_tokens: int = WIDE) -> Any:
    """What completes requests with `model`'s weights, and the engine behind it."""
    version = save_model(model, folder)
    engine = TransformersGenerator(choose_generation(max_batch_tokens=max_batch_tokens))
    engine.load(folder, version)
    return engine, lambda requests: engine.generate(requests, version)


def uneven(seed: int, *, prompt: tuple[int, int] = (1, 40), temperature: float = 1.0) -> list[GenerationRequest]:
    """Prompts and limits of very different lengths, up to 64 tokens in all."""
    rng = Random(seed)
    return [
        GenerationRequest(
            prompt_tokens=tuple(rng.randrange(2, 11) for _ in range(rng.randint(*prompt))),
            seeds_K=tuple(rng.randrange(2**63) for _ in range(rng.randint(1, 6))),
            max_new_tokens=rng.randint(1, 16),
            temperature=temperature,
        )
        for _ in range(8)
    ]


@contextmanager
def count_fed(model: Any) -> Iterator[list[int]]:
    """How many tokens each forward within the block is fed."""
    fed: list[int] = []
    hook = model.register_forward_pre_hook(
        lambda module, args, kwargs: fed.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    try:
        yield fed
    finally:
        hook.remove()


def alike(requests: list[GenerationRequest]) -> list[GenerationRequest]:
    """Requests of which some begin with the same twelve tokens, one is another's beginning and the last repeats the first."""
    shared = (7, 3) * 6
    some = [replace(request, prompt_tokens=shared + request.prompt_tokens[:-12]) for request in requests[::2]]
    return [*some, *requests[1::2], replace(requests[0], prompt_tokens=shared[:5]), some[0]]


def count_needed(requests: list[GenerationRequest], groups: Any, *, enter_together: bool) -> int:
    """Each distinct prompt once, or each distinct beginning of one, and every sampled token but each answer's last."""
    prompts = {request.prompt_tokens for request in requests}
    beginnings = {prompt[: length + 1] for prompt in prompts for length in range(len(prompt))}
    num_prompt_tokens = len(beginnings) if enter_together else sum(map(len, prompts))
    return num_prompt_tokens + sum(len(completion.tokens) - 1 for group in groups for completion in group)


@pytest.mark.parametrize("max_batch_tokens", [WIDE, 150])
@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_logprobs_equal_a_whole_forward_however_little_room_there_is(
    tmp_path: Path, family: str, max_batch_tokens: int
) -> None:
    model = random_model(seed=21, family=family)
    _, generate = engine_of(model, tmp_path, max_batch_tokens=max_batch_tokens)
    requests = alike(uneven(22))
    lengths = set()
    for request, group in zip(requests, generate(requests), strict=True):
        for completion in group:
            lengths.add(len(completion.tokens))
            expected = full_logprobs(model, request.prompt_tokens, completion.tokens)
            assert completion.logprobs == pytest.approx(expected, abs=1e-4)
    assert len(lengths) > 6, "places must fall free one by one, or refilling is not exercised"


@pytest.mark.parametrize("max_batch_tokens", [200, 64])
def test_candidates_are_the_same_however_little_room_there_is(tmp_path: Path, max_batch_tokens: int) -> None:
    model = random_model(seed=23)
    requests = uneven(24)
    _, wide = engine_of(model, tmp_path)
    _, narrow = engine_of(model, tmp_path, max_batch_tokens=max_batch_tokens)
    tokens = [
        [[completion.tokens for completion in group] for group in generate(requests)] for generate in (wide, narrow)
    ]
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize("max_batch_tokens", [WIDE, 150])
def test_no_token_is_computed_that_is_not_needed(tmp_path: Path, max_batch_tokens: int) -> None:
    engine, generate = engine_of(random_model(seed=25), tmp_path, max_batch_tokens=max_batch_tokens)
    together = max_batch_tokens == WIDE
    requests = alike(uneven(26)) if together else [*(some := uneven(26)), some[0]]
    with count_fed(engine._model) as fed:
        groups = generate(requests)
    assert sum(fed) == count_needed(requests, groups, enter_together=together)


def test_a_single_place_serves_all_candidates_one_after_the_other(tmp_path: Path) -> None:
    model = random_model(seed=27)
    engine, generate = engine_of(model, tmp_path, max_batch_tokens=64)
    request = GenerationRequest(prompt_tokens=(3,) * 40, seeds_K=tuple(range(9)), max_new_tokens=24, temperature=1.0)
    with count_fed(engine._model) as fed:
        (group,) = generate([request])
    assert fed == [40] + [1] * sum(len(completion.tokens) - 1 for completion in group)
    _, wide = engine_of(model, tmp_path)
    assert [c.tokens for c in group] == [c.tokens for c in wide([request])[0]]


def test_a_place_that_falls_free_is_filled_in_the_next_step(tmp_path: Path) -> None:
    """Two places and, longest first, answers of 4, 3 and 2 tokens: the last comes in when the second has gone."""
    engine, _ = engine_of(random_model(), tmp_path, max_batch_tokens=64)
    prompts = [tuple([token] * 20) for token in (2, 3, 4)]
    with count_fed(engine._model) as fed:
        engine.score(prompts, [(5,) * 4, (6,) * 2, (7,) * 3])
    assert fed == [40, 2, 2, 1 + 20, 1], "the last prompt is fed together with the first answer's last token"


def test_greedy_equals_plain_generate_on_left_padded_prompts_of_any_length(tmp_path: Path) -> None:
    model = random_model(seed=28)
    _, generate = engine_of(model, tmp_path, max_batch_tokens=200)
    rng = Random(29)
    prompts = [tuple(rng.randrange(2, 11) for _ in range(rng.randint(1, 30))) for _ in range(12)]
    width = max(map(len, prompts))
    ids = torch.tensor([(0,) * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    expected = model.generate(ids, attention_mask=mask, max_new_tokens=16, do_sample=False)[:, width:].tolist()
    requests = [GenerationRequest(prompt_tokens=p, seeds_K=(0,), max_new_tokens=16, temperature=0.0) for p in prompts]
    for (completion,), row in zip(generate(requests), expected, strict=True):
        assert completion.tokens == tuple(row[: row.index(END) + 1] if END in row else row)


def test_a_call_with_too_little_room_repeats_every_bit(tmp_path: Path) -> None:
    _, generate = engine_of(random_model(seed=30), tmp_path, max_batch_tokens=200)
    assert generate(uneven(31)) == generate(uneven(31))


@pytest.mark.parametrize(("trait", "value"), [("_supports_attention_backend", False), ("_is_stateful", True)])
def test_a_model_of_which_attention_is_not_all_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trait: str, value: bool
) -> None:
    model = random_model()
    monkeypatch.setattr(type(model), trait, value)
    with pytest.raises(ConfigurationError, match=r"has state or no attention that can be replaced: .*vllm"):
        engine_of(model, tmp_path)


def test_attention_with_more_than_a_softmax_is_refused(tmp_path: Path) -> None:
    engine, generate = engine_of(random_model(), tmp_path)
    engine._model.model.layers[1].self_attn.sliding_window = 8
    with pytest.raises(ConfigurationError, match="sliding_window"):
        generate(uneven(0))

"""Stop strings and thinking budgets in the engine: its answers are those without them, cut where the rule says."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from components.generation.base import Completion, GenerationRequest
from components.generation.local.engine import TransformersGenerator
from components.generation.stop_tracking import StopTracker
from components.models.digests import model_digest
from components.models.model_folder import write_model_folder
from components.schema import PolicyVersion
from tests.components.generation.tiny_models import make_tagged_tokenizer, random_model
from tests.sections import choose_generation

SEEDS = tuple(range(60))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> tuple[TransformersGenerator, PolicyVersion, Any]:
    """An engine whose model writes few letters and many tags."""
    folder = tmp_path_factory.mktemp("tags")
    tokenizer = make_tagged_tokenizer("abxĠ")
    model = random_model(vocab_size=len(tokenizer))
    write_model_folder(model, tokenizer, folder)
    version = PolicyVersion(policy="team", step=0, weights_digest=model_digest(model))
    engine = TransformersGenerator(choose_generation())
    engine.load(folder, version)
    return engine, version, model


def request(prompt: tuple[int, ...] = (0, 1), **settings: Any) -> GenerationRequest:
    values: dict[str, Any] = {"max_new_tokens": 24, "seeds_K": SEEDS, "temperature": 2.0, **settings}
    return GenerationRequest(prompt_tokens=prompt, **values)


def cut(free: Completion, asked: GenerationRequest, engine: TransformersGenerator) -> Completion:
    """What of a longer answer the request asks for."""
    answer, end_tokens = StopTracker(asked, engine.tokenizer), engine.tokenizer.end_tokens
    for token in free.tokens:
        answer.add(token)
        if answer.is_over or token in end_tokens:
            break
    kept = free.tokens[: answer.num_tokens]
    ended = answer.is_stopped or kept[-1] in end_tokens
    return Completion(
        tokens=kept,
        logprobs=free.logprobs[: len(kept)],
        finish_reason="stop" if ended else "length",
        version=free.version,
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"stop": ("bab", "xx")},
        {"stop": ("x<th",), "temperature": 0.0, "prompt": (2, 3)},
        {"max_thinking_tokens": 2, "max_new_tokens": 8, "temperature": 0.0, "prompt": (4, 3)},  # thinks after 3 spaces
        {"max_thinking_tokens": 8, "max_new_tokens": 3},
        {"max_thinking_tokens": 3, "max_new_tokens": 8, "stop": ("aab",)},
    ],
)
def test_answers_are_the_free_ones_up_to_their_end(
    engine: tuple[TransformersGenerator, PolicyVersion, Any], settings: dict[str, Any]
) -> None:
    generator, version, _ = engine
    asked = request(**settings)
    free = replace(asked, stop=(), max_thinking_tokens=None, max_new_tokens=24)
    plain = request(seeds_K=SEEDS[:3], prompt=(2,), max_new_tokens=9)
    (long,), (found, beside) = generator.generate([free], version), generator.generate([asked, plain], version)
    assert [c.tokens for c in found] == [cut(each, asked, generator).tokens for each in long]
    assert [c.finish_reason for c in found] == [cut(each, asked, generator).finish_reason for each in long]
    alone = generator.generate([plain], version)[0]
    assert [c.tokens for c in beside] == [c.tokens for c in alone], "a request beside it is as it is alone"
    assert any(len(c.tokens) < len(each.tokens) for c, each in zip(found, long, strict=True))


def test_both_reasons_and_all_kinds_of_thinking_occur(
    engine: tuple[TransformersGenerator, PolicyVersion, Any],
) -> None:
    generator, version, model = engine
    asked = request(max_thinking_tokens=6, max_new_tokens=3)
    (found,) = generator.generate([asked], version)
    texts = [generator.tokenizer.decode(c.tokens) for c in found]
    assert {c.finish_reason for c in found} == {"stop", "length"}
    assert any(t.startswith("<think>") and "</think>" in t for t in texts)
    assert any(t.startswith("<think>") and "</think>" not in t for t in texts)
    assert any(not t.startswith("<think>") for t in texts)
    longest = max(found, key=lambda c: len(c.tokens))
    assert 3 < len(longest.tokens) <= 9
    with torch.no_grad():
        logits = model(torch.tensor([asked.prompt_tokens + longest.tokens])).logits[
            0, len(asked.prompt_tokens) - 1 : -1
        ]
    expected = (logits / 2.0).log_softmax(-1).gather(1, torch.tensor(longest.tokens)[:, None])[:, 0]
    assert longest.logprobs == pytest.approx(expected.tolist(), abs=1e-4), "what was sampled is what is scored"

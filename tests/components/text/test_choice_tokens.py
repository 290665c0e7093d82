"""Answers by choice: the sampler, the trainer and an independent count of the same distribution agree."""

import math
from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.generation.base import GenerationRequest
from components.generation.local.engine import TransformersGenerator
from components.identity import GroupKey
from components.schema import TrainGroup
from components.text.choice_tokens import Choices, list_allowed_tokens
from components.training.forward import completion_logprobs, logprobs_and_entropies
from components.training.packing import pack_groups
from tests.components.generation.tiny_models import random_model, save_model
from tests.sections import choose_generation

END = 1
CHOICES = ((5, END), (5, 7, END), (8, END))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Any:
    model, folder = random_model(), tmp_path_factory.mktemp("model")
    version = save_model(model, folder)
    engine = TransformersGenerator(choose_generation())
    engine.load(folder, version)
    return engine, version, model


@given(
    st.sets(st.lists(st.integers(3, 6), min_size=1, max_size=4).map(tuple), min_size=1, max_size=6).map(
        lambda answers: tuple((*answer, END) for answer in sorted(answers))
    )
)
def test_the_product_of_the_conditionals_is_a_distribution_over_the_choices(choices: Choices) -> None:
    """With the same odds for each allowed token, the probabilities of all choices add to 1."""
    total = sum(math.prod(1 / len(allowed) for allowed in list_allowed_tokens(choices, choice)) for choice in choices)
    assert total == pytest.approx(1)


def _group(choices: Choices = CHOICES) -> TrainGroup:
    return TrainGroup(
        group=GroupKey(problem_id="p", episode=0, turn=0, agent="a"),
        prompt_tokens=(4, 9),
        completions_K_T=CHOICES,
        sampler_logprobs_K_T=tuple((0.0,) * len(choice) for choice in CHOICES),
        advantages_K=(1.0, -1.0, 0.5),
        choices=choices,
    )


def test_the_trainer_renormalises_over_the_tokens_that_continue_a_choice(engine: Any) -> None:
    _, _, model = engine
    (packed,) = pack_groups([_group()], tokens_per_micro_batch=64, share_prompts=True)
    found, entropies = logprobs_and_entropies(model, packed, temperature=0.7, entropy_gradient=True)
    expected, expected_entropies = [], []
    for choice in CHOICES:
        for place, allowed in enumerate(list_allowed_tokens(CHOICES, choice)):
            tokens = torch.tensor([[4, 9, *choice[:place]]])
            logits = model(tokens).logits[0, -1].double() / 0.7
            among = logits[list(allowed)].log_softmax(-1)
            expected.append(among[allowed.index(choice[place])].item())
            expected_entropies.append(-(among.exp() * among).sum().item())
    assert found.tolist() == pytest.approx(expected, abs=1e-5)
    assert entropies.tolist() == pytest.approx(expected_entropies, abs=1e-5)
    only = [len(allowed) == 1 for choice in CHOICES for allowed in list_allowed_tokens(CHOICES, choice)]
    assert [value == 0 for value in found.tolist()] == only


def test_groups_with_and_without_choices_share_a_micro_batch(engine: Any) -> None:
    _, _, model = engine
    both = [_group(), replace(_group(()), prompt_tokens=(6, 6))]
    (packed,) = pack_groups(both, tokens_per_micro_batch=64, share_prompts=True)
    together = completion_logprobs(model, packed, temperature=1.0)
    alone = {}
    for number, group in enumerate(both):
        (one,) = pack_groups([group], tokens_per_micro_batch=64, share_prompts=True)
        alone[number] = completion_logprobs(model, one, temperature=1.0).tolist()
    for number in (0, 1):
        of_group = torch.from_numpy(packed.groups_N == number)
        assert together[of_group].tolist() == pytest.approx(alone[number], abs=1e-5)


def test_samples_are_choices_with_the_trainers_probabilities(engine: Any) -> None:
    generator, version, model = engine
    num = 4000
    requests = [
        GenerationRequest(
            prompt_tokens=(4, 9), seeds_K=tuple(range(num)), max_new_tokens=3, temperature=1.0, choices=CHOICES
        ),
        GenerationRequest(prompt_tokens=(4, 9), seeds_K=(1, 2), max_new_tokens=3, temperature=1.0),
        GenerationRequest(prompt_tokens=(4, 9), seeds_K=(1,), max_new_tokens=3, temperature=0.0, choices=CHOICES),
    ]
    drawn, free, (greedy,) = generator.generate(requests, version)
    (packed,) = pack_groups([_group()], tokens_per_micro_batch=64, share_prompts=True)
    logprobs = completion_logprobs(model, packed, temperature=1.0).tolist()
    parts = [logprobs[:2], logprobs[2:5], logprobs[5:]]
    counts = Counter(each.tokens for each in drawn)
    assert set(counts) <= set(CHOICES)
    for choice, part in zip(CHOICES, parts, strict=True):
        chance = math.exp(sum(part))
        assert counts[choice] == pytest.approx(num * chance, abs=4 * math.sqrt(num * chance * (1 - chance)) + 1)
        for each in drawn:
            if each.tokens == choice:
                assert each.logprobs == pytest.approx(part, abs=1e-5)
                assert each.finish_reason == "stop"
                break
    for one, alone in zip(free, generator.generate(requests[1:2], version)[0], strict=True):
        assert one.tokens == alone.tokens
        assert one.logprobs == pytest.approx(alone.logprobs, abs=1e-5)
    best = {}
    for token in {choice[0] for choice in CHOICES}:
        best[token] = generator.score([(4, 9)], [(token,)])[0][0]
    assert greedy.tokens[0] == max(best, key=best.get)
    assert sum(counts.values()) == len(list(chain(drawn))) == num

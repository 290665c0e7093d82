"""The engine equals a plain forward on small random models of many architectures."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from components.errors import ConfigurationError
from components.generation.base import GenerationRequest
from components.generation.local.engine import TransformersGenerator
from components.generation.local.self_test import check_engine
from components.models.character_tokenizer import character_tokenizer
from components.models.digests import model_digest
from components.models.model_folder import write_model_folder
from components.models.stored_models import EXACT_BASES
from components.schema import PolicyVersion
from tests.components.model_types import MODEL_TYPES, NUM_TOKENS
from tests.sections import choose_generation

ALPHABET = "".join(map(chr, range(48, 48 + NUM_TOKENS - 2)))


def random_engine(model: Any, folder: Path) -> tuple[TransformersGenerator, PolicyVersion]:
    write_model_folder(model, character_tokenizer(ALPHABET), folder)
    version = PolicyVersion(policy="p", step=0, weights_digest=model_digest(model))
    engine = TransformersGenerator(choose_generation())
    engine.load(folder, version)
    return engine, version


@pytest.mark.parametrize("name", [name for name, each in MODEL_TYPES.items() if each.engine])
def test_sampled_and_scored_tokens_have_the_log_probabilities_of_a_plain_forward(name: str, tmp_path: Path) -> None:
    model = MODEL_TYPES[name].model()
    engine, version = random_engine(model, tmp_path)
    prompts = [(3, 4, 5), tuple(range(6, 26)), (7,)]
    requests = [
        GenerationRequest(prompt_tokens=prompt, seeds_K=(1, 2, 3), max_new_tokens=12, temperature=1.0)
        for prompt in prompts
    ]
    for prompt, group in zip(prompts, engine.generate(requests, version), strict=True):
        for candidate in group:
            (scored,) = engine.score([prompt], [candidate.tokens])
            expected = plain_logprobs(model, prompt, candidate.tokens)
            assert list(candidate.logprobs) == pytest.approx(expected, abs=1e-5)
            assert list(scored) == pytest.approx(expected, abs=1e-5)


def plain_logprobs(model: Any, prompt: tuple[int, ...], completion: tuple[int, ...]) -> list[float]:
    with torch.no_grad():
        logits_T_V = model(torch.tensor([prompt + completion])).logits[0].float()
    logprobs_T_V = logits_T_V.log_softmax(-1)
    return [float(logprobs_T_V[len(prompt) - 1 + place, token]) for place, token in enumerate(completion)]


@pytest.mark.parametrize("name", [name for name, each in MODEL_TYPES.items() if not each.engine])
def test_a_model_that_is_not_computed_exactly_is_refused_by_name_when_it_is_loaded(name: str, tmp_path: Path) -> None:
    model = MODEL_TYPES[name].model()
    named = type(model).__name__.removesuffix("ForCausalLM")
    with pytest.raises(ConfigurationError, match=f"{named}.*{EXACT_BASES}"):
        random_engine(model, tmp_path)


def test_a_model_is_refused_again_when_it_is_loaded_again(tmp_path: Path) -> None:
    model = MODEL_TYPES["diffllama"].model()
    write_model_folder(model, character_tokenizer(ALPHABET), tmp_path)
    engine = TransformersGenerator(choose_generation())
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"DiffLlama.* differ by \d[\d.]* from those of its own forward"):
            engine.load(tmp_path, PolicyVersion(policy="p", step=0, weights_digest=model_digest(model)))
    assert engine.version is None


def test_rows_of_which_a_model_chooses_what_to_see_are_refused(tmp_path: Path) -> None:
    engine, version = random_engine(MODEL_TYPES["doge, choosing what longer rows see"].model(), tmp_path)
    asked = GenerationRequest(prompt_tokens=(3,) * 30, seeds_K=(1,), max_new_tokens=3, temperature=1.0)
    with pytest.raises(ConfigurationError, match="may take 33 tokens, but the model computes at most 32 at once"):
        engine.generate([asked], version)


def test_a_trial_that_is_no_number_is_refused() -> None:
    model = MODEL_TYPES["llama"].model()
    with pytest.raises(ConfigurationError, match="differ by nan"):
        check_engine(
            model, lambda _, completion: (float("nan"),) * len(completion), computing=nullcontext(), most_tokens=None
        )

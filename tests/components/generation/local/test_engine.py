from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from components.errors import ArtifactCorrupt, ArtifactMissing, ConfigurationError, StaleEngine
from components.generation.base import Completion, GenerationRequest
from components.generation.local.engine import TransformersGenerator
from components.reporting import progress_share
from components.reporting.progress_share import share_listener
from components.schema import PolicyVersion
from tests.components.generation.local.test_sampling import splitmix64
from tests.components.generation.tiny_models import full_logprobs, random_model, save_model
from tests.sections import choose_generation

END = 1


def load_engine(model: Any, folder: Path, **config: Any) -> tuple[TransformersGenerator, PolicyVersion]:
    version = save_model(model, folder)
    engine = TransformersGenerator(choose_generation(**config))
    engine.load(folder, version)
    return engine, version


def make_mixed_requests(seed: int, *, count: int = 14) -> list[GenerationRequest]:
    """Prompts of 1 to 20 tokens, 1 to 8 candidates, answers of up to 12 tokens, greedy and sampled side by side."""
    rng = Random(seed)
    return [
        GenerationRequest(
            prompt_tokens=tuple(rng.randrange(11) for _ in range(rng.randint(1, 20))),
            seeds_K=tuple(rng.randrange(2**63) for _ in range(rng.randint(1, 8))),
            max_new_tokens=rng.randint(1, 12),
            temperature=rng.choice([0.0, 0.7, 1.0, 1.6]),
        )
        for _ in range(count)
    ]


def sample_by_hand(model: Any, request: GenerationRequest, seed: int) -> tuple[int, ...]:
    """One candidate token by token: whole forwards, Python integers for the stream, float64 for the distribution."""
    tokens: tuple[int, ...] = ()
    for word in splitmix64(seed, request.max_new_tokens):
        with torch.no_grad():
            logits = model(torch.tensor([request.prompt_tokens + tokens])).logits[0, -1].double().numpy()
        if request.temperature == 0:
            token = int(logits.argmax())
        else:
            weights = np.exp((logits - logits.max()) / request.temperature)
            token = int((np.cumsum(weights / weights.sum()) <= (word >> 11) / 2**53).sum())
        tokens += (token,)
        if token == END:
            break
    return tokens


def tokens_of(completions: list[tuple[Completion, ...]]) -> list[list[tuple[int, ...]]]:
    return [[completion.tokens for completion in group] for group in completions]


@pytest.mark.parametrize(("family", "tied"), [("qwen3", True), ("qwen3", False), ("llama", True)])
def test_candidates_equal_those_sampled_by_hand(tmp_path: Path, family: str, tied: bool) -> None:
    model = random_model(family=family, tied=tied)
    engine, version = load_engine(model, tmp_path)
    requests = make_mixed_requests(1)
    groups = engine.generate(requests, version)
    expected = [[sample_by_hand(model, request, seed) for seed in request.seeds_K] for request in requests]
    assert tokens_of(groups) == expected
    lengths = {len(tokens) for group in expected for tokens in group}
    assert len(lengths) > 5, "rows must finish at different steps, or compaction is not exercised"


def test_logprobs_are_those_of_the_tempered_distribution(tmp_path: Path) -> None:
    model = random_model()
    engine, version = load_engine(model, tmp_path)
    requests = make_mixed_requests(2)
    for request, group in zip(requests, engine.generate(requests, version), strict=True):
        for completion in group:
            with torch.no_grad():
                logits = model(torch.tensor([request.prompt_tokens + completion.tokens])).logits[0]
            logits = logits[len(request.prompt_tokens) - 1 : -1] / (request.temperature or 1.0)
            expected = logits.log_softmax(-1)[range(len(completion.tokens)), list(completion.tokens)]
            assert completion.logprobs == pytest.approx(expected.tolist(), abs=1e-5)


def test_a_nucleus_of_one_token_is_greedy_and_tells_the_uncut_log_probabilities(tmp_path: Path) -> None:
    model = random_model(seed=2)
    engine, version = load_engine(model, tmp_path)
    whole = GenerationRequest(prompt_tokens=(4, 9), seeds_K=(1, 2), max_new_tokens=4, temperature=1.0)
    cut = replace(whole, top_p=1e-6)
    narrow, beside = engine.generate([cut, whole], version)
    (greedy,) = tokens_of(engine.generate([replace(whole, seeds_K=(1,), temperature=0.0)], version))
    assert [each.tokens for each in narrow] == [greedy[0]] * 2
    assert [each.tokens for each in beside] == tokens_of(engine.generate([whole], version))[0] != [greedy[0]] * 2
    for each in narrow:
        (scored,) = engine.score([whole.prompt_tokens], [each.tokens])
        assert each.logprobs == pytest.approx(scored, abs=1e-5)


def test_a_candidate_does_not_depend_on_its_company(tmp_path: Path) -> None:
    engine, version = load_engine(random_model(seed=4), tmp_path)
    requests = make_mixed_requests(5)
    together = tokens_of(engine.generate(requests, version))
    alone = [tokens_of(engine.generate([request], version))[0] for request in requests]
    one_seed_each = [
        [
            tokens_of(
                engine.generate(
                    [
                        GenerationRequest(
                            prompt_tokens=request.prompt_tokens,
                            seeds_K=(seed,),
                            max_new_tokens=request.max_new_tokens,
                            temperature=request.temperature,
                        )
                    ],
                    version,
                )
            )[0][0]
            for seed in request.seeds_K
        ]
        for request in requests
    ]
    assert together == alone == one_seed_each


def test_repeating_a_call_repeats_every_bit(tmp_path: Path) -> None:
    engine, version = load_engine(random_model(seed=8), tmp_path)
    requests = make_mixed_requests(9)
    assert engine.generate(requests, version) == engine.generate(requests, version)


def test_equal_prompts_in_different_requests_keep_their_own_candidates(tmp_path: Path) -> None:
    engine, version = load_engine(random_model(), tmp_path)
    base = {"prompt_tokens": (2, 3, 4), "max_new_tokens": 6, "temperature": 1.0}
    merged = engine.generate([GenerationRequest(seeds_K=(1, 2, 3, 4), **base)], version)
    apart = engine.generate(
        [GenerationRequest(seeds_K=(1, 2), **base), GenerationRequest(seeds_K=(3, 4), **base)], version
    )
    assert tokens_of(merged)[0] == [*tokens_of(apart)[0], *tokens_of(apart)[1]]


def test_first_tokens_follow_the_model_s_distribution(tmp_path: Path) -> None:
    model = random_model(seed=10)
    engine, version = load_engine(model, tmp_path)
    num_draws, prompt = 8000, (4, 8, 2)
    request = GenerationRequest(
        prompt_tokens=prompt, seeds_K=tuple(range(num_draws)), max_new_tokens=1, temperature=1.0
    )
    (group,) = engine.generate([request], version)
    counts = np.bincount([completion.tokens[0] for completion in group], minlength=11)
    with torch.no_grad():
        expected = model(torch.tensor([prompt])).logits[0, -1].double().softmax(-1).numpy() * num_draws
    assert expected.min() > 5
    assert ((counts - expected) ** 2 / expected).sum() < 29.59, "0.1% point of chi-square with 10 degrees of freedom"


def test_finish_reasons_tell_the_end_token_from_the_limit(tmp_path: Path) -> None:
    engine, version = load_engine(random_model(seed=4), tmp_path)
    requests = make_mixed_requests(11)
    completions = [
        (request, completion)
        for request, group in zip(requests, engine.generate(requests, version), strict=True)
        for completion in group
    ]
    assert {completion.finish_reason for _, completion in completions} == {"stop", "length"}
    for request, completion in completions:
        stopped = completion.tokens[-1] == END
        assert completion.finish_reason == ("stop" if stopped else "length")
        assert END not in completion.tokens[:-1]
        assert stopped or len(completion.tokens) == request.max_new_tokens
        assert completion.version == version


def test_an_answer_ends_at_each_of_the_model_s_end_tokens(tmp_path: Path) -> None:
    model = random_model(seed=4)
    model.generation_config.eos_token_id = [END, 5]
    engine, version = load_engine(model, tmp_path)
    completions = [each for group in engine.generate(make_mixed_requests(11), version) for each in group]
    assert {completion.tokens[-1] for completion in completions if completion.finish_reason == "stop"} == {END, 5}
    assert not any({END, 5} & set(completion.tokens[:-1]) for completion in completions)


def test_scores_equal_a_whole_forward_for_prompts_and_answers_of_any_length(tmp_path: Path) -> None:
    model = random_model(seed=12)
    engine, _ = load_engine(model, tmp_path)
    rng = Random(1)
    prompts = [tuple(rng.randrange(11) for _ in range(rng.randint(1, 20))) for _ in range(12)]
    completions = [tuple(rng.randrange(11) for _ in range(rng.randint(0, 9))) for _ in range(12)]
    for prompt, completion, found in zip(prompts, completions, engine.score(prompts, completions), strict=True):
        assert list(found) == pytest.approx(full_logprobs(model, prompt, completion) if completion else [], abs=1e-5)


def test_nothing_asked_is_nothing_answered(tmp_path: Path) -> None:
    engine, version = load_engine(random_model(), tmp_path)
    assert engine.generate([], version) == []
    assert engine.score([], []) == []
    assert engine.score([(2, 3)], [()]) == [()]


def test_another_version_than_the_one_held_is_stale(tmp_path: Path) -> None:
    engine, version = load_engine(random_model(), tmp_path)
    newer = PolicyVersion(policy=version.policy, step=1, weights_digest=version.weights_digest)
    with pytest.raises(StaleEngine, match="step=1"):
        engine.generate(make_mixed_requests(0), newer)
    with pytest.raises(StaleEngine):
        TransformersGenerator(choose_generation()).generate(make_mixed_requests(0), version)


@pytest.mark.parametrize("tied", [True, False])
def test_new_weights_replace_the_old_ones_in_place(tmp_path: Path, tied: bool) -> None:
    old, new = random_model(seed=1, tied=tied), random_model(seed=2, tied=tied)
    engine, _ = load_engine(old, tmp_path / "old")
    module = engine._model
    version = save_model(new, tmp_path / "new", step=1)
    engine.load(tmp_path / "new", version)
    assert engine._model is module
    assert engine.version == version
    fresh, _ = load_engine(new, tmp_path / "new")
    (found,), (expected,) = (e.score([(2, 3, 4)], [(5, 6, 1)]) for e in (engine, fresh))
    assert found == expected == pytest.approx(full_logprobs(new, (2, 3, 4), (5, 6, 1)), abs=1e-5)


def test_another_architecture_is_built_anew(tmp_path: Path) -> None:
    engine, _ = load_engine(random_model(), tmp_path / "one")
    other = random_model(family="llama")
    version = save_model(other, tmp_path / "other")
    engine.load(tmp_path / "other", version)
    (found,) = engine.score([(2, 3)], [(4, 5)])
    assert found == pytest.approx(full_logprobs(other, (2, 3), (4, 5)), abs=1e-5)


@pytest.mark.parametrize("fresh", [True, False])
def test_altered_weights_are_refused_and_leave_no_version(tmp_path: Path, fresh: bool) -> None:
    version = save_model(random_model(), tmp_path)
    engine = TransformersGenerator(choose_generation())
    if not fresh:
        engine.load(tmp_path, version)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["model.norm.weight"][3] += 1e-3
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ArtifactCorrupt, match=version.weights_digest[:16]):
        engine.load(tmp_path, version)
    assert engine.version is None
    with pytest.raises(StaleEngine):
        engine.generate(make_mixed_requests(0), version)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_torn_file_is_refused_and_the_next_good_one_is_taken(tmp_path: Path, fresh: bool) -> None:
    version = save_model(random_model(), tmp_path)
    engine = TransformersGenerator(choose_generation())
    if not fresh:
        engine.load(tmp_path, version)
    weights = tmp_path / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ArtifactCorrupt):
        engine.load(tmp_path, version)
    assert engine.version is None
    weights.write_bytes(whole)
    engine.load(tmp_path, version)
    assert engine.version == version


def test_a_folder_that_is_no_model_is_missing(tmp_path: Path) -> None:
    version = PolicyVersion(policy="team", step=0, weights_digest="x")
    with pytest.raises(ArtifactMissing, match=r"config\.json"):
        TransformersGenerator(choose_generation()).load(tmp_path, version)


def test_an_answer_beyond_the_context_is_refused_before_any_work(tmp_path: Path) -> None:
    engine, version = load_engine(random_model(), tmp_path)
    request = GenerationRequest(prompt_tokens=(2,) * 60, seeds_K=(0,), max_new_tokens=5, temperature=1.0)
    with pytest.raises(ConfigurationError, match="may take 65 tokens, but the model computes at most 64 at once"):
        engine.generate([request], version)


def test_an_answer_beyond_the_positions_that_every_row_has_alike_is_refused(tmp_path: Path) -> None:
    model = random_model()
    model.config.rope_parameters = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "original_max_position_embeddings": 32,
        "short_factor": [1.0] * 4,
        "long_factor": [2.0] * 4,
    }
    engine, version = load_engine(model, tmp_path)
    request = GenerationRequest(prompt_tokens=(2,) * 28, seeds_K=(0,), max_new_tokens=5, temperature=1.0)
    with pytest.raises(ConfigurationError, match="may take 33 tokens, but the model computes at most 32 at once"):
        engine.generate([request], version)


def test_a_model_with_sliding_windows_is_refused(tmp_path: Path) -> None:
    model = random_model()
    model.config.layer_types = ["full_attention", "sliding_attention"]
    model.config.sliding_window = 8
    model.config.use_sliding_window = True
    version = save_model(model, tmp_path)
    with pytest.raises(ConfigurationError, match="sliding_attention"):
        TransformersGenerator(choose_generation()).load(tmp_path, version)


def test_bfloat16_serves_float32_weights_under_their_own_digest(tmp_path: Path) -> None:
    model = random_model()
    engine, version = load_engine(model, tmp_path, dtype="bfloat16")
    for _ in range(2):
        engine.load(tmp_path, version)
        (found,) = engine.score([(2, 3, 4)], [(5, 6)])
        assert found == pytest.approx(full_logprobs(model, (2, 3, 4), (5, 6)), abs=0.2)
    assert engine._model.dtype == torch.bfloat16
    # Rotary frequencies of 8 bits would be off by radians after a few hundred positions.
    assert all(buffer.dtype == torch.float32 for buffer in engine._model.buffers())


def test_the_process_keeps_its_thread_count(tmp_path: Path) -> None:
    engine, version = load_engine(random_model(), tmp_path, num_threads=2)
    before = torch.get_num_threads()
    engine.generate(make_mixed_requests(0), version)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("max_batch_tokens", [64, 65536])
def test_the_share_that_is_done_grows_token_by_token_to_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_batch_tokens: int
) -> None:
    monkeypatch.setattr(progress_share, "_EVERY_SECONDS", 0.0)
    engine, version = load_engine(random_model(), tmp_path, max_batch_tokens=max_batch_tokens)
    requests, heard = make_mixed_requests(5), list[float]()
    with share_listener(heard.append):
        told = engine.generate(requests, version)
    assert heard == sorted(set(heard))
    assert heard[-1] == pytest.approx(1.0)
    assert heard[0] < 0.5
    assert len(heard) >= 12, "at least one for each token of the longest answer"
    assert tokens_of(told) == tokens_of(engine.generate(requests, version))

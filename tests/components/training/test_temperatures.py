"""Roles of one policy with different temperatures: what the sampler says of its tokens is what the trainer computes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from components.algorithms.batching import train_batches
from components.errors import LogprobMismatch
from components.generation.local.engine import TransformersGenerator
from components.identity import GroupKey
from components.models.character_tokenizer import character_tokenizer
from components.models.digests import model_digest
from components.models.model_folder import write_model_folder
from components.rollout.router import RoleBinding, RoleRequest, Router
from components.schema import (
    ActionOutcome,
    Candidate,
    Episode,
    Node,
    PolicyVersion,
    Problem,
    RolloutShard,
    ScoredShard,
    TrainGroup,
)
from components.training.base import UpdateJob
from components.training.forward import completion_logprobs, logprobs_and_entropies
from components.training.packing import pack_groups
from components.training.rank_batches import rank_micro_batches
from components.training.ranks import Ranks
from components.training.trainer import DeepSpeedTrainer
from tests.sections import choose_algorithm, choose_generation, choose_loss

Groups = list[TrainGroup]
TEMPERATURES = {"cool": 0.7, "hot": 1.3}
PROMPTS = ((2, 5, 3), (4, 4, 9, 6))
OUTCOME = ActionOutcome(team={}, local={}, solves=False, done=False)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory, make_model: Callable[..., Any]) -> Groups:
    """What three roles of one policy sampled for equal prompts: two at temperatures of their own, one at the rollout's."""
    folder, model = tmp_path_factory.mktemp("sampler"), make_model()
    write_model_folder(model, character_tokenizer("ABCDEFGHIJKLMNOPQRSTUVWXYZ.,"), folder)
    version = PolicyVersion(policy="p", step=0, weights_digest=model_digest(model))
    engine = TransformersGenerator(choose_generation())
    engine.load(folder, version)
    seats = {
        role: RoleBinding(policy="p", prompt_format="compact", max_new_tokens=7, temperature=TEMPERATURES.get(role))
        for role in ("cool", "hot", "usual")
    }
    router = Router({"p": engine}, seats=seats, versions={"p": version})
    asked = [
        RoleRequest(role=role, prompt_tokens=prompt, seeds_K=tuple(range(9 * number, 9 * number + 4)))
        for number, prompt in enumerate(PROMPTS)
        for role in seats
    ]
    nodes = [
        Node(
            group=GroupKey(problem_id="q", episode=0, turn=number, agent=request.role),
            policy="p",
            prompt_tokens=request.prompt_tokens,
            candidates=tuple(
                Candidate(
                    tokens=each.tokens,
                    sampler_logprobs=each.logprobs,
                    finish_reason=each.finish_reason,
                    text="",
                    outcome=OUTCOME,
                    reward=0.0,
                )
                for each in completions
            ),
            chosen=0,
            temperature=router.own_temperature(request.role, 0.9),
        )
        for number, (request, completions) in enumerate(zip(asked, router.generate(asked, temperature=0.9), strict=True))
    ]  # fmt: skip
    problem = Problem(problem_id="q", environment="toy", payload={})
    episode = Episode(problem=problem, episode=0, nodes=tuple(nodes), success=False)
    shard = RolloutShard(step=0, shard=0, policy_versions={"p": version}, episodes=(episode,))
    rewards = tuple((1.0, 0.0, 0.0, 0.5) for _ in nodes)
    batches, _ = train_batches(
        [shard],
        [ScoredShard(step=0, shard=0, rewards_E_N_K=(rewards,))],
        algorithm=choose_algorithm(),
        policies=["p"],
    )
    return list(batches["p"].groups)


def test_groups_of_one_prompt_are_merged_only_at_one_temperature(sampled: Groups) -> None:
    assert [(group.prompt_tokens, group.temperature) for group in sampled] == [
        (prompt, temperature) for prompt in PROMPTS for temperature in (0.7, 1.3, None)
    ]


@pytest.mark.parametrize("share_prompts", [True, False])
@pytest.mark.parametrize("tokens_per_micro_batch", [64, 4096])
def test_every_row_has_the_distribution_it_was_drawn_from(
    sampled: Groups, make_model: Callable[..., Any], share_prompts: bool, tokens_per_micro_batch: int
) -> None:
    model = make_model()
    batches = pack_groups(sampled, tokens_per_micro_batch=tokens_per_micro_batch, share_prompts=share_prompts)
    for batch in batches:
        with torch.no_grad():
            logprobs, entropies = logprobs_and_entropies(model, batch, temperature=0.9, entropy_gradient=False)
        assert np.abs(logprobs.numpy() - batch.sampler_logprobs_N).max() < 1e-5
        for number in range(batch.num_tokens):
            group = sampled[batch.groups_N[number]]
            before = group.completions_K_T[batch.candidates_N[number]][: batch.offsets_N[number]]
            with torch.no_grad():
                logits = model(torch.tensor([[*group.prompt_tokens, *before]])).logits[0, -1]
            exact = torch.distributions.Categorical(logits=logits / (group.temperature or 0.9))
            assert float(entropies[number]) == pytest.approx(float(exact.entropy()), abs=1e-4)


def test_one_temperature_for_all_rows_is_another_distribution(sampled: Groups, make_model: Callable[..., Any]) -> None:
    flat = [replace(group, temperature=None) for group in sampled]
    (batch,) = pack_groups(flat, tokens_per_micro_batch=4096, share_prompts=True)
    assert batch.temperatures_N is None
    with torch.no_grad():
        logprobs = completion_logprobs(make_model(), batch, temperature=0.9)
    assert np.abs(logprobs.numpy() - batch.sampler_logprobs_N).max() > 0.05


def test_shares_of_ranks_keep_their_temperatures(sampled: Groups, make_job: Callable[..., UpdateJob]) -> None:
    class Two(Ranks):
        def max(self, value: torch.Tensor) -> torch.Tensor:
            return value

    shares = [
        rank_micro_batches(sampled, range(len(sampled)), make_job().training, Two(rank=rank, size=2)) for rank in (0, 1)
    ]
    own = {float(np.float32(group.temperature or 0.0)) for group in sampled}
    found = set()
    for batch in (batch for share in shares for batch in share):
        assert batch.temperatures_N is not None
        for number, temperature in zip(batch.groups_N.tolist(), batch.temperatures_N.tolist(), strict=True):
            assert temperature == float(np.float32(sampled[number].temperature or 0.0))
            found.add(temperature)
    assert found == own


@pytest.mark.parametrize("correction", [None, 2.0])
def test_a_whole_update_agrees_with_the_sampler_and_notices_one_number(
    sampled: Groups,
    trainer: DeepSpeedTrainer,
    make_jobs: Callable[[Path], Any],
    correction: float | None,
    tmp_path: Path,
) -> None:
    jobs = make_jobs(tmp_path)
    loss = choose_loss(mismatch_tolerance=1e-4, importance_cap=correction, entropy_coefficient=0.01)
    result = trainer.update(jobs.first(sampled, temperature=0.9, loss=loss))
    assert result.metrics["mismatch_max_abs"] < 1e-5
    assert result.metrics["num_updates"] == 2.0
    one_number = [replace(group, temperature=None) for group in sampled]
    with pytest.raises(LogprobMismatch):
        trainer.update(jobs.first(one_number, temperature=0.9, loss=loss))


def test_the_reference_is_tempered_as_the_policy_is(
    sampled: Groups, trainer: DeepSpeedTrainer, make_jobs: Callable[[Path], Any], tmp_path: Path
) -> None:
    """At the first optimizer step policy and reference are equal at every temperature, so their divergence is 0."""
    jobs = make_jobs(tmp_path)
    loss = choose_loss(mismatch_tolerance=None, kl_coefficient=0.1, kl_estimator="k2")
    folder = jobs.initial[0]
    training = jobs.first(sampled).training.model_copy(update={"num_minibatches": 1})
    result = trainer.update(jobs.first(sampled, temperature=0.9, loss=loss, reference_folder=folder, training=training))
    assert abs(result.metrics["reference_kl"]) < 1e-9

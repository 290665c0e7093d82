"""Entropy and KL are averaged over the tokens that the loss's means count: of silent groups too, or of none."""

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from components.algorithms.batching import train_batches
from components.algorithms.loss_inputs import LossInputs
from components.algorithms.losses import minibatch_loss
from components.config import LossConfig, TrainingConfig
from components.schema import Candidate, Episode, RolloutShard, ScoredShard
from components.training.rank_batches import count_size
from components.training.ranks import Ranks
from components.training.update import Update
from tests.components.algorithms.episodes import episode, scores, shard
from tests.components.training.test_update import PlainLearner
from tests.sections import choose_algorithm, choose_loss

ALGORITHM = choose_algorithm(epsilon=0.01)
TERMS = {"kl_coefficient": 0.1, "entropy_coefficient": 0.01}


def test_nine_silent_groups_of_ten_leave_the_terms_as_large_as_none() -> None:
    rewards = [((1.0, 0.0, 1.0, 0.0),), *[((1.0, 1.0, 1.0, 1.0),)] * 9]
    played = shard(*(episode("a", number, "t", num=4) for number in range(10)))
    config = choose_loss(**TERMS)
    batches, _ = train_batches(
        [played], [scores(*rewards)], algorithm=ALGORITHM, policies=["small"], with_silent_groups=True
    )
    batch = batches["small"]
    logprobs_N = torch.full((batch.num_tokens,), -1.0)
    inputs = LossInputs(
        logprobs_N=logprobs_N,
        old_logprobs_N=logprobs_N,
        advantages_N=torch.zeros(batch.num_tokens),
        completions_N=torch.arange(batch.num_tokens) // 2,
        lengths_N=torch.full((batch.num_tokens,), 2),
        entropies_N=torch.ones(batch.num_tokens),
        reference_logprobs_N=logprobs_N + 1.0,
    )
    size = count_size(batch, range(len(batch.groups)), config)
    assert (size.num_completions, size.num_tokens) == (40, 80)
    # k3 of log ratio 1 is e - 2, and the entropy of each token is 1.
    assert float(minibatch_loss(inputs, config, size=size)) == pytest.approx(0.1 * (math.e - 2) - 0.01, rel=1e-5)


def answer(played: Episode, model: Any, seed: int) -> Episode:
    """`played` with random answers of other lengths, and log-probs near those of `model`; some answers are truncated."""
    rng = torch.Generator().manual_seed(seed)

    def answer(prompt: tuple[int, ...], candidate: Candidate) -> Candidate:
        length = int(torch.randint(1, 6, (), generator=rng))
        tokens = tuple(torch.randint(0, 30, (length,), generator=rng).tolist())
        noise = 0.4 * torch.randn(length, generator=rng)
        logprobs = (forward(model, prompt, tokens)[0].float() + noise).tolist()
        reason = "length" if torch.rand((), generator=rng) < 0.3 else "stop"
        return replace(candidate, tokens=tokens, sampler_logprobs=tuple(logprobs), finish_reason=reason)

    nodes = []
    for node in played.nodes:
        prompt = tuple(torch.randint(0, 30, (4,), generator=rng).tolist())
        candidates = tuple(answer(prompt, candidate) for candidate in node.candidates)
        nodes.append(replace(node, policy="small", prompt_tokens=prompt, candidates=candidates))
    return replace(played, nodes=tuple(nodes))


def forward(model: Any, prompt: tuple[int, ...], tokens: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs of `tokens` and entropies, in float64, from one plain forward of one answer."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt + tokens])).logits[0].double()
    logprobs = logits[len(prompt) - 1 : -1].log_softmax(-1)
    return logprobs.gather(1, torch.tensor(tokens)[:, None])[:, 0], -(logprobs.exp() * logprobs).sum(-1)


def steps_of(model: Any, seed: int) -> tuple[RolloutShard, ScoredShard]:
    """Two trees: groups with and without signal, an unscorable answer, a node nobody could score and a continuation."""
    first, second = (answer(episode("a", number, "tptp", num=3), model, seed + number) for number in range(2))
    below = replace(first.nodes[3], candidates=first.nodes[3].candidates[:1], parent=(2, 1))
    rewards = scores(
        ((1.0, 0.0, 0.5), (1.0, 1.0, 1.0), (None, 1.0, 0.0), (2.0, None, 2.0), (9.0,)),
        ((0.0, 0.0, 0.0), (None, None, None), (0.0, 0.0, 3.0), (0.3, 0.3, 0.3)),
    )
    return shard(replace(first, nodes=(*first.nodes, below)), second), rewards


def oracle(played: RolloutShard, scored: ScoredShard, model: Any, reference: Any, config: LossConfig) -> float:
    """The loss of the whole step as one minibatch, in float64, from its definition."""
    rows = []
    for each, rewards_N_K in zip(played.episodes, scored.rewards_E_N_K, strict=True):
        for node, rewards_K in zip(each.nodes, rewards_N_K, strict=True):
            known = [reward for reward in rewards_K if reward is not None]
            if len(node.candidates) == 1 or not known:
                continue
            mean = sum(known) / len(known)
            deviation = math.sqrt(sum((reward - mean) ** 2 for reward in known) / len(known))
            for candidate, reward in zip(node.candidates, rewards_K, strict=True):
                is_masked = config.mask_truncated and candidate.finish_reason == "length"
                if reward is not None and not is_masked and (deviation > 0 or config.average_over == "all"):
                    rows.append((node.prompt_tokens, candidate, (reward - mean) / (deviation + ALGORITHM.epsilon)))
    sums, lengths = [], []
    for prompt, candidate, advantage in rows:
        logprobs, entropies = forward(model, prompt, candidate.tokens)
        ratio = (logprobs - torch.tensor(candidate.sampler_logprobs).double()).exp()
        losses = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        if config.kl_coefficient:
            d = forward(reference, prompt, candidate.tokens)[0] - logprobs
            losses = losses + config.kl_coefficient * (d.exp() - 1 - d)
        sums.append(float((losses - config.entropy_coefficient * entropies).sum()))
        lengths.append(len(candidate.tokens))
    if config.aggregation == "token_mean":
        return sum(sums) / sum(lengths)
    return sum(total / length for total, length in zip(sums, lengths, strict=True)) / len(lengths)


@pytest.mark.parametrize(
    "config",
    [
        choose_loss(**TERMS),
        choose_loss(**TERMS, average_over="nonzero"),
        choose_loss(**TERMS, aggregation="sequence_mean"),
        choose_loss(**TERMS, aggregation="sequence_mean", average_over="nonzero", mask_truncated=True),
        choose_loss(entropy_coefficient=0.05, mask_truncated=True),
        choose_loss(kl_coefficient=0.05),
        choose_loss(),
        choose_loss(aggregation="sequence_mean"),
    ],
    ids=lambda c: f"{c.aggregation}-{c.average_over}-{c.kl_coefficient}-{c.entropy_coefficient}-{c.mask_truncated}",
)
def test_the_loss_of_a_step_with_silent_groups_is_its_definition(
    make_model: Any, make_job: Any, config: LossConfig
) -> None:
    model, reference = make_model(), make_model(seed=1)
    config = config.model_copy(update={"mismatch_tolerance": None})
    played, scored = steps_of(model, seed=3)
    batches, _ = train_batches(
        [played],
        [scored],
        algorithm=ALGORITHM,
        policies=["small"],
        with_silent_groups=config.trains_silent_groups,
    )
    batch = replace(batches["small"], version=None)
    training = TrainingConfig(num_minibatches=1, tokens_per_micro_batch=64)
    update = Update(
        learner=PlainLearner(copy.deepcopy(model), training),
        job=make_job(loss=config, training=training),
        batch=batch,
        ranks=Ranks(),
        reference=reference if config.kl_coefficient else None,
    )
    metrics = update.run()
    assert metrics["loss"] == pytest.approx(oracle(played, scored, model, reference, config), rel=1e-4, abs=1e-6)
    assert batch.num_groups_without_signal == 4
    assert metrics["num_rows"] == sum(len(group.advantages_K) for group in batch.groups) - (
        sum(sum(group.truncated_K) for group in batch.groups) if config.mask_truncated else 0
    )

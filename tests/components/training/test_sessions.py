"""`loss.average_over: session`: an episode of many answers moves a policy as much as one of few."""

import copy
import random
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
import torch

from components.algorithms.batching import train_batches
from components.config import RunConfig, TrainingConfig
from components.schema import RolloutShard, ScoredShard, TrainBatch
from components.training.ranks import Ranks
from components.training.update import Update
from tests.components.algorithms.episodes import episode
from tests.components.training.test_update import PlainLearner, _weights
from tests.sections import choose_algorithm, choose_loss

EPISODES = ((0, 0, 1, 0), (1, 2, 2, 2), (2, 3, 0, 0))
"""Of each row of each group: one of many answers, and others of few."""


def move(model: Any, batch: TrainBatch, job: Any) -> torch.Tensor:
    """How a step of plain descent moves the weights, which is their gradient."""
    learner = PlainLearner(copy.deepcopy(model), job.training)
    learner.optimizer = torch.optim.SGD(learner.module.parameters(), lr=1.0)
    Update(learner=learner, job=job, batch=batch, ranks=Ranks(), reference=None).run()
    return _weights(learner.module) - _weights(model)


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean"])
@pytest.mark.parametrize("mask_truncated", [False, True])
def test_the_gradient_is_the_mean_of_those_of_the_episodes(
    make_model: Any, make_groups: Any, score_groups: Any, make_job: Any, aggregation: str, mask_truncated: bool
) -> None:
    """The oracle updates on each episode alone, as every loss does that knows no sessions."""
    model, rng = make_model(), random.Random(1)
    groups = [
        replace(group, episodes_K=EPISODES[g], truncated_K=tuple(rng.random() < 0.2 for _ in range(4)))
        for g, group in enumerate(score_groups(model, make_groups(3)))
    ]
    silent = {"lengths_without_signal": (3, 5, 4), "truncated_without_signal": (False, False, mask_truncated)}
    batch = TrainBatch(
        policy="p",
        step=0,
        groups=tuple(groups),
        num_groups_without_signal=2,
        episodes_without_signal=(3, 7, 8),
        **silent,
    )
    training = TrainingConfig(
        num_minibatches=1,
        max_grad_norm=1e9,
        learning_rate=0.5,
        lr_schedule="constant",
        num_warmup_updates=0,
        tokens_per_micro_batch=64,
    )
    terms = {"aggregation": aggregation, "mask_truncated": mask_truncated, "entropy_coefficient": 0.0}
    found = move(model, batch, make_job(training=training, loss=choose_loss(average_over="session", **terms)))
    rows_E = defaultdict(list)
    for group in groups:
        for k, number in enumerate(group.episodes_K):
            if not (mask_truncated and group.truncated_K[k]):
                rows_E[number].append(
                    replace(
                        group,
                        completions_K_T=group.completions_K_T[k : k + 1],
                        sampler_logprobs_K_T=group.sampler_logprobs_K_T[k : k + 1],
                        advantages_K=group.advantages_K[k : k + 1],
                        truncated_K=(),
                        episodes_K=(),
                    )
                )
    plain = make_job(training=training, loss=choose_loss(**{**terms, "mask_truncated": False}))
    lengths_E = {3: (3,), 7: (5,), **({} if mask_truncated else {8: (4,)})}
    wanted = torch.zeros_like(found)
    numbers = {*rows_E, *lengths_E}
    for number in numbers & {*rows_E}:
        alone = TrainBatch(
            policy="p",
            step=0,
            groups=tuple(rows_E[number]),
            num_groups_without_signal=0,
            lengths_without_signal=lengths_E.get(number, ()),
            truncated_without_signal=(False,) * len(lengths_E.get(number, ())),
        )
        wanted += move(model, alone, plain) / len(numbers)
    assert (found - wanted).norm() < 1e-4 * wanted.norm()
    every = move(model, batch, make_job(training=training, loss=choose_loss(**terms)))
    assert (found - every).norm() > 0.1 * wanted.norm()


def test_batches_say_of_which_episode_their_rows_are() -> None:
    played = [episode("a", number, "tp" * (1 + number), num=1) for number in range(3)]
    rewards = tuple(tuple((float(e == 1),) for _ in each.nodes) for e, each in enumerate(played))
    shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=tuple(played))
    batches, _ = train_batches(
        [shard],
        [ScoredShard(step=0, shard=0, rewards_E_N_K=rewards)],
        algorithm=choose_algorithm(advantage="grpo"),
        policies=["small"],
        names_episodes=True,
    )
    rows = [number for group in batches["small"].groups for number in group.episodes_K]
    assert sorted(rows) == [0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"loss": {"aggregation": "sequence_sum"}}, "token_mean or sequence_mean"),
        ({"rollout": {"mode": "tree"}, "algorithm": {"advantage": "at_grpo"}}, "the mode to independent"),
    ],
)
def test_where_it_makes_no_sense_it_is_refused_with_a_remedy(changes: dict[str, Any], says: str) -> None:
    whole = {
        "num_steps": 1,
        "environment": {"name": "plan_path"},
        "policies": {"p": {}},
        "agents": {"tool_agent": {"policy": "p"}, "plan_agent": {"policy": "p"}},
        "rollout": {"mode": "independent"},
        "algorithm": {"advantage": "grpo"},
    }
    loss = {"average_over": "session", **changes.pop("loss", {})}
    RunConfig.model_validate({**whole, "loss": {"average_over": "session"}})
    with pytest.raises(ValueError, match=rf"average_over session.*{says}"):
        RunConfig.model_validate({**whole, **changes, "loss": loss})

"""The reward stage replays what was recorded and believes nothing else."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from components.artifacts import codec
from components.environments.base import Step, Tools
from components.rewards.base import Rubric
from components.rewards.score import score_shard, shuffle_rewards
from components.rollout.sampler import collect_shard
from components.schema import RolloutShard
from tests.components.rollout.toy_team import (
    RUBRIC,
    RecordingGenerator,
    Toy,
    ToyFamily,
    ToyState,
    toy_plan,
    toy_router,
)

FAMILY = ToyFamily(3)


def shard(mode: Any = "tree", failure_rate: float = 0.0) -> RolloutShard:
    settings = {"group_size": 4, "mode": mode, "max_failed_fraction": 1.0}
    plan = toy_plan(FAMILY, 6, {"failure_rate": failure_rate}, {"step": 2, "shard": 1, "max_turns": 3}, **settings)
    return collect_shard(plan, family=FAMILY, router=toy_router(FAMILY), rubric=RUBRIC)


def list_rewards(played: RolloutShard) -> tuple[Any, ...]:
    return tuple(
        tuple(tuple(candidate.reward for candidate in node.candidates) for node in episode.nodes)
        for episode in played.episodes
    )


@pytest.mark.parametrize("mode", ["tree", "independent", "single"])
def test_the_same_rubric_gives_the_rewards_the_sampler_chose_by(mode: str) -> None:
    scored = score_shard(shard(mode), family=FAMILY, rubric=RUBRIC)
    assert scored.rewards_E_N_K == list_rewards(shard(mode))
    assert (scored.step, scored.shard) == (2, 1)


def test_failed_episodes_are_scored_as_far_as_they_came() -> None:
    played = shard(failure_rate=0.04)
    assert {episode.error is None for episode in played.episodes} == {True, False}
    assert any(episode.error and episode.nodes for episode in played.episodes)
    assert score_shard(played, family=FAMILY, rubric=RUBRIC).rewards_E_N_K == list_rewards(played)


def test_a_stored_shard_scores_as_the_fresh_one() -> None:
    stored = codec.decode(codec.encode(shard()), RolloutShard)
    assert score_shard(stored, family=FAMILY, rubric=RUBRIC) == score_shard(shard(), family=FAMILY, rubric=RUBRIC)


def test_another_rubric_costs_no_rollout() -> None:
    engine = RecordingGenerator()
    plan = toy_plan(FAMILY, 2, group_size=4)
    played = collect_shard(plan, family=FAMILY, router=toy_router(FAMILY, engine), rubric=RUBRIC)
    num_calls = len(engine.calls)
    other = Rubric(team_weight=0.0, weights={**RUBRIC.weights, "local.style": 10.0})
    scored = score_shard(played, family=FAMILY, rubric=other)
    assert len(engine.calls) == num_calls
    for episode, rewards_N_K in zip(played.episodes, scored.rewards_E_N_K, strict=True):
        for node, rewards_K in zip(episode.nodes, rewards_N_K, strict=True):
            assert rewards_K == tuple(10.0 * c.outcome.local["style"] for c in node.candidates)


@pytest.mark.parametrize("change", ["outcome", "text", "chosen"])
def test_a_record_that_the_replay_contradicts_names_its_group(change: str) -> None:
    played = shard()
    episode = next(e for e in played.episodes if len(e.nodes) > 2)
    node = episode.nodes[1]
    other = next(i for i, c in enumerate(node.candidates) if c.text != node.candidates[node.chosen].text)
    changed = {
        "outcome": replace(
            node, candidates=_with(node, 0, outcome=replace(node.candidates[0].outcome, team={"quality": -3.0}))
        ),
        "text": replace(node, candidates=_with(node, 0, text="kkk")),
        "chosen": replace(node, chosen=other),
    }[change]
    broken = replace(episode, nodes=(episode.nodes[0], changed, *episode.nodes[2:]))
    named = episode.nodes[2 if change == "chosen" else 1].group
    with pytest.raises(AssertionError, match=f"{named} candidate 0: replay gives"):
        score_shard(replace(played, episodes=(broken,)), family=FAMILY, rubric=RUBRIC)


class _Generous(Toy):
    """Reports one more component than the environment under which the shard was played."""

    weights: ClassVar[Mapping[str, float]] = {**RUBRIC.weights, "local.length": 0.0}

    def step(self, state: ToyState, agent: str, answer: str, tools: Tools) -> Step:
        step = super().step(state, agent, answer, tools)
        return replace(step, local={**step.local, "length": float(len(answer))})


def test_a_component_that_is_new_to_the_environment_scores_what_was_recorded_before() -> None:
    played = shard()
    rubric = Rubric(team_weight=2.0, weights={**RUBRIC.weights, "local.length": 10.0})
    scored = score_shard(played, family=ToyFamily(3, _Generous), rubric=rubric)
    for episode, rewards_N_K, recorded_N_K in zip(
        played.episodes, scored.rewards_E_N_K, list_rewards(played), strict=True
    ):
        for node, rewards_K, recorded_K in zip(episode.nodes, rewards_N_K, recorded_N_K, strict=True):
            lengths_K = [10.0 * len(candidate.text) for candidate in node.candidates]
            assert rewards_K == pytest.approx([a + b for a, b in zip(recorded_K, lengths_K, strict=True)])
    assert score_shard(played, family=ToyFamily(3, _Generous), rubric=rubric, turn_order=FAMILY.roles) == scored


def test_a_component_that_the_environment_no_longer_reports_is_a_contradiction() -> None:
    rubric = Rubric(team_weight=2.0, weights={**RUBRIC.weights, "local.length": 10.0})
    family = ToyFamily(3, _Generous)
    plan = toy_plan(family, 2, group_size=4)
    played = collect_shard(plan, family=family, router=toy_router(family), rubric=rubric)
    with pytest.raises(AssertionError, match="candidate 0: replay gives"):
        score_shard(played, family=FAMILY, rubric=rubric)


def _with(node: Any, index: int, **values: Any) -> Any:
    return (*node.candidates[:index], replace(node.candidates[index], **values), *node.candidates[index + 1 :])


def test_the_shuffle_moves_rewards_between_groups_and_keeps_them_all() -> None:
    played = shard()
    true = score_shard(played, family=FAMILY, rubric=RUBRIC)
    control = score_shard(played, family=FAMILY, rubric=RUBRIC, shuffle_seed=5)
    assert control == score_shard(played, family=FAMILY, rubric=RUBRIC, shuffle_seed=5)
    assert control != score_shard(played, family=FAMILY, rubric=RUBRIC, shuffle_seed=6)

    def flat(rewards: Any) -> list[float]:
        return [r for rewards_N_K in rewards for rewards_K in rewards_N_K for r in rewards_K]

    assert sorted(flat(control.rewards_E_N_K)) == sorted(flat(true.rewards_E_N_K))
    stayed = sum(a == b for a, b in zip(flat(control.rewards_E_N_K), flat(true.rewards_E_N_K), strict=True))
    assert stayed < len(flat(true.rewards_E_N_K)) / 4
    assert [[len(k) for k in n] for n in control.rewards_E_N_K] == [[len(k) for k in n] for n in true.rewards_E_N_K]


def test_the_shuffle_differs_from_step_to_step() -> None:
    played = shard()
    first, second = (
        score_shard(replace(played, step=step), family=FAMILY, rubric=RUBRIC, shuffle_seed=5).rewards_E_N_K
        for step in (0, 1)
    )
    assert first != second


def test_what_cannot_be_scored_gets_no_reward_of_another_candidate() -> None:
    rewards = (((1.0, None), (2.0,)), ((3.0, 4.0, None),))
    node = SimpleNamespace(is_trained_on=True)
    episodes: Any = [SimpleNamespace(nodes=[node, node]), SimpleNamespace(nodes=[node])]
    for seed in range(9):
        moved = shuffle_rewards(episodes, rewards, seed=seed)
        assert [[[r is None for r in k] for k in n] for n in moved] == [
            [[False, True], [False]],
            [[False, False, True]],
        ]
        assert sorted(r for n in moved for k in n for r in k if r is not None) == [1.0, 2.0, 3.0, 4.0]
    assert len({shuffle_rewards(episodes, rewards, seed=seed) for seed in range(9)}) > 1

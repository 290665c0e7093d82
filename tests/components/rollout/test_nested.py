"""Nested trees: one turn played anew, each of its candidates valued by the episodes below it."""

from collections import Counter
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.batching import train_batches
from components.artifacts.local import LocalArtifactStore
from components.config import RolloutConfig
from components.environments.base import Step, Tools
from components.environments.environment import Environment
from components.errors import ConfigurationError, ExecutionFailed
from components.rewards.score import score_shard
from components.rollout.journal import Journal
from components.rollout.play import play
from components.rollout.rules import SamplingRules, Start, branching_factors, rollout_rules
from components.rollout.sampler import ShardPlan, collect_shard
from components.rollout.statistics import episode_metrics
from components.schema import ROOT, RolloutShard
from components.turn_order import TurnOrder
from tests.components.rollout.chains import path_of, shape_of
from tests.components.rollout.own_teams import (
    Race,
    Speaker,
    Votes,
    family_of,
    router_of,
    rubric_of,
    rules_of,
    starts_of,
)
from tests.components.rollout.test_continuations import check_credit
from tests.components.rollout.toy_team import (
    RUBRIC,
    VERSION,
    RecordingGenerator,
    Toy,
    ToyFamily,
    ToyState,
    toy_plan,
    toy_problems,
    toy_router,
)
from tests.sections import choose_algorithm

FAMILY = ToyFamily(2)


def make_nested_rules(order: TurnOrder, branching: tuple[int, ...], max_turns: int = 3) -> SamplingRules:
    return replace(rules_of(order, max_turns=max_turns, group_size=1), branching=branching)


def make_plan(num_problems: int, branching: Any = (2, 3), laws: Any = None, **settings: Any) -> ShardPlan:
    laws, plan = laws or {"done_rate": 0.0}, {"step": 2, "max_turns": 3}
    chosen = {"mode": "nested", "branching": branching, "max_failed_fraction": 1.0, **settings}
    return toy_plan(FAMILY, num_problems, laws, plan, **chosen)


def collect(plan: ShardPlan, engine: Any = None, **more: Any) -> RolloutShard:
    return collect_shard(plan, family=FAMILY, router=toy_router(FAMILY, engine), rubric=RUBRIC, **more)


def test_one_turn_is_played_anew_and_all_else_by_single_candidates() -> None:
    shard = collect(make_plan(30))
    expanded = Counter()
    for episode in shard.episodes:
        widths = Counter((node.group.turn, node.group.agent, len(node.candidates)) for node in episode.nodes)
        (turn,) = {node.group.turn for node in episode.nodes if node.is_trained_on}
        expanded[turn] += 1
        expected = Counter({(turn, "agent0", 2): 1, (turn, "agent1", 3): 2})
        for other in range(3):
            for agent in FAMILY.roles:
                expected[other, agent, 1] = 1 + (prod((2, 3)) if other > turn else 0)
        assert widths == expected
        assert all(node.is_trained_on == (len(node.candidates) > 1) for node in episode.nodes)
    assert min(expanded[turn] for turn in range(3)) >= 5, "each turn is expanded about equally often"


def test_only_turns_that_the_selected_branch_reached_are_played_anew_each_as_often_as_the_others() -> None:
    shard = collect(make_plan(300, laws={"done_rate": 0.2}))
    expanded = Counter()
    for episode in shard.episodes:
        if episode.error is None:
            (turn,) = {node.group.turn for node in episode.nodes if node.is_trained_on}
            expanded[len({node.group.turn for node in episode.path}), turn] += 1
    assert {*expanded} == {(reached, turn) for reached in (1, 2, 3) for turn in range(reached)}
    for reached in (2, 3):
        counts = [expanded[reached, turn] for turn in range(reached)]
        expected = sum(counts) / reached
        assert all(abs(count - expected) < 4 * expected**0.5 for count in counts), counts


def test_candidates_are_none_of_the_selected_branch_whose_last_answers_are_drawn_more_often() -> None:
    """Ann's 6 ends the episode. Of the branch's own answers two thirds would be a 6 in the turn that is drawn from it."""
    family = family_of(Race)
    router = router_of(family, Speaker(family, lambda prompt, seed: "56"[seed % 2]))
    rules = make_nested_rules(("ann",), (2,), max_turns=3)
    episodes = play(starts_of(family, 300), rules, family=family, router=router, rubric=rubric_of(family))
    said = [node.candidates[0].text for episode in episodes for node in episode.nodes if node.is_trained_on]
    assert len(said) == 300
    assert abs(said.count("6") / 300 - 1 / 2) < 1 / 9


def test_the_selected_branch_is_plain_play_so_that_its_success_rate_is_the_teams() -> None:
    laws = {"done_rate": 0.2}
    nested = collect(make_plan(20, laws=laws))
    plain = collect(
        replace(make_plan(20, laws=laws), settings=RolloutConfig(num_problems=20, mode="independent", group_size=2))
    )
    first = plain.episodes[::2]
    for episode, alone in zip(nested.episodes, first, strict=True):
        spoken = [(node.group, node.prompt_tokens, node.candidates[node.chosen]) for node in episode.path]
        assert [(turn, prompt, candidate.text) for turn, prompt, candidate in spoken] == [
            (node.group, node.prompt_tokens, node.candidates[0].text) for node in alone.path
        ]
    assert [e.success for e in nested.episodes] == [e.success for e in first]
    assert 0 < episode_metrics(nested.episodes)["rollout/success_rate"] < 1


@settings(max_examples=15, deadline=None)
@given(
    branching=st.sampled_from([(2, 2), (1, 3), (3, 1), (2, 3)]),
    max_turns=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    done_rate=st.sampled_from([0.0, 0.1, 0.4]),
)
def test_a_candidate_earns_the_mean_of_the_episodes_below_it(
    branching: Any, max_turns: int, seed: int, done_rate: float
) -> None:
    starts = [Start(problem=e.problem, episode=0) for e in toy_problems(FAMILY, 2, seed, done_rate=done_rate)]
    router, rules = toy_router(FAMILY), make_nested_rules(FAMILY.roles, branching, max_turns)
    episodes = play(starts, rules, family=FAMILY, router=router, rubric=RUBRIC)
    assert episodes == tuple(play([s], rules, family=FAMILY, router=router, rubric=RUBRIC)[0] for s in starts)
    check_credit(episodes, FAMILY, router, RUBRIC, "leaves", FAMILY.roles)


@pytest.mark.parametrize("environment", [Votes, Race])
def test_agents_side_by_side_are_nested_in_their_order(environment: type[Environment]) -> None:
    family = family_of(environment)
    router = router_of(family, Speaker(family, lambda prompt, seed: str(4 + seed % 3)), max_new_tokens=4)
    rules = make_nested_rules(environment.turn_order, (2, 2, 3), max_turns=2)
    episodes = play(starts_of(family, 6), rules, family=family, router=router, rubric=rubric_of(family))
    assert any(node.parallel_index and node.parent for episode in episodes for node in episode.nodes)
    widths = [Counter((n.group.agent, len(n.candidates)) for n in e.nodes if n.is_trained_on) for e in episodes]
    if environment is Votes:  # where neither ann nor bob ends the episode
        assert widths == [{("ann", 2): 1, ("bob", 2): 2, ("judge", 3): 4}] * 6
    check_credit(episodes, family, router, rubric_of(family), "leaves", environment.turn_order)


def test_values_in_closed_form() -> None:
    """In the turn that is played anew Ann says 6 or 5; below each the judge says 6, which solves, or another number."""
    family = family_of(Votes)
    answers = iter("66" + "65" + "6166" * 10)
    engine = Speaker(family, lambda prompt, seed: next(answers))
    rules = make_nested_rules(("ann", "judge"), (2, 2), max_turns=1)
    (episode,) = play(
        starts_of(family), rules, family=family, router=router_of(family, engine), rubric=rubric_of(family)
    )
    assert shape_of(episode) == [
        (0, "ann", None, 1),
        (0, "judge", None, 1),
        (0, "ann", ROOT, 2),
        (0, "judge", (2, 0), 2),
        (0, "judge", (2, 1), 2),
    ]
    assert (episode.success, [node.candidates[node.chosen].text for node in episode.path]) == (True, ["6", "6"])
    recorded = RolloutShard(step=0, shard=0, policy_versions={"p": VERSION}, episodes=(episode,))
    scored = score_shard(recorded, family=family, rubric=rubric_of(family), credit="leaves")
    assert scored.rewards_E_N_K == (((None,), (None,), (0.5, 1.0), (1.0, 0.0), (1.0, 1.0)),)


class Frail(Toy):
    """Some answers cannot be scored."""

    def step(self, state: ToyState, agent: str, answer: str, tools: Tools) -> Step:
        if len(state.history) > 1 and answer.startswith(("0", "1", "2")):
            raise ExecutionFailed("no box")
        return super().step(state, agent, answer, tools)


def test_a_leaf_that_fails_is_left_out_and_a_candidate_without_leaves_has_no_reward() -> None:
    family = ToyFamily(2, Frail)
    router = toy_router(family)
    starts = [Start(problem=each.problem, episode=0) for each in toy_problems(family, 20, done_rate=0.0)]
    episodes = play(starts, make_nested_rules(family.roles, (2, 2), 2), family=family, router=router, rubric=RUBRIC)
    recorded = RolloutShard(step=0, shard=0, policy_versions={"p": VERSION}, episodes=episodes)
    scored = score_shard(
        recorded, family=family, rubric=RUBRIC, credit="leaves", turn_order=family.roles, max_unscorable_fraction=1.0
    )
    num_lost = num_partly = 0
    for episode, rewards_N_K in zip(episodes, scored.rewards_E_N_K, strict=True):
        assert (episode.error is None) or not episode.success
        for n, (node, rewards_K) in enumerate(zip(episode.nodes, rewards_N_K, strict=True)):
            if not node.is_trained_on or node.group.agent != "agent0":
                continue
            for k, reward in enumerate(rewards_K):
                below = [m for m, each in enumerate(episode.nodes) if each.parent == (n, k)]
                values = [v for m in below[:1] for v in rewards_N_K[m]]
                assert (reward is None) == all(v is None for v in values)
                num_lost += reward is None
                num_partly += reward is not None and None in values
    assert num_lost > 2
    assert num_partly > 2


def test_a_killed_nested_shard_resumes_after_its_last_block(tmp_path: Path) -> None:
    plan = make_plan(12, problems_per_block=4)
    first, every = RecordingGenerator(), RecordingGenerator()
    collect(replace(plan, problems=plan.problems[:4]), first)
    whole = collect(plan, every)
    store = LocalArtifactStore(tmp_path)

    class Dies(RecordingGenerator):
        def generate(self, requests: Any, version: Any) -> Any:
            if len(self.calls) == len(first.calls) + 3:
                raise KeyboardInterrupt
            return super().generate(requests, version)

    with pytest.raises(KeyboardInterrupt):
        collect(plan, Dies(), journal=Journal(store, "shard"))
    assert len(list(store.list("shard/blocks/"))) == 1
    engine = RecordingGenerator()
    resumed = collect(plan, engine, journal=Journal(store, "shard"))
    assert resumed == whole
    assert len(engine.calls) == len(every.calls) - len(first.calls)


def test_shards_and_blocks_change_no_answer() -> None:
    whole = collect(make_plan(9))
    blocks = collect(make_plan(9, problems_per_block=2))
    assert blocks.episodes == whole.episodes
    parts = [replace(make_plan(9), problems=make_plan(9).problems[at : at + 3]) for at in (0, 3, 6)]
    assert tuple(e for part in parts for e in collect(part).episodes) == whole.episodes


def test_only_compared_candidates_make_rows() -> None:
    shard = collect(make_plan(6))
    scored = score_shard(shard, family=FAMILY, rubric=RUBRIC, credit="leaves")
    batches, metrics = train_batches([shard], [scored], algorithm=choose_algorithm(), policies=["p"])
    compared = [node for episode in shard.episodes for node in episode.nodes if node.is_trained_on]
    assert metrics["signal/num_groups"] == len(compared) == 6 * 3
    rows = sum(len(group.completions_K_T) for group in batches["p"].groups)
    assert rows + len(batches["p"].lengths_without_signal) == sum(len(node.candidates) for node in compared)


@pytest.mark.parametrize(
    ("branching", "group_size", "order", "expected"),
    [
        (None, 8, ("a", "b"), (2, 4)),
        (None, 9, ("a", "b"), (2, 4)),
        (None, 8, ("a",), (8,)),
        (None, 8, (("a", "b"), "c"), (2, 2, 2)),
        ((3, 1), 8, ("a", "b"), (3, 1)),
    ],
)
def test_fan_outs(branching: Any, group_size: int, order: TurnOrder, expected: tuple[int, ...]) -> None:
    settings_ = RolloutConfig(mode="nested", branching=branching, group_size=group_size)
    assert branching_factors(settings_, order) == expected
    assert rollout_rules(settings_, turn_order=order, max_turns=2, seed=0, step=0).branching == expected


@pytest.mark.parametrize(
    ("branching", "group_size", "order", "told"),
    [
        (
            None,
            3,
            ("a", "b"),
            r"rollout\.group_size 3 with mode nested: 2 agents with 2 candidates each end in 4 episodes",
        ),
        ((2, 2), 8, ("a", "b", "a"), r"rollout\.branching \[2, 2\]: a turn has 3 actions; give one number for each"),
        (None, 8, (), r"expands a turn of a fixed order, .*next_role"),
    ],
)
def test_fan_outs_that_do_not_fit_the_team(branching: Any, group_size: int, order: TurnOrder, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        branching_factors(RolloutConfig(mode="nested", branching=branching, group_size=group_size), order)


def test_a_tree_and_its_path_are_the_same_for_equal_plans() -> None:
    first, again = collect(make_plan(5)), collect(make_plan(5))
    assert first == again
    assert [path_of(e) for e in first.episodes] == [path_of(e) for e in again.episodes]

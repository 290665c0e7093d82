"""Reward functions of one's own: what they see, what they add, and how their mistakes are told."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from components.artifacts import codec
from components.config import RewardConfig
from components.errors import ConfigurationError
from components.rewards.own_rewards import CustomReward, own_rewards
from components.rewards.rubric import rubric_for
from components.rewards.score import score_shard
from components.rollout.statistics import own_reward_metrics, step_metrics
from components.schema import Episode, Node, RolloutShard, ScoredShard
from tests.components.rewards.test_score import FAMILY, RUBRIC, list_rewards, shard

Own = Callable[[str], str]


def own(function: Callable[[Episode, Node], Any], weight: float = 1.0, component: str = "own.mine") -> CustomReward:
    return CustomReward(component=component, name="here:mine", function=function, weight=weight)


def score(played: RolloutShard, *functions: CustomReward) -> ScoredShard:
    return score_shard(played, family=FAMILY, rubric=RUBRIC, own=functions)


def flat(values_E_N_K: Any) -> list[Any]:
    return [value for values_N_K in values_E_N_K for values_K in values_N_K for value in values_K]


def lengths(episode: Episode, node: Node) -> list[int]:
    return [len(candidate.text) for candidate in node.candidates]


def test_components_are_added_with_their_weights() -> None:
    played = shard()
    found = score(
        played, own(lengths, -0.5, "own.lengths"), own(lambda e, n: [e.success] * len(n.candidates), 2.0, "own.end")
    )
    wanted = [
        candidate.reward - 0.5 * len(candidate.text) + 2.0 * episode.success
        for episode in played.episodes
        for node in episode.nodes
        for candidate in node.candidates
    ]
    assert {episode.success for episode in played.episodes} == {True, False}
    assert flat(found.rewards_E_N_K) == pytest.approx(wanted)
    assert found.own_E_N_K is not None
    assert set(found.own_E_N_K) == {"own.lengths", "own.end"}
    assert flat(found.own_E_N_K["own.lengths"]) == [
        len(c.text) for e in played.episodes for n in e.nodes for c in n.candidates
    ]
    assert codec.decode(codec.encode(found), ScoredShard) == found


def test_without_functions_the_payload_is_what_it_was_before_there_were_any() -> None:
    plain = score(shard())
    assert plain.own_E_N_K is None
    assert plain.rewards_E_N_K == list_rewards(shard())
    assert b"own_E_N_K" not in codec._unpack(codec.encode(plain))
    assert b"own_E_N_K" in codec._unpack(codec.encode(replace(plain, own_E_N_K={})))


def test_what_a_function_sees_is_what_the_replay_found_and_not_what_was_recorded() -> None:
    played, seen = shard(), []
    lying = tuple(
        replace(
            episode,
            success=not episode.success,
            nodes=tuple(
                replace(node, candidates=tuple(replace(c, reward=99.0) for c in node.candidates))
                for node in episode.nodes
            ),
        )
        for episode in played.episodes
    )

    def look(episode: Episode, node: Node) -> list[float]:
        seen.append(episode)
        return [candidate.reward for candidate in node.candidates]

    found = score(replace(played, episodes=lying), own(look))
    assert {episode.problem.problem_id: episode for episode in seen} == {
        e.problem.problem_id: e for e in played.episodes
    }
    assert flat(found.rewards_E_N_K) == pytest.approx([2 * reward for reward in flat(list_rewards(played))])


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "return [float('nan')] * len(node.candidates)",
            r":1: .*: returned nan for candidate 0; return a finite number",
        ),
        ("return [1.0] * (len(node.candidates) - 1) + [-1e400]", r":1: .*: returned -inf for candidate 3"),
        ("return [0.0]", r":1: .*: returned 1 values; return one for each of the 4 candidates"),
        ("return 0.0", r":1: .*: returned float; return a list with a number for each of node\.candidates"),
        ("import numpy; return numpy.array(1.0)", r":1: .*: returned ndarray; return a list with a number"),
        ("return {1.0, 2.0, 3.0, 4.0}", r":1: .*: returned set; return a list with a number"),
        ("return ['1'] * len(node.candidates)", r":1: .*: returned str for candidate 0; return a number"),
        (
            "\n    return [c.txt for c in node.candidates]",
            r":2: AttributeError: 'Candidate' object has no attribute 'txt'",
        ),
        ("\n    node.chosen = 0", r":2: FrozenInstanceError: cannot assign to field 'chosen'"),
    ],
)
def test_a_mistake_is_one_line_with_its_file_and_line(own_module: Own, body: str, told: str) -> None:
    module = own_module(f"def mine(episode, node): {body}\n")
    config = RewardConfig(functions=(f"{module}:mine",))
    functions = own_rewards(config, rubric_for(FAMILY, config))
    with pytest.raises(
        ConfigurationError, match=rf"^rewards\.functions '{module}:mine': .*{module}\.py{told}"
    ) as caught:
        score(shard(), *functions)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("{}:nothing", r"has no 'nothing'"),
        ("{}:Number", r"is not a function; write it as def Number\(episode, node\)"),
        ("{}:one", r":2: is called as one\(episode, node\): too many positional arguments"),
        ("{}:three", r":3: is called as three\(episode, node\): missing a required argument: 'config'"),
        ("not a name", r"write it as module:Name"),
    ],
)
def test_what_is_no_reward_function_is_told_before_anything_is_played(own_module: Own, name: str, told: str) -> None:
    text = "Number = int\ndef one(episode): ...\ndef three(episode, node, config): ...\n"
    config = RewardConfig(functions=(name.format(own_module(text)),))
    with pytest.raises(ConfigurationError, match=told):
        own_rewards(config, rubric_for(FAMILY, config))


def test_a_component_weighs_one_unless_the_configuration_says_otherwise() -> None:
    config = RewardConfig(functions=("mine:brevity", "mine:end"), weights={"own.brevity": 0.25})
    weights = rubric_for(FAMILY, config).weights
    assert (weights["own.brevity"], weights["own.end"], weights["team.quality"]) == (0.25, 1.0, 1.0)
    with pytest.raises(ConfigurationError, match=r"rewards\.weights\.own\.brevty = 1\.0.*did you mean 'own\.brevity'"):
        rubric_for(FAMILY, config.model_copy(update={"weights": {"own.brevty": 1.0}}))
    with pytest.raises(ValueError, match="two of one name would be one component"):
        RewardConfig(functions=("mine:brevity", "other:brevity"))


def test_each_component_is_shown_by_agent_without_its_weight() -> None:
    played = shard()
    found = score(played, own(lengths, 3.0, "own.lengths"))
    agents = {node.group.agent for episode in played.episodes for node in episode.nodes}
    values = own_reward_metrics([played], [found])
    assert set(values) == {f"reward/{agent}/own.lengths" for agent in agents}
    for agent in agents:
        mine = [len(c.text) for e in played.episodes for n in e.nodes if n.group.agent == agent for c in n.candidates]
        assert values[f"reward/{agent}/own.lengths"] == pytest.approx(sum(mine) / len(mine))
    assert values.items() <= step_metrics([played], [found]).items()
    assert own_reward_metrics([played], [score(played)]) == {}

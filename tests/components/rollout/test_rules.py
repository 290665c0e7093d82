"""Which candidate is handed on, and which seeds are drawn."""

import pytest

from components.identity import GroupKey, seed_for
from components.rollout.rules import playing_order
from components.turn_order import BRANCHING
from tests.components.rollout.toy_team import team_rules


def node(turn: int, agent: str) -> GroupKey:
    return GroupKey(problem_id="p", episode=0, turn=turn, agent=agent)


def test_ties_hand_on_the_first_of_the_best() -> None:
    assert team_rules(0.0).choose(node(0, "agent0"), [0.1, 1.3, -2.0, 1.3], is_last=False) == (1, False)


def test_mixed_hands_on_random_candidates_at_its_rate_and_never_from_the_last_agent() -> None:
    rules = team_rules(0.75)
    rewards = [0.0] * 7 + [1.0]
    drawn = [rules.choose(node(turn, "agent0"), rewards, is_last=False) for turn in range(2000)]
    explored = [chosen for chosen, random in drawn if random]
    assert abs(len(explored) / 2000 - 0.75) < 0.03
    assert set(explored) == set(range(8))
    assert all(chosen == 7 for chosen, random in drawn if not random)
    assert {rules.choose(node(turn, "agent1"), rewards, is_last=True) for turn in range(200)} == {(7, False)}


@pytest.mark.parametrize("num_scorable", range(1, 8))
def test_mixed_draws_among_the_candidates_that_can_be_scored(num_scorable: int) -> None:
    rules, rewards = team_rules(0.75), [0.0] * num_scorable
    drawn = [rules.choose(node(turn, "agent0"), rewards, is_last=False) for turn in range(500)]
    assert {chosen for chosen, _ in drawn} == set(range(num_scorable))
    assert any(random for _, random in drawn) == (num_scorable > 1)


def test_a_node_without_a_candidate_that_can_be_scored_has_no_choice() -> None:
    with pytest.raises(AssertionError, match="0 rewards of 8 candidates"):
        team_rules(0.75).choose(node(0, "agent0"), [], is_last=False)


def test_the_seeds_of_a_step_are_all_different_and_do_not_depend_on_the_batch() -> None:
    rules = team_rules(0.0)
    seeds = [s for turn in range(3) for agent in ("agent0", "agent1") for s in rules.seeds(node(turn, agent))]
    assert len(set(seeds)) == 3 * 2 * 8
    assert rules.seeds(node(1, "agent1"))[5] == seed_for(0, "rollout", 0, "p", 0, 1, "agent1", 5)


def test_only_single_leaves_agents_out() -> None:
    team = ("agent0", "agent1")
    assert playing_order("single", team, roles=team) == ("agent1",)
    assert playing_order("tree", team, roles=team) == playing_order("independent", team, roles=team) == team
    assert playing_order("single", ("agent1", ("a", "b")), roles=("a", "b", "agent1")) == ("b",)
    assert playing_order("single", BRANCHING, roles=team) == ("agent1",)

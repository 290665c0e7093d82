"""GiGPO compares whole episodes, and the actions of one agent that saw the same."""

import statistics
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.gigpo import step_returns
from components.algorithms.registry import find_estimator
from components.schema import Episode
from tests.components.algorithms.episodes import episode
from tests.sections import choose_algorithm

PLAIN = choose_algorithm(advantage="gigpo", normalize_std=False, step_discount=0.5)


def seeing(played: Episode, *states: int) -> Episode:
    """`played`, whose nodes have these prompts."""
    nodes = [replace(node, prompt_tokens=(state,)) for node, state in zip(played.nodes, states, strict=True)]
    return replace(played, nodes=tuple(nodes))


def test_the_faster_of_two_equal_episodes_is_preferred_where_they_part() -> None:
    episodes = [seeing(episode("a", 0, "tptp"), 1, 2, 3, 4), seeing(episode("a", 1, "tp"), 1, 5)]
    rewards = [((9.0,), (9.0,), (9.0,), (1.0,)), ((9.0,), (1.0,))]
    assert step_returns(episodes, rewards, 0.5) == [((0.5,), (0.5,), (1.0,), (1.0,)), ((1.0,), (1.0,))]
    found = find_estimator("gigpo")(episodes, rewards, PLAIN)
    assert found == [((-0.25,), (0.0,), (0.0,), (0.0,)), ((0.25,), (0.0,))]


def test_both_comparisons_add_up_with_the_weight() -> None:
    episodes = [seeing(episode("a", 0, "p"), 1), seeing(episode("a", 1, "p"), 1), seeing(episode("a", 2, "p"), 2)]
    rewards = [((1.0,),), ((0.0,),), ((0.5,),)]
    found = find_estimator("gigpo")(episodes, rewards, PLAIN.model_copy(update={"step_weight": 3.0}))
    assert found == [((0.5 + 3 * 0.5,),), ((-0.5 - 3 * 0.5,),), ((0.0,),)]


def test_a_state_that_is_visited_twice_in_an_episode_is_one_group() -> None:
    (found,) = find_estimator("gigpo")([seeing(episode("a", 0, "ptp"), 7, 1, 7)], [((9.0,), (9.0,), (2.0,))], PLAIN)
    assert found == ((-0.5,), (0.0,), (0.5,))


def test_equal_prompts_of_other_agents_and_problems_are_other_states() -> None:
    episodes = [seeing(episode(problem, 0, agent), 1) for problem, agent in (("a", "t"), ("a", "p"), ("b", "t"))]
    rewards = [((1.0,),), ((0.0,),), ((5.0,),)]
    assert find_estimator("gigpo")(episodes, rewards, PLAIN) == [((0.5,),), ((-0.5,),), ((0.0,),)]


def test_failed_episodes_and_unscored_actions_are_nobodys_alternative() -> None:
    episodes = [
        seeing(episode("a", 0, "tp"), 1, 2),
        seeing(episode("a", 1, "tp", error="broke"), 1, 2),
        seeing(episode("a", 2, "tp"), 1, 2),
        seeing(episode("a", 3, "tp"), 1, 3),
    ]
    rewards = [((0.0,), (1.0,)), ((0.0,), (50.0,)), ((None,), (0.0,)), ((0.0,), (0.5,))]
    found = find_estimator("gigpo")(episodes, rewards, PLAIN)
    assert found == [((0.5 + 0.25,), (0.5 + 0.5,)), ((None,), (None,)), ((None,), (-0.5 - 0.5,)), ((-0.25,), (0.0,))]


@st.composite
def plays(draw: Any) -> tuple[list[Episode], list[Any]]:
    shapes = draw(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["t", "tp", "tptp"])), max_size=7))
    episodes = [
        seeing(episode(problem, number, agents), *(draw(st.integers(0, 2)) for _ in agents))
        for number, (problem, agents) in enumerate(shapes)
    ]
    earned = st.sampled_from([0.0, 0.25, 1.0, -1.0])
    return episodes, [tuple((draw(earned),) for _ in each.nodes) for each in episodes]


def _normalise(value: float, group: list[float], epsilon: float) -> float:
    return 0.0 if min(group) == max(group) else (value - statistics.fmean(group)) / (statistics.pstdev(group) + epsilon)


@settings(deadline=None)
@given(plays(), st.floats(0, 3), st.floats(0.1, 1))
def test_it_is_the_papers_formula_by_brute_force(played: Any, weight: float, discount: float) -> None:
    episodes, rewards = played
    algorithm = choose_algorithm(advantage="gigpo", step_weight=weight, step_discount=discount, epsilon=0.01)
    found = find_estimator("gigpo")(episodes, rewards, algorithm)
    steps = [
        (each.problem.problem_id, node.group.agent, node.prompt_tokens, discount ** (turns - node.group.turn) * earned)
        for each, ((earned,), turns) in zip(
            episodes, ((r[-1], e.nodes[-1].group.turn) for r, e in zip(rewards, episodes, strict=True)), strict=True
        )
        for node in each.nodes
    ]
    values = iter(steps)
    for each, rewards_N_K, found_N_K in zip(episodes, rewards, found, strict=True):
        problem = each.problem.problem_id
        pairs = zip(episodes, rewards, strict=True)
        returns = [r[-1][0] for e, r in pairs if e.problem.problem_id == problem]
        for (advantage,) in found_N_K:
            *state, step = next(values)
            alike = [value for *other, value in steps if other == state]
            wanted = _normalise(rewards_N_K[-1][0], returns, 0.01) + weight * _normalise(step, alike, 0.01)
            assert advantage == pytest.approx(wanted, abs=1e-6)


@settings(deadline=None)
@given(plays(), st.randoms(use_true_random=False))
def test_the_order_of_episodes_moves_advantages_and_changes_none(played: Any, rng: Any) -> None:
    episodes, rewards = played
    found = find_estimator("gigpo")(episodes, rewards, PLAIN)
    order = list(range(len(episodes)))
    rng.shuffle(order)
    again = find_estimator("gigpo")([episodes[i] for i in order], [rewards[i] for i in order], PLAIN)
    for place, index in enumerate(order):
        assert [a for (a,) in again[place]] == pytest.approx([a for (a,) in found[index]], abs=1e-9)


@settings(deadline=None)
@given(plays())
def test_a_problem_is_compared_with_itself_alone_and_without_the_second_term_it_is_grpo(played: Any) -> None:
    episodes, rewards = played
    mine = [index for index, each in enumerate(episodes) if each.problem.problem_id == "a"]
    found = find_estimator("gigpo")(episodes, rewards, PLAIN)
    alone = find_estimator("gigpo")([episodes[i] for i in mine], [rewards[i] for i in mine], PLAIN)
    assert [found[i] for i in mine] == alone
    without = PLAIN.model_copy(update={"step_weight": 0.0})
    assert find_estimator("gigpo")(episodes, rewards, without) == find_estimator("grpo")(episodes, rewards, without)

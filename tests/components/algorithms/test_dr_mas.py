"""Dr. MAS compares an agent with itself, on one problem, over turns and episodes."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.algorithms.dr_mas import compare_agents
from tests.components.algorithms.episodes import episode
from tests.sections import choose_algorithm

PLAIN = choose_algorithm(advantage="dr_mas", normalize_std=False)


def test_each_agents_baseline_is_the_mean_over_its_own_actions() -> None:
    # Returns 1 and 0; the tool acts twice in the first episode and once in the second, the plan twice and never.
    episodes = [episode("a", 0, "tptp"), episode("a", 1, "t")]
    rewards = [((9.0,), (9.0,), (9.0,), (1.0,)), ((0.0,),)]
    tool, plan = 1 - 2 / 3, 0.0
    (first, second) = compare_agents(episodes, rewards, PLAIN)
    assert [a for (a,) in first] == pytest.approx([tool, plan, tool, plan])
    assert [a for (a,) in second] == pytest.approx([-2 / 3])


def test_another_problem_is_another_group() -> None:
    episodes = [episode("a", 0, "t"), episode("b", 0, "t"), episode("b", 1, "t")]
    assert compare_agents(episodes, [((5.0,),), ((1.0,),), ((0.0,),)], PLAIN) == [((0.0,),), ((0.5,),), ((-0.5,),)]


def test_in_a_tree_candidates_of_all_turns_are_one_group_with_their_own_rewards() -> None:
    played = [episode("a", 0, "tptp", num=2)]
    rewards = [((1.0, 0.0), (5.0, 5.0), (0.0, None), (5.0, 5.0))]
    (found,) = compare_agents(played, rewards, PLAIN)
    assert found == (
        pytest.approx((2 / 3, -1 / 3)),
        (0.0, 0.0),
        pytest.approx((-1 / 3, None)),
        (0.0, 0.0),
    )


def test_a_failed_episode_has_no_return_and_no_place_in_the_baseline() -> None:
    episodes = [episode("a", 0, "t"), episode("a", 1, "t", error="broke"), episode("a", 2, "t")]
    assert compare_agents(episodes, [((1.0,),), ((50.0,),), ((0.0,),)], PLAIN) == [((0.5,),), ((None,),), ((-0.5,),)]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["t", "tp", "tpt", "tptp"]), st.floats(-5, 5)), max_size=8
    )
)
def test_it_is_the_papers_formula_by_brute_force(played: list[tuple[str, str, float]]) -> None:
    episodes = [episode(problem, number, agents) for number, (problem, agents, _) in enumerate(played)]
    rewards = [tuple((earned,) for _ in agents) for _, agents, earned in played]
    found = compare_agents(episodes, rewards, choose_algorithm(advantage="dr_mas", epsilon=0.01))
    for (problem, agents, earned), advantages in zip(played, found, strict=True):
        for agent, (advantage,) in zip(agents, advantages, strict=True):
            returns = [r for p, names, r in played if p == problem for name in names if name == agent]
            wanted = (earned - statistics.fmean(returns)) / (statistics.pstdev(returns) + 0.01)
            assert advantage == pytest.approx(wanted if min(returns) != max(returns) else 0.0, abs=1e-7)

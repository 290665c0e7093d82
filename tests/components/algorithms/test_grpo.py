"""Plain GRPO compares whole episodes of one problem, short ones and long ones alike."""

from components.algorithms.grouping import episode_return
from components.algorithms.grpo import grpo_advantages
from tests.components.algorithms.episodes import episode
from tests.sections import choose_algorithm

GRPO = choose_algorithm(advantage="grpo", normalize_std=False)


def test_the_return_is_the_reward_of_the_final_chosen_action() -> None:
    assert episode_return(episode("a", 0, "tptp"), [[9.0], [9.0], [9.0], [1.3]]) == 1.3
    assert episode_return(episode("a", 0, "tp", num=2, chosen=1), [[9.0, 9.0], [0.1, 0.7]]) == 0.7
    assert episode_return(episode("a", 0, "tp", error="broke"), [[9.0], [9.0]]) is None
    assert episode_return(episode("a", 0, ""), []) is None


def test_an_episode_that_ended_early_is_compared_too_and_all_its_actions_share_its_advantage() -> None:
    episodes = [episode("a", 0, "tp"), episode("a", 1, "tptp"), episode("b", 0, "tp"), episode("b", 1, "tptp")]
    rewards = [
        ((0.0,), (1.0,)),
        ((1.0,), (1.0,), (1.0,), (0.0,)),
        ((0.2,), (5.0,)),
        ((0.1,), (0.3,), (0.1,), (4.0,)),
    ]
    assert grpo_advantages(episodes, rewards, GRPO) == [
        ((0.5,), (0.5,)),
        ((-0.5,),) * 4,
        ((0.5,), (0.5,)),
        ((-0.5,),) * 4,
    ]


def test_a_failed_episode_leaves_the_baseline() -> None:
    episodes = [episode("a", 0, "tp"), episode("a", 1, "t", error="broke"), episode("a", 2, "tp")]
    rewards = [((0.0,), (1.0,)), ((-100.0,),), ((0.0,), (0.0,))]
    assert grpo_advantages(episodes, rewards, GRPO) == [((0.5,), (0.5,)), ((None,),), ((-0.5,), (-0.5,))]


def test_an_episode_without_siblings_learns_nothing() -> None:
    assert grpo_advantages([episode("a", 0, "p")], [((7.0,),)], GRPO) == [((0.0,),)]

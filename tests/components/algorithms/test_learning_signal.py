"""Whether one problem teaches anything, as the sampler sees it."""

from dataclasses import replace

import pytest

from components.algorithms.learning_signal import has_signal
from components.schema import Episode
from tests.components.algorithms.episodes import episode
from tests.sections import choose_algorithm

TREE = choose_algorithm()


def earning(played: Episode, *rewards_N_K: tuple[float | None, ...]) -> Episode:
    """`played` with these rewards; None makes a candidate unscorable."""
    turns = []
    for node, rewards_K in zip(played.nodes, rewards_N_K, strict=True):
        candidates = [
            replace(c, reward=reward)
            if reward is not None
            else replace(c, reward=9.9, outcome=replace(c.outcome, unscorable="the sandbox failed"))
            for c, reward in zip(node.candidates, rewards_K, strict=True)
        ]
        turns.append(replace(node, candidates=tuple(candidates)))
    return replace(played, nodes=tuple(turns))


def test_one_node_that_differs_is_enough() -> None:
    silent, loud = ((1.0, 1.0), (0.0, 0.0)), ((1.0, 1.0), (0.0, 0.5))
    assert not has_signal([earning(episode("a", 0, "tp", num=2), *silent)], TREE)
    assert has_signal([earning(episode("a", 0, "tp", num=2), *loud)], TREE)


def test_what_could_not_be_scored_is_no_difference() -> None:
    assert not has_signal([earning(episode("a", 0, "t", num=3), (1.0, None, 1.0))], TREE)


@pytest.mark.parametrize(("advantage", "expected"), [("at_grpo", False), ("dr_mas", True)])
def test_nodes_that_differ_from_each_other_teach_where_they_are_compared(advantage: str, expected: bool) -> None:
    played = earning(episode("a", 0, "tptp", num=2), (1.0, 1.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))
    assert has_signal([played], choose_algorithm(advantage=advantage)) is expected


def test_whole_episodes_are_compared_by_what_they_return() -> None:
    algorithm = choose_algorithm(advantage="grpo")
    won, lost = (earning(episode("a", n, "tp"), (0.5,), (r,)) for n, r in ((0, 1.0), (1, 0.0)))
    assert has_signal([won, lost], algorithm)
    assert not has_signal([won, earning(episode("a", 1, "tp"), (0.1,), (1.0,))], algorithm)
    assert not has_signal([won, replace(lost, error="broke")], algorithm)


def test_an_episode_without_a_turn_teaches_nothing() -> None:
    assert not has_signal([episode("a", 0, "")], TREE)

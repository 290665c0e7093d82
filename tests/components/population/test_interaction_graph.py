"""The graph counts what was played: by hand, by numpy, after resumes, and as networkx reads it."""

from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.population.interaction_graph import (
    Edge,
    InteractionGraph,
    PlayedEpisode,
    graphml,
    make_played_episode,
)
from components.population.move_rewards import Move

ACTIONS = st.fixed_dictionaries({}, optional=dict.fromkeys("abc", st.sampled_from(["cooperate", "compete"])))
EPISODES = st.lists(st.tuples(st.tuples(*[st.floats(-50, 50)] * 3), st.lists(ACTIONS, max_size=4)), max_size=12).map(
    lambda drawn: [
        PlayedEpisode(order=i, raw_returns=dict(zip("abc", returns, strict=True)), actions_T=actions)  # type: ignore[arg-type]
        for i, (returns, actions) in enumerate(drawn)
    ]
)


def test_an_edge_leads_from_who_acted() -> None:
    step: Any = {"a": "cooperate", "b": "compete"}
    graph = InteractionGraph().after_episodes(
        [PlayedEpisode(order=0, raw_returns={}, actions_T=[step, {"a": "compete"}])]
    )
    assert graph.edges == {"a": {"b": Edge(num_cooperated=1)}, "b": {"a": Edge(num_competed=1)}}
    graph = graph.after_transfer("a", "b", 0.25).after_transfer("a", "b", 0.5)
    assert graph.edge("a", "b") == Edge(num_cooperated=1, num_transfers=2, transferred_share=0.75)
    assert graph.edge("b", "c") == Edge()
    assert graph.members() == ("a", "b")


def test_a_step_of_an_episode_ends_before_an_agent_acts_again() -> None:
    def move(**answers: str) -> Move:
        nodes = tuple((n, "abc".index(agent)) for n, agent in enumerate(answers))
        return Move(
            turn=0, nodes=nodes, answers_K_M=(("?",) * len(nodes), (*answers.values(),)), rewards_K_A=(), chosen=1
        )

    moves = [
        move(a="cooperate"),
        move(b="I see.\n Defect", c="what?"),
        move(a="compete"),
        move(b="cooperate", c="compete"),
    ]
    found = make_played_episode(moves, "abc", ["one", "two@3", "two@5"], [1, 2, 3], order=7)
    second, third = "two@past/b", "two@past/c"
    assert found == PlayedEpisode(
        order=7,
        raw_returns={"one": 1, second: 2, third: 3},
        actions_T=[
            {"one": "cooperate", second: "compete"},
            {"one": "compete", second: "cooperate", third: "compete"},
        ],
    )
    assert [*make_played_episode((), "ab", ["one", "two@3"], [1, 2], order=0).raw_returns] == ["one", "two@past"]


@settings(max_examples=40)
@given(EPISODES)
def test_counts_and_correlations_are_those_of_the_episodes(episodes: list[PlayedEpisode]) -> None:
    graph = InteractionGraph().after_episodes(episodes)
    for source, target in (("a", "b"), ("b", "a"), ("c", "a")):
        together = [step for each in episodes for step in each.actions_T if {source, target} <= step.keys()]
        edge = graph.edge(source, target)
        assert edge.num_cooperated == sum(step[source] == "cooperate" for step in together)
        assert edge.num_competed == sum(step[source] == "compete" for step in together)
    table = np.array([[each.raw_returns[name] for name in "abc"] for each in episodes]).reshape(-1, 3)
    if len(table) > 2 and table.std(0).min() > 0.1:
        assert graph.correlation("c", "a") == pytest.approx(np.corrcoef(table.T)[0, 2], abs=1e-9)


def test_a_correlation_survives_a_large_common_offset() -> None:
    episodes = [PlayedEpisode(order=i, raw_returns={"a": 1e9 + i % 2, "b": 1e9 - i % 2}) for i in range(50)]
    assert InteractionGraph().after_episodes(episodes).correlation("a", "b") == pytest.approx(-1)
    constant = [PlayedEpisode(order=i, raw_returns={"a": 1.0, "b": float(i)}) for i in range(5)]
    assert InteractionGraph().after_episodes(constant).correlation("a", "b") is None
    assert InteractionGraph().after_episodes(constant[:1]).correlation("b", "a") is None


@settings(max_examples=40)
@given(EPISODES, st.integers(0, 12), st.randoms(use_true_random=False))
def test_parts_and_the_order_of_arrival_change_no_bit(episodes: list[PlayedEpisode], kill: int, rng: Any) -> None:
    early, late = episodes[:kill], episodes[kill:]
    rng.shuffle(late)
    found = InteractionGraph().after_episodes(early).after_episodes(late)
    assert found == InteractionGraph().after_episodes(episodes)


@settings(max_examples=40)
@given(EPISODES, st.floats(0, 1))
def test_networkx_reads_back_every_edge(episodes: list[PlayedEpisode], share: float) -> None:
    graph = InteractionGraph().after_episodes(episodes).after_transfer("a", 'd "<&> é', share)
    text = graphml(graph)
    assert text == graphml(graph)
    read = networkx.parse_graphml(text)
    assert read.is_directed()
    assert sorted(read.nodes) == list(graph.members())
    for source, row in graph.edges.items():
        for target, edge in row.items():
            data = read.edges[source, target]
            assert data["num_cooperated"] == edge.num_cooperated
            assert data["num_competed"] == edge.num_competed
            assert data["transferred_share"] == edge.transferred_share
    for one, other, data in read.edges(data=True):
        assert data.get("return_correlation") == graph.correlation(one, other)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: InteractionGraph().after_transfer("a", "a", 0.1), "two members"),
        (lambda: InteractionGraph().after_transfer("a", "b", 1.1), "transfer of 1"),
        (lambda: graphml(InteractionGraph().after_transfer("a\n", "b", 1.0)), "printable"),
        (
            lambda: InteractionGraph().after_episodes([PlayedEpisode(order=7, raw_returns={"a": float("inf")})]),
            r"raw_returns of \['a'\] in episode 7",
        ),
        (
            lambda: InteractionGraph().after_episodes(
                [PlayedEpisode(order=7, raw_returns={}, actions_T=[{"a": "wait", "b": "wait"}])]  # type: ignore[dict-item]
            ),
            "action 'wait'",
        ),
    ],
)
def test_what_no_episode_can_hold_is_refused(call: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        call()

"""The graph for people: a picture of any name."""

from typing import Any

import pytest

from components.population.interaction_graph import (
    Edge,
    InteractionGraph,
    PlayedEpisode,
    edge_color,
    graph_picture,
    list_undirected,
)

HOSTILE = "</title></text><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e$x_{1}$"
STEP: Any = {"a": "cooperate", "b": "compete", HOSTILE: "cooperate"}


def make_graph(*names: str) -> InteractionGraph:
    episodes = [
        PlayedEpisode(order=i, raw_returns={each: float(i) for each in names}, actions_T=[STEP]) for i in range(3)
    ]
    return InteractionGraph().after_episodes(episodes).after_transfer("a", "b", 0.25)


def test_who_did_nothing_to_each_other_is_joined_by_the_correlation_of_returns() -> None:
    episodes = [PlayedEpisode(order=i, raw_returns={"a": float(i), "b": -float(i), "c": 1.0}) for i in range(3)]
    graph = InteractionGraph().after_episodes(episodes)
    assert list_undirected(graph) == [("a", "b", pytest.approx(-1.0))]
    assert list_undirected(graph.after_transfer("b", "a", 0.5)) == []
    alone = InteractionGraph().after_episodes(episodes[:1])
    assert graph_picture(graph) != graph_picture(alone), "a line is drawn"


def test_a_picture_of_any_name_is_drawn_without_a_display() -> None:
    picture = graph_picture(make_graph("a", "b"), title=HOSTILE)
    assert picture.startswith(b"\x89PNG")
    assert picture != graph_picture(InteractionGraph(), title=HOSTILE)


def test_colors_by_hand() -> None:
    assert edge_color(Edge(num_cooperated=3)) == "#2ca02c"
    assert edge_color(Edge(num_competed=3)) == "#d62728"
    assert edge_color(Edge(num_cooperated=1, num_competed=1)) == "#81642a"

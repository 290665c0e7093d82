"""The graph for people: a page that a hostile name cannot break out of, a picture, and numbers by networkx."""

from html.parser import HTMLParser
from typing import Any

import pytest

from components.errors import ConfigurationError
from components.population.graph_page import Frame, edge_color, graph_page, graph_picture, list_undirected
from components.population.interaction_graph import Edge, InteractionGraph, PlayedEpisode

HOSTILE = "</title></text><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e$x_{1}$"
STEP: Any = {"a": "cooperate", "b": "compete", HOSTILE: "cooperate"}


class Tags(HTMLParser):
    """The tags of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def make_graph(*names: str) -> InteractionGraph:
    episodes = [
        PlayedEpisode(order=i, raw_returns={each: float(i) for each in names}, actions_T=[STEP]) for i in range(3)
    ]
    return InteractionGraph().after_episodes(episodes).after_transfer("a", "b", 0.25)


def test_a_page_loads_nothing_and_holds_names_as_text_alone() -> None:
    page = graph_page(
        [Frame(label=HOSTILE, graph=make_graph("a", "b")), Frame(label="end", graph=make_graph("a", "b"))]
    )
    tags = Tags(page).found
    assert [tag for tag, _ in tags].count("script") == 1
    assert not any(tag in {"img", "link", "iframe"} for tag, _ in tags)
    assert not any(name.startswith("on") or name in {"src", "href"} for _, attributes in tags for name in attributes)
    assert "\u202e" not in page
    assert sum(tag == "circle" for tag, _ in tags) == 2 * 3
    assert ("input", "1") in [(tag, attributes.get("max")) for tag, attributes in tags], "a slider over two frames"
    with pytest.raises(ConfigurationError, match="frames"):
        graph_page([])


def test_who_did_nothing_to_each_other_is_joined_by_the_correlation_of_returns() -> None:
    episodes = [PlayedEpisode(order=i, raw_returns={"a": float(i), "b": -float(i), "c": 1.0}) for i in range(3)]
    graph = InteractionGraph().after_episodes(episodes)
    assert list_undirected(graph) == [("a", "b", pytest.approx(-1.0))]
    assert list_undirected(graph.after_transfer("b", "a", 0.5)) == []
    page = graph_page([Frame(label="end", graph=graph)])
    assert [each["stroke"] for tag, each in Tags(page).found if tag == "path"] == ["#d62728"]
    assert "<td>a</td><td>b</td><td>0</td>" in page
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

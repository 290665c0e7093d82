"""The interaction graph for people, as a picture."""

from io import BytesIO
from itertools import combinations
from math import cos, log1p, pi, sin

from components.population.interaction_graph import Edge, InteractionGraph
from components.text.escaping import printable

SIZE = 480
"""Of the picture, in its own units."""
_RADIUS = 0.38
_BEND = 0.08
"""How far an arrow's middle lies beside the straight line, so that both directions are seen."""


def graph_picture(graph: InteractionGraph, *, title: str = "Interactions") -> bytes:
    """The graph as PNG, 800 x 800 pixels, drawn without a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 8), dpi=100)
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(0, SIZE)
    axes.set_ylim(SIZE, 0)
    axes.set_title(printable(title), parse_math=False)
    places = positions(graph)
    for source, target, edge in edges(graph):
        style = {"arrowstyle": "-|>", "color": edge_color(edge), "linewidth": edge_width(edge)}
        bend = {"connectionstyle": f"arc3,rad={2 * _BEND}", "shrinkA": 8, "shrinkB": 8, "alpha": 0.7}
        axes.annotate("", xy=places[target], xytext=places[source], arrowprops={**style, **bend})
    for one, other, value in list_undirected(graph):
        (x, other_x), (y, other_y) = zip(places[one], places[other], strict=True)
        axes.plot([x, other_x], [y, other_y], ":", color=_color((1 + value) / 2), alpha=0.7)
    for name, (x, y) in places.items():
        axes.plot([x], [y], "o", color="#1f77b4", markersize=12)
        axes.text(x, y - 14, printable(name), ha="center", parse_math=False)
    picture = BytesIO()
    figure.set_canvas(FigureCanvasAgg(figure))
    figure.savefig(picture, format="png")
    return picture.getvalue()


def edges(graph: InteractionGraph) -> list[tuple[str, str, Edge]]:
    """Source, target and edge of all edges with something in them, by name."""
    found = [
        (source, target, graph.edge(source, target)) for source in sorted(graph.edges) for target in graph.edges[source]
    ]
    return sorted((each for each in found if each[2] != Edge()), key=lambda each: each[:2])


def list_undirected(graph: InteractionGraph) -> list[tuple[str, str, float]]:
    """The pairs without an edge whose returns are correlated, by name, as all are in a game without cooperation."""
    return [
        (one, other, value)
        for one, other in combinations(graph.members(), 2)
        if graph.edge(one, other) == graph.edge(other, one) == Edge()
        and (value := graph.correlation(one, other)) is not None
    ]


def positions(graph: InteractionGraph) -> dict[str, tuple[float, float]]:
    """Where each member is drawn: on a circle, in the order of the names, the first at the top."""
    members = graph.members()
    turns = [2 * pi * index / len(members) for index in range(len(members))]
    return {
        name: (SIZE * (0.5 + _RADIUS * sin(turn)), SIZE * (0.5 - _RADIUS * cos(turn)))
        for name, turn in zip(members, turns, strict=True)
    }


def edge_color(edge: Edge) -> str:
    """Green for all cooperation, red for all competition, mixed between; blue for weights alone.

    **Example** 1 cooperated and none competed: `#2ca02c`.
    """
    total = edge.num_cooperated + edge.num_competed
    if not total:
        return "#1f77b4"
    return _color(edge.num_cooperated / total)


def _color(share: float) -> str:
    """Red at 0, green at 1, mixed between."""
    green, red = (44, 160, 44), (214, 39, 40)
    mixed = (round(share * one + (1 - share) * other) for one, other in zip(green, red, strict=True))
    return "#" + "".join(f"{each:02x}" for each in mixed)


def edge_width(edge: Edge) -> float:
    """In units of the picture: more for more actions, slower than in proportion."""
    return round(1 + log1p(edge.num_cooperated + edge.num_competed + edge.num_transfers), 2)

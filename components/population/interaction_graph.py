"""Who did what to whom: a graph whose edges come from played episodes and from weights that moved.

An edge leads from who acted to who was affected: how often it cooperated and competed while the other was there, and
how much of its weights the other took over. Besides, each pair has the correlation of its raw returns. The graph is a
value: JSON, folded in the order of the episodes, equal to the bit after a resume; `graphml` is its text for Gephi, yEd
or networkx.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import combinations
from math import cos, isfinite, log1p, pi, sin, sqrt
from typing import Literal
from xml.etree import ElementTree

from components.errors import ConfigurationError
from components.population.move_rewards import Move
from components.population.payoffs import in_order
from components.population.seating import member_and_step
from components.text.escaping import printable

Action = Literal["cooperate", "compete"]
_ACTIONS: Mapping[str, Action] = {"cooperate": "cooperate", "compete": "compete", "defect": "compete"}
"""What an answer is, by its last line in small letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedEpisode:
    """One episode: the raw return of each member that played, and what each did in each step; who did nothing is left out."""

    order: int
    raw_returns: Mapping[str, float]
    actions_T: Sequence[Mapping[str, Action]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What one member did to another: steps, and weight transfers with the sum of their shares."""

    num_cooperated: int = 0
    num_competed: int = 0
    num_transfers: int = 0
    transferred_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JointReturns:
    """Means and co-moments of two members' returns over the episodes that both played (Welford's update)."""

    num_episodes: int = 0
    mean_one: float = 0.0
    mean_other: float = 0.0
    spread_one: float = 0.0
    spread_other: float = 0.0
    joint: float = 0.0

    def after(self, one: float, other: float) -> "JointReturns":
        """The moments after one more episode."""
        num = self.num_episodes + 1
        from_one, from_other = one - self.mean_one, other - self.mean_other
        mean_one, mean_other = self.mean_one + from_one / num, self.mean_other + from_other / num
        return JointReturns(
            num_episodes=num,
            mean_one=mean_one,
            mean_other=mean_other,
            spread_one=self.spread_one + from_one * (one - mean_one),
            spread_other=self.spread_other + from_other * (other - mean_other),
            joint=self.joint + from_one * (other - mean_other),
        )

    def correlation(self) -> float | None:
        """Pearson's correlation, -1 to 1; None before two episodes, and while one of both never changes."""
        if self.spread_one <= 0 or self.spread_other <= 0:
            return None
        return max(-1.0, min(1.0, self.joint / (sqrt(self.spread_one) * sqrt(self.spread_other))))


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionGraph:
    """`edges` is source -> target -> edge. `returns` is member -> member -> moments, with the smaller name first."""

    edges: Mapping[str, Mapping[str, Edge]] = field(default_factory=dict)
    returns: Mapping[str, Mapping[str, JointReturns]] = field(default_factory=dict)

    def after_episodes(self, episodes: Sequence[PlayedEpisode]) -> "InteractionGraph":
        """The graph after episodes, folded by `order`. Raises ConfigurationError for a return that is not finite.

        **Example** a cooperates and b competes in one step: a -> b has one cooperation, b -> a one competition.
        """
        edges = {source: dict(row) for source, row in self.edges.items()}
        returns = {one: dict(row) for one, row in self.returns.items()}
        for episode in in_order(episodes):
            if bad := [name for name, value in episode.raw_returns.items() if not isfinite(value)]:
                raise ConfigurationError(f"raw_returns of {bad} in episode {episode.order}: not finite; leave it out")
            for one, other in combinations(sorted(episode.raw_returns), 2):
                row = returns.setdefault(one, {})
                pair = (episode.raw_returns[one], episode.raw_returns[other])
                row[other] = row.get(other, JointReturns()).after(*pair)
            for actions in episode.actions_T:
                for source, action in actions.items():
                    for target in sorted(actions.keys() - {source}):
                        _add_action(edges.setdefault(source, {}), target, action)
        return InteractionGraph(edges=edges, returns=returns)

    def after_transfer(self, source: str, target: str, share: float) -> "InteractionGraph":
        """The graph after `target` took over this share, 0 to 1, of the weights of `source`."""
        if source == target or not 0 <= share <= 1:
            raise ConfigurationError(f"transfer of {share} from {source!r} to {target!r}: use 0 to 1 and two members")
        edge = self.edge(source, target)
        moved = replace(edge, num_transfers=edge.num_transfers + 1, transferred_share=edge.transferred_share + share)
        return replace(self, edges={**self.edges, source: {**self.edges.get(source, {}), target: moved}})

    def edge(self, source: str, target: str) -> Edge:
        """What `source` did to `target`; all zeros if nothing."""
        return self.edges.get(source, {}).get(target, Edge())

    def correlation(self, one: str, other: str) -> float | None:
        """The correlation of two members' raw returns; None where it is not defined."""
        first, second = sorted((one, other))
        return self.returns.get(first, {}).get(second, JointReturns()).correlation()

    def members(self) -> tuple[str, ...]:
        """Everybody in the graph, sorted."""
        found = set(self.edges) | set(self.returns)
        for row in (*self.edges.values(), *self.returns.values()):
            found |= set(row)
        return tuple(sorted(found))


def make_played_episode(
    moves: Sequence[Move],
    agents: Sequence[str],
    players_A: Sequence[str],
    raw_returns_A: Sequence[float],
    *,
    order: int,
) -> PlayedEpisode:
    """An episode of a run as the graph counts it. A step of it ends before an agent acts again.

    All past selves of a member are one player, as `first@past`; a player of several agents has a seat for
    each, as `first/player_0`.

    **Example** ann leads with "cooperate", then bob and cid say "compete" at once: one step of three actions.
    """
    seats_A = [member if step is None else f"{member}@past" for member, step in map(member_and_step, players_A)]
    names_A = [
        f"{seat}/{agent}" if seats_A.count(seat) > 1 else seat for seat, agent in zip(seats_A, agents, strict=True)
    ]
    return PlayedEpisode(
        order=order,
        raw_returns=dict(zip(names_A, raw_returns_A, strict=True)),
        actions_T=[{names_A[a]: action for a, action in step.items()} for step in _steps(moves) if step],
    )


def _steps(moves: Sequence[Move]) -> Iterator[dict[int, Action]]:
    """The actions of each step by the place of the agent; answers that are no action are left out."""
    acted: set[int] = set()
    actions: dict[int, Action] = {}
    for move in moves:
        acting = [a for _, a in move.nodes]
        if acted & set(acting):
            yield actions
            acted, actions = set(), {}
        acted |= set(acting)
        for a, answer in zip(acting, move.answers_K_M[move.chosen], strict=True):
            said = answer.strip().rpartition("\n")[2].strip().lower()
            if said in _ACTIONS:
                actions[a] = _ACTIONS[said]
    yield actions


def graphml(graph: InteractionGraph) -> str:
    """The graph as GraphML: a node for each member, a directed edge with all counts, and the correlation where it is defined.

    Pairs that only share a correlation have an edge, too, from the smaller name. Raises ConfigurationError for a name
    that XML cannot hold. Source: http://graphml.graphdrawing.org/specification.html.
    """
    counts = {"num_cooperated": "int", "num_competed": "int", "num_transfers": "int", "transferred_share": "double"}
    root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    for name, kind in {**counts, "return_correlation": "double"}.items():
        ElementTree.SubElement(root, "key", {"id": name, "for": "edge", "attr.name": name, "attr.type": kind})
    body = ElementTree.SubElement(root, "graph", edgedefault="directed")
    for member in graph.members():
        if not member or not member.isprintable():
            raise ConfigurationError(f"member {member!r}: use a name of printable characters")
        ElementTree.SubElement(body, "node", id=member)
    pairs = {(source, target) for source, row in graph.edges.items() for target in row}
    alone = {(one, other) for one, row in graph.returns.items() for other in row if (other, one) not in pairs}
    for source, target in sorted(pairs | alone):
        edge = ElementTree.SubElement(body, "edge", source=source, target=target)
        values = {name: getattr(graph.edge(source, target), name) for name in counts}
        if (correlation := graph.correlation(source, target)) is not None:
            values["return_correlation"] = correlation
        for name, value in values.items():
            ElementTree.SubElement(edge, "data", key=name).text = repr(value)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_action(row: dict[str, Edge], target: str, action: Action) -> None:
    edge = row.get(target, Edge())
    if action == "cooperate":
        row[target] = replace(edge, num_cooperated=edge.num_cooperated + 1)
    elif action == "compete":
        row[target] = replace(edge, num_competed=edge.num_competed + 1)
    else:
        raise ConfigurationError(f"action {action!r}: use cooperate or compete")


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

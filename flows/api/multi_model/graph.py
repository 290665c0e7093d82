"""The picture of who did what to whom by its documented name: a log of events, drawn as the runs' own graphs are."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from components.errors import ConfigurationError
from components.frozen import Frozen
from components.machine.whole_files import write_whole
from components.population.interaction_graph import Action, InteractionGraph, PlayedEpisode, graph_picture, graphml
from flows.api.multi_model.fields import Finite, Share, check_arguments, explain_faults

_Name = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
"""What GraphML can hold."""


class _Episode(Frozen):
    """A line of the log: each member's raw return, and what each did in each step."""

    event_type: Literal["episode"]
    timestamp: float = Field(default_factory=time.time)
    raw_returns: dict[_Name, Finite] = Field(min_length=1)
    actions_T: list[dict[_Name, Action]]

    def add_to(self, graph: InteractionGraph, *, order: int) -> InteractionGraph:
        played = PlayedEpisode(order=order, raw_returns=self.raw_returns, actions_T=self.actions_T)
        return graph.after_episodes([played])


class _Transfer(Frozen):
    """A line of the log: `target_id` took over a share of the weights of `source_id`."""

    event_type: Literal["weight_transfer"]
    timestamp: float = Field(default_factory=time.time)
    source_id: _Name
    target_id: _Name
    share: Share

    def add_to(self, graph: InteractionGraph, *, order: int) -> InteractionGraph:
        return graph.after_transfer(self.source_id, self.target_id, self.share)


_EVENT: TypeAdapter[_Episode | _Transfer] = TypeAdapter(
    Annotated[_Episode | _Transfer, Field(discriminator="event_type")]
)


class GraphVisualizer:
    """Who cooperated or competed with whom, and whose weights went where: a log of events, and pictures of it.

    **Example**

        graph = create_graph_visualizer("graph.jsonl")
        graph.log_episode({"a": 1.0, "b": 0.5}, [{"a": "cooperate", "b": "compete"}])
        graph.export_png("graph.png")
    """

    @check_arguments
    def __init__(self, log_file: str | Path = "graph_visualization.log") -> None:
        """The log holds JSON lines; what is in it already is a part of the graph. Raises ConfigurationError for no file."""
        if Path(log_file).is_dir():
            raise ConfigurationError(f"log_file {str(log_file)!r}: give the path of a file")
        self.log_file = Path(log_file)

    def log_episode(self, raw_returns: Mapping[str, float], actions: Sequence[Mapping[str, str]]) -> None:
        """A played episode: each member's raw return, and what each did in each step. Raises ConfigurationError."""
        self._append({"event_type": "episode", "raw_returns": raw_returns, "actions_T": actions})

    def log_weight_transfer(self, source_id: str, target_id: str, share: float) -> None:
        """`target_id` took over this share, 0 to 1, of the weights of `source_id`. Raises ConfigurationError."""
        moved = {"source_id": source_id, "target_id": target_id, "share": share}
        self._append({"event_type": "weight_transfer", **moved})

    def graph(self) -> InteractionGraph:
        """The graph of all events. Raises ConfigurationError for a line that is no event."""
        graph = InteractionGraph()
        for number, line in enumerate(self._read_lines(), start=1):
            try:
                with explain_faults("no such field", ()):
                    graph = _EVENT.validate_json(line).add_to(graph, order=number)
            except ConfigurationError as error:
                where = f"log_file {str(self.log_file)!r}, line {number}"
                raise ConfigurationError(f"{where}: {error}; this is no event: remove it") from error
        return graph

    def get_statistics(self) -> dict[str, Any]:
        """Numbers of members, edges, events, actions and transfers, and the rate of cooperation, None without an action."""
        edges = [edge for targets in self.graph().edges.values() for edge in targets.values()]
        cooperated, competed = sum(each.num_cooperated for each in edges), sum(each.num_competed for each in edges)
        return {
            "num_members": len(self.graph().members()),
            "num_edges": len(edges),
            "num_events": len(self._read_lines()),
            "num_cooperated": cooperated,
            "num_competed": competed,
            "num_transfers": sum(each.num_transfers for each in edges),
            "cooperation_rate": cooperated / (cooperated + competed) if cooperated + competed else None,
        }

    def export_graphml(self, path: str | Path) -> str:
        """Write the graph for Gephi, yEd or networkx; the path."""
        write_whole(Path(path), graphml(self.graph()))
        return str(path)

    def export_png(self, path: str | Path) -> str:
        """Draw the graph, as a run does at its end; the path."""
        Path(path).write_bytes(graph_picture(self.graph()))
        return str(path)

    def _append(self, values: Mapping[str, Any]) -> None:
        with explain_faults("no such field", ()):
            event = _EVENT.validate_python(values)
        event.add_to(InteractionGraph(), order=1)  # raises for what the graph refuses, and then nothing is written
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("a", encoding="utf-8") as log:
            log.write(event.model_dump_json() + "\n")

    def _read_lines(self) -> list[str]:
        return self.log_file.read_text(encoding="utf-8").splitlines() if self.log_file.exists() else []


def create_graph_visualizer(log_file: str | Path = "graph_visualization.log") -> GraphVisualizer:
    """A graph over a log of events, which is made with the first event."""
    return GraphVisualizer(log_file)

"""The picture of who did what to whom by its documented name: a log of events, drawn as the runs' own graphs are."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from components.errors import ConfigurationError
from components.frozen import Frozen
from components.population.graph_page import Frame, graph_numbers, graph_page, graph_picture
from components.population.interaction_graph import Action, InteractionGraph, PlayedEpisode, graphml
from components.whole_files import write_whole
from flows.api.multi_model.fields import Finite, Share, Text, check_arguments, explain_faults

_EPISODE, _TRANSFER = "episode", "weight_transfer"
_Name = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
"""What GraphML can hold."""


class _Event(Frozen):
    """A line of the log."""

    timestamp: float
    event_type: Text
    source_id: _Name
    target_id: _Name | None = None
    data: dict[str, Any] = Field(default_factory=dict)

    def add_to(self, graph: InteractionGraph, *, order: int) -> InteractionGraph:
        """The graph after this event. Raises ValidationError for one that lacks what its type needs."""
        if self.event_type == _EPISODE:
            return graph.after_episodes([PlayedEpisode(order=order, **dict(_Episode.model_validate(self.data)))])
        if self.event_type == _TRANSFER:
            moved = _Transfer.model_validate({"target_id": self.target_id, **self.data})
            return graph.after_transfer(self.source_id, moved.target_id, moved.share)
        return graph


class _Episode(Frozen):
    raw_returns: dict[_Name, Finite]
    actions_T: list[dict[_Name, Action]] = Field(default_factory=list)


class _Transfer(Frozen):
    target_id: _Name
    share: Share


class GraphVisualizer:
    """Who cooperated or competed with whom, and whose weights went where: a log of events, and pictures of it.

    **Example**

        graph = create_graph_visualizer("graph.jsonl")
        graph.log_episode({"a": 1.0, "b": 0.5}, [{"a": "cooperate", "b": "compete"}])
        graph.export_html("graph.html")
    """

    @check_arguments
    def __init__(self, log_file: str | Path = "graph_visualization.log") -> None:
        """The log holds JSON lines; what is in it already is a part of the graph. Raises ConfigurationError for no file."""
        if Path(log_file).is_dir():
            raise ConfigurationError(f"log_file {str(log_file)!r}: give the path of a file")
        self.log_file = Path(log_file)

    def log_event(
        self, event_type: str, source_id: str, target_id: str | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        """Append an event to the log. Only those of `log_episode` and `log_weight_transfer` make edges.

        Raises ConfigurationError for an event that could not be read again, and keeps nothing of it.
        """
        named = {"event_type": event_type, "source_id": source_id, "target_id": target_id, "data": data or {}}
        try:
            line = json.dumps({"timestamp": time.time(), **named}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"data {data!r}: {error}; give texts, finite numbers, lists and dicts") from error
        _read([line])
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("a", encoding="utf-8") as log:
            log.write(line + "\n")

    def log_episode(self, raw_returns: Mapping[str, float], actions: Sequence[Mapping[str, str]]) -> None:
        """A played episode: each member's raw return, and what each did in each step."""
        self.log_event(_EPISODE, next(iter(raw_returns), ""), data={"raw_returns": raw_returns, "actions_T": actions})

    def log_weight_transfer(self, source_id: str, target_id: str, share: float) -> None:
        """`target_id` took over this share, 0 to 1, of the weights of `source_id`."""
        self.log_event(_TRANSFER, source_id, target_id, {"share": share})

    def graph(self) -> InteractionGraph:
        """The graph of all events. Raises ConfigurationError for a line that is no event."""
        return _read(self._read_lines(), where=f"log_file {str(self.log_file)!r}, line ")

    def get_statistics(self) -> dict[str, Any]:
        """Numbers of members, edges and events, density, rates of cooperation and of its being answered, correlations."""
        return {**graph_numbers(self.graph()), "num_events": len(self._read_lines())}

    def export_png(self, path: str | Path) -> str:
        """Write a picture, drawn without a display; the path."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(graph_picture(self.graph()))
        return str(path)

    def export_graphml(self, path: str | Path) -> str:
        """Write the graph for Gephi, yEd or networkx; the path."""
        write_whole(Path(path), graphml(self.graph()))
        return str(path)

    def export_html(self, path: str | Path) -> str:
        """Write a page that loads nothing, as `troupe view RUN --graph` does of a run; the path."""
        frame = Frame(label=f"after {len(self._read_lines())} events", graph=self.graph())
        write_whole(Path(path), graph_page([frame]))
        return str(path)

    def _read_lines(self) -> list[str]:
        return self.log_file.read_text(encoding="utf-8").splitlines() if self.log_file.exists() else []


def _read(lines: Sequence[str], *, where: str = "") -> InteractionGraph:
    """The graph of a log's lines. Raises ConfigurationError for one that is no event; `where` stands before its number."""
    graph = InteractionGraph()
    for number, line in enumerate(lines, start=1):
        try:
            with explain_faults("no such field of an event", _Event.model_fields):
                graph = _Event.model_validate_json(line).add_to(graph, order=number)
        except ConfigurationError as error:
            place = f"{where}{number}: " if where else ""
            raise ConfigurationError(f"{place}{error}; this is no event: leave it out") from error
    return graph


def create_graph_visualizer(log_file: str | Path = "graph_visualization.log") -> GraphVisualizer:
    """A graph over a log of events, which is made with the first event."""
    return GraphVisualizer(log_file)

"""The picture of who did what to whom by its documented name: a log of events, drawn as the runs' own graphs are."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from components.errors import ConfigurationError
from components.frozen import Frozen
from components.machine.whole_files import write_whole
from components.population.graph_page import Frame, graph_numbers, graph_page, graph_picture
from components.population.interaction_graph import Action, InteractionGraph, PlayedEpisode, graphml
from flows.api.multi_model.fields import Share, Text, check_arguments, explain_faults

_EPISODE, _TRANSFER = "episode", "weight_transfer"


class _Event(Frozen):
    """A line of the log."""

    timestamp: float
    event_type: Text
    source_id: Text
    target_id: Text | None = None
    data: dict[str, Any] = Field(default_factory=dict)


class _Episode(Frozen):
    model_config = ConfigDict(allow_inf_nan=False)
    raw_returns: dict[Text, float]
    actions_T: list[dict[Text, Action]] = Field(default_factory=list)


class _Transfer(Frozen):
    source_id: Text
    target_id: Text
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
        _after(InteractionGraph(), line, order=1)
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
        graph = InteractionGraph()
        for number, line in enumerate(self._lines(), start=1):
            try:
                graph = _after(graph, line, order=number)
            except ConfigurationError as error:
                where = f"log_file {str(self.log_file)!r}, line {number}"
                raise ConfigurationError(
                    f"{where}: {error}; this is no event: remove it, or name another file"
                ) from error
        return graph

    def get_statistics(self) -> dict[str, Any]:
        """Numbers of members, edges and events, density, rates of cooperation and of its being answered, correlations."""
        return {**graph_numbers(self.graph()), "num_events": len(self._lines())}

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
        frame = Frame(label=f"after {len(self._lines())} events", graph=self.graph())
        write_whole(Path(path), graph_page([frame]))
        return str(path)

    def _lines(self) -> list[str]:
        return self.log_file.read_text(encoding="utf-8").splitlines() if self.log_file.exists() else []


def _after(graph: InteractionGraph, line: str, *, order: int) -> InteractionGraph:
    """The graph after a line of the log. Raises ConfigurationError for one that lacks what its type needs."""
    with explain_faults("no such field of an event", _Event.model_fields):
        event = _Event.model_validate_json(line)
        if event.event_type == _EPISODE:
            played = _Episode.model_validate(event.data)
            _check_names(*played.raw_returns, *(name for step in played.actions_T for name in step))
            return graph.after_episodes([PlayedEpisode(order=order, **dict(played))])
        if event.event_type == _TRANSFER:
            moved = _Transfer.model_validate({"source_id": event.source_id, "target_id": event.target_id, **event.data})
            _check_names(moved.source_id, moved.target_id)
            return graph.after_transfer(moved.source_id, moved.target_id, moved.share)
    return graph


def _check_names(*names: str) -> None:
    """Raise ConfigurationError for a name that GraphML cannot hold."""
    for name in names:
        if not name.isprintable():
            raise ConfigurationError(f"member {name!r}: use printable characters")


def create_graph_visualizer(log_file: str | Path = "graph_visualization.log") -> GraphVisualizer:
    """A graph over a log of events, which is made with the first event."""
    return GraphVisualizer(log_file)

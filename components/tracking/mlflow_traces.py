"""Episodes as MLflow traces, which its pages for language-model applications show.

The ids of traces and spans are derived from the run, the episode and the span's place, and the server replaces a span that it
has: a repetition changes nothing.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from components.tracking.base import VIEW_TAG, EpisodeTrace, TracedSpan
from components.tracking.mlflow_server import MlflowServer

_TYPES = {"episode": "CHAIN", "turn": "CHAIN", "agent": "CHAT_MODEL", "tool": "TOOL"}
_SPAN_NS = 1_000_000
_LINKS_PER_REQUEST = 100


class MlflowTraces:
    """The traces of one server."""

    def __init__(self, server: MlflowServer) -> None:
        self._server = server

    def log(
        self, run_id: str, mlflow_id: str, experiment_id: str, traces: Sequence[EpisodeTrace], timestamp_ms: int
    ) -> None:
        """Record traces in one request, and link them to the run in another.

        The time of an episode's parts is not known: each of its spans takes a millisecond, in the order of play.
        """
        from mlflow.tracing.client import TracingClient

        spans = [span for trace in traces for span in _spans(run_id, mlflow_id, trace, timestamp_ms)]
        if not spans:
            return
        TracingClient(self._server.url).log_spans(experiment_id, spans)
        ids = [f"tr-{_trace_id(mlflow_id, trace)}" for trace in traces]
        for first in range(0, len(ids), _LINKS_PER_REQUEST):
            self._server.client.link_traces_to_run(ids[first : first + _LINKS_PER_REQUEST], mlflow_id)

    def remove(self, run_id: str, experiment_id: str) -> int:
        """Delete the traces of a run; their number."""
        about = {"locations": [experiment_id], "filter_string": f"tags.`troupe.run_id` = '{run_id}'"}
        removed = 0
        while ids := [
            each.info.trace_id
            for each in self._server.client.search_traces(**about, max_results=100, include_spans=False)
        ]:
            self._server.client.delete_traces(experiment_id, trace_ids=ids)
            removed += len(ids)
        return removed


def _spans(run_id: str, mlflow_id: str, trace: EpisodeTrace, timestamp_ms: int) -> Iterator[Any]:
    """The spans of a trace as MLflow has them."""
    from mlflow.entities import Span

    trace_id, start_ns = _trace_id(mlflow_id, trace), timestamp_ms * _SPAN_NS
    last = _last_parts(trace.spans)
    for number, span in enumerate(trace.spans):
        attributes = _attributes(span) | {"mlflow.traceRequestId": f"tr-{trace_id}"}
        if span.parent is None:
            # The list of an experiment's traces shows the beginning of the input.
            attributes["mlflow.spanInputs"] = {"run": run_id, "step": trace.step, **attributes["mlflow.spanInputs"]}
            tags = {"mlflow.traceName": span.name, "troupe.run_id": run_id, "troupe.step": str(trace.step)}
            tags |= {VIEW_TAG: trace.view} if trace.view else {}
            attributes |= {f"mlflow.traceTag.{name}": value for name, value in tags.items()}
        yield Span.from_dict(
            {
                "name": span.name,
                "trace_id": f"tr-{trace_id}",
                "span_id": _digest(trace_id, str(number))[:16],
                "parent_span_id": None if span.parent is None else _digest(trace_id, str(span.parent))[:16],
                "start_time_unix_nano": start_ns + number * _SPAN_NS,
                "end_time_unix_nano": start_ns + (last[number] + 1) * _SPAN_NS,
                "status": {"code": "STATUS_CODE_ERROR", "message": span.error}
                if span.error
                else {"code": "STATUS_CODE_OK", "message": ""},
                "attributes": {name: json.dumps(value) for name, value in attributes.items()},
            }
        )


def _attributes(span: TracedSpan) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "mlflow.spanType": _TYPES[span.kind],
        "mlflow.spanInputs": _in_lines(span.inputs),
        "mlflow.spanOutputs": _in_lines(span.outputs),
        **{f"troupe.{name}": value for name, value in span.facts.items()},
    }
    if span.num_prompt_tokens is not None and span.num_answer_tokens is not None:
        prompt, answer = span.num_prompt_tokens, span.num_answer_tokens
        attributes["mlflow.chat.tokenUsage"] = {
            "input_tokens": prompt,
            "output_tokens": answer,
            "total_tokens": prompt + answer,
        }
    return attributes


def _in_lines(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with texts of several lines one level deeper: MLflow's pages show a text at the top as Markdown, in which a
    board or a program becomes one line, and those below as they are.

    **Example** {"prompt": "a\\nb", "reward": 1.0} gives {"prompt": {"text": "a\\nb"}, "reward": 1.0}.
    """
    return {
        name: {"text": value} if isinstance(value, str) and "\n" in value else value for name, value in values.items()
    }


def _last_parts(spans: Sequence[TracedSpan]) -> list[int]:
    """For each span the index of its last part. **Example** a whole with one part: [1, 1]."""
    last = list(range(len(spans)))
    for number in reversed(range(len(spans))):
        parent = spans[number].parent
        if parent is not None:
            last[parent] = max(last[parent], last[number])
    return last


def _trace_id(mlflow_id: str, trace: EpisodeTrace) -> str:
    return _digest(mlflow_id, trace.key)[:32]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()

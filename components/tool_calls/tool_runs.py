"""The calls of tools that each candidate made, with their recorded results: an episode is played again, and nothing is run.

A shard's record knows results by the content of the call, of the sandbox's image and of the retriever's index, not by
candidate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from components.environments.base import ToolCall
from components.environments.family import Family
from components.environments.play import Position
from components.errors import RetrieverUnavailable
from components.sandbox.base import SandboxDescription
from components.schema import ROOT, Episode, Execution, ExecutionResult, Limits, Passage, Query, ToolRecord
from components.tool_calls.ledger import ExecutionLedger, ToolSources


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """A program that an answer ran, and how it ended."""

    execution: Execution
    result: ExecutionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRun:
    """A question that an answer asked, and what was found."""

    query: Query
    passages: tuple[Passage, ...]


ToolRun = ProgramRun | QueryRun


def runs_in(
    episode: Episode, family: Family, record: ToolRecord, *, image: str, limits: Limits, index: str = ""
) -> dict[tuple[int, int], tuple[ToolRun, ...]]:
    """The recorded runs by node and candidate, for the candidates that have some.

    `image` and `index` are the digests of the sandbox's image and of the retriever's index.
    """
    tools = _RecordedTools(record, image, index, limits)
    referee = family.referee(tools)
    if not episode.nodes:
        return {}
    newest = referee.start(episode.problem)
    positions: dict[tuple[int, int], Position] = {ROOT: newest}
    found, ends = {}, episode.program_ends
    for n, node in enumerate(episode.nodes):
        if node.is_beside:
            continue
        here = newest if node.parent is None else positions[node.parent]
        for k, candidate in enumerate(node.candidates):
            outcome, positions[n, k] = referee.act_or_unscorable(here, node.group.agent, candidate.text)
            if (end := ends.get((n, k))) is not None:
                _, positions[n, k] = referee.finish(positions[n, k], node.group.agent, outcome, end)
            if runs := tools.take_runs():
                found[n, k] = runs
        newest = positions[n, node.chosen] if node.parent is None else newest
    return found


class _RecordedTools:
    """Tools that answer from a record alone, and keep what was asked."""

    def __init__(self, record: ToolRecord, image: str, index: str, limits: Limits) -> None:
        sandbox, retriever = _ClosedSandbox(image), _ClosedRetriever(index)
        sources = ToolSources(sandbox=lambda: sandbox, retriever=lambda: retriever, limits=limits)
        self._ledger = ExecutionLedger(sources, known=record)
        self._runs: list[ToolRun] = []

    def run(self, execution: Execution) -> ExecutionResult:
        """The recorded result. Raises ExecutionFailed if there is none."""
        result = self._ledger.run(execution)
        self._runs.append(ProgramRun(execution=execution, result=result))
        return result

    def retrieve(self, query: Query) -> tuple[Passage, ...]:
        """The recorded passages. Raises RetrieverUnavailable if there are none."""
        passages = self._ledger.retrieve(query)
        self._runs.append(QueryRun(query=query, passages=passages))
        return passages

    def prepare(self, calls: Sequence[ToolCall]) -> None:
        """Nothing is prepared: `run` reads the record."""

    def take_runs(self) -> tuple[ToolRun, ...]:
        """The runs since the last call."""
        runs, self._runs = tuple(self._runs), []
        return runs


class _ClosedSandbox:
    """A sandbox that fails at every program: what is not recorded stays unknown."""

    def __init__(self, image: str) -> None:
        self.description = SandboxDescription(backend="bubblewrap", image_digest=image, num_boxes=1, box_limits={})

    def run(
        self,
        program: str,
        *,
        stdin: str = "",
        files: Mapping[str, str] | None = None,
        outputs: tuple[str, ...] = (),
        limits: Limits | None = None,
    ) -> ExecutionResult:
        """The result of a sandbox that has failed."""
        return ExecutionResult(
            status="sandbox_error",
            stdout="",
            stderr="",
            exit_code=None,
            wall_seconds=0.0,
            cpu_seconds=0.0,
            detail="not recorded",
        )

    def close(self) -> None:
        """Nothing is open."""


class _ClosedRetriever:
    """A retriever that finds nothing: what is not recorded stays unknown."""

    def __init__(self, index: str) -> None:
        self._index = index

    @property
    def digest(self) -> str:
        """That of the index."""
        return self._index

    def search(self, query: Query) -> tuple[Passage, ...]:
        """Raises RetrieverUnavailable."""
        raise RetrieverUnavailable(f"{query.text!r} is not recorded")

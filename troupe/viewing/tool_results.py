"""The programs that each candidate ran, with their recorded results: the episodes are played again, and nothing is run.

A shard's record knows results by the content of the call and of the sandbox's image, not by candidate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.environments.base import ToolCall
from components.environments.family import Family
from components.environments.play import Position
from components.environments.registry import FAMILIES
from components.home import HOME
from components.sandbox.base import SandboxDescription
from components.sandbox.rootfs import built_digests
from components.schema import ROOT, Episode, Execution, ExecutionResult, Limits, Passage, Query, ToolRecord
from components.session.scenario import scenario_of
from components.tool_calls.ledger import ExecutionLedger, ToolSources
from troupe.viewing.recorded import RecordedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """A program that an answer ran, and how it ended."""

    execution: Execution
    result: ExecutionResult


Runs = Mapping[tuple[int, int, int], tuple[ProgramRun, ...]]
"""By the indices of episode, node and candidate."""


def program_runs(recorded: RecordedStep, *, sandbox_folder: Path = HOME / "sandbox") -> tuple[Runs, tuple[str, ...]]:
    """The programs of the step's candidates, and a note if the record has some that cannot be assigned.

    Results belong to the image in which the programs ran, so only those of an image that was built in `sandbox_folder` are
    found.
    """
    if not any(each.tools.executions for each in recorded.episodes):
        return {}, ()
    name = recorded.config.environment.name
    if name not in FAMILIES:
        return {}, (f"no results of programs: {name} is the run's own environment, whose code is not run here",)
    scenario = scenario_of(recorded.config)
    limits = Limits(**recorded.config.execution.model_dump())
    for image in built_digests(sandbox_folder):
        try:
            found = {
                (index, *place): runs
                for index, each in enumerate(recorded.episodes)
                for place, runs in runs_in(
                    each.episode, scenario.family, each.tools, image=image, limits=limits
                ).items()
            }
        except Exception as error:  # the rules of today play what was recorded under those of then
            return {}, (
                f"no results of programs: the episodes cannot be played again ({type(error).__name__}: {error})",
            )
        if found:
            return found, ()
    return {}, ("no results of programs: they ran in a sandbox image that is not here, so that none can be assigned",)


def runs_in(
    episode: Episode, family: Family, record: ToolRecord, *, image: str, limits: Limits
) -> dict[tuple[int, int], tuple[ProgramRun, ...]]:
    """The recorded runs by node and candidate, for the candidates that have some."""
    tools = _RecordedTools(record, image, limits)
    referee = family.referee(tools)
    if not episode.nodes:
        return {}
    newest = referee.start(episode.problem)
    positions: dict[tuple[int, int], Position] = {ROOT: newest}
    found = {}
    for n, node in enumerate(episode.nodes):
        here = newest if node.parent is None else positions[node.parent]
        for k, candidate in enumerate(node.candidates):
            _, positions[n, k] = referee.act_or_unscorable(here, node.group.agent, candidate.text)
            if runs := tools.take_runs():
                found[n, k] = runs
        newest = positions[n, node.chosen] if node.parent is None else newest
    return found


class _RecordedTools:
    """Tools that answer from a record alone, and keep what was asked."""

    def __init__(self, record: ToolRecord, image: str, limits: Limits) -> None:
        sandbox = _ClosedSandbox(image)
        sources = ToolSources(sandbox=lambda: sandbox, retriever=lambda: None, limits=limits)
        self._ledger = ExecutionLedger(sources, known=record)
        self._runs: list[ProgramRun] = []

    def run(self, execution: Execution) -> ExecutionResult:
        """The recorded result. Raises ExecutionFailed if there is none."""
        result = self._ledger.run(execution)
        self._runs.append(ProgramRun(execution=execution, result=result))
        return result

    def retrieve(self, query: Query) -> tuple[Passage, ...]:
        """Asserts that programs and passages are of different environments."""
        raise AssertionError(f"an environment that runs programs asks for passages: {query.text!r}")

    def prepare(self, calls: Sequence[ToolCall]) -> None:
        """Nothing is prepared: `run` reads the record."""

    def take_runs(self) -> tuple[ProgramRun, ...]:
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

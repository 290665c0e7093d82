"""Shows some episodes of each step in the tracker: texts of prompts and calls of tools are recovered from what is stored."""

from collections.abc import Sequence

from components.artifacts.base import ArtifactStore
from components.runs.lineages import view_command
from components.runs.run import Run
from components.schema import Limits, RolloutShard, ScoredShard
from components.session.prompt_texts import PromptText, prompt_texts
from components.session.scenario import Scenario
from components.session.toolbox import Toolbox
from components.tool_calls.tool_runs import ProgramRun, ToolRun, runs_in
from components.tracking.base import EpisodeTrace
from components.tracking.episode_traces import (
    ScoredEpisode,
    ToolCalls,
    ToolCallTrace,
    episode_trace,
    sample_episodes,
)


class Tracing:
    """The traces of one run. Tokenizers are read from the store once."""

    def __init__(self, run: Run, store: ArtifactStore, scenario: Scenario, *, image: str, index: str) -> None:
        """`image` and `index` are the digests of the sandbox's image and of the retriever's index; "" without one."""
        self._run, self._store, self._scenario = run, store, scenario
        self._image, self._index = image, index
        self._prompts: dict[str, PromptText] = {}

    def traces(self, step: int, shards: Sequence[RolloutShard], scores: Sequence[ScoredShard]) -> list[EpisodeTrace]:
        """Traces of `tracking.traces_per_step` episodes of the step."""
        sampled = sample_episodes(shards, scores, self._run.config.tracking.traces_per_step)
        played = {node.policy for each in sampled for node in each.episode.nodes}
        policies = self._run.config.policies
        if missing := {name: policies[name] for name in policies if name in played - set(self._prompts)}:
            self._prompts |= prompt_texts(self._store, self._run, step, missing)[0]
        return [
            episode_trace(
                each, self._prompts, self._calls(each), view=self._view(step, each.episode.problem.problem_id)
            )
            for each in sampled
        ]

    def _view(self, step: int, problem: str) -> str:
        return view_command(self._store, self._run.run_id, step=step, problem=problem)

    def _calls(self, scored: ScoredEpisode) -> ToolCalls:
        record = scored.shard.tools
        if not record.executions and not record.passages:
            return {}
        runs = runs_in(
            scored.episode,
            self._scenario.family,
            record,
            image=self._image,
            limits=Limits(**self._run.config.execution.model_dump()),
            index=self._index,
        )
        return {place: [_call(run) for run in each] for place, each in runs.items()}


def tracing_of(run: Run, store: ArtifactStore, scenario: Scenario, toolbox: Toolbox) -> Tracing | None:
    """The tracing of a run whose tools are open; None if its configuration shows no episodes."""
    tracking = run.config.tracking
    if tracking.kind == "none" or not tracking.traces_per_step:
        return None
    uses_sandbox, retriever = scenario.family.uses_sandbox(scenario.options), toolbox.retriever()
    return Tracing(
        run,
        store,
        scenario,
        image=toolbox.sandbox().description.image_digest if uses_sandbox else "",
        index="" if retriever is None else retriever.digest,
    )


def _call(run: ToolRun) -> ToolCallTrace:
    if isinstance(run, ProgramRun):
        result = run.result
        return ToolCallTrace(
            name="program",
            inputs={"program": run.execution.program, "stdin": run.execution.stdin},
            outputs={
                "status": result.status,
                "stdout": result.stdout,
                "stderr": result.stderr,
                "wall_seconds": result.wall_seconds,
            },
        )
    return ToolCallTrace(
        name="query",
        inputs={"text": run.query.text},
        outputs={"passages": [{"title": each.title, "text": each.text} for each in run.passages]},
    )

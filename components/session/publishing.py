"""Publishes a run: reports wait in its outbox until the tracking server has them."""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import RunConfig
from components.identity import fingerprint
from components.machine.outages import is_interrupted
from components.machine.peak_memory import peak_memory_mib
from components.machine.process_ids import this_process
from components.metrics import GENERATED_TOKENS_PER_SECOND, NUM_GENERATED_TOKENS, PEAK_MEMORY, seconds
from components.runs.lineages import lineage_at_end, lineage_for, view_command
from components.runs.pipeline import Pipeline
from components.runs.provenance import provenance
from components.runs.run import Run
from components.schema import EvalReport, IterationReport, RolloutShard, ScoredShard
from components.session.tracing import Tracing
from components.tracking.base import (
    CHANGED_PREFIX,
    PROCESS_TAG,
    STARTED_TAG,
    VIEW_TAG,
    PolicyFiles,
    ProblemSet,
    TeamCheckpoint,
    Tracker,
)
from components.tracking.drain import OutboxDrain
from components.tracking.outbox import Outbox

FLUSH_SECONDS = 30.0
"""How long the end of a run waits for MLflow to take one more report. The next start publishes the rest."""
INTERRUPTED_FLUSH_SECONDS = 3.0
"""How long that of an interrupted run waits for all of them."""
_log = logging.getLogger(__name__)


class Publishing:
    """A run's outbox, and the thread that drains it into the tracker."""

    def __init__(
        self,
        run: Run,
        pipeline: Pipeline,
        store: ArtifactStore,
        tracker: Tracker,
        *,
        first: Mapping[str, CheckpointRef],
        tracing: Tracing | None,
        changed: Mapping[str, str],
        started_ms: int,
    ) -> None:
        """`first` are the policies before training, `changed` the parameters in which the run differs from its preset,
        `started_ms` the time at which the session began.

        `tracing` None shows no episodes.
        """
        self._run = run
        self._roles = pipeline.roles
        self._store = store
        self._first = dict(first)
        self._trained = {name for name, policy in run.config.policies.items() if policy.trained}
        self._tracing = tracing
        tags = {
            **run_tags(run.config, pipeline),
            **{f"{CHANGED_PREFIX}{name}": value for name, value in changed.items()},
            PROCESS_TAG: str(this_process()),
            STARTED_TAG: str(started_ms),
            VIEW_TAG: view_command(store, run.run_id),
        }
        self.outbox = Outbox(
            store,
            run.run_id,
            params=run_params(run.config),
            tags=tags,
            problems=[training_problems(run.config)],
            model=run.config.preset,
        )
        self._post_checkpoint(0, first)
        self._drain = OutboxDrain(self.outbox, tracker)

    def post_iteration(self, report: IterationReport, checkpoints: dict[str, CheckpointRef]) -> None:
        """Queue a step's report and checkpoints without waiting for the tracking server.

        The peak of memory and the speed of rollouts are added here: the stored report is the same on every machine.
        """
        measured = {} if (peak := peak_memory_mib()) is None else {PEAK_MEMORY: peak}
        rollout_seconds = sum(report.timings.get(seconds(each), 0.0) for each in self._roles.writing("rollouts"))
        if rollout_seconds and NUM_GENERATED_TOKENS in report.metrics:
            measured[GENERATED_TOKENS_PER_SECOND] = report.metrics[NUM_GENERATED_TOKENS] / rollout_seconds
        posted = replace(report, metrics={**report.metrics, **measured})
        self.outbox.post_iteration(posted, lineage=lineage_at_end(self._run.lineages, report.step))
        self._post_checkpoint(report.step + 1, checkpoints)
        self._drain.poke()

    def post_traces(self, step: int, shards: Sequence[RolloutShard], scores: Sequence[ScoredShard]) -> None:
        """Queue some episodes of a step, in full."""
        if self._tracing is None:
            return
        try:
            traces = self._tracing.traces(step, shards, scores)
        except Exception as error:  # the border to what is only shown: environments play their episodes again here
            _log.warning("no traces of step %d: %s: %s", step, type(error).__name__, error)
            return
        self.outbox.post_traces(step, traces, lineage=self._lineage(step, *self._roles.writing("batches")))
        self._drain.poke()

    def post_evaluation(self, report: EvalReport) -> None:
        """Queue an evaluation."""
        self.outbox.post_evaluation(report, lineage=self._lineage(report.step, *self._roles.writing("evaluations")))
        self._drain.poke()

    def post_metrics(self, step: int, metrics: Mapping[str, float], *, stage: str) -> None:
        """Queue figures of the run after `step` updates."""
        self.outbox.post_metrics(step, stage, metrics, lineage=self._lineage(step, stage))
        self._drain.poke()

    def post_file(self, step: int, name: str, content: ArtifactRef, *, stage: str) -> None:
        """Queue a file of a step, which is durable in the store."""
        self.outbox.post_file(step, name, content, lineage=self._lineage(step, stage))
        self._drain.poke()

    def close(self, *, succeeded: bool) -> None:
        """Publish what is queued while the tracking server takes it, and mark how the run ended."""
        is_cut = is_interrupted()
        report = self._drain.close(
            INTERRUPTED_FLUSH_SECONDS if is_cut else FLUSH_SECONDS, succeeded=succeeded, extends=not is_cut
        )
        if report.num_pending:
            level = logging.INFO if report.is_expected else logging.WARNING
            _log.log(level, "%d reports wait for the tracking server: %s", report.num_pending, report.error)

    def _post_checkpoint(self, step: int, updated: Mapping[str, CheckpointRef]) -> None:
        """Queue the team after `step` updates: the policies that the last one changed, and those that are not trained."""
        policies = {
            policy: PolicyFiles(
                weights_digest=checkpoint.weights_digest, folder_uri=self._store.folder_uri(checkpoint.folder)
            )
            for policy, checkpoint in {**self._first, **updated}.items()
            if policy in updated or policy not in self._trained
        }
        if policies:
            self.outbox.post_checkpoint(TeamCheckpoint(model=self._run.config.preset, step=step, policies=policies))

    def _lineage(self, step: int, stage: str) -> int:
        return lineage_for(self._run.lineages, step, stage)


def training_problems(config: RunConfig) -> ProblemSet:
    """The problems of the training split, identified by what decides them: the environment, its options, source and data."""
    environment = config.environment
    brought = {"data"} if environment.data else set()
    source = environment.model_dump(mode="json", include={"name", "options", "source", *brought})
    return ProblemSet(name=f"{environment.name}/train", digest=fingerprint(source), purpose="training", source=source)


def run_tags(config: RunConfig, pipeline: Pipeline) -> dict[str, str]:
    """Tags for searching runs."""
    return {
        "troupe.preset": config.preset,
        "troupe.specialisation": config.specialisation,
        "troupe.environment": config.environment.name,
        "troupe.device": config.training.device,
        **provenance(pipeline).tags(),
    }


_LONGEST_PARAM = 500


def _param(text: str) -> str:
    if len(text) <= _LONGEST_PARAM:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[: _LONGEST_PARAM // 2]}… ({len(text)} characters, sha256 {digest})"


def run_params(config: RunConfig) -> dict[str, str]:
    """The configuration flattened to text, as in parameter tables. **Example** `{"rollout.group_size": "8"}`.

    A long text, as a prompt, is its beginning and its digest: a tracking server takes no text of any length.
    """

    def leaves(values: Any, path: str) -> Iterator[tuple[str, str]]:
        if isinstance(values, dict) and values:
            for key, value in values.items():
                yield from leaves(value, f"{path}.{key}" if path else str(key))
        else:
            yield path, _param(str(values))

    return dict(leaves(config.model_dump(mode="json", exclude={"store", "tracking"}), ""))

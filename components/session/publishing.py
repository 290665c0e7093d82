"""Publishes a run: reports wait in its outbox until the tracking server has them."""

import hashlib
import logging
from collections.abc import Iterator
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.identity import EVALUATION, STEP_END
from components.outages import is_interrupted
from components.process_ids import this_process
from components.runs.lineages import lineage_for
from components.runs.pipeline import Pipeline
from components.runs.provenance import provenance
from components.runs.run import Run
from components.schema import EvalReport, IterationReport
from components.tracking.base import PROCESS_TAG, Tracker
from components.tracking.drain import OutboxDrain
from components.tracking.outbox import Outbox

FLUSH_SECONDS = 30.0
"""How long the end of a run waits for MLflow. The next start publishes the rest."""
INTERRUPTED_FLUSH_SECONDS = 3.0
"""The same for an interrupted run."""
_log = logging.getLogger(__name__)


class Publishing:
    """A run's outbox, and the thread that drains it into the tracker."""

    def __init__(self, run: Run, pipeline: Pipeline, store: ArtifactStore, tracker: Tracker) -> None:
        self._run = run
        self._store = store
        tags = {**run_tags(run.config, pipeline), PROCESS_TAG: str(this_process())}
        self.outbox = Outbox(store, run.run_id, params=run_params(run.config), tags=tags)
        self._drain = OutboxDrain(self.outbox, tracker)

    def post_iteration(self, report: IterationReport, checkpoints: dict[str, CheckpointRef]) -> None:
        """Queue a step's report and checkpoints without waiting for the tracking server."""
        self.outbox.post_iteration(report, lineage=self._lineage(report.step, STEP_END))
        self.post_checkpoints(checkpoints)

    def post_checkpoints(self, checkpoints: dict[str, CheckpointRef]) -> None:
        """Queue checkpoints for registration; those of before training are version 1."""
        for policy, checkpoint in checkpoints.items():
            self.outbox.post_checkpoint(
                policy=policy,
                step=checkpoint.step,
                weights_digest=checkpoint.weights_digest,
                folder_uri=self._store.folder_uri(checkpoint.folder),
            )
        self._drain.poke()

    def post_evaluation(self, report: EvalReport) -> None:
        """Queue an evaluation."""
        self.outbox.post_evaluation(report, lineage=self._lineage(report.step, EVALUATION))
        self._drain.poke()

    def close(self, *, succeeded: bool) -> None:
        """Publish what is queued, within a time limit, and mark how the run ended."""
        flush_seconds = INTERRUPTED_FLUSH_SECONDS if is_interrupted() else FLUSH_SECONDS
        report = self._drain.close(flush_seconds, succeeded=succeeded)
        if report.num_pending:
            _log.warning("%d reports wait for the tracking server: %s", report.num_pending, report.error)

    def _lineage(self, step: int, stage: str) -> int:
        return lineage_for(self._run.lineages, step, stage)


def run_tags(config: RunConfig, pipeline: Pipeline) -> dict[str, str]:
    """Tags for searching runs."""
    return {
        "troupe.preset": config.preset,
        "troupe.specialisation": config.specialisation,
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

    return dict(leaves(config.model_dump(mode="json", exclude={"store", "tracking", "retention"}), ""))

"""A run's life in one process: its frozen configuration, its workers, its outbox, and the record of how it went."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

from components.artifacts.format import ensure_format
from components.artifacts.refs import CheckpointRef, StageManifest
from components.artifacts.runs import freeze_config, lineage_for, store_option
from components.config import RunConfig
from components.patience import is_interrupted, patient
from components.schema import EvalReport, IterationReport
from components.tracking.drain import OutboxDrain
from components.tracking.outbox import Outbox
from tasks import wiring, world
from tasks.provenance import provenance
from tasks.run import Run
from tasks.sessions import begin_session, end_session
from tasks.starts import remarks, startable_run
from tasks.step_records import step_of
from tasks.steps import finished_step

_log = logging.getLogger(__name__)
FLUSH_SECONDS = 30.0
"""How long the end of a run waits for MLflow; what is not published by then is published by the next start."""
INTERRUPTED_FLUSH_SECONDS = 3.0
"""The same for a run that somebody ends."""
_open: dict[str, "Session"] = {}


@dataclass(slots=True, kw_only=True)
class Session:
    """A run that this process works on. Its name is its own, and it is shown, once its configuration is frozen."""

    run: Run
    opened_at_seconds: float
    """On the monotonic clock of this process."""
    publishing: tuple[Outbox, OutboxDrain] | None = None
    """None until the configuration is frozen."""
    manifests: dict[str, StageManifest] = field(default_factory=dict)
    """By key, those that this process has committed or read since the last report: the next one need not read them."""

    @property
    def outbox(self) -> Outbox:
        """What waits for the tracking server."""
        assert self.publishing is not None, f"run {self.run.run_id} publishes before its configuration is frozen"
        return self.publishing[0]

    @property
    def drain(self) -> OutboxDrain:
        """What publishes it."""
        assert self.publishing is not None, f"run {self.run.run_id} publishes before its configuration is frozen"
        return self.publishing[1]

    def freeze(self) -> None:
        """Let the run's name stand for its configuration from here on. Raises ConfigDrift when a rival was faster.

        Call it when the policies have been made: what fails before leaves the name free for another configuration.
        """
        run, config = self.run, self.run.config
        store = wiring.store(config)
        freeze_config(store, run.run_id, config)
        if self.publishing is None:
            outbox = Outbox(store, run.run_id, params=run_params(config), tags=run_tags(config))
            self.publishing = outbox, OutboxDrain(outbox, wiring.tracker(config))

    def checkpoints_before(self, step: int) -> dict[str, CheckpointRef] | None:
        """The checkpoints with which `step` starts, or None for the first step."""
        return finished_step(wiring.store(self.run.config), self.run, step - 1) if step > 0 else None


def session_of(run: Run) -> Session:
    """The open session of `run` in this process."""
    assert run.run_id in _open, f"run {run.run_id} has no open session in this process"
    return _open[run.run_id]


def note_manifest(run: Run, key: str, manifest: StageManifest) -> None:
    """Let the run's session know a committed stage. A process in which none is open, as a Ray worker, notes nothing."""
    if run.run_id in _open:
        _open[run.run_id].manifests[key] = manifest


@contextmanager
def open_session(run_id: str, config: RunConfig) -> Iterator[Session]:
    """Work on a run: start what it needs, and leave a record of what computed and how it ended.

    Raises ConfigDrift when the run exists under another configuration, and whatever else `startable_run` does. Whatever
    happens inside, the workers are ended and what is due in the outbox is published as far as MLflow allows.
    """
    store = wiring.store(config)
    run = startable_run(store, run_id, config)
    for line in remarks(store, run):
        _log.info("%s", line)
    ensure_format(store)
    record = begin_session(store, run)
    session = Session(run=run, opened_at_seconds=monotonic())
    _open[run_id] = session
    error: BaseException | None = None
    try:
        with patient():
            wiring.warm_up_trainers(run)
            yield session
    except BaseException as caught:
        error = caught
        raise
    finally:
        _open.pop(run_id, None)
        wiring.close_trainers()
        world.close_sandboxes()
        if session.publishing is not None:
            flush_seconds = INTERRUPTED_FLUSH_SECONDS if is_interrupted() else FLUSH_SECONDS
            report = session.drain.close(flush_seconds, succeeded=error is None)
            if report.num_pending:
                _log.warning("%d reports wait for the tracking server: %s", report.num_pending, report.error)
        # Who interrupts a run has found no fault in it.
        end_session(store, run_id, record, error if isinstance(error, Exception) else None)


def post_iteration(run: Run, report: IterationReport, checkpoints: dict[str, CheckpointRef]) -> None:
    """Make a step's report and checkpoints due for publishing; returns without waiting for the tracking server."""
    session = session_of(run)
    store = wiring.store(run.config)
    session.outbox.post_iteration(report, lineage=lineage_for(run.lineages, report.step, "publish_checkpoint"))
    for policy, checkpoint in checkpoints.items():
        session.outbox.post_checkpoint(
            policy=policy,
            step=checkpoint.step,
            weights_digest=checkpoint.weights_digest,
            folder_uri=store.folder_uri(checkpoint.folder),
        )
    session.drain.poke()
    for key in list(session.manifests):
        if step_of(key) <= report.step:
            del session.manifests[key]


def post_evaluation(run: Run, report: EvalReport) -> None:
    """Make an evaluation due for publishing."""
    session = session_of(run)
    session.outbox.post_evaluation(report, lineage=lineage_for(run.lineages, report.step, "evaluate_policy"))
    session.drain.poke()


def run_tags(config: RunConfig) -> dict[str, str]:
    """By what runs are searched for."""
    return {
        "troupe.preset": config.preset,
        "troupe.specialisation": config.specialisation,
        **provenance().tags(),
    }


def run_params(config: RunConfig) -> dict[str, str]:
    """The configuration as flat text, as parameter tables show it. **Example** `{"rollout.group_size": "8"}`."""

    def leaves(values: Any, path: str) -> Iterator[tuple[str, str]]:
        if isinstance(values, dict) and values:
            for key, value in values.items():
                yield from leaves(value, f"{path}.{key}" if path else str(key))
        else:
            yield path, str(values)

    return dict(leaves(config.model_dump(mode="json", exclude={"store", "tracking"}), ""))


def summary(session: Session, checkpoints: dict[str, CheckpointRef], evaluations: list[EvalReport]) -> dict[str, Any]:
    """What the `train` flow returns: plain JSON."""
    run = session.run
    return {
        "run_id": run.run_id,
        "store_option": store_option(wiring.store(run.config)),
        "num_steps": run.config.num_steps,
        "checkpoint_digest": {policy: ref.weights_digest for policy, ref in checkpoints.items()},
        "evaluations": [asdict(report) | {"interval": list(report.interval)} for report in evaluations],
        "seconds": monotonic() - session.opened_at_seconds,
        "num_unpublished": session.outbox.num_pending,
        "run_url": wiring.run_url(run.config, run.run_id),
        "api_usage": wiring.api_usage(run.config),
    }

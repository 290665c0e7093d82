"""Runs in a store as plain JSON documents. Damaged records are named; intact ones are shown beside them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from components.artifacts.base import ArtifactStore
from components.artifacts.parallel import in_parallel
from components.config import RunConfig
from components.errors import ArtifactCorrupt, StoreRefused
from components.identity import check_run_id
from components.runs.history import History, Progress, StepView, read_history
from components.runs.lineages import Lineage, list_indexed_runs, read_config, read_lineages
from components.runs.run import Run, RunAddress
from components.runs.session_records import RunState, SessionStart, run_state, session_records, standing_lineages
from components.runs.steps import first_unfinished_step
from components.runs.stored_runs import unknown_run

T = TypeVar("T")
DAMAGED = "damaged"


def run_rows(store: ArtifactStore, progress: Progress = lambda done, total: None) -> list[dict[str, Any]]:
    """`[{run_id, preset, state, error, step, started_at}]`, newest first. Unreadable records are None, the state "damaged"."""
    run_ids = list_indexed_runs(store)
    rows = in_parallel(partial(_row, store), run_ids, done=lambda count: progress(count, len(run_ids)))
    return sorted((row for row in rows if row is not None), key=lambda row: str(row["started_at"] or ""), reverse=True)


def run_document(store: ArtifactStore, run_id: str, progress: Progress = lambda done, total: None) -> dict[str, Any]:
    """The state, steps and evaluations of one run; `damaged` lists its unreadable records with their remedies."""
    facts = _read_facts(store, check_run_id(run_id))
    if facts is None:
        raise unknown_run(store, run_id)
    history = History(steps=(), evaluations=(), errors=())
    if facts.address is not None:
        history = read_history(store, facts.address, facts.num_finished or 0, progress)
    problems = [*facts.errors, *history.errors]
    return {
        **_head(run_id, facts, problems),
        "specialisation": facts.config.specialisation if facts.config else None,
        "damaged": problems,
        "num_steps": facts.num_steps,
        "store": store.uri,
        "lineages": [
            {"from_step": each.from_step, "from_stage": each.from_stage}
            for each in (facts.address.lineages if facts.address else ())
        ],
        "steps": [_step_document(store, step) for step in history.steps],
        "evaluations": list(history.evaluations),
    }


@dataclass(slots=True)
class _Facts:
    """The records of a run, apart from its steps; None for one that cannot be read."""

    config: RunConfig | None = None
    address: RunAddress | None = None
    num_finished: int | None = None
    sessions: Sequence[SessionStart] = ()
    state: RunState | None = None
    errors: list[str] = field(default_factory=list)

    @property
    def num_steps(self) -> int | None:
        """The target number of steps of the newest session."""
        if self.state is not None:
            return self.state.num_steps
        if self.sessions:
            return self.sessions[-1].num_steps
        return self.config.num_steps if self.config else None

    def read(self, part: Callable[[], T]) -> T | None:
        """The result of `part`, or None if it is damaged."""
        try:
            return part()
        except (ArtifactCorrupt, StoreRefused) as error:
            if str(error) not in self.errors:
                self.errors.append(str(error))
            return None


def _read_facts(store: ArtifactStore, run_id: str) -> _Facts | None:
    """The facts of a run; None for an unknown one."""
    facts = _Facts()
    facts.config = facts.read(lambda: read_config(store, run_id))
    if facts.config is None and not facts.errors:
        return None
    lineages: tuple[Lineage, ...] | None = facts.read(
        lambda: standing_lineages(store, run_id, read_lineages(store, run_id))
    )
    if lineages is not None:
        # Without the lineages it is unknown which steps count.
        address = RunAddress(run_id=run_id, lineages=lineages)
        facts.address, facts.num_finished = address, first_unfinished_step(store, address)
        facts.config = lineages[-1].config if lineages else facts.config
    facts.sessions = facts.read(lambda: session_records(store, run_id)) or ()
    if facts.config is not None and facts.address is not None:
        run = Run(run_id=run_id, config=facts.config, lineages=facts.address.lineages)
        num_finished = facts.num_finished or 0
        facts.state = facts.read(lambda: run_state(store, run, num_finished))
    return facts


def _row(store: ArtifactStore, run_id: str) -> dict[str, Any] | None:
    facts = _read_facts(store, run_id)
    if facts is None:
        return None
    return {
        **_head(run_id, facts, facts.errors),
        "step": facts.num_finished,
        "started_at": facts.sessions[0].started_at if facts.sessions else None,
    }


def _head(run_id: str, facts: _Facts, errors: Sequence[str]) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "preset": facts.config.preset if facts.config else None,
        "state": DAMAGED if errors or facts.state is None else facts.state.name,
        "error": next(iter(errors), facts.state.error if facts.state else None),
    }


def _step_document(store: ArtifactStore, step: StepView) -> dict[str, Any]:
    """One step, with an `error` if its record cannot be read."""
    checkpoints = step.checkpoints
    parents = {name: list(each.parents) for name, each in checkpoints.items() if each.parents}
    return {
        "step": step.step,
        "metrics": step.summary.metrics,
        "timings": step.summary.timings,
        "attempts": step.summary.attempts,
        "checkpoint_digest": {name: each.weights_digest for name, each in checkpoints.items()},
        "optimizer_digest": {name: each.optimizer_digest for name, each in checkpoints.items()},
        "checkpoint_uri": {name: f"{store.uri}/{each.folder}" for name, each in checkpoints.items()},
        **({"checkpoint_parents": parents} if parents else {}),
        **({"error": step.error} if step.error else {}),
    }

"""Runs whose work is made up, and whose records are committed as a real run's are."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from components import metrics as m
from components.artifacts.base import ArtifactStore
from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.identity import StageKey
from components.runs.history import index_evaluation
from components.runs.lineages import freeze_config
from components.runs.run import PolicyUpdate, Run
from components.runs.session_records import begin_session, end_session
from components.runs.stage_protocol import run_stage
from components.runs.steps import finish_step
from components.schema import EvalReport, IterationReport
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.components.tracking.reports import evaluation

CONFIG = preset_config("tiny")
STAGES = ("collect_rollouts", "compute_rewards", "compute_advantages", "update_policy")
NUM_METRICS = 60
"""About as many as a team of two agents reports."""


def start_run(store: ArtifactStore, run_id: str, *, num_steps: int = 3) -> Run:
    """A run that has begun and done nothing yet."""
    config = CONFIG.model_copy(update={"num_steps": num_steps})
    freeze_config(store, run_id, config, PIPELINE)
    return Run(run_id=run_id, config=config)


def make_ended_run(store: ArtifactStore, run_id: str, *, num_steps: int = 3, evaluated: Iterable[int] = (0,)) -> Run:
    """A run whose steps are finished and whose one session has ended."""
    run = start_run(store, run_id, num_steps=num_steps)
    session = begin_session(store, run, PIPELINE)
    for step in range(num_steps):
        commit_step(store, run, step, stages=())
    for step in evaluated:
        commit_evaluation(store, run, step)
    end_session(store, run_id, session, None)
    return run


def commit_step(
    store: ArtifactStore, run: Run, step: int, *, stages: Iterable[str] = STAGES, checkpoint: Path | None = None
) -> dict[str, CheckpointRef]:
    """A finished step: its stages, its update where `checkpoint` is a folder to store, its report, its record."""
    ref = checkpoint_ref(step) if checkpoint is None else checkpoint_ref(step, store.put_folder(checkpoint))
    update = PolicyUpdate(checkpoint=ref, metrics={})
    payload = ArtifactRef(kind="none", key="payloads/00/" + "0" * 64, sha256="0" * 64, num_bytes=1)
    for stage in stages:
        if stage != "update_policy":
            run_stage(store, stage_key(run, step, stage), lambda: payload, ArtifactRef)
    if "update_policy" in stages or checkpoint is not None:
        run_stage(store, stage_key(run, step, "update_policy", "team"), lambda: update, PolicyUpdate)
    report = iteration_report(run.run_id, step)
    run_stage(store, stage_key(run, step, "publish_checkpoint"), lambda: report, IterationReport)
    return finish_step(store, run, step, {"team": ref})


def commit_evaluation(
    store: ArtifactStore, run: Run, step: int, *, sampling: Literal["sample", "greedy"] = "greedy"
) -> EvalReport:
    """An evaluation, filed as the stage files it."""
    report = replace(evaluation(step), sampling=sampling)
    key = stage_key(run, step, "evaluate_policy", sampling)

    def compute() -> EvalReport:
        index_evaluation(store, key)
        return report

    return run_stage(store, key, compute, EvalReport).output


def stage_key(run: Run, step: int, stage: str, part: str = "all", *, lineage: int = 0) -> StageKey:
    return StageKey(
        run_id=run.run_id, step=step, stage=stage, version=1, part=part, lineage=lineage, depends_on="0123456789abcdef"
    )


def iteration_report(run_id: str, step: int) -> IterationReport:
    metrics = {f"train/team/metric_{number}": step + number / NUM_METRICS for number in range(NUM_METRICS - 1)}
    return IterationReport(
        run_id=run_id,
        step=step,
        metrics={**metrics, m.SUCCESS_RATE: step / 1000},
        timings={m.seconds(stage): 0.25 for stage in STAGES},
        checkpoint_digest={"team": f"w{step}"},
        optimizer_digest={"team": f"o{step}"},
    )


def checkpoint_ref(step: int, folder: ArtifactRef | None = None) -> CheckpointRef:
    empty = ArtifactRef(kind="folder", key=f"folders/{step:064x}", sha256=f"{step:064x}", num_bytes=1, files={})
    return CheckpointRef(
        policy="team", step=step + 1, folder=folder or empty, weights_digest=f"w{step}", optimizer_digest=f"o{step}"
    )


class ReadOnlyStore(LocalArtifactStore):
    """Fails whoever writes."""

    def create(self, key: str, content: bytes) -> bool:
        raise AssertionError(f"wrote {key}")

    def put_bytes(self, content: bytes, *, kind: str) -> Any:
        raise AssertionError("wrote a payload")

    def delete(self, key: str) -> None:
        raise AssertionError(f"removed {key}")

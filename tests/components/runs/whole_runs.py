"""A run with a record and a payload of every kind, committed as real runs commit theirs, its work made up."""

import json
from pathlib import Path
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.local import LocalArtifactStore
from components.artifacts.records import with_digest
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.runs.history import extend_history, index_evaluation
from components.runs.initial_checkpoints import record_initial_checkpoints
from components.runs.lineages import freeze_config
from components.runs.run import PolicyUpdate, Run, StepBatches, stage_key
from components.runs.session_records import begin_session, end_session
from components.runs.stage_protocol import run_stage
from components.runs.steps import finish_step, first_step
from components.schema import EvalReport, IterationReport
from components.tracking.outbox import Outbox
from components.training.base import MANIFEST_FILE, CheckpointManifest, Probe
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.components.tracking.reports import evaluation
from tests.tasks.stored_runs import reread

PROBE = Probe(prompt_tokens=(1, 2), completion_tokens=(3,), trainer_logprobs=(-0.5,))
ADAPTER = "policies={team: {base: tiny, adapter: {rank: 4, alpha: 8.0}}}"


def whole_run(
    root: Path,
    run_id: str = "r",
    *,
    num_steps: int = 4,
    overrides: tuple[str, ...] = (ADAPTER,),
    store: ArtifactStore | None = None,
) -> Run:
    """A finished run of one adapter on a base, evaluated before and after training, in the store at `root`."""
    store = store or LocalArtifactStore(root)
    local = ("store.kind=local", f"store.root={root}", "tracking.kind=none", "evaluation.every=0")
    config = preset_config("tiny", [*local, *overrides], num_steps=num_steps)
    run = Run(run_id=run_id, config=config)
    session = begin_session(store, run, PIPELINE)
    checkpoints = commit(store, "warm_start", run, lambda: initial(store, root), dict[str, CheckpointRef])
    freeze_config(store, run_id, config, PIPELINE)
    record_initial_checkpoints(store, run, PIPELINE)
    first_step(store, run, flow_run_id="f")
    evaluate(store, run, 0)
    for step in range(num_steps):
        checkpoints = train_step(store, run, step, checkpoints, root)
    evaluate(store, run, num_steps)
    extend_history(store, run, num_steps)
    end_session(store, run_id, session, None)
    return run


def commit(store: ArtifactStore, stage: str, run: Run, compute: Any, as_type: Any, **arguments: Any) -> Any:
    """The result of a stage, computed unless it is there."""
    return run_stage(store, stage_key(PIPELINE[stage], run, arguments), compute, as_type).output


def train_step(
    store: ArtifactStore, run: Run, step: int, checkpoints: dict[str, CheckpointRef], root: Path
) -> dict[str, CheckpointRef]:
    """A step, of which only what is missing is computed, and always to the same."""
    base = checkpoints["team"].base

    def payload(kind: str) -> ArtifactRef:
        return store.put_bytes(f"{kind} of step {step}, {run.config.rewards.team_weight}".encode(), kind=kind)

    where: dict[str, Any] = {"step": step}
    versions = checkpoints["team"].weights_digest
    rollouts = commit(
        store, "collect_rollouts", run, lambda: payload("RolloutShard"), ArtifactRef, **where, part=0, versions=versions
    )
    scored = commit(
        store, "compute_rewards", run, lambda: payload("ScoredShard"), ArtifactRef, **where, part=0, rollouts=rollouts
    )
    batches = commit(
        store, "compute_advantages", run,
        lambda: StepBatches(batches={"team": payload("TrainBatch")}, metrics={}), StepBatches, **where, scored=[scored],
    )  # fmt: skip
    update = commit(
        store, "update_policy", run,
        lambda: PolicyUpdate(checkpoint=checkpoint(store, root, step + 1, base), metrics={}), PolicyUpdate,
        **where, part="team", batch=batches.batches["team"],
    )  # fmt: skip
    report = IterationReport(
        run_id=run.run_id, step=step, metrics={"a/b": 0.5}, timings={},
        checkpoint_digest={"team": update.checkpoint.weights_digest}, optimizer_digest={"team": "o"},
    )  # fmt: skip
    commit(store, "publish_checkpoint", run, lambda: report, IterationReport, **where, updates=update.checkpoint)
    Outbox(store, run.run_id).post_iteration(report)
    journal = stage_key(PIPELINE["collect_rollouts"], run, {**where, "part": 0, "versions": versions}).path
    block = store.put_bytes(f"block of step {step}".encode(), kind="FinishedBlock")
    store.create(f"{journal}/blocks/000000.json", with_digest(block.model_dump(mode="json")))
    return finish_step(store, run, step, {"team": update.checkpoint}, report)


def evaluate(store: ArtifactStore, run: Run, step: int) -> EvalReport:
    """An evaluation, filed as the stage files it."""
    key = stage_key(PIPELINE["evaluate_policy"], run, {"step": step, "part": "greedy"})

    def compute() -> EvalReport:
        index_evaluation(store, key)
        return evaluation(step)

    found: EvalReport = run_stage(store, key, compute, EvalReport).output
    return found


def initial(store: ArtifactStore, root: Path) -> dict[str, CheckpointRef]:
    """The adapter before training."""
    folder = root.parent / "base"
    (folder / "model").mkdir(parents=True, exist_ok=True)
    (folder / "model" / "weights").write_text("the base")
    return {"team": checkpoint(store, root, 0, store.put_folder(folder))}


def checkpoint(store: ArtifactStore, root: Path, step: int, base: ArtifactRef | None) -> CheckpointRef:
    """A checkpoint whose folder says which it is."""
    folder = root.parent / f"checkpoint-{step}"
    (folder / "adapter").mkdir(parents=True, exist_ok=True)
    (folder / "adapter" / "weights").write_text(f"weights after {step}")
    named = {"policy": "team", "step": step, "weights_digest": f"w{step}", "optimizer_digest": f"o{step}"}
    (folder / MANIFEST_FILE).write_text(CheckpointManifest(**named, probe=PROBE).model_dump_json())
    return CheckpointRef(**named, folder=store.put_folder(folder), base=base)


def resume(store: ArtifactStore, root: Path, run_id: str = "r") -> Run:
    """What a resume does with its records: the stages that have no result of their own are computed."""
    from components.runs.stored_runs import read_run

    run = read_run(store, run_id)
    freeze_config(store, run_id, run.config, PIPELINE)
    first = commit(store, "warm_start", run, lambda: initial(store, root), dict[str, CheckpointRef])
    record_initial_checkpoints(store, run, PIPELINE)
    evaluate(store, run, 0)
    checkpoints = first
    for step in range(run.config.num_steps):
        checkpoints = train_step(store, run, step, checkpoints, root)
    evaluate(store, run, run.config.num_steps)
    return reread(store, run_id, run.config)


def document(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))

"""Runs in a store, written without training."""

from pathlib import Path

from components.artifacts.base import ArtifactStore
from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import RunConfig
from components.runs.initial_checkpoints import record_initial_checkpoints
from components.runs.lineages import freeze_config, read_lineages
from components.runs.run import PolicyUpdate, Run, StepBatches, stage_key
from components.runs.stage_protocol import run_stage
from components.runs.steps import finish_step
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE


def config_in(root: Path, *overrides: str, num_steps: int = 3) -> RunConfig:
    """The tiny preset, stored below `root`, without tracking."""
    local = ("store.kind=local", f"store.root={root}", "tracking.kind=none")
    return preset_config("tiny", [*local, *overrides], num_steps=num_steps)


def store_run(root: Path, run_id: str, *, num_finished: int = 3, config: RunConfig | None = None) -> Run:
    """A run of one policy with this many finished steps, each with all records of its stages."""
    config = config or config_in(root)
    store = LocalArtifactStore(root)
    freeze_config(store, run_id, config, PIPELINE)
    run = reread(store, run_id, config)
    checkpoints = run_stage(
        store,
        stage_key(PIPELINE["warm_start"], run),
        lambda: {"team": checkpoint(store, root, 0, "start")},
        dict[str, CheckpointRef],
    ).output
    record_initial_checkpoints(store, run, PIPELINE)
    for step in range(num_finished):
        checkpoints = finish(store, run, step, checkpoints, root)
    return run


def reread(store: ArtifactStore, run_id: str, config: RunConfig) -> Run:
    """The run with its recorded restarts."""
    return Run(run_id=run_id, config=config, lineages=read_lineages(store, run_id))


def finish(
    store: ArtifactStore, run: Run, step: int, checkpoints: dict[str, CheckpointRef], root: Path
) -> dict[str, CheckpointRef]:
    """Commit the stages and the record of a step."""
    content = f"{run.config.seed}/{step}/{len(run.lineages)}"

    def payload(kind: str) -> ArtifactRef:
        return store.put_bytes(f"{kind} {content}".encode(), kind=kind)

    where = {"step": step}
    key = stage_key(PIPELINE["collect_rollouts"], run, where | {"part": 0, "versions": checkpoints})
    rollouts = run_stage(store, key, lambda: payload("RolloutShard"), ArtifactRef).output
    key = stage_key(PIPELINE["compute_rewards"], run, where | {"part": 0, "rollouts": rollouts})
    scored = run_stage(store, key, lambda: payload("ScoredShard"), ArtifactRef).output
    key = stage_key(PIPELINE["compute_advantages"], run, where | {"rollouts": [rollouts], "scored": [scored]})
    batches = run_stage(
        store, key, lambda: StepBatches(batches={"team": payload("TrainBatch")}, metrics={}), StepBatches
    ).output
    key = stage_key(PIPELINE["update_policy"], run, where | {"part": "team", "batch": batches.batches["team"]})
    update = run_stage(
        store,
        key,
        lambda: PolicyUpdate(checkpoint=checkpoint(store, root, step + 1, content), metrics={}),
        PolicyUpdate,
    ).output
    return finish_step(store, run, step, {"team": update.checkpoint})


def checkpoint(store: ArtifactStore, root: Path, step: int, content: str) -> CheckpointRef:
    """A checkpoint of two small files."""
    folder = root.parent / "checkpoints" / f"{step}-{content.replace('/', '-')}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights").write_text(f"weights after {step}: {content}")
    (folder / "settings").write_text("the same in every checkpoint")
    return CheckpointRef(
        policy="team", step=step, folder=store.put_folder(folder), weights_digest=f"w-{content}", optimizer_digest="o"
    )

"""One step of training, as the paper's paragraph says it."""

from prefect import flow

from components.artifacts.refs import CheckpointRef
from tasks import wiring
from tasks.collect_rollouts import collect_rollouts
from tasks.compute_advantages import compute_advantages
from tasks.compute_rewards import compute_rewards
from tasks.publish_checkpoint import publish_checkpoint
from tasks.refresh_weights import refresh_weights
from tasks.reports import show_iteration
from tasks.run import Run
from tasks.steps import finish_step, finished_step
from tasks.update_policy import update_policy


@flow(name="training-iteration", flow_run_name="{run.run_id}/step-{step:06d}", validate_parameters=False)
def training_iteration(run: Run, step: int, checkpoints: dict[str, CheckpointRef]) -> dict[str, CheckpointRef]:
    """From the checkpoints of a step to those of the next. A finished step returns what it left."""
    store = wiring.store(run.config)
    if finished := finished_step(store, run, step):
        return finished
    versions = refresh_weights(run, step, checkpoints)
    shards = range(run.config.rollout.num_shards)
    rollouts = [collect_rollouts(run, step, shard, versions) for shard in shards]
    scored = [compute_rewards(run, step, shard, rollouts[shard]) for shard in shards]
    batches = compute_advantages(run, step, rollouts, scored)
    updates = {
        policy: update_policy(run, step, policy, checkpoints[policy], batch)
        for policy, batch in batches.batches.items()
    }
    report = publish_checkpoint(run, step, batches, updates)
    show_iteration(run, report)
    return finish_step(
        store, run, step, checkpoints | {policy: update.checkpoint for policy, update in updates.items()}
    )

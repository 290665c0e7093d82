"""One step of a population, stage by stage."""

from prefect import flow

from components.artifacts.refs import CheckpointRef
from components.session.population import state_before
from components.session.session import Session
from components.session.step_snapshot import prefetch_snapshot, snapshot_of
from flows.prefect_runtime.iteration_runs import create_next_run
from flows.shards import collect_matches, score_all
from flows.training_iteration import end_step, update_policies
from tasks.compute_advantages import compute_advantages
from tasks.coordinate_weights import coordinate_weights
from tasks.mix_returns import mix_returns
from tasks.publish_checkpoint import publish_checkpoint


@flow(name="population-iteration", flow_run_name="{session.run.run_id}/step-{step:06d}", validate_parameters=False)
def population_iteration(
    session: Session, step: int, checkpoints: dict[str, CheckpointRef]
) -> dict[str, CheckpointRef]:
    """From the members' checkpoints of a step to those of the next. A finished step returns its recorded checkpoints."""
    run = session.run
    look = snapshot_of(session, step)
    if look.finished is not None:
        return look.finished
    with look.used():
        state = state_before(session, step)
        rollouts = collect_matches(session, step, checkpoints, state)
        scored = score_all(session, step, rollouts)
        mixed = mix_returns(session, step, rollouts, scored, state)
        batches = compute_advantages(session, step, rollouts, mixed.credited)
        batches = batches.model_copy(update={"metrics": {**batches.metrics, **mixed.metrics}})
        if step + 1 < run.config.num_steps:
            create_next_run(session, step + 1, dict(checkpoints))
            prefetch_snapshot(session, step + 1)
        learning = {member: batch for member, batch in batches.batches.items() if member in mixed.learning}
        updates = update_policies(session, step, checkpoints, batches.model_copy(update={"batches": learning}))
        updates = coordinate_weights(session, step, checkpoints, updates, mixed.state)
        report = publish_checkpoint(session, step, batches, updates)
        left = end_step(
            session, step, checkpoints | {policy: update.checkpoint for policy, update in updates.items()}, report
        )
    session.forget_manifests(step)
    return left

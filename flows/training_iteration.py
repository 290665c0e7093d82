"""One training step, stage by stage."""

from functools import partial

from prefect import flow
from prefect.futures import PrefectFuture, as_completed

from components.artifacts.refs import CheckpointRef
from flows.iteration_runs import behind_iterations, make_next
from flows.shards import played_by, rewards_of, rollouts_ahead, rollouts_of
from tasks.compute_advantages import compute_advantages
from tasks.looks import computed_here, look_ahead, look_at
from tasks.publish_checkpoint import publish_checkpoint
from tasks.reports import leave_page, tell_iteration
from tasks.run import PolicyUpdate, StepBatches
from tasks.session import Session
from tasks.steps import finish_step
from tasks.update_policy import update_policy


@flow(name="training-iteration", flow_run_name="{session.run.run_id}/step-{step:06d}", validate_parameters=False)
def training_iteration(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> dict[str, CheckpointRef]:
    """From the checkpoints of a step to those of the next. A finished step returns its recorded checkpoints."""
    run, store = session.run, session.store
    look = look_at(session, step)
    if look.finished is not None:
        return look.finished
    with look.used():
        rollouts = rollouts_of(session, step, played_by(session, step, checkpoints))
        scored = rewards_of(session, step, rollouts)
        batches = compute_advantages(session, step, rollouts, scored)
        with rollouts_ahead(session, step, checkpoints):
            if step + 1 < run.config.num_steps:
                make_next(session, step + 1, dict(checkpoints))
                if run.config.rollout.overlap == "none":
                    look_ahead(session, step + 1)
            updates = update_policies(session, step, checkpoints, batches)
        report = publish_checkpoint(session, step, batches, updates)
        tell_iteration(session, report)
        behind_iterations(partial(leave_page, session, report))
        left = checkpoints | {policy: update.checkpoint for policy, update in updates.items()}
        left = finish_step(store, run, step, left, report, computed_here(session, step))
    session.forget_manifests(step)
    return left


def update_policies(
    session: Session, step: int, checkpoints: dict[str, CheckpointRef], batches: StepBatches
) -> dict[str, PolicyUpdate]:
    """The updates of all trained policies, up to `resources.max_updates_at_once` in parallel.

    Each is committed separately; none is used for rollouts before all are.
    """
    calls = {policy: (session, step, policy, checkpoints[policy], ref) for policy, ref in batches.batches.items()}
    # Workers belong to this process and never start on another node.
    at_once = session.config.resources.max_updates_at_once if session.config.resources.runner == "thread" else 1
    if at_once == 1:
        return {policy: update_policy(*call) for policy, call in calls.items()}
    task, futures = update_policy.for_threads(), {}
    under_way: list[PrefectFuture[PolicyUpdate]] = []
    for policy, call in calls.items():
        if len(under_way) == at_once:
            ended = next(as_completed(under_way))
            ended.result()  # no update starts after a failure
            under_way.remove(ended)
        futures[policy] = task.submit(*call)
        under_way.append(futures[policy])
    return {policy: future.result() for policy, future in futures.items()}

"""The updates of a step, and what is prepared of the next one meanwhile."""

from prefect.futures import PrefectFuture, as_completed

from components.artifacts.refs import CheckpointRef
from components.runs.run import PolicyUpdate, StepBatches
from components.session.session import Session
from components.session.step_snapshot import prefetch_snapshot
from flows.prefect_runtime.iteration_runs import create_next_run
from tasks.update_policy import update_policy


def prepare_next(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> None:
    """Create the flow run of the next step, and look at what is stored of it, in the background."""
    if step + 1 >= session.run.config.num_steps:
        return
    create_next_run(session, step + 1, dict(checkpoints))
    if session.config.rollout.overlap == "none":
        prefetch_snapshot(session, step + 1)


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

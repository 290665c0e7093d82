"""One training step, stage by stage."""

from functools import partial

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.futures import PrefectFuture, as_completed

from components.artifacts.refs import CheckpointRef
from components.runs.lineages import view_command
from components.runs.run import PolicyUpdate, StepBatches
from components.runs.steps import finish_step
from components.schema import IterationReport
from components.session.reports import iteration_page, report_iteration
from components.session.session import Session
from components.session.step_snapshot import list_own_stages, prefetch_snapshot, snapshot_of
from flows.prefect_runtime.iteration_runs import create_next_run, in_background
from flows.run_pages import artifact_key
from flows.shards import collect_all, prefetch_rollouts, sampling_checkpoints, score_all
from tasks.compute_advantages import compute_advantages
from tasks.publish_checkpoint import publish_checkpoint
from tasks.update_policy import update_policy


@flow(name="training-iteration", flow_run_name="{session.run.run_id}/step-{step:06d}", validate_parameters=False)
def training_iteration(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> dict[str, CheckpointRef]:
    """From the checkpoints of a step to those of the next. A finished step returns its recorded checkpoints."""
    run = session.run
    look = snapshot_of(session, step)
    if look.finished is not None:
        return look.finished
    with look.used():
        rollouts = collect_all(session, step, sampling_checkpoints(session, step, checkpoints))
        scored = score_all(session, step, rollouts)
        batches = compute_advantages(session, step, rollouts, scored)
        with prefetch_rollouts(session, step, checkpoints):
            if step + 1 < run.config.num_steps:
                create_next_run(session, step + 1, dict(checkpoints))
                if run.config.rollout.overlap == "none":
                    prefetch_snapshot(session, step + 1)
            updates = update_policies(session, step, checkpoints, batches)
        report = publish_checkpoint(session, step, batches, updates)
        left = end_step(
            session, step, checkpoints | {policy: update.checkpoint for policy, update in updates.items()}, report
        )
    session.forget_manifests(step)
    return left


def end_step(
    session: Session, step: int, checkpoints: dict[str, CheckpointRef], report: IterationReport
) -> dict[str, CheckpointRef]:
    """The checkpoints after a step, recorded as finished and told to the terminal, to Prefect's page and to the caller."""
    report_iteration(session, report)
    in_background(partial(create_step_page, session, report))
    stages = list_own_stages(session, step)
    left = finish_step(session.store, session.run, step, checkpoints, report, stages)
    if session.on_step is not None:
        session.store.flush()
        session.on_step(report)
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


def create_step_page(session: Session, report: IterationReport) -> None:
    """Create the Prefect page of a finished step."""
    view = view_command(session.store, report.run_id, step=report.step)
    page = iteration_page(report, run_url=session.tracker.run_url(report.run_id), view=view)
    key = artifact_key("iteration", report.run_id)
    create_markdown_artifact(key=key, markdown=page, description=f"{report.run_id}, step {report.step}")

"""One training step: the shell around the step function of the run's method."""

from functools import partial

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from components.artifacts.refs import CheckpointRef
from components.runs.lineages import view_command
from components.runs.steps import finish_step
from components.schema import IterationReport
from components.session.session import Session
from components.session.step_snapshot import list_own_stages, snapshot_of
from components.session.training_session import iteration_page, report_iteration
from flows.prefect_runtime.iteration_runs import in_background
from flows.run_pages import artifact_key
from flows.steps import steps_for
from tasks.publish_checkpoint import publish_checkpoint


@flow(name="training-iteration", flow_run_name="{session.run.run_id}/step-{step:06d}", validate_parameters=False)
def training_iteration(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> dict[str, CheckpointRef]:
    """From the checkpoints of a step to those of the next. A finished step returns its recorded checkpoints."""
    snapshot = snapshot_of(session, step)
    if snapshot.finished is not None:
        return snapshot.finished
    with snapshot.use_here():
        batches, updates = steps_for(session.config).run(session, step, checkpoints)
        report = publish_checkpoint(session, step, batches, updates)
        after = checkpoints | {policy: update.checkpoint for policy, update in updates.items()}
        after = end_step(session, step, after, report)
    session.forget_manifests(step)
    return after


def end_step(
    session: Session, step: int, checkpoints: dict[str, CheckpointRef], report: IterationReport
) -> dict[str, CheckpointRef]:
    """The checkpoints after a step, recorded as finished and told to the terminal, to Prefect's page and to the caller."""
    report_iteration(session, report)
    in_background(partial(create_step_page, session, report))
    stages = list_own_stages(session, step)
    after = finish_step(session.store, session.run, step, checkpoints, report, stages)
    if session.on_step is not None:
        session.store.flush()
        session.on_step(report)
    return after


def create_step_page(session: Session, report: IterationReport) -> None:
    """Create the Prefect page of a finished step."""
    view = view_command(session.store, report.run_id, step=report.step)
    page = iteration_page(report, run_url=session.tracker.run_url(report.run_id), view=view)
    key = artifact_key("iteration", report.run_id)
    create_markdown_artifact(key=key, markdown=page, description=f"{report.run_id}, step {report.step}")

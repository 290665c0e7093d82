"""Ends a step: writes its report and the outbox entries for MLflow."""

from components.runs.run import PolicyUpdate, StepBatches
from components.schema import IterationReport
from components.session.session import Session
from components.session.training_session import iteration_report
from tasks.stage import stage


@stage(
    "publish_checkpoint",
    version=1,
    needs=("checkpoints",),
    ends_step=True,
    retries=5,
    timeout_seconds=1800,
    decisive=lambda report: (report.checkpoint_digest, report.optimizer_digest),
)
def publish_checkpoint(
    session: Session, step: int, batches: StepBatches, updates: dict[str, PolicyUpdate]
) -> IterationReport:
    """The step's report, stored and queued for publishing. Repeating it changes nothing."""
    report = iteration_report(session, step, batches, updates)
    checkpoints = {policy: update.checkpoint for policy, update in updates.items()}
    session.store.after_writes(lambda: session.published.post_iteration(report, checkpoints))
    return report

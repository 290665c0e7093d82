"""The end of a step: its report, and the outbox entries from which MLflow is filled."""

from components.schema import IterationReport
from tasks.reports import iteration_report
from tasks.run import PolicyUpdate, Run, StepBatches
from tasks.session import post_iteration, session_of
from tasks.stage_task import stage_task


@stage_task("publish_checkpoint", version=1)
def publish_checkpoint(run: Run, step: int, batches: StepBatches, updates: dict[str, PolicyUpdate]) -> IterationReport:
    """The step's report, durable in the store and due for publishing. Publishing again changes nothing."""
    report = iteration_report(run, step, batches, updates, known=session_of(run).manifests)
    post_iteration(run, report, {policy: update.checkpoint for policy, update in updates.items()})
    return report

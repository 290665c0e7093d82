"""Copies a step's decisions from the store into the run's decision history."""

from components.methods.hybrid.decision_histories import record_step
from components.session.session import Session
from tasks.stage import effect


@effect("record_decisions", retries=3, delay_seconds=2, timeout_seconds=600)
def record_decisions(session: Session, step: int) -> int:
    """The number of decisions that were not in the history before; a history that is lost or behind is made anew."""
    return record_step(session, step)

"""Evaluates the player of a hybrid run: whole games with starts that training has not seen."""

from dataclasses import replace

from components.artifacts.refs import CheckpointRef
from components.evaluation.held_out import Sampling
from components.methods.hybrid.play import evaluated
from components.runs.history import index_evaluation
from components.schema import EvalReport, PolicyVersion
from components.session.session import Session
from tasks.refresh_weights import ensure_loaded
from tasks.stage import current_key, stage


@stage(
    "evaluate_games",
    version=6,
    reads=("seed", "environment", "agents", "policies", "generation", "method", "evaluation"),
    writes="evaluations",
    optional=True,
    retries=2,
    timeout_seconds=4 * 3600,
    decisive=lambda report: replace(report, metrics={}),
)
def evaluate_games(
    session: Session, step: int, part: Sampling, checkpoint: CheckpointRef, versions: dict[str, PolicyVersion]
) -> EvalReport:
    """The report of one way of sampling (`part`): greedy presses the learner's most likely button."""
    ensure_loaded(session, versions)
    report = evaluated(session, step, part, checkpoint, versions)
    session.published.post_evaluation(report)
    index_evaluation(session.store, current_key())
    return report

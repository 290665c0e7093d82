"""Evaluates the policies of a step on held-out problems."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.evaluation.held_out import EvalPlan, Heading, Sampling, report_from
from components.evaluation.suite_play import joined
from components.runs.history import index_evaluation
from components.runs.run import stage_key
from components.runs.stage_protocol import committed
from components.schema import EvalReport, PolicyVersion
from components.session.engines import list_fixed_versions
from components.session.session import Session
from tasks.play_suite import block_calls, is_played, play_suite, players_of
from tasks.stage import current_key, stage


@stage(
    "evaluate_policy",
    version=11,
    reads=(
        *("seed", "environment", "agents", "policies", "generation", "evaluation", "rollout", "execution"),
        *("rewards.weights", "rewards.team_weight"),
    ),
    writes="evaluations",
    optional=True,
    retries=2,
    timeout_seconds=4 * 3600,
    decisive=lambda report: replace(report, metrics={}),
)
def evaluate_policy(session: Session, step: int, part: Sampling, versions: dict[str, PolicyVersion]) -> EvalReport:
    """The report of one way of sampling (`part`), without the tree, on the test split."""
    scenario, plan = session.scenario, own_plan(session, part)
    players = players_of(session, plan, versions)
    plays = [play_suite.within(*call) for call in block_calls(session, plan, players, versions)]
    heading = Heading(
        agent=f"{session.run.run_id}@{step}",
        suite=scenario.suite.title,
        suite_digest=scenario.suite_digest(plan),
        step=step,
        sampling=part,
        seed=plan.seed,
        temperatures=scenario.own_temperatures(part),
    )
    report = report_from(heading, joined(plays))
    session.published.post_evaluation(report)
    index_evaluation(session.store, current_key())
    return report


def own_plan(session: Session, sampling: Sampling) -> EvalPlan:
    """How the run's own evaluations are played."""
    return session.scenario.eval_plan(session.scenario.suite, sampling=sampling, seed=session.config.seed)


def missing_calls(
    session: Session, step: int, samplings: Sequence[Sampling], versions: dict[str, PolicyVersion]
) -> list[tuple[Any, ...]]:
    """The arguments of `play_suite` for the blocks of the reports of this step that are missing."""
    return [
        call
        for sampling in samplings
        if not _is_reported(session, step, sampling, versions)
        for plan in [own_plan(session, sampling)]
        for call in block_calls(session, plan, players_of(session, plan, versions), versions)
    ]


def name_versions(config: RunConfig, checkpoints: Mapping[str, CheckpointRef]) -> dict[str, PolicyVersion]:
    """The checkpoints' versions, and those of policies without a checkpoint."""
    return list_fixed_versions(config) | {
        policy: PolicyVersion(policy=policy, step=checkpoint.step, weights_digest=checkpoint.weights_digest)
        for policy, checkpoint in checkpoints.items()
    }


def needs_weights(
    session: Session, step: int, samplings: Sequence[Sampling], versions: dict[str, PolicyVersion]
) -> bool:
    """Whether a report of this step is missing, and a block of its play too."""
    return any(
        not is_played(session, plan, players_of(session, plan, versions))
        for plan in (own_plan(session, each) for each in samplings if not _is_reported(session, step, each, versions))
    )


def _is_reported(session: Session, step: int, sampling: str, versions: dict[str, PolicyVersion]) -> bool:
    key = stage_key(evaluate_policy.stage, session.run, {"step": step, "part": sampling, "versions": versions})
    return committed(session.store, key, EvalReport) is not None

"""Evaluates the policies of a step on held-out problems."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.evaluation.held_out import EvalPlan, Sampling, report_from
from components.evaluation.suite_play import SuitePlay, join_plays
from components.methods.base import method_for
from components.methods.open_subjects import Player, StoredWeights
from components.runs.history import index_evaluation
from components.runs.pipeline import When
from components.runs.run import stage_key
from components.runs.stage_protocol import read_committed
from components.schema import EvalReport, PolicyVersion
from components.session.engines import list_fixed_versions
from components.session.session import Session
from tasks.play_suite import block_calls, is_played, play_suite
from tasks.stage import current_key, stage


@stage(
    "evaluate_policy",
    version=14,
    reads=(
        *("seed", "environment", "agents", "policies", "generation", "evaluation", "rollout", "execution"),
        *("rewards.weights", "rewards.team_weight"),
        When(path="method", applies=lambda config: not config.method.writes_answers),
    ),
    writes="evaluations",
    optional=True,
    retries=2,
    timeout_seconds=4 * 3600,
    decisive=lambda report: replace(report, metrics={}),
)
def evaluate_policy(session: Session, step: int, part: Sampling, checkpoints: dict[str, CheckpointRef]) -> EvalReport:
    """The report of one way of sampling (`part`), without the tree, on the test split."""
    evaluation, plan = method_for(session.config).evaluation, own_plan(session, part)
    play = play_own_suite(session, part, checkpoints)
    heading = evaluation.head(session.scenario, plan, agent=f"{session.run.run_id}@{step}", step=step)
    report = report_from(heading, play, evaluation.list_metrics(play))
    session.published.post_evaluation(report)
    index_evaluation(session.store, current_key())
    return report


def play_own_suite(session: Session, sampling: Sampling, checkpoints: Mapping[str, CheckpointRef]) -> SuitePlay:
    """The play of the run's own suite. Blocks that somebody has played are read."""
    calls = own_calls(session, own_plan(session, sampling), checkpoints)
    return join_plays([play_suite.in_lineage(*call) for call in calls])


def own_plan(session: Session, sampling: Sampling) -> EvalPlan:
    """How the run's own evaluations are played."""
    scenario = session.scenario
    return method_for(session.config).evaluation.plan(
        scenario, scenario.suite, sampling=sampling, seed=session.config.seed
    )


def own_calls(session: Session, plan: EvalPlan, checkpoints: Mapping[str, CheckpointRef]) -> list[tuple[Any, ...]]:
    """The arguments of `play_suite` for each block of the run's own suite."""
    versions = name_versions(session.config, checkpoints)
    weights = {
        name: Player(settings=None, weights=StoredWeights(checkpoint=checkpoints[name], run=session.run))
        for name in session.config.method.own_policies
    }
    players = method_for(session.config).evaluation.name_players(session, plan, versions, weights)
    return block_calls(session, plan, players, versions, weights)


def missing_calls(
    session: Session, step: int, samplings: Sequence[Sampling], checkpoints: Mapping[str, CheckpointRef]
) -> list[tuple[Any, ...]]:
    """The arguments of `play_suite` for the blocks that a report of this step waits for, and that nobody has played."""
    inputs = [{"step": step, "part": each, "checkpoints": checkpoints} for each in samplings]
    keys = [stage_key(evaluate_policy.stage, session.run, each) for each in inputs]
    waiting = [
        each for each, key in zip(samplings, keys, strict=True) if not read_committed(session.store, key, EvalReport)
    ]
    calls = (own_calls(session, own_plan(session, each), checkpoints) for each in waiting)
    return [call for each in calls for call in each if not is_played(call)]


def name_versions(config: RunConfig, checkpoints: Mapping[str, CheckpointRef]) -> dict[str, PolicyVersion]:
    """The versions of the configuration's policies: those of checkpoints, and those of policies without one."""
    return list_fixed_versions(config) | {
        policy: PolicyVersion(policy=policy, step=each.step, weights_digest=each.weights_digest)
        for policy, each in find_models(config, checkpoints).items()
    }


def find_models(config: RunConfig, checkpoints: Mapping[str, CheckpointRef]) -> dict[str, CheckpointRef]:
    """The checkpoints of the configuration's policies, without what a method trains beside them."""
    return {policy: each for policy, each in checkpoints.items() if policy in config.policies}

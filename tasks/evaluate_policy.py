"""Evaluates the policies of a step on held-out problems."""

from collections.abc import Sequence

from components import progress
from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.evaluation.held_out import evaluate
from components.identity import EVALUATION
from components.runs.history import index_evaluation
from components.runs.run import stage_key
from components.runs.stage_protocol import committed
from components.schema import EvalReport, PolicyVersion
from components.session.engines import fixed_versions
from components.session.session import Session
from components.tool_calls.journal import ToolJournal
from tasks.stage import current_key, stage


@stage(
    EVALUATION,
    version=6,
    reads=("seed", "environment", "agents", "policies", "generation", "evaluation", "rollout", "execution"),
    retries=2,
    timeout_seconds=4 * 3600,
)
def evaluate_policy(session: Session, step: int, part: str, versions: dict[str, PolicyVersion]) -> EvalReport:
    """The report of one way of sampling (`part`: sample or greedy), without the tree, on the test split."""
    scenario, num_problems = session.scenario, session.config.evaluation.num_problems
    report = evaluate(
        scenario.eval_plan("test", step=step, sampling=part, num_problems=num_problems),
        family=scenario.family,
        router=session.router(versions),
        rubric=scenario.rubric,
        tools=session.toolbox.tools(journal=ToolJournal(session.store, current_key().path)),
        progress=progress.reporter(EVALUATION, step),
    )
    session.published.post_evaluation(report)
    index_evaluation(session.store, current_key())
    return report


def named_versions(config: RunConfig, checkpoints: dict[str, CheckpointRef]) -> dict[str, PolicyVersion]:
    """The checkpoints' versions, and those of policies without a checkpoint."""
    return fixed_versions(config) | {
        policy: PolicyVersion(policy=policy, step=checkpoint.step, weights_digest=checkpoint.weights_digest)
        for policy, checkpoint in checkpoints.items()
    }


def are_evaluated(session: Session, step: int, samplings: Sequence[str], versions: dict[str, PolicyVersion]) -> bool:
    """Whether every report of this step is already committed."""
    keys = [
        stage_key(evaluate_policy.stage, session.run, {"step": step, "part": sampling, "versions": versions})
        for sampling in samplings
    ]
    return all(committed(session.store, key, EvalReport) is not None for key in keys)

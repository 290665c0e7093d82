"""Held-out play of the policies of a step."""

from collections.abc import Sequence

from components.artifacts.refs import CheckpointRef
from components.artifacts.stage import committed
from components.config import RunConfig
from components.evaluation.held_out import evaluate
from components.schema import EvalReport, PolicyVersion
from tasks import progress, wiring, world
from tasks.history import index_evaluation
from tasks.run import Run, stage_key
from tasks.session import post_evaluation
from tasks.stage_task import current_key, stage_task

VERSION = 1


@stage_task("evaluate_policy", version=VERSION)
def evaluate_policy(run: Run, step: int, part: str, versions: dict[str, PolicyVersion]) -> EvalReport:
    """The report of one way of sampling (`part`: sample or greedy), without the tree, on the test split."""
    report = evaluate(
        wiring.eval_plan(run.config, "test", step=step, sampling=part, num_problems=run.config.evaluation.num_problems),
        family=wiring.environment(run.config)[0],
        router=wiring.router(run.config, versions),
        rubric=wiring.rubric(run.config),
        tools=world.tools(run.config, journal=current_key().path),
        progress=progress.teller("evaluate_policy", step),
    )
    post_evaluation(run, report)
    index_evaluation(wiring.store(run.config), current_key())
    return report


def named_versions(config: RunConfig, checkpoints: dict[str, CheckpointRef]) -> dict[str, PolicyVersion]:
    """The versions that the checkpoints hold, and those of policies that have none."""
    return wiring.fixed_versions(config) | {
        policy: PolicyVersion(policy=policy, step=checkpoint.step, weights_digest=checkpoint.weights_digest)
        for policy, checkpoint in checkpoints.items()
    }


def are_evaluated(run: Run, step: int, samplings: Sequence[str], versions: dict[str, PolicyVersion]) -> bool:
    """Whether every report of this step is committed already."""
    keys = [
        stage_key("evaluate_policy", VERSION, {"run": run, "step": step, "part": sampling, "versions": versions})
        for sampling in samplings
    ]
    return all(committed(wiring.store(run.config), key, EvalReport) is not None for key in keys)

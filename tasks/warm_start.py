"""The policies before training: built, cloned from noisy expert play where they are tiny, and stored."""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from components.artifacts.refs import CheckpointRef
from components.artifacts.stage import committed
from components.config import RunConfig
from components.evaluation.runner import evaluate
from components.identity import seed_for
from components.rollout.prompts import encode_observation
from components.schema import PolicyVersion
from tasks import progress, wiring, world
from tasks.checkpoints import stored_checkpoint
from tasks.run import Run, stage_key
from tasks.stage_task import stage_task

VERSION = 1


@stage_task("warm_start", version=VERSION)
def warm_start(run: Run) -> dict[str, CheckpointRef]:
    """Checkpoint 0 of each policy. Runs of equal configuration share it."""
    from components.training.checkpoint import write_initial_checkpoint

    with tempfile.TemporaryDirectory(prefix="troupe-warm-start-") as name:
        folders = {policy: Path(name) / policy / "model" for policy in run.config.policies}
        clone_policies(run.config, folders)
        checkpoints = {}
        for policy, folder in folders.items():
            write_initial_checkpoint(folder, output := Path(name) / policy / "checkpoint", policy)
            checkpoints[policy] = stored_checkpoint(run.config, output)
        return checkpoints


def committed_warm_start(run: Run) -> dict[str, CheckpointRef]:
    """The policies before training, of a run that has started."""
    key = stage_key("warm_start", VERSION, {"run": run})
    found = committed(wiring.store(run.config), key, dict[str, CheckpointRef])
    assert found is not None, f"run {run.run_id} has no committed warm start at {key.path}"
    return found


def clone_policies(config: RunConfig, folders: Mapping[str, Path]) -> None:
    """Write each policy's model folder; those that start from random weights are cloned from noisy expert play."""
    from components.generation.tokenizer import HuggingFaceTokenizer
    from components.training.demonstrations import Student, Teacher
    from components.training.models import prepare_model_folder
    from components.training.warm_start import warm_start as clone

    family, options = wiring.environment(config)
    alphabet = family.alphabet(options)
    students = {}
    for policy, folder in folders.items():
        seed = seed_for(config.seed, "model", policy)
        if prepare_model_folder(config.policies[policy], alphabet=alphabet, seed=seed, into=folder):
            roles = tuple(role for role, agent in config.agents.items() if agent.policy == policy)
            tokenizer = HuggingFaceTokenizer.from_folder(folder)
            encode = partial(
                encode_observation, tokenizer=tokenizer, prompt_format=config.policies[policy].prompt_format
            )
            students[policy] = Student(folder=folder, roles=roles, tokenizer=tokenizer, encode=encode)
    if students:
        clone(
            students,
            Teacher(
                family=family, options=options, config=config.warm_start, seed=config.seed, tools=world.tools(config)
            ),
            success_of=lambda versions: success_of(config, folders, versions),
            progress=tell_cloning,
            num_threads=config.generation.num_threads,
        )


def success_of(config: RunConfig, folders: Mapping[str, Path], versions: Mapping[str, PolicyVersion]) -> float:
    """The team's success at temperature 1, without the tree, on problems that training never reaches."""
    for policy, version in versions.items():
        wiring.generator(config, policy).load(folders[policy], version)
    report = evaluate(
        wiring.eval_plan(
            config, "train_check", step=0, sampling="sample", num_problems=config.warm_start.num_check_problems
        ),
        family=wiring.environment(config)[0],
        router=wiring.router(config, dict(versions)),
        rubric=wiring.rubric(config),
        tools=world.tools(config),
    )
    return report.success_rate


def tell_cloning(step: int, max_steps: int, loss: float, success: float | None) -> None:
    """Pass the cloning's progress on."""
    facts = {"loss": loss} if success is None else {"loss": loss, "success": success}
    progress.tell("warm_start", 0, step, max_steps, **facts)

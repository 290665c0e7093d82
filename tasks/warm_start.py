"""The policies before training: built, cloned from noisy expert play where they are tiny, and stored."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from components.artifacts.refs import CheckpointRef
from components.artifacts.stage import committed
from components.config import RunConfig
from components.environments.base import alphabet_of, demonstrator
from components.evaluation.held_out import evaluate
from components.identity import seed_for
from components.rollout.prompts import encode_observation
from components.schema import PolicyVersion
from components.scratch import scratch_folder
from components.training.base import MODEL_FOLDER
from components.training.bases import check_base
from components.training.sharing import starting_models
from tasks import progress, wiring, world
from tasks.checkpoints import stored_base, stored_checkpoint
from tasks.run import SHARED, Run, stage_key
from tasks.stage_task import stage_task

VERSION = 2


@stage_task("warm_start", version=VERSION)
def warm_start(run: Run) -> dict[str, CheckpointRef]:
    """Checkpoint 0 of each policy that has weights here. Runs of equal configuration share it."""
    models = starting_models(run.config.policies)
    with tempfile.TemporaryDirectory(prefix="warm-start-", dir=scratch_folder()) as name:
        folders = {model: Path(name) / model / MODEL_FOLDER for model in models}
        clone_models(run.config, folders)
        checkpoints: dict[str, CheckpointRef] = {}
        for model, policies in models.items():
            checkpoints |= first_checkpoints(run.config, policies, folders[model], Path(name))
        return checkpoints


def first_checkpoints(
    config: RunConfig, policies: tuple[str, ...], model_folder: Path, work: Path
) -> dict[str, CheckpointRef]:
    """The stored checkpoints of the policies that begin from one model."""
    from components.training.checkpoint import write_initial_adapter, write_initial_checkpoint

    adapters = {policy: config.policies[policy].adapter for policy in policies}
    base = stored_base(config, model_folder.parent) if any(adapters.values()) else None
    checkpoints: dict[str, CheckpointRef] = {}
    for policy, adapter in adapters.items():
        output = work / policy / "checkpoint"
        if adapter is None:
            write_initial_checkpoint(model_folder, output, policy)
        else:
            seed = seed_for(config.seed, "adapter", policy)
            write_initial_adapter(model_folder, output, policy, adapter=adapter, seed=seed)
        checkpoints[policy] = stored_checkpoint(config, output, base=base)
    return checkpoints


def committed_warm_start(run: Run) -> dict[str, CheckpointRef]:
    """The policies before training, of a run that has started."""
    found = known_warm_start(run)
    assert found is not None, f"run {run.run_id} has no committed warm start in {run.config.store}"
    return found


def known_warm_start(run: Run) -> dict[str, CheckpointRef] | None:
    """The policies before training; None where the run has not started, or started under another version of the stage."""
    key = stage_key("warm_start", VERSION, {"run": run})
    return committed(wiring.store(run.config), key, dict[str, CheckpointRef])


def check_bases(config: RunConfig) -> None:
    """Pass when the policies have been made already, or when all that they begin from is there.

    Raises ConfigurationError, also where a model would be made from nothing and no expert shows it the grammar, or
    ServiceMissing. A run that has its first checkpoints needs no base any more.
    """
    key = stage_key("warm_start", VERSION, {"run": Run(run_id=SHARED, config=config)})
    if committed(wiring.store(config), key, dict[str, CheckpointRef]) is None:
        for policy, settings in config.policies.items():
            check_base(policy, settings)
            if settings.api is None and settings.base == "tiny":
                demonstrator(wiring.environment(config)[0])


def clone_models(config: RunConfig, folders: Mapping[str, Path]) -> None:
    """Write each starting model's folder; those that start from random weights are cloned from noisy expert play."""
    from components.generation.tokenizer import HuggingFaceTokenizer
    from components.training.demonstrations import Student, Teacher
    from components.training.models import prepare_model_folder
    from components.training.warm_start import warm_start as clone

    family, options = wiring.environment(config)
    alphabet = alphabet_of(family, options)
    students = {}
    for model, policies in starting_models(config.policies).items():
        settings, folder = config.policies[policies[0]], folders[model]
        if prepare_model_folder(settings, alphabet=alphabet, seed=seed_for(config.seed, "model", model), into=folder):
            roles = tuple(role for role, agent in config.agents.items() if agent.policy in policies)
            tokenizer = HuggingFaceTokenizer.from_folder(folder)
            encode = partial(encode_observation, tokenizer=tokenizer, prompt_format=settings.prompt_format)
            students[model] = Student(folder=folder, roles=roles, tokenizer=tokenizer, encode=encode)
    if students:
        clone(
            students,
            Teacher(
                family=demonstrator(family),
                turn_order=wiring.turn_order(config),
                max_turns=config.environment.max_turns,
                options=options,
                config=config.warm_start,
                seed=config.seed,
                tools=world.tools(config),
            ),
            success_of=lambda versions: success_of(config, folders, versions),
            progress=tell_cloning,
            num_threads=config.generation.num_threads,
        )


def success_of(config: RunConfig, folders: Mapping[str, Path], versions: Mapping[str, PolicyVersion]) -> float:
    """The team's success at temperature 1, without the tree, on problems that training never reaches."""
    playing = dict(wiring.fixed_versions(config))
    for model, policies in starting_models(config.policies).items():
        for policy in policies:
            playing[policy] = replace(versions[model], policy=policy)
            wiring.generator(config, policy).load(folders[model], playing[policy])
    report = evaluate(
        wiring.eval_plan(
            config, "train_check", step=0, sampling="sample", num_problems=config.warm_start.num_check_problems
        ),
        family=wiring.environment(config)[0],
        router=wiring.router(config, playing),
        rubric=wiring.rubric(config),
        tools=world.tools(config),
    )
    return report.success_rate


def tell_cloning(step: int, max_steps: int, loss: float, success: float | None) -> None:
    """Pass the cloning's progress on."""
    facts = {"loss": loss} if success is None else {"loss": loss, "success": success}
    progress.tell("warm_start", 0, step, max_steps, **facts)

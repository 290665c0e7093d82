"""The policies before training: tiny ones are built and cloned from noisy expert play; all are stored."""

import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef
from components.config import TransformersGeneration
from components.environments.family import is_cloned, require_expert
from components.evaluation.held_out import EvalSetting, success_rate
from components.identity import seed_for
from components.machine.scratch import scratch_folder
from components.methods.base import method_for
from components.models.base_checks import check_base
from components.models.model_groups import initial_models
from components.reporting import progress
from components.rollout.prompts import encode_observation
from components.rollout.router import Router
from components.runs.pipeline import Stage
from components.runs.run import SHARED, Run, stage_key
from components.runs.stage_protocol import read_committed
from components.schema import PolicyVersion
from components.session.engines import Engines, list_fixed_versions
from components.session.scenario import Scenario
from components.session.session import Session
from components.training.base import MODEL_FOLDER


def initial_policies(session: Session) -> dict[str, CheckpointRef]:
    """The stored checkpoint 0 of each policy with weights, and of the learner of a hybrid run."""
    models = initial_models(session.config.policies)
    with tempfile.TemporaryDirectory(prefix="warm-start-", dir=scratch_folder()) as name:
        folders = {model: Path(name) / model / MODEL_FOLDER for model in models}
        clone_models(session, folders)
        checkpoints: dict[str, CheckpointRef] = {}
        for model, policies in models.items():
            checkpoints |= store_policies(session, policies, folders[model], Path(name))
        checkpoints |= method_for(session.config).add_first_checkpoints(session, checkpoints)
        session.store.flush()  # a base lies in this folder until it is written
        return checkpoints


def store_policies(
    session: Session, policies: tuple[str, ...], model_folder: Path, work: Path
) -> dict[str, CheckpointRef]:
    """The stored checkpoints of the policies that start from one model."""
    from components.training.checkpoint import write_initial_adapter, write_initial_checkpoint

    adapters = {policy: session.config.policies[policy].adapter for policy in policies}
    trained = {policy: session.config.policies[policy].trained for policy in policies}
    base = session.store.put_folder(model_folder.parent) if any(adapters.values()) else None
    checkpoints: dict[str, CheckpointRef] = {}
    for policy, adapter in adapters.items():
        output = work / policy / "checkpoint"
        training = session.config.training if trained[policy] else None
        if adapter is None:
            write_initial_checkpoint(model_folder, output, policy, training=training)
        else:
            own = () if adapter.freeze_a else (policy,)
            seed = seed_for(session.config.seed, "adapter", *own)
            write_initial_adapter(model_folder, output, policy, adapter=adapter, seed=seed, training=training)
        checkpoints[policy] = session.copies.store(output, base=base)
    return checkpoints


def clone_models(session: Session, folders: Mapping[str, Path]) -> None:
    """Write the folder of each starting model; those with random weights are cloned from noisy expert play."""
    from components.models.loading import prepare_model_folder
    from components.models.tokenizer import HuggingFaceTokenizer
    from components.training.demonstrations import Student, Teacher
    from components.training.warm_start import warm_start as clone

    config, scenario = session.config, session.scenario
    alphabet = scenario.family.alphabet(scenario.options)
    students = {}
    for model, policies in initial_models(config.policies).items():
        settings, folder = config.policies[policies[0]], folders[model]
        if prepare_model_folder(settings, alphabet=alphabet, seed=seed_for(config.seed, "model", model), into=folder):
            roles = tuple(role for role, agent in config.agents.items() if agent.policy in policies)
            tokenizer = HuggingFaceTokenizer.from_folder(folder)
            encode = partial(encode_observation, tokenizer=tokenizer, prompt_format=settings.prompt_format)
            students[model] = Student(folder=folder, roles=roles, tokenizer=tokenizer, encode=encode)
    if students and config.warm_start.max_steps > 0 and is_cloned(scenario.family):
        clone(
            students,
            Teacher(
                family=require_expert(scenario.family),
                turn_order=scenario.turn_order,
                max_turns=config.environment.max_turns,
                options=scenario.options,
                config=config.warm_start,
                seed=config.seed,
                tools=session.toolbox.tools(),
            ),
            success_of=lambda versions: success_of(session, folders, versions),
            progress=partial(tell_cloning, config.warm_start.min_success),
            num_threads=config.generation.num_threads,
        )


def success_of(session: Session, folders: Mapping[str, Path], versions: Mapping[str, PolicyVersion]) -> float:
    """The team's success rate at temperature 1, without the tree, on problems outside the training range.

    It plays in this process: servers hold what is stored, and these weights are not.
    """
    config, scenario = session.config, session.scenario
    here = config.generation
    if here.has_servers:
        here = TransformersGeneration(device=here.device, dtype=here.dtype, num_threads=here.num_threads)
    playing = list_fixed_versions(config)
    with closing(Engines(config.model_copy(update={"generation": here}))) as engines:
        for model, policies in initial_models(config.policies).items():
            for policy in policies:
                playing[policy] = replace(versions[model], policy=policy)
                engines.of(policy).load(folders[model], playing[policy])
        held = {
            name: engines if settings.api is None else session.engines for name, settings in config.policies.items()
        }
        router = Router({name: held[name].of(name) for name in playing}, seats=scenario.seats, versions=playing)
        return success_rate(
            scenario.eval_plan(scenario.warm_start_suite, sampling="sample", seed=config.seed),
            EvalSetting(family=scenario.family, router=router, rubric=scenario.rubric, tools=session.toolbox.tools()),
        )


def tell_cloning(min_success: float, step: int, max_steps: int, loss: float, success: float | None) -> None:
    """Report the progress of cloning, and why it stops."""
    facts: dict[str, float] = {"loss": loss} if success is None else {"loss": loss, "success": success}
    if success is not None and success >= min_success and step < max_steps:
        facts["enough"] = min_success
    progress.report("warm_start", 0, step, max_steps, **facts)


def check_bases(store: ArtifactStore, scenario: Scenario, warm_start: Stage) -> None:
    """Check that the first policies exist, which the stage `warm_start` makes, or that everything they start from does.

    Raises ServiceMissing, or ConfigurationError, also for a randomly initialised model without an expert to teach it
    the answer format. A run with first checkpoints no longer needs the base model.
    """
    config = scenario.config
    if (
        read_committed(store, stage_key(warm_start, Run(run_id=SHARED, config=config)), dict[str, CheckpointRef])
        is None
    ):
        for policy, settings in config.policies.items():
            check_base(policy, settings)
            is_new = settings.api is None and settings.base == "tiny"
            if is_new and config.warm_start.max_steps > 0 and is_cloned(scenario.family):
                require_expert(scenario.family)

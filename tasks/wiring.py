"""The composition root: which store, environment, engines, trainers and tracker stand behind a configuration.

Engines and trainers stay alive between calls (warm workers); what they hold is only a cache of a checkpoint (cold truth).
"""

import os
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from components.algorithms.learning_signal import has_signal
from components.artifacts.base import ArtifactStore
from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import Frozen
from components.config import ApiConfig, RunConfig, StoreConfig, TrackingConfig, TrainingConfig
from components.environments.base import EnvironmentFamily
from components.environments.registry import family, family_options, source_of
from components.environments.turn_orders import turn_order_of
from components.errors import TrackingUnavailable
from components.evaluation.held_out import EvalPlan
from components.evaluation.suites import suite_problems
from components.generation.base import Generator
from components.long_lived import long_lived
from components.own_code import check_source, is_own, own_source
from components.rewards.base import Rubric
from components.rewards.overlong import Overlong, overlong_for
from components.rewards.own_rewards import OwnReward, own_rewards
from components.rewards.rubric import rubric_for
from components.rollout.refills import Refilling, fresh_problems
from components.rollout.router import Router, seats_of
from components.rollout.rules import playing_order
from components.schema import PolicyVersion
from components.tracking.base import Tracker
from components.tracking.memory import InMemoryTracker
from components.training.sharing import starting_models
from components.turn_order import TurnOrder
from tasks.inherited import inherited
from tasks.run import Run
from tasks.served import served_model, server_key, server_urls
from tasks.shipped import shipped_file

if TYPE_CHECKING:
    from components.generation.api.engine import ApiGenerator
    from components.generation.local.base_models import BaseModels
    from components.training.trainer import DeepSpeedTrainer

SUITE_SEED = 0
_engines: dict[tuple[str, str], Generator] = {}
_trainers: dict[tuple[str, str, str], "DeepSpeedTrainer"] = {}


def store(config: RunConfig) -> ArtifactStore:
    """The run's store."""
    return open_store(config.store)


@cache
def open_store(config: StoreConfig) -> ArtifactStore:
    """A store by its configuration. The endpoint comes from the configuration, or else from AWS's own variables."""
    if config.kind == "local":
        return LocalArtifactStore(Path(str(config.root)).absolute())
    from components.artifacts.s3 import S3ArtifactStore

    return S3ArtifactStore(
        config.bucket,
        prefix=config.prefix,
        endpoint_url=config.endpoint_url or s3_endpoint(),
        retry_seconds=config.patience_seconds,
    )


def s3_endpoint() -> str | None:
    """The S3 server that the environment names; None means AWS."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


@cache
def _bases() -> "BaseModels":
    """The models that adapters share in this process."""
    from components.generation.local.base_models import BaseModels

    return BaseModels()


@cache
def _tracker(config: TrackingConfig, url: str | None) -> Tracker:
    if config.kind == "none":
        return InMemoryTracker()
    if url is None:
        return InMemoryTracker(
            available=False,
            why_not="tracking.url: no MLflow server is configured; start the local services with `troupe up`, set "
            "MLFLOW_TRACKING_URI, or turn tracking off with --set tracking.kind=none",
        )
    from components.tracking.mlflow import MlflowTracker

    return MlflowTracker(url, config.experiment, register_models=config.register_models)


def tracker(config: RunConfig) -> Tracker:
    """Where the run is shown."""
    return tracker_of(config.tracking)


def tracker_of(config: TrackingConfig) -> Tracker:
    """The tracker behind the tracking section alone."""
    url, named = tracking_url(config), os.environ.get("MLFLOW_TRACKING_URI")
    if named and url not in (None, named):
        # MLflow would send the credentials of the server that the environment names to this other one.
        for variable in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
            os.environ.pop(variable, None)
    return _tracker(config, url)


def tracking_url(config: TrackingConfig) -> str | None:
    """The tracking server's address; None where nobody names one, or nothing is tracked."""
    if config.kind == "none":
        return None
    return config.url or os.environ.get("MLFLOW_TRACKING_URI")


def run_url(config: RunConfig, run_id: str) -> str | None:
    """Where a person looks at the run; None while the tracking server does not answer."""
    try:
        return tracker(config).run_url(run_id)
    except TrackingUnavailable:
        return None


def environment(config: RunConfig) -> tuple[EnvironmentFamily, Frozen]:
    """The environment family and its validated options. Raises ConfigurationError for own code that is not what the run's
    configuration says it was started with."""
    name, source = config.environment.name, config.environment.source
    if source is not None:
        check_source("environment.name", name, wanted=source, found=source_of(name))
    return family(name), family_options(name, config.environment.options)


def turn_order(config: RunConfig) -> TurnOrder:
    """Who acts in a turn of the run, its rollout mode considered. Raises ConfigurationError."""
    environment_family, _ = environment(config)
    order = turn_order_of(environment_family, config.environment.turn_order)
    return playing_order(config.rollout.mode, order, roles=environment_family.roles)


def with_sources(config: RunConfig) -> RunConfig:
    """`config` with the digest of the own code that it names, as that lies here. Raises ConfigurationError."""
    functions, advantage, loss = config.rewards.functions, config.algorithm.advantage, config.loss.policy_loss
    rewards = {name: own_source("rewards.functions", name) for name in functions}
    of_advantage = own_source("algorithm.advantage", advantage) if is_own(advantage) else None
    of_loss = own_source("loss.policy_loss", loss) if is_own(loss) else None
    return with_environment_source(config).model_copy(
        update={
            "rewards": config.rewards.model_copy(update={"sources": rewards}),
            "algorithm": config.algorithm.model_copy(update={"source": of_advantage}),
            "loss": config.loss.model_copy(update={"source": of_loss}),
        }
    )


def with_environment_source(config: RunConfig) -> RunConfig:
    """`config` with the digest of its environment's source alone: evaluation asks for no other own code."""
    section = config.environment
    return config.model_copy(update={"environment": section.model_copy(update={"source": source_of(section.name)})})


def rubric(config: RunConfig) -> Rubric:
    """How outcomes become rewards."""
    return rubric_for(environment(config)[0], config.rewards)


def own(config: RunConfig) -> tuple[OwnReward, ...]:
    """The run's own reward components."""
    return own_rewards(config.rewards, rubric(config))


def overlong(config: RunConfig) -> Overlong | None:
    """How the length of answers is punished, by the limits under which the agents answer."""
    environment_family, options = environment(config)
    seats = seats_of(config, max_action_characters=environment_family.max_action_characters(options))
    return overlong_for(config.rewards, {role: seat.max_new_tokens for role, seat in seats.items()})


def refilling(config: RunConfig, *, step: int, shard: int) -> Refilling:
    """Where a shard gets fresh problems from, and what makes it replace one."""
    environment_family, options = environment(config)
    return Refilling(
        fresh=fresh_problems(config, environment_family, options, step=step, shard=shard),
        has_signal=partial(has_signal, algorithm=config.algorithm),
    )


def eval_plan(config: RunConfig, suite: str, *, step: int, sampling: str, num_problems: int) -> EvalPlan:
    """How the team of `config` is evaluated on a suite. A suite's problems are the same for every run and seed."""
    environment_family, options = environment(config)
    return EvalPlan(
        suite=suite,
        step=step,
        sampling="greedy" if sampling == "greedy" else "sample",
        problems=suite_problems(suite, environment_family, options, num_problems=num_problems, seed=SUITE_SEED),
        problems_per_block=config.evaluation.problems_per_block,
        turn_order=turn_order(config),
        max_turns=config.environment.max_turns,
        seed=config.seed,
        max_failed_fraction=config.rollout.max_failed_fraction,
    )


def generator(config: RunConfig, policy: str) -> Generator:
    """The engine of one policy; what it holds is checked at each use."""
    api = config.policies[policy].api
    if api is not None:
        return _api_engine(policy, api)
    key = (policy, config.generation.model_dump_json())
    if key not in _engines:
        _engines[key] = _vllm_engine(config, policy) if config.generation.engine == "vllm" else _engine_here(config)
    return _engines[key]


def _engine_here(config: RunConfig) -> Generator:
    with long_lived():
        from components.generation.local.engine import TransformersGenerator

    return TransformersGenerator(config.generation, _bases())


def _vllm_engine(config: RunConfig, policy: str) -> Generator:
    # Read before the import, which takes seconds: what is wrong there is told at once.
    urls, key = server_urls(config, os.environ), server_key(config, os.environ)
    from components.generation.vllm.engine import VllmGenerator

    return VllmGenerator(
        config.generation,
        model=served_model(config, policy),
        urls=urls,
        key=key,
        start_command=f"troupe up --engine vllm --preset {config.preset}",
    )


def check_servers(config: RunConfig) -> None:
    """Pass when the servers of every policy that has some answer. Raises EngineUnavailable or StaleEngine."""
    engines = [generator(config, name) for name, policy in config.policies.items() if policy.api is None]
    from components.generation.vllm.engine import VllmGenerator

    for engine in engines:
        if isinstance(engine, VllmGenerator):
            engine.check()


@cache
def _api_engine(policy: str, api: ApiConfig) -> "ApiGenerator":
    from components.generation.api.chat import KEY_VARIABLES
    from components.generation.api.engine import open_api_generator

    return open_api_generator(policy, api, api_key=os.environ.get(KEY_VARIABLES[api.provider]))


def check_apis(config: RunConfig) -> None:
    """Pass when every policy behind an API can be asked. Raises ServiceMissing without its SDK, ConfigurationError without
    its key."""
    for name, policy in config.policies.items():
        if policy.api is not None:
            generator(config, name)


def api_usage(config: RunConfig) -> dict[str, dict[str, float]]:
    """What each policy behind an API has used in this process: requests, tokens, cost."""
    apis = {name: policy.api for name, policy in config.policies.items() if policy.api is not None}
    return {name: asdict(_api_engine(name, api).usage) for name, api in apis.items()}


def router(config: RunConfig, versions: dict[str, PolicyVersion]) -> Router:
    """Roles to policies to engines, at the named versions."""
    environment_family, options = environment(config)
    return Router(
        {policy: generator(config, policy) for policy in config.policies},
        seats=seats_of(config, max_action_characters=environment_family.max_action_characters(options)),
        versions=versions,
    )


def fixed_versions(config: RunConfig) -> dict[str, PolicyVersion]:
    """The versions of the policies that have no checkpoint, because an API plays them."""
    from components.generation.api.chat import api_version

    return {name: api_version(name, policy.api) for name, policy in config.policies.items() if policy.api is not None}


def training_of(config: RunConfig, policy: str) -> TrainingConfig:
    """How one policy is trained: the training section with the policy's own values in it."""
    settings = config.policies[policy].model_dump(include={"learning_rate", "num_minibatches"}, exclude_none=True)
    return config.training.model_copy(update=settings)


def trainer(run: Run, policy: str) -> "DeepSpeedTrainer":
    """The warm DeepSpeed worker that trains a policy of a run. Adapters on one base have one worker."""
    training = training_of(run.config, policy)
    worker = next(name for name, sharing in starting_models(run.config.policies).items() if policy in sharing)
    key = (run.run_id, worker, run.config.training.model_dump_json())
    if key not in _trainers:
        from components.training.trainer import DeepSpeedTrainer

        _trainers[key] = DeepSpeedTrainer(
            training,
            deepspeed_config=shipped_file("infra", f"deepspeed/zero{training.zero_stage}.json"),
            run_label=f"{run.run_id}.{worker}",
            environment=trainer_environment(training),
            own_code_folder=Path.cwd() if is_own(run.config.loss.policy_loss) else None,
        )
    return _trainers[key]


def trainer_environment(training: TrainingConfig) -> dict[str, str]:
    """What training processes inherit: no account of the user's, but his SSH agent where they reach other hosts by it."""
    agent = os.environ.get("SSH_AUTH_SOCK") if training.hostfile else None
    return {**inherited(os.environ), **({"SSH_AUTH_SOCK": agent} if agent else {})}


def warm_up_trainers(run: Run) -> None:
    """Start the workers of all trained policies without waiting for them."""
    for policy, settings in run.config.policies.items():
        if settings.trained:
            trainer(run, policy).start()


def close_trainers() -> None:
    """End every worker that this process started."""
    while _trainers:
        _, worker = _trainers.popitem()
        worker.close()


def cuda_is_available() -> bool:
    """Whether torch sees a CUDA device."""
    import torch

    return torch.cuda.is_available()

"""From the documented configuration to that of a population's run, and the run itself: the one place that knows the flow."""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from components.artifacts.base import ArtifactStore
from components.config import RunConfig, parse_config
from components.environments.registry import family, family_options
from components.errors import ConfigurationError
from components.identity import fingerprint
from components.runs.lineages import read_config
from components.runs.restarts import Restart
from components.runs.resume_checks import validate_start
from components.runs.run import Run
from components.runs.steps import first_unfinished_step
from components.runs.stored_runs import read_run
from components.schema import IterationReport
from components.session.checkpoint_loading import model_settings
from components.session.stores import open_store
from components.session.user_sources import with_sources
from components.suggestions import suggest
from flows.api.multi_model.enums import (
    CompetenceType,
    CooperationType,
    RLAlgorithm,
    TrainingMode,
    WeightUpdateStrategy,
)
from flows.api.multi_model.environments import MultiModelTrainingEnvironment
from flows.api.multi_model.model_configs import CompetenceFactor, CooperationFactor, RLConfig
from flows.api.multi_model.training_config import MODEL_NAMES, MultiModelConfig

PROVIDERS: Mapping[str, str] = {"openai": "openai", "claude": "anthropic"}
"""Types of members behind an API."""
TOKENS_PER_ANSWER = 256
"""Of a prompt and its answer, as a part of a micro-batch."""
BATCH_FIELD = "training.tokens_per_micro_batch"
FIRST_STAGE = "collect_rollouts"
UPDATE_STAGE = "update_policy"
ADAPTER = {"rank": 16, "alpha": 32.0}
PLACES: Mapping[str, str] = {
    "num_models": "policies, agents",
    "model_types": "policies",
    "api_settings": "policies.*.api",
    "model_names": "policies.*.base, policies.*.api.model",
    "training_mode": "method.training_mode",
    "weight_update_strategy": "method.weight_updates",
    "max_episodes": "num_steps",
    "episode_length": "environment.options, environment.max_turns",
    "update_frequency": "rollout.num_problems, rollout.group_size",
    "learning_rate": "training.learning_rate",
    "cooperation_strength": "method.training_mode.cooperation_strength",
    "competition_intensity": "method.training_mode.competition_intensity",
    "base_port": "the trainer starts no server; another than the default is refused",
    "num_gpus": "generation.device, training.device, resources.max_updates_at_once",
    "batch_size": BATCH_FIELD,
    "checkpoint_dir": "store.root",
    "save_interval": "retention.every",
    "max_checkpoints": "retention.newest",
    "enable_verl": "training.share_prompts",
    "enable_areal": "rollout.num_shards, resources.max_shards_at_once",
    "kv_cache_size": "generation.max_batch_tokens",
    "enable_monitoring": "the trainer's UnifiedMonitor",
    "log_metrics_interval": "the trainer's UnifiedMonitor",
}
"""Each field of MultiModelConfig, and what it sets."""
SHARING: Mapping[CooperationType, tuple[str, ...]] = {
    CooperationType.NONE: (),
    CooperationType.TEAM_BASED: ("cooperation_strength", "team_size"),
    CooperationType.SHARED_REWARDS: ("shared_reward_ratio",),
}
"""The fields of a CooperationFactor that have an effect, by its type."""
UNREAD: Mapping[str, str] = {
    "knowledge_transfer_rate": "the flow has no pull to a teammate",
    "communication_cost": "members send no messages in these games",
}
"""Why a field of it has an effect under no type."""


def population_config(
    config: MultiModelConfig, environment: MultiModelTrainingEnvironment, rl: RLConfig | None = None
) -> RunConfig:
    """The configuration of the run. Raises ConfigurationError for what does not go together."""
    _check_places(config)
    members = list(config.member_types())
    device, num_gpus = _devices(config.num_gpus)
    section = environment.section(config.num_models, config.episode_length)
    players = environment_players(section)
    if len(players) < len(members):
        raise ConfigurationError(
            f"num_models {len(members)}: the environment {section['name']} has {len(players)} players; use num_models "
            f"{len(players)} or fewer, or make the environment with {len(members)} players"
        )
    rollout = _rollout(config, is_tree=rl is not None and rl.algorithm is RLAlgorithm.GRPO)
    values: dict[str, Any] = {
        "preset": "multimodel",
        "num_steps": ceil(config.max_episodes / config.update_frequency),
        "environment": section,
        "agents": {player: {"policy": members[index % len(members)]} for index, player in enumerate(players)},
        "policies": {name: _policy(config, kind) for name, kind in config.member_types().items()},
        "warm_start": {"max_steps": 0},
        **_learning(config, rl, device),
        "rollout": rollout,
        "generation": {"max_batch_tokens": config.kv_cache_size, "device": device},
        "evaluation": {"num_problems": min(16, config.update_frequency), "sampling": ["sample"]},
        "resources": {"max_updates_at_once": num_gpus, "max_shards_at_once": rollout["num_shards"]},
        "store": {"kind": "local", "root": config.checkpoint_dir},
        "tracking": {"kind": "none"},
        "retention": _retention(config),
    }
    if rl is not None:
        _apply(rl, values, config)
    return parse_config(values)


def batch_size(config: MultiModelConfig, rl: RLConfig | None) -> int:
    """The answers of a forward and backward pass: what was set last."""
    return int(_set_last("batch_size", config, rl))


def tokens_per_micro_batch(config: MultiModelConfig, rl: RLConfig | None) -> int:
    """The tokens of a forward and backward pass of so many answers."""
    return batch_size(config, rl) * TOKENS_PER_ANSWER


def _set_last(name: str, config: MultiModelConfig, rl: RLConfig | None) -> Any:
    """A field that both configurations have, from the one in which it was set last."""
    return getattr(config if rl is None or rl.set_at(name) < config.set_at(name) else rl, name)


def _learning(config: MultiModelConfig, rl: RLConfig | None, device: str) -> dict[str, Any]:
    """The sections that say how members learn from play."""
    return {
        "method": {
            "type": "population",
            "training_mode": {"type": config.training_mode.value, **_strengths(config)},
            "weight_updates": {"type": config.weight_update_strategy.value},
        },
        "algorithm": {"advantage": "role_baseline"},
        "training": {
            "learning_rate": _set_last("learning_rate", config, rl),
            "tokens_per_micro_batch": tokens_per_micro_batch(config, rl),
            "share_prompts": config.enable_verl,
            "device": device,
        },
    }


def _rollout(config: MultiModelConfig, *, is_tree: bool) -> dict[str, Any]:
    """The section `rollout`: whole episodes that are compared, or a tree of each episode, in which its answers are."""
    problems, replicas = episodes_of_a_step(config.update_frequency)
    played: dict[str, Any] = {"mode": "independent", "num_problems": problems, "group_size": replicas}
    if is_tree:
        played = {"mode": "tree", "num_problems": config.update_frequency}
    return {**played, "num_shards": 2 if config.enable_areal and played["num_problems"] > 1 else 1}


def environment_players(section: Mapping[str, Any]) -> tuple[str, ...]:
    """The players of the section `environment`."""
    return family(section["name"]).under(family_options(section["name"], section["options"])).roles


def episodes_of_a_step(update_frequency: int) -> tuple[int, int]:
    """Problems, and how often each is played, so that their product is `update_frequency` and each is played twice or more.

    **Example** 10: 5 problems, twice each; 5: one problem, five times. Raises ConfigurationError for 1.
    """
    replicas = next((each for each in range(2, update_frequency + 1) if update_frequency % each == 0), 0)
    if not replicas:
        raise ConfigurationError(f"update_frequency {update_frequency}: use 2 or more, as one episode has no baseline")
    return update_frequency // replicas, replicas


def run_name(config: RunConfig) -> str:
    """The name of the run: that of a configuration without what may change between two calls of `train`.

    **Example** with half of the batch, or more episodes, the name is the same.
    """
    fields = config.result_fields()
    fields.pop("num_steps", None)
    fields["training"].pop("tokens_per_micro_batch", None)
    return f"multimodel-{fingerprint(fields)[:8]}"


def train_population(
    config: RunConfig,
    run_id: str,
    *,
    from_step: int | None = None,
    on_step: Callable[[IterationReport], None] | None = None,
) -> dict[str, Any]:
    """Train the run to `config.num_steps`; the flow's summary. A run of the name is continued.

    If only the micro-batch differs from the stored run's, that is recorded first, so that the run goes on with it. `from_step`
    goes back to that step. Where no Prefect server is named, one is started for the run, and may take as long as the run would
    wait for one that is away. Raises what the flow raises.
    """
    from flows.prefect_runtime.settings import patient_with_temporary_server
    from flows.starts import recorded_restart
    from flows.steps import POPULATION_PIPELINE
    from flows.train import checked_session, using
    from flows.train import train_population as flow

    settled = with_sources(config)
    store = open_store(settled.store)
    restart = restart_for(store, settled, run_id, from_step)
    with checked_session(Run(run_id=run_id, config=settled)) as session:
        session.on_step = on_step
        if restart is None:
            validate_start(session.store, run_id, settled, POPULATION_PIPELINE)
        else:
            recorded_restart(session, restart)
        with using(session), patient_with_temporary_server(settled.resources.prefect_patience_seconds):
            return flow(settled, run_id)


def restart_for(store: ArtifactStore, config: RunConfig, run_id: str, from_step: int | None) -> Restart | None:
    """The restart by which a stored run goes on under `config`; None if it needs none, or is new."""
    if read_config(store, run_id) is None:
        return None
    run = read_run(store, run_id)
    finished = first_unfinished_step(store, run)
    if from_step is not None and from_step < min(finished, config.num_steps):
        return Restart(step=from_step, stage=FIRST_STAGE)
    differs = run.config.training.tokens_per_micro_batch != config.training.tokens_per_micro_batch
    return Restart(step=finished, stage=UPDATE_STAGE) if differs and finished < config.num_steps else None


def _policy(config: MultiModelConfig, kind: str) -> dict[str, Any]:
    """A member's policy: a model behind an API, which is never updated, or an adapter on a base."""
    name = config.model_names.get(kind) or MODEL_NAMES.get(kind)
    if name is None:
        raise ConfigurationError(
            f"model_names: names no model of type {kind!r}; add one, or {suggest(kind, {**MODEL_NAMES, **config.model_names})}"
        )
    if kind in PROVIDERS:
        api = {**config.api_settings.get(kind, {}), "provider": PROVIDERS[kind], "model": name}
        return {"prompt_format": "chat", "trained": False, "api": api}
    format_ = "compact" if name == "tiny" else model_settings(name).prompt_format
    # Then the federated mean of adapters is exact, and optimizers and critics are averaged with it.
    freezes_a = config.weight_update_strategy is WeightUpdateStrategy.FEDERATED
    return {"base": name, "prompt_format": format_, "adapter": {**ADAPTER, "freeze_a": freezes_a}}


def _devices(num_gpus: int) -> tuple[str, int]:
    """The device, and how many members are updated at once: one for each GPU that is asked for and there."""
    import torch

    found = min(num_gpus, torch.cuda.device_count()) if torch.cuda.is_available() else 0
    return ("cuda", found) if found else ("cpu", 1)


def _retention(config: MultiModelConfig) -> dict[str, Any]:
    if config.max_checkpoints == -1:
        return {"every": 1}
    every = config.save_interval // config.update_frequency or 1
    return {"newest": config.max_checkpoints, "every": every, "evaluated": "best"}


def _check_places(config: MultiModelConfig) -> None:
    """Raise ConfigurationError for a port that nobody listens on, and an interval between checkpoints that cannot be kept."""
    default = MultiModelConfig()
    if config.base_port != default.base_port:
        raise ConfigurationError(
            f"base_port {config.base_port}: members are sampled in the trainer's own process, behind no port; leave it out, or "
            "give it to create_unified_scheduler"
        )
    behind_apis = sorted({kind for kind in config.member_types().values() if kind in PROVIDERS})
    for kind, settings in config.api_settings.items():
        if kind not in behind_apis:
            raise ConfigurationError(
                f"api_settings {kind!r}: no member is of this type behind an API; types are {', '.join(behind_apis) or 'none'}"
            )
        if fixed := sorted({"provider", "model"} & set(settings)):
            raise ConfigurationError(
                f"api_settings {kind!r}: {fixed[0]} follows from model_types and model_names; leave it out"
            )
    interval, length = config.save_interval, config.update_frequency
    if interval == default.save_interval:
        return
    if config.max_checkpoints == -1:
        raise ConfigurationError(
            f"save_interval {interval}: max_checkpoints -1 keeps all checkpoints; leave one of them out"
        )
    if interval % length:
        below = interval // length * length
        nearest = f"{below} or {below + length}" if below else str(length)
        raise ConfigurationError(
            f"save_interval {interval}: a checkpoint is stored every {length} episodes, the update_frequency; use {nearest}"
        )


def _apply(rl: RLConfig, values: dict[str, Any], config: MultiModelConfig) -> None:
    """Write the learner's settings over those of the configuration. Raises ConfigurationError for one without an effect."""
    values["training"] |= {"max_grad_norm": rl.max_grad_norm, "num_epochs": rl.ppo_epochs}
    values["loss"] = {
        "clip_low": rl.clip_ratio,
        "clip_high": rl.clip_ratio,
        "entropy_coefficient": rl.entropy_coef,
    }
    if rl.algorithm is RLAlgorithm.GRPO:
        for name in ("gamma", "gae_lambda", "value_loss_coef"):
            if getattr(rl, name) != getattr(RLConfig(), name):
                raise ConfigurationError(
                    f"{name} {getattr(rl, name)}: GRPO compares what each action earns at once; leave it out, or use PPO"
                )
        values["algorithm"] = {"advantage": "at_grpo"}
    else:
        values["algorithm"] = {
            "advantage": "gae",
            "discount": rl.gamma,
            "trace": rl.gae_lambda,
            "value_coefficient": rl.value_loss_coef,
        }
    values["method"]["training_mode"] |= _shared(rl.cooperation_factor, config)
    if rl.competence_factor != CompetenceFactor(competence_type=CompetenceType.GENERAL):
        raise ConfigurationError(
            "competence_factor: the flow routes no problems by skill, and gives all members one learning rate; leave it out, "
            "or use weight_update_strategy selective, in which the best learn"
        )


def _strengths(config: MultiModelConfig) -> dict[str, float]:
    """How strongly returns are shared and compared, for the modes that do."""
    strengths = {
        "cooperation_strength": config.cooperation_strength,
        "competition_intensity": config.competition_intensity,
    }
    read = {
        TrainingMode.COOPERATIVE: {"cooperation_strength"},
        TrainingMode.COMPETITIVE: {"competition_intensity"},
        TrainingMode.MIXED: {*strengths},
    }
    return {name: value for name, value in strengths.items() if name in read.get(config.training_mode, ())}


def _shared(factor: CooperationFactor, config: MultiModelConfig) -> dict[str, Any]:
    """What of a return is the team's, by the factor. Raises ConfigurationError for what has no effect in it."""
    kind = factor.cooperation_type
    if kind is CooperationType.KNOWLEDGE_TRANSFER:
        raise ConfigurationError(
            "cooperation_factor knowledge_transfer: the flow has no pull to a teammate; use team_based or shared_rewards, or "
            "weight_update_strategy federated, which transfers weights"
        )
    for name in sorted(CooperationFactor.checks.keys() - {"cooperation_type", *SHARING[kind]}):
        if (value := getattr(factor, name)) != getattr(CooperationFactor, name):
            reason = UNREAD.get(name, f"has no effect under cooperation_type {kind.value}")
            raise ConfigurationError(f"cooperation_factor.{name} {value}: {reason}; leave it out")
    if kind is CooperationType.NONE:
        return {}
    if config.training_mode not in (TrainingMode.COOPERATIVE, TrainingMode.MIXED):
        raise ConfigurationError(
            f"cooperation_factor {kind.value}: has no effect under training_mode {config.training_mode.value}; use cooperative "
            "or mixed"
        )
    if config.cooperation_strength != MultiModelConfig.cooperation_strength:
        raise ConfigurationError(
            f"cooperation_strength {config.cooperation_strength}: cooperation_factor {kind.value} has a share of its own; "
            "leave one of them out"
        )
    if kind is CooperationType.SHARED_REWARDS:
        return {"cooperation_strength": factor.shared_reward_ratio}
    if not factor.cooperation_strength or factor.team_size == 1:
        raise ConfigurationError(
            f"cooperation_factor team_based: a cooperation_strength of {factor.cooperation_strength:g} in teams of "
            f"{factor.team_size} shares nothing; set cooperation_strength above 0 and team_size to 2 or more"
        )
    return {"cooperation_strength": factor.cooperation_strength, "team_size": factor.team_size}

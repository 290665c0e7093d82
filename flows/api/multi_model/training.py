"""From the documented configuration to that of a population's run, and the run itself: the one place that knows the flow."""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from components.artifacts.base import ArtifactStore
from components.config import RunConfig, parse_config
from components.environments.registry import family, family_options
from components.errors import ConfigurationError, ServiceMissing
from components.generation.api.chat import KEY_VARIABLES
from components.identity import fingerprint
from components.machine.process_variables import read_variable
from components.models.base_checks import check_base
from components.reporting import progress
from components.runs.lineages import read_config
from components.runs.restarts import Restart
from components.runs.resume_checks import validate_start
from components.runs.run import Run
from components.runs.steps import first_unfinished_step
from components.runs.stored_runs import read_run
from components.schema import IterationReport
from components.session.checkpoint_loading import model_settings
from components.session.session import Session
from components.session.stores import open_store
from components.session.user_sources import with_sources
from components.text.suggestions import suggest
from flows.api.multi_model.configs import (
    LOCAL_TYPES,
    MODEL_NAMES,
    CompetenceFactor,
    CooperationFactor,
    MultiModelConfig,
    RLConfig,
)
from flows.api.multi_model.enums import CooperationType, RLAlgorithm, TrainingMode, WeightUpdateStrategy
from flows.api.multi_model.environments import MultiModelTrainingEnvironment
from flows.api.multi_model.errors import ModelLoadingFailed
from flows.api.multi_model.fields import find_changed_fields

PROVIDERS: Mapping[str, str] = {"openai": "openai", "claude": "anthropic"}
"""Types of members behind an API."""
TOKENS_PER_ANSWER = 256
"""Of a prompt and its answer, as a part of a micro-batch."""
FIRST_STAGE = "collect_rollouts"
UPDATE_STAGE = "update_policy"
LAST_STAGE = "publish_checkpoint"
ADAPTER = {"rank": 16, "alpha": 32.0}
LAPTOP = 'on a laptop, train with model_types=["tiny"], or ["smollm2-135m"]'
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
    "batch_size": "training.tokens_per_micro_batch",
    "checkpoint_dir": "store.root",
    "save_interval": "retention.every",
    "max_checkpoints": "retention.newest",
    "enable_verl": "training.share_prompts",
    "enable_areal": "rollout.num_shards, resources.max_shards_at_once",
    "kv_cache_size": "generation.max_batch_tokens",
    "enable_monitoring": "the trainer's UnifiedMonitor",
    "log_metrics_interval": "the trainer's UnifiedMonitor",
    "episode_timeout_seconds": "the trainer's clock",
}
"""Each field of MultiModelConfig, and what it sets."""
_EFFECTIVE: Mapping[CooperationType, tuple[str, ...]] = {
    CooperationType.NONE: (),
    CooperationType.TEAM_BASED: ("cooperation_strength", "team_size"),
    CooperationType.SHARED_REWARDS: ("shared_reward_ratio",),
}
"""The fields of a CooperationFactor that have an effect, by its type."""
_UNREAD: Mapping[str, str] = {
    "knowledge_transfer_rate": "the flow has no pull to a teammate",
    "communication_cost": "members send no messages in these games",
}
"""Why a field of it has an effect under no type."""


def population_config(
    config: MultiModelConfig, environment: MultiModelTrainingEnvironment, rl: RLConfig | None = None
) -> RunConfig:
    """The configuration of the run; without `rl` its defaults hold. Raises ConfigurationError for what does not go together."""
    rl = rl or RLConfig()
    _check_effects(config, rl)
    return parse_config({**_surroundings(config, environment), **_values(config, rl)})


def _values(config: MultiModelConfig, rl: RLConfig) -> dict[str, Any]:
    """The sections that say how members learn together: what has to change when these sections do."""
    is_tree = rl.algorithm is RLAlgorithm.GRPO
    problems, replicas = episodes_of_a_step(config, is_tree=is_tree)
    strength, team_size = _share_of_team(rl.cooperation_factor, config)
    mixing = {
        "cooperation_strength": strength,
        "competition_intensity": config.competition_intensity,
        "team_size": team_size,
    }
    of_mode = {name: each for name, each in mixing.items() if each not in (None, getattr(MultiModelConfig, name, None))}
    gae = {"trace": rl.gae_lambda, "value_coefficient": rl.value_loss_coef, "discount": rl.gamma}
    return {
        "method": {
            "type": "population",
            "training_mode": {"type": config.training_mode.value, **of_mode},
            "weight_updates": {"type": config.weight_update_strategy.value},
        },
        "algorithm": {"advantage": "at_grpo"} if is_tree else {"advantage": "gae", **gae},
        "loss": {"clip_low": rl.clip_ratio, "clip_high": rl.clip_ratio, "entropy_coefficient": rl.entropy_coef},
        "training": {
            "learning_rate": choose_value("learning_rate", config, rl),
            "tokens_per_micro_batch": choose_value("batch_size", config, rl) * TOKENS_PER_ANSWER,
            "share_prompts": config.enable_verl,
            "device": _find_devices(config.num_gpus)[0],
            "max_grad_norm": rl.max_grad_norm,
            "num_epochs": rl.ppo_epochs,
        },
        "rollout": {
            **({"mode": "tree"} if is_tree else {"mode": "independent", "group_size": replicas}),
            "num_problems": problems,
            "num_shards": 2 if config.enable_areal and problems > 1 else 1,
        },
    }


def _surroundings(config: MultiModelConfig, environment: MultiModelTrainingEnvironment) -> dict[str, Any]:
    """The sections that say what is played by whom, where, and what is kept."""
    members, length = list(config.member_types()), min(config.update_frequency, config.max_episodes)
    own = environment.options.get("num_rounds", environment.options.get("num_steps"))
    if own is not None and config.episode_length not in (own, MultiModelConfig.episode_length):
        raise ConfigurationError(
            f"episode_length {config.episode_length}: the environment has {own} steps of its own; leave one of them out"
        )
    section = environment.section(config.num_models, config.episode_length)
    players = enumerate(_players(section, len(members)))
    device, num_gpus = _find_devices(config.num_gpus)
    every = config.save_interval // length or 1
    newest = {"newest": config.max_checkpoints, "every": every, "evaluated": "best"}
    return {
        "preset": "multimodel",
        "seed": environment.seed,
        "num_steps": ceil(config.max_episodes / length),
        "environment": section,
        "agents": {player: {"policy": members[index % len(members)]} for index, player in players},
        "policies": {name: _policy(config, kind) for name, kind in config.member_types().items()},
        "warm_start": {"max_steps": 0},
        "generation": {"max_batch_tokens": config.kv_cache_size, "device": device},
        "evaluation": {"num_problems": min(16, length), "sampling": ["sample"]},
        "resources": {"max_updates_at_once": num_gpus, "max_shards_at_once": 2 if config.enable_areal else 1},
        "store": {"kind": "local", "root": config.checkpoint_dir},
        "tracking": {"kind": "none"},
        "retention": {"every": 1} if config.max_checkpoints == -1 else newest,
    }


def choose_value(name: str, config: MultiModelConfig, rl: RLConfig | None) -> Any:
    """The value of a field that both configurations have: a default gives way. Raises ConfigurationError for two others."""
    default, value, other = getattr(MultiModelConfig, name), getattr(config, name), getattr(rl or RLConfig(), name)
    if default not in (value, other) and value != other:
        raise ConfigurationError(f"{name} {value} and rl_config.{name} {other}: leave one of them out")
    return other if value == default else value


def episodes_of_a_step(config: MultiModelConfig, *, is_tree: bool = False) -> tuple[int, int]:
    """Problems, and how often each is played: `update_frequency` episodes, or all of fewer `max_episodes`.

    Each problem is played twice or more, to be compared; a tree compares inside of one episode.

    **Example** 10: 5 problems, twice each; 5: one problem, five times. Raises ConfigurationError.
    """
    length = min(config.update_frequency, config.max_episodes)
    if config.max_episodes % length:
        below = config.max_episodes // length * length
        raise ConfigurationError(
            f"max_episodes {config.max_episodes}: weights are updated every {length} (update_frequency); use {below} "
            f"or {below + length}"
        )
    if is_tree:
        return length, 1
    replicas = next((each for each in range(2, length + 1) if length % each == 0), 0)
    if not replicas:
        raise ConfigurationError(f"max_episodes {length}: one episode has no other to be compared with; use 2 or more")
    return length // replicas, replicas


def select_lasting_fields(config: RunConfig) -> dict[str, Any]:
    """The fields that one run has from its start to its end: not the number of steps, nor the micro-batch."""
    fields = config.result_fields()
    fields.pop("num_steps", None)
    fields["training"].pop("tokens_per_micro_batch", None)
    return fields


def run_name(config: RunConfig) -> str:
    """The name of the run. **Example** with half of the batch, or twice the episodes, it is the same."""
    return f"multimodel-{fingerprint(select_lasting_fields(config))[:8]}"


def check_models(config: RunConfig) -> None:
    """Raise ModelLoadingFailed, with all that is missing and how to get it, unless each member's model can be opened."""
    from components.generation.api.engine import open_api_generator

    lacking: dict[str, str] = {}
    for name, policy in config.policies.items():
        try:
            if policy.api is None:
                check_base(name, policy)
            else:
                open_api_generator(name, policy.api, api_key=read_variable(KEY_VARIABLES[policy.api.provider])).close()
        except (ConfigurationError, ServiceMissing) as error:
            lacking.setdefault(policy.base if policy.api is None else policy.api.model, str(error))
    if lacking:
        raise ModelLoadingFailed("\n  ".join([f"Model loading failed; {LAPTOP}; what is missing:", *lacking.values()]))


def train_population(
    config: RunConfig,
    run_id: str,
    *,
    from_step: int | None = None,
    on_session: Callable[[Session], None],
    on_step: Callable[[IterationReport], None],
    on_progress: Callable[[progress.Progress], None],
) -> dict[str, Any]:
    """Train the run to `config.num_steps`; the flow's summary. A run of the name is continued.

    If only the micro-batch differs from the stored run's, that is recorded first, so that the run goes on with it. `from_step`
    goes back to that step. Where no Prefect server is named, one is started for the run, and may take as long as the run would
    wait for one that is away. Raises what the flow raises.
    """
    from flows.prefect_runtime.settings import patient_with_temporary_server
    from flows.starts import commit_restart
    from flows.steps import POPULATION_PIPELINE
    from flows.train import open_checked_session, using
    from flows.train import train_population as flow

    settled = with_sources(config)
    restart = restart_for(open_store(settled.store), settled, run_id, from_step)
    with open_checked_session(Run(run_id=run_id, config=settled)) as session, progress.subscribe(on_progress):
        on_session(session)
        session.on_step = on_step
        if restart is None:
            validate_start(session.store, run_id, settled, POPULATION_PIPELINE)
        else:
            commit_restart(session, restart)
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


def _players(section: Mapping[str, Any], num_members: int) -> tuple[str, ...]:
    """The players of the section `environment`. Raises ConfigurationError if they are fewer than the members."""
    players = family(section["name"]).under(family_options(section["name"], section["options"])).roles
    if len(players) < num_members:
        raise ConfigurationError(
            f"num_models {num_members}: the environment {section['name']} has {len(players)} players; use num_models "
            f"{len(players)} or fewer, or make the environment with {num_members} players"
        )
    return players


def _policy(config: MultiModelConfig, kind: str) -> dict[str, Any]:
    """A member's policy: a model behind an API, which is never updated, or an adapter on a base."""
    known = {**LOCAL_TYPES, **MODEL_NAMES, **config.model_names}
    if kind not in known:
        raise ConfigurationError(f"model_names: names no model of type {kind!r}; add one, or {suggest(kind, known)}")
    name = known[kind]
    if kind in PROVIDERS:
        api = {**config.api_settings.get(kind, {}), "provider": PROVIDERS[kind], "model": name}
        return {"prompt_format": "chat", "trained": False, "api": api}
    format_ = "compact" if name == "tiny" else model_settings(name).prompt_format
    # Then the federated mean of adapters is exact, and optimizers and critics are averaged with it.
    freezes_a = config.weight_update_strategy is WeightUpdateStrategy.FEDERATED
    return {"base": name, "prompt_format": format_, "adapter": {**ADAPTER, "freeze_a": freezes_a}}


def _find_devices(num_gpus: int) -> tuple[str, int]:
    """The device, and how many members are updated at once: one for each GPU that is asked for and there."""
    import torch

    found = min(num_gpus, torch.cuda.device_count()) if torch.cuda.is_available() else 0
    return ("cuda", found) if found else ("cpu", 1)


def _check_effects(config: MultiModelConfig, rl: RLConfig) -> None:
    """Raise ConfigurationError for a field that has no effect beside the others."""
    if config.base_port != MultiModelConfig.base_port:
        raise ConfigurationError(
            f"base_port {config.base_port}: members are sampled in the trainer's own process, behind no port; leave it out, or "
            "give it to create_unified_scheduler"
        )
    if not config.enable_monitoring and config.log_metrics_interval != MultiModelConfig.log_metrics_interval:
        raise ConfigurationError(
            f"log_metrics_interval {config.log_metrics_interval}: has no effect with enable_monitoring False; leave one out"
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
    _check_save_interval(config)
    if rl.algorithm is RLAlgorithm.GRPO:
        for name in {"gamma", "gae_lambda", "value_loss_coef"}.intersection(find_changed_fields(rl)):
            raise ConfigurationError(
                f"{name} {getattr(rl, name)}: GRPO compares what each action earns at once; leave it out, or use PPO"
            )
    if rl.competence_factor != CompetenceFactor():
        raise ConfigurationError(
            "competence_factor: the flow routes no problems by skill, and gives all members one learning rate; leave it out, "
            "or use weight_update_strategy selective, in which the best learn"
        )


def _check_save_interval(config: MultiModelConfig) -> None:
    interval, length = config.save_interval, min(config.update_frequency, config.max_episodes)
    if interval == MultiModelConfig.save_interval:
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


def _share_of_team(factor: CooperationFactor, config: MultiModelConfig) -> tuple[float, int | None]:
    """What of a return is the team's, and the size of a team; None: all. Raises ConfigurationError for what has no effect."""
    kind = factor.cooperation_type
    if kind is CooperationType.KNOWLEDGE_TRANSFER:
        raise ConfigurationError(
            "cooperation_factor knowledge_transfer: the flow has no pull to a teammate; use team_based or shared_rewards, or "
            "weight_update_strategy federated, which transfers weights"
        )
    for name in find_changed_fields(factor):
        if name not in ("cooperation_type", *_EFFECTIVE[kind]):
            reason = _UNREAD.get(name, f"has no effect under cooperation_type {kind.value}")
            raise ConfigurationError(f"cooperation_factor.{name} {getattr(factor, name)}: {reason}; leave it out")
    if kind is CooperationType.NONE:
        return config.cooperation_strength, None
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
        return factor.shared_reward_ratio, None
    if not factor.cooperation_strength or factor.team_size == 1:
        raise ConfigurationError(
            f"cooperation_factor team_based: a cooperation_strength of {factor.cooperation_strength:g} in teams of "
            f"{factor.team_size} shares nothing; set cooperation_strength above 0 and team_size to 2 or more"
        )
    return factor.cooperation_strength, factor.team_size

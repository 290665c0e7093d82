"""From the documented configuration to that of a population's run, and the run itself: the one place that knows the flow."""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from components.artifacts.base import ArtifactStore
from components.config import RunConfig, parse_config
from components.errors import ConfigurationError
from components.identity import fingerprint
from components.methods.population.served_models import list_missing_models
from components.reporting import progress
from components.runs.lineages import read_config
from components.runs.restarts import Restart
from components.runs.steps import first_unfinished_step
from components.runs.stored_runs import read_run
from components.schema import IterationReport
from components.session.checkpoint_loading import model_settings
from components.session.session import Session
from components.session.stores import open_store
from components.text.suggestions import suggest
from flows.api.fields import check_arguments, refuse_changed
from flows.api.multi_model.configs import (
    KNOWN_MODELS,
    CooperationFactor,
    MultiModelConfig,
    RLAlgorithm,
    RLConfig,
    WeightUpdateStrategy,
)
from flows.api.multi_model.environments import MultiModelTrainingEnvironment
from flows.api.multi_model.errors import ModelLoadingFailed
from flows.own_files import with_sources

PROVIDERS: Mapping[str, str] = {"openai": "openai", "claude": "anthropic"}
"""Types of members behind an API."""
TOKENS_PER_ANSWER = 256
"""Of a prompt and its answer, as a part of a micro-batch."""
FIRST_STAGE = "collect_rollouts"
UPDATE_STAGE = "update_policy"
ADAPTER = {"rank": 16, "alpha": 32.0}


@check_arguments
def population_config(
    config: MultiModelConfig, environment: MultiModelTrainingEnvironment, rl: RLConfig | None = None
) -> RunConfig:
    """The configuration of the run; without `rl` its defaults hold. Raises ConfigurationError for what does not go together."""
    rl = rl or RLConfig()
    _check_effects(config, rl)
    return parse_config({**_build_game_sections(config, environment), **_build_learning_sections(config, rl)})


def _build_learning_sections(config: MultiModelConfig, rl: RLConfig) -> dict[str, Any]:
    """The sections that say how members learn together."""
    is_tree = rl.algorithm is RLAlgorithm.GRPO
    problems, replicas = count_problems(config, is_tree=is_tree)
    return {
        "method": {
            "type": "population",
            "training_mode": _build_mode(config, rl.cooperation_factor),
            "weight_updates": {"type": config.weight_update_strategy.value},
        },
        "algorithm": {"advantage": "at_grpo"} if is_tree else {"advantage": "gae", "discount": rl.gamma},
        "loss": {"entropy_coefficient": 0.01},
        "training": {
            "learning_rate": choose_value("learning_rate", config, rl),
            "tokens_per_micro_batch": choose_value("batch_size", config, rl) * TOKENS_PER_ANSWER,
            "share_prompts": config.enable_verl,
            "device": _find_devices(config.num_gpus)[0],
            "max_grad_norm": 0.5,
            "num_epochs": 4,
        },
        "rollout": {
            **({"mode": "tree"} if is_tree else {"mode": "independent", "group_size": replicas}),
            "num_problems": problems,
            "num_shards": 2 if config.enable_areal and problems > 1 else 1,
        },
    }


def _build_game_sections(config: MultiModelConfig, environment: MultiModelTrainingEnvironment) -> dict[str, Any]:
    """The sections that say what is played by whom, where, and what is kept."""
    members, length = config.member_types(), config.step_length()
    game, names = environment.fit(config.num_models, config.episode_length), list(members)
    device, num_gpus = _find_devices(config.num_gpus)
    newest = {"newest": config.max_checkpoints, "evaluated": "best"}
    return {
        "preset": "multimodel",
        "seed": environment.seed,
        "num_steps": ceil(config.max_episodes / length),
        "environment": game.section(),
        "agents": {player: {"policy": names[at % len(names)]} for at, player in enumerate(game.players)},
        "policies": {name: _build_policy(config, kind) for name, kind in members.items()},
        "warm_start": {"max_steps": 0},
        "generation": {"max_batch_tokens": config.kv_cache_size, "device": device},
        "evaluation": {"num_problems": min(16, length), "sampling": ["sample"]},
        "resources": {"max_updates_at_once": num_gpus, "max_shards_at_once": 2 if config.enable_areal else 1},
        "store": {"kind": "local", "root": config.checkpoint_dir},
        "tracking": {"kind": "none"},
        "retention": {"every": 1} if config.max_checkpoints == -1 else newest,
    }


def choose_value(name: str, config: MultiModelConfig, part: RLConfig) -> Any:
    """The value of a field that both configurations have: a default gives way. Raises ConfigurationError for two others."""
    default, value, other = getattr(MultiModelConfig, name), getattr(config, name), getattr(part, name)
    if default not in (value, other) and value != other:
        raise ConfigurationError(f"{name} {value} and {type(part).__name__}.{name} {other}: leave one of them out")
    return other if value == default else value


def count_problems(config: MultiModelConfig, *, is_tree: bool = False) -> tuple[int, int]:
    """The problems of a step, and how often each is played: twice or more, to be compared; a tree compares inside of one game.

    **Example** 10 episodes: 5 problems, twice each; 5: one problem, five times. Raises ConfigurationError.
    """
    length = config.step_length()
    if config.max_episodes % length:
        raise ConfigurationError(
            f"max_episodes {config.max_episodes}: use a multiple of {length}, the update_frequency"
        )
    if is_tree:
        return length, 1
    replicas = next((each for each in range(2, length + 1) if length % each == 0), 0)
    if not replicas:
        raise ConfigurationError(f"max_episodes {length}: one episode has no other to be compared with; use 2 or more")
    return length // replicas, replicas


def select_lasting_fields(config: RunConfig) -> dict[str, Any]:
    """The fields that one run has from its start to its end: not the number of steps, nor the micro-batch."""
    values = config.result_fields()
    values.pop("num_steps", None)
    values["training"].pop("tokens_per_micro_batch", None)
    return values


def run_name(config: RunConfig) -> str:
    """The name of the run. **Example** with half of the batch, or twice the episodes, it is the same."""
    return f"multimodel-{fingerprint(select_lasting_fields(config))[:8]}"


def check_models(config: RunConfig) -> None:
    """Raise ModelLoadingFailed, with all that is missing and how to get it, unless each member's model can be opened."""
    if missing := list_missing_models(config.policies):
        said = 'Model loading failed; on a laptop, use model_types=["tiny"], or ["smollm2-135m"]; what is missing:'
        raise ModelLoadingFailed("\n  ".join([said, *missing]))


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

    If only the micro-batch differs from the stored run's, that is recorded first, so that the run continues with it.
    `from_step` goes back to that step. Raises what `train_here` raises.
    """
    from flows.train import train_here  # imports Prefect, which takes seconds

    settled = with_sources(config)
    restart = find_restart(open_store(settled.store), settled, run_id, from_step)
    with progress.subscribe(on_progress):
        return train_here(settled, run_id, restart=restart, on_session=on_session, on_step=on_step)


def find_restart(store: ArtifactStore, config: RunConfig, run_id: str, from_step: int | None) -> Restart | None:
    """The restart by which a stored run continues under `config`; None if it needs none, or is new."""
    if read_config(store, run_id) is None:
        return None
    run = read_run(store, run_id)
    finished = first_unfinished_step(store, run)
    if from_step is not None and from_step < min(finished, config.num_steps):
        return Restart(step=from_step, stage=FIRST_STAGE)
    differs = run.config.training.tokens_per_micro_batch != config.training.tokens_per_micro_batch
    return Restart(step=finished, stage=UPDATE_STAGE) if differs and finished < config.num_steps else None


def _build_policy(config: MultiModelConfig, kind: str) -> dict[str, Any]:
    """A member's policy: a model behind an API, which is never updated, or an adapter on a base."""
    known = {**KNOWN_MODELS, **config.model_names}
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
    refuse_changed(config, ["base_port"], "members are sampled in the trainer's own process, behind no port")
    if rl.algorithm is RLAlgorithm.GRPO:
        refuse_changed(rl, ["gamma"], "GRPO compares what each action earns at once; use PPO")
    behind_apis = sorted({kind for kind in config.member_types().values() if kind in PROVIDERS})
    for kind, settings in config.api_settings.items():
        if kind not in behind_apis or {"provider", "model"} & settings.keys():
            raise ConfigurationError(
                f"api_settings {kind!r}: give fields of an API but for provider and model, which follow from the type; types "
                f"of members behind an API are {', '.join(behind_apis) or 'none'}"
            )


def _build_mode(config: MultiModelConfig, factor: CooperationFactor) -> dict[str, Any]:
    """The section `method.training_mode`: only what is set, as a mode refuses what it does not read."""
    stated = {name: getattr(config, name) for name in ("cooperation_strength", "competition_intensity")}
    changed = {name: value for name, value in stated.items() if value != getattr(MultiModelConfig, name)}
    teams = {} if factor.team_size is None else {"team_size": factor.team_size}
    return {"type": config.training_mode.value, **changed, **teams}

"""The trainer of several models: the documented class over the flow of a population."""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from math import ceil, isfinite
from typing import Any

from components.config import PopulationMethod, RunConfig
from components.errors import ConfigurationError
from components.metrics import NUM_FAILED_EPISODES, STEP_SECONDS
from components.peak_memory import peak_memory_mib
from components.population.interaction_graph import PlayedEpisode
from components.runs.history import StepView, read_history
from components.runs.initial_checkpoints import committed_initial_checkpoints
from components.runs.run import Run
from components.runs.step_records import step_manifests
from components.runs.steps import first_unfinished_step
from components.runs.stored_runs import read_run
from components.schema import IterationReport
from flows.api.multi_model.checked_config import given
from flows.api.multi_model.checkpoints import (
    episodes_per_step,
    find_checkpoint,
    list_available_checkpoints,
    remove_expired,
    stored_in,
)
from flows.api.multi_model.enums import TrainingMode
from flows.api.multi_model.environments import (
    MultiModelTrainingEnvironment,
    checked_environment,
    create_multi_model_coop_compete_env,
)
from flows.api.multi_model.errors import CheckpointNotFound, EpisodeTimeout, GpuMemoryInsufficient, memory_errors
from flows.api.multi_model.model_configs import RLConfig
from flows.api.multi_model.monitoring import (
    UnifiedMonitor,
    create_unified_monitor,
    newest_monitor,
    tell_newest_monitor,
)
from flows.api.multi_model.played import cooperation_rate, played_episodes, seat_names
from flows.api.multi_model.training import (
    ADAPTER,
    batch_size,
    population_config,
    run_name,
    tokens_per_micro_batch,
    train_population,
)
from flows.api.multi_model.training_config import ModelState, MultiModelConfig

_log = logging.getLogger(__name__)
PUBLISH = "publish_checkpoint"


class _Stopped(Exception):
    """The trainer was asked to stop; the step is stored."""


class MultiModelTrainer:
    """Trains N models together on a game; the same configuration in the same folder again continues.

    Nothing is loaded, started or reserved before `train`. `environment`, `config`, `rl_config` and `monitor` may be replaced
    until then. Raises ConfigurationError for a configuration that is none.

    **Example**

        trainer = MultiModelTrainer(MultiModelConfig(num_models=2, model_types=["tiny"], model_names={"tiny": "tiny"}))
        results = await trainer.train()
        trainer.get_model_performance_summary()["model_0_tiny"]["avg_reward"]
    """

    def __init__(self, config: MultiModelConfig, rl_config: RLConfig | None = None) -> None:
        self.config: MultiModelConfig = given(MultiModelConfig)("config", config)
        self.rl_config: RLConfig | None = None if rl_config is None else given(RLConfig)("rl_config", rl_config)
        self.monitor: UnifiedMonitor | None = None
        self.episode_timeout_seconds: float | None = None
        """The most seconds that an episode may take on average in a step; None for no limit."""
        self.is_training = False
        self._environment: MultiModelTrainingEnvironment | None = None
        self._resumed: tuple[Run, int] | None = None
        self._stopping = False
        self._began_seconds = 0.0
        self._seconds = 0.0
        self._played: dict[tuple[str, int], list[PlayedEpisode]] = {}

    @property
    def environment(self) -> MultiModelTrainingEnvironment:
        """The game; by default cooperate or compete, at the level `cooperation_strength`."""
        if self._environment is None:
            level = self.config.cooperation_strength
            self._environment = create_multi_model_coop_compete_env(max(2, self.config.num_models), level)
        return self._environment

    @environment.setter
    def environment(self, value: MultiModelTrainingEnvironment) -> None:
        self._environment = checked_environment(value)

    @property
    def current_episode(self) -> int:
        """The episodes of all finished steps of the run."""
        return len(self._history()) * self._episodes_per_step

    @property
    def _episodes_per_step(self) -> int:
        """Of the run's own configuration: one that was loaded may have another than `config`."""
        return episodes_per_step(self._run_config())

    async def train(self) -> dict[str, Any]:
        """Train to `config.max_episodes`; what is trained already is read. The run goes on in a thread.

        Raises asyncio.TimeoutError "Episode timeout", RuntimeError "GPU memory insufficient" and ValueError; after each, the
        same call goes on behind the last finished step, with the batch size that the configuration has then.
        """
        await asyncio.to_thread(self._train, None)
        steps = self._history()
        return {
            "training_completed": len(steps) >= self._run_config().num_steps,
            "total_episodes": self.current_episode,
            "training_time": self._seconds,
            "training_metrics": self._curves(steps),
            "final_model_states": {name: each.to_json() for name, each in self._model_states(steps).items()},
            "checkpoints_saved": len(list_available_checkpoints(self.config.checkpoint_dir)),
            "run_id": self._run_id(),
        }

    async def train_multi_model_episode(self, episode_num: int) -> dict[str, Any]:
        """Train on until the step with this episode, counted from 0, is finished; what that step was.

        A step has `update_frequency` episodes. One that is finished already is read.
        """
        config = self._run_config()
        step = episode_num // episodes_per_step(config)
        if not 0 <= step < config.num_steps:
            raise ConfigurationError(
                f"episode_num {episode_num}: use 0 to max_episodes - 1, {self.config.max_episodes - 1}"
            )
        if len(self._history()) <= step:
            await asyncio.to_thread(self._train, step + 1)
        assert isinstance(config.method, PopulationMethod), "the trainer's runs have a population"
        view = self._history()[step]
        metrics, names = view.summary.metrics, self._names()
        episodes = self._episodes(view)
        rewards = {name: _mean([each.raw_returns[seat] for each in episodes]) for name, seat in names.items()}
        before = self._initial_digests()
        if step:
            before = {name: each.weights_digest for name, each in self._history()[step - 1].checkpoints.items()}
        changed = [name for name, each in view.checkpoints.items() if before.get(name) != each.weights_digest]
        return {
            "episode": episode_num,
            "episode_time": sum(view.summary.timings.values()) / episodes_per_step(config),
            "rewards": rewards,
            "total_reward": sum(rewards.values()),
            "model_losses": {name: _of_policy(metrics, name) for name in names},
            "cooperation_ratio": _cooperation(episodes),
            "model_actions": [[dict(step) for step in each.actions_T] for each in episodes],
            "environment_info": self.environment.get_environment_info(),
            "weight_coordination": {
                "strategy": config.method.weight_updates.type,
                "episode": episode_num,
                "models_updated": changed,
            },
            "metrics": dict(metrics),
        }

    def load_checkpoint(self, checkpoint_id: str) -> bool:
        """Let the next `train` go on from a checkpoint, with its weights, optimizers and baselines. False if there is none.

        It goes on under the configuration of its own run, with the `max_episodes` and `batch_size` of this one.
        """
        try:
            _, run, step = find_checkpoint(checkpoint_id, self.config.checkpoint_dir)
        except CheckpointNotFound as error:
            _log.warning("%s", error)
            return False
        self._resumed = (run, step)
        return True

    def get_training_status(self) -> dict[str, Any]:
        """Where the training stands."""
        steps, wanted = self._history(), self._run_config().num_steps
        seconds = self._seconds + (time.monotonic() - self._began_seconds if self.is_training else 0.0)
        return {
            "is_training": self.is_training,
            "current_episode": len(steps) * self._episodes_per_step,
            "max_episodes": self.config.max_episodes,
            "progress": min(1.0, len(steps) / wanted),
            "training_time": seconds,
            "model_states": {name: each.to_json() for name, each in self._model_states(steps).items()},
            "checkpoints_count": len(list_available_checkpoints(self.config.checkpoint_dir)),
            "config": self.config.to_json(),
        }

    def get_model_performance_summary(self) -> dict[str, Any]:
        """Of each model what it is and how it did: average raw return of an episode, share of steps won, updates."""
        return {
            name: {
                "model_type": state.model_type,
                "model_name": state.model_name,
                "avg_reward": state.total_reward / state.episode_count if state.episode_count else 0.0,
                "win_rate": state.win_count / state.episode_count if state.episode_count else 0.0,
                "total_episodes": state.episode_count,
                "update_count": state.update_count,
                "cooperation_score": state.cooperation_score,
                "gpu_id": state.gpu_id,
            }
            for name, state in self._model_states(self._history()).items()
        }

    async def shutdown(self) -> None:
        """Let a training end behind its current step, which is stored, and stop the monitor. Harmless twice."""
        self._stopping = True
        while self.is_training:
            await asyncio.sleep(0.05)
        self._stopping = False
        if self.monitor is not None:
            monitor, self.monitor = self.monitor, None
            monitor.stop()

    async def save_checkpoint(self, episode: int | None = None, final: bool = False) -> str:
        """The newest checkpoint: each step's is stored before the next begins. Raises FileNotFoundError before the first."""
        found = [each for each in list_available_checkpoints(self.config.checkpoint_dir) if self._run_id() in each]
        if not found:
            raise CheckpointNotFound(
                f"Checkpoint not found: {self._run_id()} has none yet in {self.config.checkpoint_dir}"
            )
        return found[0]

    _save_checkpoint = save_checkpoint

    def _train(self, num_steps: int | None) -> None:
        """Train to a number of steps of the whole; None: to its end."""
        if self.is_training:
            raise ConfigurationError("train: this trainer is training; await it first")
        config, run_id = self._run_config(), self._run_id()
        if num_steps is not None:
            config = config.model_copy(update={"num_steps": num_steps})
        from_step = None if self._resumed is None else self._resumed[1]
        self.is_training, self._began_seconds = True, time.monotonic()
        self._start_monitor()
        try:
            with memory_errors(), suppress(_Stopped):
                train_population(config, run_id, from_step=from_step, on_step=self._on_step)
            remove_expired(self.config.checkpoint_dir, run_id)
        except GpuMemoryInsufficient:  # so that half of it is half of what was too large
            self.config.batch_size = batch_size(self.config, self.rl_config)
            raise
        finally:
            self.is_training = False
            self._seconds += time.monotonic() - self._began_seconds
        if self._resumed is not None:  # it has gone back; from here it goes on
            self._resumed = (self._resumed[0], config.num_steps)

    def _on_step(self, report: IterationReport) -> None:
        length = self._episodes_per_step
        seconds = sum(report.timings.values()) / length
        if self.config.enable_monitoring and newest_monitor() is not None and self._is_logged(report.step):
            played = self._episodes_of_step(report.step)
            tell_newest_monitor(_monitored(report, played, length, seconds), played)
        if self.episode_timeout_seconds is not None and seconds > self.episode_timeout_seconds:
            raise EpisodeTimeout(
                f"Episode timeout: episodes of step {report.step} took {seconds:.3g} s on average, more than "
                f"{self.episode_timeout_seconds:g}; {(report.step + 1) * length} are stored, and train() continues after them"
            )
        if self._stopping:
            raise _Stopped

    def _is_logged(self, step: int) -> bool:
        """Whether a multiple of `log_metrics_interval` episodes lies in the step."""
        length, interval = self._episodes_per_step, self.config.log_metrics_interval
        return (step + 1) * length // interval > step * length // interval

    def _start_monitor(self) -> None:
        """Start the trainer's monitor, or one of its own if nobody has started another."""
        if not self.config.enable_monitoring or (self.monitor is None and newest_monitor() is not None):
            return
        self.monitor = self.monitor or create_unified_monitor()
        self.monitor.start()

    def _run_config(self) -> RunConfig:
        if self._resumed is None:
            return population_config(self.config, self.environment, self.rl_config)
        stored = self._resumed[0].config
        num_tokens = tokens_per_micro_batch(self.config, self.rl_config)
        training = stored.training.model_copy(update={"tokens_per_micro_batch": num_tokens})
        num_steps = ceil(self.config.max_episodes / episodes_per_step(stored))
        return stored.model_copy(update={"num_steps": num_steps, "training": training})

    def _run_id(self) -> str:
        return self._resumed[0].run_id if self._resumed is not None else run_name(self._run_config())

    def _names(self) -> dict[str, str]:
        """Each model, and the name of its first seat in the episodes."""
        seats = seat_names(Run(run_id="names", config=self._run_config()))
        names: dict[str, str] = {}
        for seat in seats.values():
            names.setdefault(seat.partition("/")[0], seat)
        return names

    def _episodes(self, view: StepView) -> list[PlayedEpisode]:
        return self._episodes_of_step(view.step)

    def _episodes_of_step(self, step: int) -> list[PlayedEpisode]:
        """The episodes of a step that has its rollouts, read once."""
        store, key = stored_in(self.config.checkpoint_dir), (self._run_id(), step)
        if key not in self._played and store is not None:
            self._played[key] = played_episodes(store, read_run(store, key[0]), step)
        return self._played.get(key, [])

    def _history(self) -> tuple[StepView, ...]:
        """The finished steps of the run."""
        store = stored_in(self.config.checkpoint_dir)
        if store is None:
            return ()
        try:
            run = read_run(store, self._run_id())
        except ConfigurationError:
            return ()  # it has not begun
        return read_history(store, run, first_unfinished_step(store, run)).steps

    def _curves(self, steps: tuple[StepView, ...]) -> dict[str, Any]:
        """What the steps were, by the documented names; rewards are raw returns, summed over members."""
        played = [self._episodes(view) for view in steps]
        return {
            "episodes": [(view.step + 1) * self._episodes_per_step for view in steps],
            "total_rewards": [_mean([sum(each.raw_returns.values()) for each in episodes]) for episodes in played],
            "cooperation_ratios": [_cooperation(episodes) for episodes in played],
            "weight_update_counts": [len(view.checkpoints) for view in steps],
            "model_performances": [
                {name: value for name, value in view.summary.metrics.items() if name.startswith("population/")}
                for view in steps
            ],
        }

    def _model_states(self, steps: tuple[StepView, ...]) -> dict[str, ModelState]:
        names, config = self._names(), self._run_config()
        states = {}
        for index, name in enumerate(names):
            policy = config.policies[name]
            states[name] = ModelState(
                model_id=name,
                model_type=name.split("_", 2)[2],
                model_name=policy.base if policy.api is None else policy.api.model,
                gpu_id=index % max(1, self.config.num_gpus) if config.training.device == "cuda" else None,
                lora_rank=int(ADAPTER["rank"]),
                lora_alpha=float(ADAPTER["alpha"]),
            )
        digests = self._initial_digests() if steps else {}
        updated_in: dict[str, int] = {}
        for view in steps:
            metrics, episodes = view.summary.metrics, self._episodes(view)
            for name, seat in names.items():
                earned = [each.raw_returns[seat] for each in episodes]
                num_won = sum(own >= max(each.raw_returns.values()) for own, each in zip(earned, episodes, strict=True))
                states[name] = states[name].after_step(
                    _mean(earned), len(earned), num_won=num_won, cooperated=cooperation_rate(episodes, name)
                )
            for name, each in view.checkpoints.items():
                if name in states and digests.get(name) != each.weights_digest:
                    states[name].update_count += 1
                    states[name].gradient_norm = metrics.get(f"train/{name}/grad_norm", 0.0)
                    digests[name] = each.weights_digest
                    updated_in[name] = view.step
        for name, state in states.items():
            if name in updated_in:
                state.last_weight_update = self._stored_seconds(updated_in[name])
            if state.episode_count:
                state.memory_usage = peak_memory_mib()
                state.lora_performance = state.win_count / state.episode_count
        return states

    def _initial_digests(self) -> dict[str, str]:
        """Of the members' weights before training, by name; empty before they are stored."""
        store = stored_in(self.config.checkpoint_dir)
        found = None if store is None else committed_initial_checkpoints(store, read_run(store, self._run_id()))
        return {name: each.weights_digest for name, each in (found or {}).items()}

    def _stored_seconds(self, step: int) -> float:
        """When the checkpoints of a finished step were stored, in seconds since 1970."""
        store = stored_in(self.config.checkpoint_dir)
        assert store is not None, f"step {step} is finished, and {self.config.checkpoint_dir} is no store"
        manifests = step_manifests(store, read_run(store, self._run_id()), step)
        return max(datetime.fromisoformat(each.finished_at).timestamp() for each in manifests if each.stage == PUBLISH)


def _monitored(
    report: IterationReport, episodes: list[PlayedEpisode], num_episodes: int, seconds: float
) -> dict[str, float]:
    """The metrics of a step, and those with thresholds under the documented names."""
    metrics = {name: value for name, value in report.metrics.items() if isfinite(value)}
    failed = metrics.get(NUM_FAILED_EPISODES, 0.0) / num_episodes
    named = {"error_rate": failed, "response_time": seconds, STEP_SECONDS: sum(report.timings.values())}
    cooperation = _cooperation(episodes)
    return {**metrics, **named, **({} if cooperation is None else {"engagement_rate": cooperation})}


def _cooperation(episodes: list[PlayedEpisode]) -> float | None:
    """The share of all actions that cooperated; None in games without cooperation."""
    actions = [action for each in episodes for step in each.actions_T for action in step.values()]
    return sum(each == "cooperate" for each in actions) / len(actions) if actions else None


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _of_policy(metrics: Mapping[str, float], name: str) -> dict[str, float]:
    start = f"train/{name}/"
    return {key.removeprefix(start): value for key, value in metrics.items() if key.startswith(start)}


def create_multimodel_trainer(
    num_models: int = 4, training_mode: TrainingMode = TrainingMode.MIXED, model_types: list[str] | None = None
) -> MultiModelTrainer:
    """A trainer of the documented four families, or of `model_types`."""
    config = MultiModelConfig(num_models=num_models, training_mode=training_mode)
    if model_types is not None:
        config.model_types = model_types
    return MultiModelTrainer(config)


def create_cooperative_multimodel_trainer(num_models: int = 4) -> MultiModelTrainer:
    """Cooperating models of one base, so that their adapters can be mixed."""
    return create_multimodel_trainer(num_models, TrainingMode.COOPERATIVE, ["qwen3"])


def create_competitive_multimodel_trainer(num_models: int = 4) -> MultiModelTrainer:
    """Competing models of four families; those behind an API play, and are never updated."""
    return create_multimodel_trainer(num_models, TrainingMode.COMPETITIVE)


async def quick_start_multimodel_training(
    num_models: int = 4, max_episodes: int = 100, *, config: MultiModelConfig | None = None
) -> dict[str, Any]:
    """Train by the defaults, or by `config` with these two numbers: `status` completed, results and performance; or failed.

    What failed is logged with its traceback, and `error` holds its type and message.
    """
    chosen = MultiModelConfig(**{**(config or MultiModelConfig()).to_json(), "num_models": num_models})
    chosen.max_episodes = max_episodes
    trainer = MultiModelTrainer(chosen)
    try:
        results = await trainer.train()
        performance = trainer.get_model_performance_summary()
    except Exception as error:  # the documented answer is a dict, whatever failed
        _log.exception("the training failed")
        return {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    finally:
        await trainer.shutdown()
    return {"status": "completed", "training_results": results, "model_performance": performance}

"""The trainer of several models: the documented class over the flow of a population."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import asdict, replace
from math import ceil, isfinite
from threading import Thread
from typing import Any

from components.config import RunConfig, differing_fields
from components.errors import ConfigurationError
from components.metrics import NUM_FAILED_EPISODES, STEP_SECONDS
from components.population.interaction_graph import PlayedEpisode
from components.reporting.progress import Progress
from components.runs.run import Run
from components.schema import IterationReport
from components.session.session import Session
from components.session.user_sources import with_sources
from flows.api.multi_model.checkpoints import (
    episodes_per_step,
    find_checkpoint,
    list_available_checkpoints,
    remove_expired,
)
from flows.api.multi_model.configs import MultiModelConfig, RLConfig
from flows.api.multi_model.enums import TrainingMode
from flows.api.multi_model.environments import (
    MultiModelTrainingEnvironment,
    create_multi_model_coop_compete_env,
)
from flows.api.multi_model.errors import CheckpointNotFound, EpisodeTimeout, GpuMemoryInsufficient, memory_errors
from flows.api.multi_model.fields import as_json, check_arguments
from flows.api.multi_model.monitoring import (
    UnifiedMonitor,
    create_unified_monitor,
    newest_monitor,
    tell_newest_monitor,
)
from flows.api.multi_model.records import Episodes, RunRecords, cooperation_rate
from flows.api.multi_model.training import (
    FIRST_STAGE,
    check_models,
    choose_value,
    population_config,
    run_name,
    select_lasting_fields,
    train_population,
)

_log = logging.getLogger(__name__)
_LAST_SECONDS = 10.0
"""How long a step that took too long may take to end."""


class _Stopped(Exception):
    """The trainer was asked to stop; the step is stored."""


class _Late(Exception):
    """The step takes longer than its episodes may; a stage is not tried again for it."""


class MultiModelTrainer:
    """Trains N models together on a game; the same configuration in the same folder again continues.

    Nothing is loaded, started or reserved before `train`. `environment`, `config`, `rl_config` and `monitor` may be replaced
    until then. Without an `rl_config` its defaults hold: PPO. Raises ConfigurationError for a configuration that is none.

    **Example**

        trainer = MultiModelTrainer(MultiModelConfig(num_models=2, model_types=["tiny"]))
        results = await trainer.train()
        trainer.get_model_performance_summary()["model_0_tiny"]["avg_reward"]
    """

    def __init__(self, config: MultiModelConfig, rl_config: RLConfig | None = None) -> None:
        for name, value, kind in (
            ("config", config, MultiModelConfig),
            ("rl_config", rl_config or RLConfig(), RLConfig),
        ):
            if not isinstance(value, kind):
                raise ConfigurationError(f"{name} {value!r}: give a {kind.__name__}")
        self.config = config
        self.rl_config = rl_config
        self.monitor: UnifiedMonitor | None = None
        self.is_training = False
        self._environment: MultiModelTrainingEnvironment | None = None
        self._default: MultiModelTrainingEnvironment | None = None
        self._resumed: tuple[Run, int] | None = None
        self._stopping = False
        self._session: Session | None = None
        self._step_began_seconds: float | None = None
        self._began_seconds = 0.0
        self._seconds = 0.0
        self._played: dict[str, Episodes] = {}

    @property
    def environment(self) -> MultiModelTrainingEnvironment:
        """The game; by default cooperate or compete, at the level `cooperation_strength`."""
        if self._environment is not None:
            return self._environment
        num, level = max(2, self.config.num_models), self.config.cooperation_strength
        if (self._default is None) or self._default.options != {"num_members": num, "cooperation_level": level}:
            self._default = create_multi_model_coop_compete_env(num, level)
        return self._default

    @environment.setter
    def environment(self, value: MultiModelTrainingEnvironment) -> None:
        if not isinstance(value, MultiModelTrainingEnvironment):
            raise ConfigurationError(
                f"environment {value!r}: give one of create_multi_model_coop_compete_env and its like"
            )
        self._environment = value

    @property
    def current_episode(self) -> int:
        """The episodes of all finished steps of the run."""
        return self._records().num_episodes

    async def train(self) -> dict[str, Any]:
        """Train to `config.max_episodes`; what is trained already is read. The run goes on in a thread.

        Raises asyncio.TimeoutError "Episode timeout", RuntimeError "Model loading failed" and "GPU memory insufficient", and
        ValueError; after each, the same call goes on behind the last finished step, with the batch size of the configuration.
        """
        await self._in_thread(None)
        records = self._records()
        return {
            "training_completed": len(records.steps) >= records.config.num_steps,
            "total_episodes": records.num_episodes,
            "training_time": self._seconds,
            "training_metrics": records.curves(),
            "final_model_states": self._model_states(records),
            "checkpoints_saved": len(list_available_checkpoints(self.config.checkpoint_dir)),
            "run_id": self._run_id(),
        }

    @check_arguments
    async def train_multi_model_episode(self, episode_num: int) -> dict[str, Any]:
        """Train on until the step with this episode, counted from 0, is finished; what the episode was.

        A step has `update_frequency` episodes, whose losses, metrics and weight updates are the step's. One that is finished
        already is read. An episode that failed has no rewards.
        """
        config = self._run_config()
        step, index = divmod(episode_num, episodes_per_step(config))
        if not 0 <= step < config.num_steps:
            most = config.num_steps * episodes_per_step(config) - 1
            raise ConfigurationError(f"episode_num {episode_num}: use 0 to {most}, as max_episodes says")
        if len(self._records().steps) <= step:
            await self._in_thread(step + 1)
        records = self._records()
        view, played = records.steps[step], records.read_episodes(step)
        found = played[index] if index < len(played) else None
        rewards = {name: found.raw_returns[seat] for name, seat in records.first_seats.items()} if found else {}
        metrics = view.summary.metrics
        return {
            "episode": episode_num,
            "episode_time": sum(view.summary.timings.values()) / episodes_per_step(config),
            "rewards": rewards,
            "total_reward": sum(rewards.values()),
            "model_losses": {
                name: {
                    key.removeprefix(f"train/{name}/"): metrics[key]
                    for key in metrics
                    if key.startswith(f"train/{name}/")
                }
                for name in records.first_seats
            },
            "cooperation_ratio": cooperation_rate([found] if found else []),
            "model_actions": [dict(each) for each in found.actions_T] if found else [],
            "environment_info": self.environment.get_environment_info(),
            "weight_coordination": {
                "strategy": self.config.weight_update_strategy.value,
                "episode": episode_num,
                "models_updated": records.find_changed_members(step),
            },
            "metrics": dict(metrics),
        }

    def load_checkpoint(self, checkpoint_id: str) -> bool:
        """Let the next `train` go on from a checkpoint, with its weights, optimizers and baselines. False if there is none.

        The trainer needs the configuration, game and learner of the checkpoint's run; `max_episodes` and `batch_size` may be
        others. Raises ConfigurationError with what differs, here or in what is called later.
        """
        try:
            _, run, step = find_checkpoint(checkpoint_id, self.config.checkpoint_dir)
        except CheckpointNotFound as error:
            _log.warning("%s", error)
            return False
        before, self._resumed = self._resumed, (run, step)
        try:
            self._run_config()
        except ConfigurationError:
            self._resumed = before
            raise
        return True

    def get_training_status(self) -> dict[str, Any]:
        """Where the training stands."""
        records = self._records()
        seconds = self._seconds + (time.monotonic() - self._began_seconds if self.is_training else 0.0)
        return {
            "is_training": self.is_training,
            "current_episode": records.num_episodes,
            "max_episodes": self.config.max_episodes,
            "progress": min(1.0, len(records.steps) / records.config.num_steps),
            "training_time": seconds,
            "model_states": self._model_states(records),
            "checkpoints_count": len(list_available_checkpoints(self.config.checkpoint_dir)),
            "config": as_json(self.config),
        }

    def get_model_performance_summary(self) -> dict[str, Any]:
        """Of each model what it is and how it did: average raw return of an episode, share of episodes won, updates."""
        shown = ("model_type", "model_name", "update_count", "cooperation_score", "gpu_id")
        return {
            name: {each: getattr(state, each) for each in shown}
            | {
                "avg_reward": state.total_reward / max(1, state.episode_count),
                "win_rate": state.win_count / max(1, state.episode_count),
                "total_episodes": state.episode_count,
            }
            for name, state in self._records().model_states(self.config.num_gpus).items()
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
        """The checkpoint after so many episodes, or the newest: each step's is stored before the next begins.

        `final` removes first what `max_checkpoints` and `save_interval` do not keep, as the end of `train` does. Raises
        FileNotFoundError if there is no such checkpoint.
        """
        records, run_id = self._records(), self._run_id()
        step = len(records.steps) if episode is None else episode // episodes_per_step(records.config)
        if final:
            remove_expired(self.config.checkpoint_dir, run_id)
        find_checkpoint(f"{run_id}@{step}", self.config.checkpoint_dir)
        return f"{run_id}@{step}"

    _save_checkpoint = save_checkpoint

    async def _in_thread(self, num_steps: int | None) -> None:
        """Train in a thread, to a number of steps of the whole; None: to its end. A step that hangs is left behind."""
        if self.is_training:
            raise ConfigurationError("train: this trainer is training; await it first")
        loop, context = asyncio.get_running_loop(), copy_context()
        ended: asyncio.Future[BaseException | None] = loop.create_future()

        def work() -> None:
            error = _error_of(lambda: context.run(self._train, num_steps))
            with suppress(RuntimeError):  # nobody waits any more, and the loop is closed
                loop.call_soon_threadsafe(ended.set_result, error)

        self.is_training = True
        Thread(target=work, name="train", daemon=True).start()
        while not ended.done():
            await asyncio.wait({ended}, timeout=0.2)
            if self._is_late() and not ended.done():
                await asyncio.wait({ended}, timeout=_LAST_SECONDS)  # for a stage that reports its progress
                if not ended.done() and self._session is not None:  # it hangs: end its workers and requests
                    Thread(target=_error_of, args=(self._session.close,), daemon=True).start()
                    await asyncio.wait({ended}, timeout=_LAST_SECONDS)
                raise self._timeout()
        if (error := ended.result()) is not None:
            raise error

    def _train(self, num_steps: int | None) -> None:
        self._began_seconds = time.monotonic()
        try:
            config, run_id = self._run_config(), self._run_id()
            check_models(config)
            if num_steps is not None:
                config = config.model_copy(update={"num_steps": num_steps})
            self._start_monitor()
            with memory_errors(), suppress(_Stopped):
                train_population(
                    config,
                    run_id,
                    from_step=None if self._resumed is None else self._resumed[1],
                    on_session=lambda session: setattr(self, "_session", session),
                    on_step=self._on_step,
                    on_progress=self._on_progress,
                )
            remove_expired(self.config.checkpoint_dir, run_id)
        except _Late:
            raise self._timeout() from None
        except GpuMemoryInsufficient:  # so that half of it is half of what was too large
            self.config.batch_size = choose_value("batch_size", self.config, self.rl_config)
            if self.rl_config is not None:
                self.rl_config = replace(self.rl_config, batch_size=RLConfig.batch_size)
            raise
        finally:
            self.is_training, self._session, self._step_began_seconds = False, None, None
            self._seconds += time.monotonic() - self._began_seconds
        if (
            self._resumed is not None
        ):  # it has gone back; from here it goes on, under its own name if that is the configuration's
            run, own = self._resumed[0], run_name(population_config(self.config, self.environment, self.rl_config))
            self._resumed = None if run.run_id == own else (run, config.num_steps)

    def _on_progress(self, progress: Progress) -> None:
        if progress.stage == FIRST_STAGE and self._step_began_seconds is None:
            self._step_began_seconds = time.monotonic()
        if self.config.enable_monitoring and (monitor := newest_monitor()) is not None:
            monitor.hear(progress)
        if self._is_late():
            raise _Late

    def _on_step(self, report: IterationReport) -> None:
        self._step_began_seconds = None
        length, interval = episodes_per_step(self._run_config()), self.config.log_metrics_interval
        is_logged = (report.step + 1) * length // interval > report.step * length // interval
        if self.config.enable_monitoring and newest_monitor() is not None and is_logged:
            played = self._records().episodes(report.step)
            tell_newest_monitor(_monitored(report, played, length), played)
        if self._stopping:
            raise _Stopped

    def _is_late(self) -> bool:
        limit, began = self.config.episode_timeout_seconds, self._step_began_seconds
        return limit is not None and began is not None and time.monotonic() - began > limit * self._length()

    def _timeout(self) -> EpisodeTimeout:
        return EpisodeTimeout(
            f"Episode timeout: a step of {self._length()} episodes took longer than "
            f"{self.config.episode_timeout_seconds:g} s for each; what is finished is stored, and train() continues after it"
        )

    def _length(self) -> int:
        return min(self.config.update_frequency, self.config.max_episodes)

    def _start_monitor(self) -> None:
        """Start the trainer's monitor, or one of its own if nobody has started another."""
        if not self.config.enable_monitoring or (self.monitor is None and newest_monitor() is not None):
            return
        self.monitor = self.monitor or create_unified_monitor()
        self.monitor.start()

    def _run_config(self) -> RunConfig:
        config = population_config(self.config, self.environment, self.rl_config)
        if self._resumed is None:
            return config
        run, _ = self._resumed
        if differing := differing_fields(
            select_lasting_fields(run.config), select_lasting_fields(with_sources(config))
        ):
            raise ConfigurationError(
                f"load_checkpoint: the run {run.run_id} has another configuration, game or learner: {'; '.join(differing)}; "
                "make the trainer as that of the run"
            )
        num_steps = ceil(self.config.max_episodes / episodes_per_step(run.config))
        return run.config.model_copy(update={"num_steps": num_steps, "training": config.training})

    def _run_id(self) -> str:
        return self._resumed[0].run_id if self._resumed is not None else run_name(self._run_config())

    def _records(self) -> RunRecords:
        run_id = self._run_id()
        return RunRecords(self.config.checkpoint_dir, run_id, self._run_config(), self._played.setdefault(run_id, {}))

    def _model_states(self, records: RunRecords) -> dict[str, Any]:
        return {name: asdict(each) for name, each in records.model_states(self.config.num_gpus).items()}


def _error_of(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except BaseException as error:  # raised again by who awaits the thread
        return error
    return None


def _monitored(report: IterationReport, episodes: list[PlayedEpisode], num_episodes: int) -> dict[str, float]:
    """The metrics of a step, and those with thresholds under the documented names."""
    metrics = {name: value for name, value in report.metrics.items() if isfinite(value)}
    seconds, cooperation = sum(report.timings.values()), cooperation_rate(episodes)
    named = {
        "error_rate": metrics.get(NUM_FAILED_EPISODES, 0.0) / num_episodes,
        "response_time": seconds / num_episodes,
        STEP_SECONDS: seconds,
    }
    return {**metrics, **named, **({} if cooperation is None else {"engagement_rate": cooperation})}


def create_multimodel_trainer(
    num_models: int = 4,
    training_mode: TrainingMode = TrainingMode.MIXED,
    model_types: list[str] | None = None,
    **settings: Any,
) -> MultiModelTrainer:
    """A trainer of the documented four families, or of `model_types`; `settings` are further fields of MultiModelConfig.

    **Example** on a laptop: `create_multimodel_trainer(4, TrainingMode.MIXED, ["tiny"])`.
    """
    named = settings if model_types is None else {"model_types": model_types, **settings}
    return MultiModelTrainer(MultiModelConfig(num_models=num_models, training_mode=training_mode, **named))


def create_cooperative_multimodel_trainer(num_models: int = 4, **settings: Any) -> MultiModelTrainer:
    """Cooperating models of one base, so that their adapters can be mixed: of qwen3, unless `model_types` names another."""
    return create_multimodel_trainer(num_models, TrainingMode.COOPERATIVE, **{"model_types": ["qwen3"], **settings})


def create_competitive_multimodel_trainer(num_models: int = 4, **settings: Any) -> MultiModelTrainer:
    """Competing models of four families, unless `model_types` names others; those behind an API are never updated."""
    return create_multimodel_trainer(num_models, TrainingMode.COMPETITIVE, **settings)


async def quick_start_multimodel_training(
    num_models: int = 4, max_episodes: int = 100, *, config: MultiModelConfig | None = None, **settings: Any
) -> dict[str, Any]:
    """Train by the defaults, or by `config`, with these two numbers and `settings`, which are fields of MultiModelConfig.

    `status` is completed, with `training_results` and `model_performance`; or failed, with `error`, its type and message.

    **Example** on a laptop: `quick_start_multimodel_training(4, 100, model_types=["tiny"])`.
    """
    chosen: dict[str, Any] = {"num_models": num_models, "max_episodes": max_episodes, **settings}
    trainer = MultiModelTrainer(replace(config or MultiModelConfig(), **chosen))
    try:
        results = await trainer.train()
        performance = trainer.get_model_performance_summary()
    except Exception as error:  # the documented answer is a dict, whatever failed
        _log.error("the training failed: %s: %s", type(error).__name__, error)
        _log.debug("where it failed", exc_info=True)
        return {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    finally:
        await trainer.shutdown()
    return {"status": "completed", "training_results": results, "model_performance": performance}

"""The trainer of several models: the documented class over the flow of a population."""

import asyncio
import logging
import time
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from math import ceil, isfinite
from threading import Thread
from typing import Any

import flows.api.multi_model.checkpoints as checkpoints
import flows.api.multi_model.training as training
from components.config import RunConfig, differing_fields
from components.errors import ConfigurationError
from components.metrics import STEP_SECONDS
from components.reporting.progress import Progress
from components.runs.gc import remove_expired_checkpoints
from components.runs.run import Run
from components.schema import IterationReport
from components.session.session import Session
from components.session.stores import open_store
from flows.api.fields import as_json, check_arguments
from flows.api.multi_model.configs import MultiModelConfig, RLConfig, TrainingMode
from flows.api.multi_model.environments import MultiModelTrainingEnvironment, create_multi_model_coop_compete_env
from flows.api.multi_model.errors import CheckpointNotFound, EpisodeTimeout, GpuMemoryInsufficient, memory_errors
from flows.api.multi_model.monitoring import report_step
from flows.api.multi_model.records import RunRecords
from flows.own_files import with_sources

_log = logging.getLogger(__name__)
_LAST_SECONDS = 10.0
"""How long a step that took too long may take to end, and then its workers and requests."""


class _Stopped(Exception):
    """The trainer was asked to stop, and the step is stored; or the step is late, and no stage of it is tried again."""


class MultiModelTrainer:
    """Trains N models together on a game; the same configuration in the same folder again continues.

    Nothing is loaded, started or reserved before `train`. `environment`, `config` and `rl_config` may be replaced until
    then. Without an `rl_config` its defaults hold: PPO. Raises ConfigurationError for a configuration that is none.
    """

    @check_arguments
    def __init__(self, config: MultiModelConfig, rl_config: RLConfig | None = None) -> None:
        self.config, self.rl_config = config, rl_config
        self.is_training = False
        self.environment: MultiModelTrainingEnvironment | None = None
        """None: cooperate or compete, at the level `cooperation_strength`."""
        self._resumed: tuple[Run, int] | None = None
        self._stopping = False
        self._session: Session | None = None
        self._step_began_seconds: float | None = None
        self._began_seconds = 0.0
        self._seconds = 0.0

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
            "final_model_states": records.describe_models(),
            "checkpoints_saved": len(checkpoints.list_available_checkpoints(self.config.checkpoint_dir)),
            "run_id": self._run_id(),
        }

    @check_arguments
    async def train_multi_model_episode(self, episode_num: int) -> dict[str, Any]:
        """Train on until the step with this episode, counted from 0, is finished; what the episode was.

        A step has `update_frequency` episodes, whose losses, metrics and weight updates are the step's. One that is finished
        already is read. An episode that failed has no rewards; a model that plays several agents has one for each.
        """
        config = self._run_config()
        step, index = divmod(episode_num, checkpoints.episodes_per_step(config))
        if not 0 <= step < config.num_steps:
            most = config.num_steps * checkpoints.episodes_per_step(config) - 1
            raise ConfigurationError(f"episode_num {episode_num}: use 0 to {most}, as max_episodes says")
        if len(self._records().steps) <= step:
            await self._in_thread(step + 1)
        records = self._records()
        view, played = records.steps[step], records.read_episodes(step)
        episode = played[index] if index < len(played) else None
        rewards = dict(episode.raw_returns) if episode else {}
        return {
            "episode": episode_num,
            "rewards": rewards,
            "total_reward": sum(rewards.values()),
            "weight_coordination": {
                "strategy": self.config.weight_update_strategy.value,
                "models_updated": records.find_changed_members(step),
            },
            "metrics": dict(view.summary.metrics),
        }

    def load_checkpoint(self, checkpoint_id: str) -> bool:
        """Let the next `train` go on from a checkpoint, with its weights, optimizers and baselines. False if there is none.

        The trainer needs the configuration, game and learner of the checkpoint's run; `max_episodes` and `batch_size` may be
        others. Raises ConfigurationError with what differs, here or in what is called later.
        """
        try:
            _, run, step = checkpoints.find_checkpoint(checkpoint_id, self.config.checkpoint_dir)
        except CheckpointNotFound as error:
            _log.warning("%s", error)
            return False
        self._run_config((run, step))
        self._resumed = run, step
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
            "model_states": records.describe_models(),
            "checkpoints_count": len(checkpoints.list_available_checkpoints(self.config.checkpoint_dir)),
            "config": as_json(self.config),
        }

    def get_model_performance_summary(self) -> dict[str, Any]:
        """Of each model what it is and how it did: average raw return of an episode, updates, metrics of the newest step."""
        return self._records().describe_models()

    async def shutdown(self) -> None:
        """Let a training end behind its current step, which is stored. Harmless twice."""
        self._stopping = True
        while self.is_training:
            await asyncio.sleep(0.05)
        self._stopping = False

    async def _save_checkpoint(self, episode: int) -> str:
        """The checkpoint after so many episodes: each step's is stored before the next begins.

        Raises FileNotFoundError if there is none.
        """
        checkpoint = f"{self._run_id()}@{episode // checkpoints.episodes_per_step(self._run_config())}"
        checkpoints.find_checkpoint(checkpoint, self.config.checkpoint_dir)
        return checkpoint

    async def _in_thread(self, num_steps: int | None) -> None:
        """Train in a thread, to a number of steps of the whole; None: to its end. A step that hangs is left behind."""
        if self.is_training:
            raise ConfigurationError("train: this trainer is training; await it first")
        context, ended = copy_context(), Future[None]()

        def work() -> None:
            try:
                context.run(self._train, num_steps)
            except BaseException as error:  # raised again by who awaits the thread
                ended.set_exception(error)
            else:
                ended.set_result(None)

        self.is_training = True
        Thread(target=work, name="train", daemon=True).start()
        while not ended.done() and not self._is_late(_LAST_SECONDS):
            await asyncio.sleep(0.1)
        if not ended.done():  # it hangs
            if self._session is not None:
                Thread(target=self._session.close, daemon=True).start()
            while not ended.done() and not self._is_late(2 * _LAST_SECONDS):
                await asyncio.sleep(0.1)
            raise self._timeout()
        ended.result()

    def _train(self, num_steps: int | None) -> None:
        self._began_seconds = time.monotonic()
        try:
            config, run_id = self._run_config(), self._run_id()
            training.check_models(config)
            if num_steps is not None:
                config = config.model_copy(update={"num_steps": num_steps})
            with memory_errors(), suppress(_Stopped):
                training.train_population(
                    config,
                    run_id,
                    from_step=None if self._resumed is None else self._resumed[1],
                    on_session=lambda session: setattr(self, "_session", session),
                    on_step=self._on_step,
                    on_progress=self._on_progress,
                )
            if self._is_late():
                raise self._timeout()
            remove_expired_checkpoints(open_store(config.store), run_id)
        except GpuMemoryInsufficient:  # so that half of it is half of what was too large
            self.config.batch_size = training.choose_value("batch_size", self.config, self.rl_config or RLConfig())
            if self.rl_config is not None:
                self.rl_config = replace(self.rl_config, batch_size=RLConfig.batch_size)
            raise
        finally:
            self.is_training, self._session, self._step_began_seconds = False, None, None
            self._seconds += time.monotonic() - self._began_seconds
        if self._resumed is not None:  # it has gone back; from here its run continues, or that of the configuration
            run, own = self._resumed[0], training.population_config(self.config, self._game(), self.rl_config)
            self._resumed = None if run.run_id == training.run_name(own) else (run, config.num_steps)

    def _on_progress(self, progress: Progress) -> None:
        if progress.stage == training.FIRST_STAGE and self._step_began_seconds is None:
            self._step_began_seconds = time.monotonic()
        if self._is_late():
            raise _Stopped

    def _on_step(self, report: IterationReport) -> None:
        self._step_began_seconds = None
        if self.config.enable_monitoring:
            metrics = {name: value for name, value in report.metrics.items() if isfinite(value)}
            report_step(metrics | {STEP_SECONDS: sum(report.timings.values())})
        if self._stopping:
            raise _Stopped

    def _is_late(self, grace_seconds: float = 0.0) -> bool:
        limit, began = self.config.episode_timeout_seconds, self._step_began_seconds
        if limit is None or began is None:
            return False
        return time.monotonic() - began > limit * self.config.step_length() + grace_seconds

    def _timeout(self) -> EpisodeTimeout:
        return EpisodeTimeout(
            f"Episode timeout: a step of {self.config.step_length()} episodes took longer than "
            f"{self.config.episode_timeout_seconds:g} s for each; what is finished is stored, and train() continues after it"
        )

    def _run_config(self, resumed: tuple[Run, int] | None = None) -> RunConfig:
        config = training.population_config(self.config, self._game(), self.rl_config)
        if (resumed := resumed or self._resumed) is None:
            return config
        run, _ = resumed
        stored, own = training.select_lasting_fields(run.config), training.select_lasting_fields(with_sources(config))
        if differing := differing_fields(stored, own):
            raise ConfigurationError(
                f"load_checkpoint: the run {run.run_id} has another configuration, game or learner: {'; '.join(differing)}; "
                "make the trainer as that of the run"
            )
        num_steps = ceil(self.config.max_episodes / checkpoints.episodes_per_step(run.config))
        return run.config.model_copy(update={"num_steps": num_steps, "training": config.training})

    def _game(self) -> MultiModelTrainingEnvironment:
        num_models, level = max(2, self.config.num_models), self.config.cooperation_strength
        return self.environment or create_multi_model_coop_compete_env(num_models, level)

    def _run_id(self) -> str:
        return self._resumed[0].run_id if self._resumed is not None else training.run_name(self._run_config())

    def _records(self) -> RunRecords:
        return RunRecords(self.config.checkpoint_dir, self._run_id(), self._run_config())


def create_multimodel_trainer(
    num_models: int = 4, training_mode: TrainingMode = TrainingMode.MIXED, **settings: Any
) -> MultiModelTrainer:
    """A trainer of the documented four families; `settings` are further fields of MultiModelConfig.

    **Example** on a laptop: `create_multimodel_trainer(4, TrainingMode.MIXED, model_types=["tiny"])`.
    """
    return MultiModelTrainer(MultiModelConfig(num_models=num_models, training_mode=training_mode, **settings))


def create_cooperative_multimodel_trainer(num_models: int = 4, **settings: Any) -> MultiModelTrainer:
    """Cooperating models of one base, so that their adapters can be mixed: of qwen3, unless `model_types` names another."""
    return create_multimodel_trainer(num_models, TrainingMode.COOPERATIVE, **{"model_types": ["qwen3"], **settings})


def create_competitive_multimodel_trainer(num_models: int = 4, **settings: Any) -> MultiModelTrainer:
    """Competing models of four families, unless `model_types` names others; those behind an API are never updated."""
    return create_multimodel_trainer(num_models, TrainingMode.COMPETITIVE, **settings)


async def quick_start_multimodel_training(
    num_models: int = 4, max_episodes: int = 100, **settings: Any
) -> dict[str, Any]:
    """Train by the defaults, with these two numbers and `settings`, which are further fields of MultiModelConfig.

    `status` is completed, with `training_results` and `model_performance`; or failed, with `error`, its type and message.

    **Example** on a laptop: `quick_start_multimodel_training(4, 100, model_types=["tiny"])`.
    """
    trainer = MultiModelTrainer(MultiModelConfig(num_models=num_models, max_episodes=max_episodes, **settings))
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

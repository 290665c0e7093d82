"""The documented trainer: a run of the hybrid method by the flow, told as episodes and checkpoints."""

import logging
import os
from collections.abc import Callable, Mapping
from os.path import expanduser
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from components.config import differing_fields
from components.errors import ConfigurationError, TroupeError
from components.hybrid.goals import GoalOrientedPlanner
from components.hybrid.strategies import Strategy
from components.machine.whole_files import write_whole
from components.methods.hybrid.trained_players import PlayedRun, describe_play, read_weights
from components.runs.run import Run
from components.schema import IterationReport
from flows.api.fields import Count, check_arguments
from flows.api.hybrid.configs import LogLevel, TrainingConfig, read_training_config
from flows.api.hybrid.core.adaptive_strategy_system import AdaptiveStrategySystem
from flows.api.hybrid.core.decision_history_analyzer import DecisionHistoryAnalyzer
from flows.api.hybrid.core.exceptions import CheckpointError, TrainingError
from flows.api.hybrid.core.hybrid_agent import HybridAgent
from flows.api.hybrid.trainer import runs
from flows.api.hybrid.trainer.llm_manager import BaseLLMManager, LLMManager

if TYPE_CHECKING:
    from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv

Trainer = TypeVar("Trainer", bound="HybridLLMRLTrainer")
_WINDOW, _PATIENCE = 10, 20
_log = logging.getLogger(__name__)


class HybridLLMRLTrainer:
    """Trains an agent on the game of an environment: `train` is a run of the hybrid method, stored in `save_dir`.

    A step of the run plays `max_steps_per_episode` buttons: an episode, or several that reach their goal earlier. The same
    trainer made again trains the same run: what is finished is read, and a killed training goes on. Afterwards the agent plays
    what was trained. One object, one thread.

    **Example**

        trainer = create_trainer_from_config("config.json")
        trainer.register_callback("episode_end", lambda trainer, episode, metrics: print(episode, metrics["reward"]))
        summary = trainer.train(total_episodes=100, max_steps_per_episode=600)
        trainer.run_id  # for `troupe show RUN --store file:///.../checkpoints`
    """

    def __init__(
        self,
        env: "EnhancedPyBoyPokemonCrystalEnv",
        agent: HybridAgent,
        strategy_system: AdaptiveStrategySystem,
        decision_analyzer: DecisionHistoryAnalyzer,
        llm_manager: BaseLLMManager | None,
        save_dir: str = "checkpoints",
        log_level: str = "INFO",
    ) -> None:
        """Raises ConfigurationError where agent, strategies and manager do not belong together, and for an unknown level."""
        if log_level not in get_args(LogLevel):
            raise ConfigurationError(f"log_level {log_level!r}: use one of {', '.join(get_args(LogLevel))}")
        if agent.adaptive_strategy is not strategy_system:
            raise ConfigurationError("strategy_system: is not that of the agent; give agent.adaptive_strategy")
        if agent.llm_manager is not llm_manager:
            raise ConfigurationError("llm_manager: is not that of the agent; give agent.llm_manager")
        logging.getLogger("flows.api.hybrid").setLevel(log_level)
        self.env, self.agent, self.llm_manager = env, agent, llm_manager
        self.strategy_system, self.decision_analyzer = strategy_system, decision_analyzer
        self.save_dir = _check_save_dir(save_dir)
        self.first_strategy = strategy_system.current_strategy
        self._callbacks: list[Callable[..., Any]] = []
        self.played: PlayedRun | None = None
        """What its run has played; None before it is trained or loaded."""

    @property
    def run_id(self) -> str | None:
        """The name of the run in `save_dir`; None before it is trained or loaded."""
        return None if self.played is None else self.played.run.run_id

    @property
    def episode(self) -> int:
        """The number of episodes of the run that have ended."""
        return 0 if self.played is None else len(self.played.episodes)

    @check_arguments
    def register_callback(self, event: Literal["episode_end"], callback: Callable[..., Any]) -> None:
        """Call this with the trainer, the number of the episode, counted from 1, and its metrics when one has ended, as soon as
        the step of the run that it is of is stored.

        What it raises is logged; TrainingError ends the training. Raises ConfigurationError for another event.
        """
        self._callbacks.append(callback)

    @check_arguments
    def train(
        self,
        total_episodes: Count = 1000,
        max_steps_per_episode: Count = 10000,
        save_interval: Count = 100,
        eval_interval: Count = 50,
        curriculum_patience: Count = _PATIENCE,
    ) -> dict[str, Any]:
        """Train at least so many more episodes; the summary.

        Each `save_interval` episodes of full length a checkpoint is kept for good (`troupe gc` removes others), each
        `eval_interval` the player is evaluated. Raises ConfigurationError for what no run can have, and TrainingError, or one
        of its kind, when a step fails; the next call goes on after the last finished one.
        """
        runs.check_parts(self)
        config = runs.build_config(
            self,
            num_steps=total_episodes + (0 if self.played is None else self.played.num_steps),
            max_steps=max_steps_per_episode,
            save_every=save_interval,
            eval_every=eval_interval,
            patience=self._choose_patience(curriculum_patience),
        )
        from flows import evaluations, train  # they import Prefect, which takes seconds

        played = self._take_run(runs.find_run(config))
        try:
            train.train_here(config, played.run.run_id, on_step=self._finish_step)
            played.read_stored()
            play = evaluations.play_finished_step(played.run, played.num_steps, runs.SAMPLING)
            self.agent.load_weights(read_weights(played.run, played.num_steps))
        except (TrainingError, ConfigurationError):
            raise
        except (TroupeError, OSError, RuntimeError, ValueError, ArithmeticError) as error:
            raise TrainingError(
                f"step {played.num_steps} failed: {type(error).__name__}: {error}; train() goes on after step "
                f"{played.num_steps}, also elsewhere after load_checkpoint('latest')"
            ) from error
        return self._summarise(played, describe_play(played.run, play))

    def get_performance_metrics(self) -> dict[str, float]:
        """The seven documented metrics of the last episode, rates from 0 to 1. Raises TrainingError before the first."""
        if self.played is None or not self.played.episodes:
            raise TrainingError("get_performance_metrics: no episode was trained yet; call train first")
        last, recent = self.played.episodes[-1], self.played.episodes[-_WINDOW:]
        return {
            "episode_reward": last.reward,
            "average_reward": fmean(each.reward for each in recent),
            "llm_usage_rate": last.llm_usage,
            "episode_length": last.length,
            "strategy_switches": sum(each.num_switches for each in self.played.episodes),
            "curriculum_stage": self.played.stage,
            "success_rate": fmean(each.succeeded for each in recent),
        }

    def save_best_model(self) -> str:
        """Call the newest checkpoint of the run the best one, for `load_checkpoint("best")`; its name."""
        if self.played is None:
            raise CheckpointError("save_best_model: there is no checkpoint yet; call train first")
        write_whole(self.save_dir / runs.BEST, self.played.checkpoint)
        return self.played.checkpoint

    def load_checkpoint(self, checkpoint_path: str) -> bool:
        """Go on from a checkpoint of the store in `save_dir`: "latest" (of the newest run), "best", or RUN@STEP.

        The agent then plays it, and `train` goes on with its run. False, with a line in the log, if there is none, or it is
        damaged or of another policy.
        """
        try:
            run, step = runs.find_checkpoint(checkpoint_path, self.save_dir, self.run_id)
            strategy = runs.first_strategy(run)
            self.agent.load_weights(read_weights(run, step))
        except (TroupeError, OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
            _log.warning("%s: %s", checkpoint_path, error)
            return False
        self.first_strategy = strategy or self.first_strategy
        self.played = PlayedRun(run)
        self.played.read_stored(limit=step)
        return True

    def close(self) -> None:
        """Close environment, history and model."""
        self.env.close()
        self.decision_analyzer.close()
        if self.llm_manager is not None:
            self.llm_manager.close()

    def _take_run(self, run: Run) -> PlayedRun:
        """Go on with this run, and with what is stored of it. Raises ConfigurationError if this trainer has another."""
        known = self.played or PlayedRun(run)
        if known.run.run_id != run.run_id:
            changes = differing_fields(known.run.config.result_fields(), run.config.result_fields())
            raise ConfigurationError(
                f"train: run {known.run.run_id} has other settings, {'; '.join(changes)}; give these, or make another trainer"
            )
        known.run, self.played = run, known
        known.read_stored()
        return known

    def _finish_step(self, report: IterationReport) -> None:
        """Tell callbacks what a step of the run has brought, and keep its decisions."""
        assert self.played is not None, "a step is of a run"
        for episode in self.played.add_step(report):
            self.decision_analyzer.record(episode.decisions)
            _log.info("episode %d: reward %.3f, llm %.2f", self.episode, episode.reward, episode.llm_usage)
            self._tell_callbacks({**self.get_performance_metrics(), "reward": episode.reward})

    def _choose_patience(self, asked: int) -> int:
        stated = (self.agent.curriculum_config or {}).get("advancement_patience", asked)
        if _PATIENCE != asked != stated:
            raise ConfigurationError(
                f"curriculum_patience {asked}: curriculum_config.advancement_patience is {stated}; leave one of them out"
            )
        return int(stated)

    def _summarise(self, played: PlayedRun, evaluation: Mapping[str, float]) -> dict[str, Any]:
        rewards = [each.reward for each in played.episodes]
        return {
            "total_episodes": self.episode,
            "total_steps": sum(each.length for each in played.episodes),
            "best_reward": max(rewards),
            "final_avg_reward": fmean(rewards[-_WINDOW:]),
            "curriculum_stage_reached": played.stage,
            "curriculum_advancements": played.num_advances,
            "strategy_switches": sum(each.num_switches for each in played.episodes),
            "final_evaluation": dict(evaluation),
            "avg_episode_length": fmean(each.length for each in played.episodes),
            "avg_llm_usage": fmean(each.llm_usage for each in played.episodes),
        }

    def _tell_callbacks(self, metrics: Mapping[str, Any]) -> None:
        for callback in self._callbacks:
            try:
                callback(self, self.episode, dict(metrics))
            except TrainingError:
                raise
            except Exception:  # a callback of the user's must not end a night's training
                _log.exception("a callback of episode_end failed; the training continues")


def create_trainer_from_config(config_path: str) -> HybridLLMRLTrainer:
    """The trainer of a JSON file with the nine documented keys, in mode ADAPTIVE, with history and planner.

    Raises ConfigurationError for unknown keys and wrong values, by name; EnvironmentError without the ROM.
    """
    return build_trainer(read_training_config(config_path), HybridLLMRLTrainer)


def build_trainer(config: TrainingConfig, kind: type[Trainer]) -> Trainer:
    """The trainer of a configuration, with all its parts opened.

    With `observation_type` screen the policy sees the screen, else the state variables.
    """
    from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv

    _check_save_dir(config.save_dir)
    env = EnhancedPyBoyPokemonCrystalEnv(config.rom_path, config.headless, config.observation_type)
    analyzer = DecisionHistoryAnalyzer(config.decision_db_path)
    strategies = AdaptiveStrategySystem(analyzer, GoalOrientedPlanner())
    if config.initial_strategy is not None:
        strategies.prefer_strategy(Strategy(config.initial_strategy))
    manager = LLMManager(config.llm_model, max_context_length=config.max_context_length)
    agent = HybridAgent(manager, strategies, network="cnn" if config.observation_type == "screen" else "mlp")
    return kind(env, agent, strategies, analyzer, manager, config.save_dir, config.log_level)


def _check_save_dir(save_dir: str | Path) -> Path:
    """The folder, which is made when it is written to. Raises ConfigurationError where there can be none."""
    folder = Path(expanduser(save_dir))
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ConfigurationError(f"save_dir {save_dir}: {there} is no folder that can be written; use another save_dir")
    return folder

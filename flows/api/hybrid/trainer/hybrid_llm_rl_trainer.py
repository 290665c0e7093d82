"""The documented trainer: episodes of one game, evaluations, checkpoints and callbacks."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from components.errors import ConfigurationError
from components.hybrid.strategies import Strategy
from components.identity import seed_for
from components.suggestions import suggest
from components.whole_files import write_whole
from flows.api.hybrid.core.adaptive_strategy_system import AdaptiveStrategySystem
from flows.api.hybrid.core.decision_history_analyzer import DecisionHistoryAnalyzer
from flows.api.hybrid.core.exceptions import CheckpointError, TrainingError
from flows.api.hybrid.core.goal_oriented_planner import GoalOrientedPlanner
from flows.api.hybrid.core.hybrid_agent import HybridAgent
from flows.api.hybrid.trainer.checkpoints import (
    BEST,
    checked_save_dir,
    checkpoint_name,
    find_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from flows.api.hybrid.trainer.episodes import EpisodePlayed, play_episode
from flows.api.hybrid.trainer.llm_manager import BaseLLMManager, LLMManager, ScriptedLLMManager
from flows.api.hybrid.trainer.training_config import LogLevel, TrainingConfig, read_training_config

if TYPE_CHECKING:
    from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv

EVENTS = (
    *("training_start", "episode_start", "step", "episode_end", "evaluation", "checkpoint", "curriculum_advance"),
    *("curriculum_stalled", "strategy_switch", "training_end"),
)
"""What callbacks are registered for."""
Callback = Callable[["HybridLLMRLTrainer", int, dict[str, Any]], None]
"""Called with the trainer, the number of the episode, counted from 1 and 0 before it, and what the event says."""
_WINDOW = 10
"""Episodes of `average_reward`, `final_avg_reward` and `success_rate`."""
_log = logging.getLogger(__name__)


class HybridLLMRLTrainer:
    """Trains an agent on an environment. Each call of `train` goes on behind the last episode, as after `load_checkpoint`.

    An episode's chance is that of its number and of the agent's seed, so that a training that goes on from a checkpoint is
    bit for bit the one that was not interrupted. One object, one thread.

    **Example**

        trainer = create_trainer_from_config("config.json")
        trainer.register_callback("episode_end", lambda trainer, episode, metrics: print(episode, metrics["reward"]))
        summary = trainer.train(total_episodes=100)
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
        self.save_dir = checked_save_dir(save_dir)
        self.num_evaluation_episodes, self.num_final_episodes = 5, 10
        self.env_seconds = 0.0
        """Seconds in the environment's steps, since this object was made."""
        self._callbacks: dict[str, list[Callback]] = {event: [] for event in EVENTS}
        self._played: list[EpisodePlayed] = []
        self._number = 0
        self._num_advances, self._best_evaluation = 0, float("-inf")
        self._record_decisions()
        self._boundary = self._to_arrays()

    @property
    def episode(self) -> int:
        """The number of episodes that were trained, also those before a checkpoint."""
        return len(self._played)

    @property
    def total_steps(self) -> int:
        """The steps of these episodes."""
        return sum(each.length for each in self._played)

    def register_callback(self, event: str, callback: Callback) -> None:
        """Call this at an event, see `EVENTS`. What it raises is logged; TrainingError ends the training.

        Raises ConfigurationError for an unknown event.
        """
        if event not in self._callbacks:
            raise ConfigurationError(f"event {event!r}: there is none of this name; {suggest(event, EVENTS)}")
        if not callable(callback):
            raise ConfigurationError(f"callback {callback!r}: give a function of trainer, episode and what is said")
        self._callbacks[event].append(callback)

    def train(
        self,
        total_episodes: int = 1000,
        max_steps_per_episode: int = 10000,
        save_interval: int = 100,
        eval_interval: int = 50,
        curriculum_patience: int = 20,
    ) -> dict[str, Any]:
        """Train so many more episodes; the summary, which is also in `save_dir/training_summary.json`.

        Raises TrainingError, or one of its kind, when an episode or evaluation fails. The trainer is then behind the last
        whole episode, as is the checkpoint "latest".
        """
        asked = {name: value for name, value in locals().items() if name != "self"}
        for name, value in asked.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"{name} {value!r}: use a whole number of 1 or more")
        self.agent.curriculum.wait_for(curriculum_patience)
        self._emit("training_start", asked)
        doing = ""
        try:
            for _ in range(total_episodes):
                doing = f"episode {self.episode + 1}"
                self.train_episode(max_steps_per_episode)
                doing = f"what follows episode {self.episode}"
                if self.episode % eval_interval == 0:
                    self._evaluated(self.num_evaluation_episodes, max_steps_per_episode)
                if self.episode % save_interval == 0:
                    self.save_checkpoint()
            self.save_checkpoint()
            evaluation = self._evaluated(self.num_final_episodes, max_steps_per_episode)
            self.save_checkpoint()
            summary = self._summary(evaluation)
            write_whole(self.save_dir / "training_summary.json", json.dumps(summary, indent=2))
        except BaseException as error:
            self._go_back_to_last_episode()
            if isinstance(error, TrainingError | ConfigurationError) or not isinstance(error, Exception):
                raise
            raise TrainingError(
                f"{doing} failed: {type(error).__name__}: {error}; train() continues after episode "
                f"{self.episode}, and so does load_checkpoint('latest') elsewhere"
            ) from error
        self._emit("training_end", summary)
        return summary

    def evaluate(self, num_episodes: int = 5, max_steps_per_episode: int = 10000) -> dict[str, float]:
        """What the agent reaches in episodes that training never plays: the four documented means, and the success rate.

        Its actions are drawn as in training; it learns, records and measures nothing.
        """
        if isinstance(num_episodes, bool) or not isinstance(num_episodes, int) or num_episodes < 1:
            raise ConfigurationError(f"num_episodes {num_episodes!r}: use a whole number of 1 or more")
        agent = self.agent.frozen_copy(seed_for(self.agent.seed, "evaluation"))
        played = [
            self._play(agent, seed_for(self.agent.seed, "evaluation", number), max_steps_per_episode)
            for number in range(num_episodes)
        ]
        rewards = [each.reward for each in played]
        return {
            "avg_reward": fmean(rewards),
            "std_reward": pstdev(rewards),
            "avg_length": fmean(each.length for each in played),
            "avg_llm_usage": fmean(each.llm_usage for each in played),
            "success_rate": fmean(each.succeeded for each in played),
        }

    def get_performance_metrics(self) -> dict[str, float]:
        """The seven documented metrics of the last episode, rates from 0 to 1. Raises TrainingError before the first."""
        if not self._played:
            raise TrainingError("get_performance_metrics: no episode was trained yet; call train first")
        last, recent = self._played[-1], self._played[-_WINDOW:]
        return {
            "episode_reward": last.reward,
            "average_reward": fmean(each.reward for each in recent),
            "llm_usage_rate": last.llm_usage,
            "episode_length": last.length,
            "strategy_switches": self.strategy_system.num_switches,
            "curriculum_stage": self.agent.curriculum.state.stage,
            "success_rate": fmean(each.succeeded for each in recent),
        }

    def save_checkpoint(self) -> Path:
        """Write the state behind the last episode to `save_dir`. Raises CheckpointError."""
        path = self.save_dir / checkpoint_name(self.episode)
        write_checkpoint(path, self._boundary)
        _log.info("checkpoint %s", path)
        self._emit("checkpoint", {"path": str(path)})
        return path

    def save_best_model(self) -> Path:
        """Write the state behind the last episode as the best one; evaluations that are better than all before do it, too."""
        path = self.save_dir / BEST
        write_checkpoint(path, self._boundary)
        self._emit("checkpoint", {"path": str(path)})
        return path

    def load_checkpoint(self, checkpoint_path: str) -> bool:
        """Go on from a checkpoint: "latest" (written last), "best", a path, or a name in `save_dir`.

        False, with a line in the log, if not.

        Decisions of episodes that are played again are stored again, under new numbers.
        """
        try:
            path = find_checkpoint(checkpoint_path, self.save_dir)
            arrays = read_checkpoint(path)
        except CheckpointError as error:
            _log.warning("%s", error)
            return False
        try:
            self._from_arrays(arrays)
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            self._from_arrays(self._boundary)
            _log.warning("%s is of another training (%s); make the agent with the same arguments", path, error)
            return False
        self._boundary = arrays
        return True

    def close(self) -> None:
        """Close environment, history and model."""
        self.env.close()
        self.decision_analyzer.close()
        if self.llm_manager is not None:
            self.llm_manager.close()

    def train_episode(self, max_steps_per_episode: int = 10000) -> dict[str, float]:
        """Train one more episode, without evaluation and checkpoint; its metrics."""
        self._number = number = self.episode + 1
        self._emit("episode_start", {"episode": number})
        self.agent.reseed(seed_for(self.agent.seed, "policy", number))
        switches = self.strategy_system.num_switches

        def on_step(step: dict[str, Any]) -> None:
            nonlocal switches
            self._emit("step", step)
            if self.strategy_system.num_switches != switches:
                switches = self.strategy_system.num_switches
                self._emit("strategy_switch", {"strategy": self.strategy_system.current_strategy.value})

        played = self._play(self.agent, seed_for(self.agent.seed, "episode", number), max_steps_per_episode, on_step)
        self._played.append(played)
        event = self.agent.end_of_training_episode(played.reward)
        self._num_advances += event == "curriculum_advance"
        self._boundary = self._to_arrays()
        metrics = self.get_performance_metrics()
        _log.info("episode %d: reward %.3f, %d steps, llm %.2f", number, played.reward, played.length, played.llm_usage)
        if event is not None:
            self._emit(event, {"stage": self.agent.curriculum.state.stage})
        self._emit("episode_end", {**metrics, "reward": played.reward})
        return metrics

    def _play(
        self, agent: HybridAgent, seed: int, max_steps: int, on_step: Callable[[dict[str, Any]], None] | None = None
    ) -> EpisodePlayed:
        began, waited = time.perf_counter(), self.env_seconds
        played = play_episode(self.env, agent, seed=seed, max_steps=max_steps, on_step=on_step)
        self.env_seconds = waited + played.env_seconds
        _log.debug("%d steps in %.2f s", played.length, time.perf_counter() - began)
        return played

    def _evaluated(self, num_episodes: int, max_steps: int) -> dict[str, float]:
        found = self.evaluate(num_episodes, max_steps)
        _log.info("evaluation of %d episodes: reward %.3f", num_episodes, found["avg_reward"])
        if found["avg_reward"] > self._best_evaluation:
            self._best_evaluation = found["avg_reward"]
            self._boundary = self._to_arrays()
            self.save_best_model()
        self._emit("evaluation", dict(found))
        return found

    def _summary(self, evaluation: Mapping[str, float]) -> dict[str, Any]:
        rewards = [each.reward for each in self._played]
        return {
            "total_episodes": self.episode,
            "total_steps": self.total_steps,
            "best_reward": max(rewards),
            "final_avg_reward": fmean(rewards[-_WINDOW:]),
            "curriculum_stage_reached": self.agent.curriculum.state.stage,
            "curriculum_advancements": self._num_advances,
            "strategy_switches": self.strategy_system.num_switches,
            "final_evaluation": {name: value for name, value in evaluation.items() if name != "success_rate"},
            "avg_episode_length": fmean(each.length for each in self._played),
            "avg_llm_usage": fmean(each.llm_usage for each in self._played),
        }

    def _emit(self, event: str, said: Mapping[str, Any]) -> None:
        for callback in self._callbacks[event]:
            try:
                callback(self, self._number, dict(said))
            except TrainingError:
                raise
            except Exception:  # a callback of the user's must not end a night's training
                _log.exception("a callback of %s failed; the training continues", event)

    def _go_back_to_last_episode(self) -> None:
        """Forget the half of an episode that failed, and keep what is behind the last whole one."""
        self._from_arrays(self._boundary)
        try:
            write_checkpoint(self.save_dir / checkpoint_name(self.episode), self._boundary)
        except CheckpointError as error:  # what ended the training is what is raised
            _log.warning("%s", error)

    def _record_decisions(self) -> None:
        self.agent.record_in(self.decision_analyzer)

    def _to_arrays(self) -> dict[str, NDArray[Any]]:
        state = {
            "played": [each.to_json() for each in self._played],
            "num_advances": self._num_advances,
            "best_evaluation": self._best_evaluation
            if self._played and self._best_evaluation > float("-inf")
            else None,
        }
        return self.agent.to_arrays() | {"trainer": np.frombuffer(json.dumps(state).encode(), np.uint8)}

    def _from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        state = json.loads(arrays["trainer"].tobytes())
        self.agent.load_arrays(arrays)
        self._played = [EpisodePlayed(**each) for each in state["played"]]
        self._number = len(self._played)
        self._num_advances = state["num_advances"]
        best = state["best_evaluation"]
        self._best_evaluation = float("-inf") if best is None else best
        self._record_decisions()


def create_trainer_from_config(config_path: str) -> HybridLLMRLTrainer:
    """The trainer of a JSON file with the nine documented keys.

    Raises ConfigurationError for unknown keys and wrong values, by name; EnvironmentError without the ROM.
    """
    return HybridLLMRLTrainer(**training_parts(read_training_config(config_path)))


def training_parts(config: TrainingConfig, *, network: Literal["mlp", "cnn"] = "mlp") -> dict[str, Any]:
    """The arguments of a trainer by this configuration: environment, agent and the rest, opened.

    With `network` cnn the policy sees the screen. Raises ConfigurationError where observations have none.
    """
    from components.hybrid.masked_ppo import PPORule
    from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv

    learner = PPORule(network=network)
    if learner.sees_screens and config.observation_type == "state":
        raise ConfigurationError(
            f"network {network}: observation_type state has no screen to see; use multi_modal or screen, and a rom_path other "
            "than twin"
        )
    checked_save_dir(config.save_dir)
    env = EnhancedPyBoyPokemonCrystalEnv(config.rom_path, config.headless, config.observation_type)
    try:
        analyzer = DecisionHistoryAnalyzer(config.decision_db_path)
    except BaseException:
        env.close()
        raise
    strategies = AdaptiveStrategySystem(analyzer, GoalOrientedPlanner())
    strategies.prefer_strategy(Strategy(config.initial_strategy))
    manager = _manager(config)
    return {
        "env": env,
        "agent": HybridAgent(manager, strategies, learner=learner),
        "strategy_system": strategies,
        "decision_analyzer": analyzer,
        "llm_manager": manager,
        "save_dir": config.save_dir,
        "log_level": config.log_level,
    }


def _manager(config: TrainingConfig) -> BaseLLMManager:
    if config.llm_model == "scripted":
        return ScriptedLLMManager(max_context_length=config.max_context_length)
    return LLMManager(config.llm_model, max_context_length=config.max_context_length)

"""Trainings are runs that every command knows; they go on, are watched, and refuse what no run can have."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.artifacts.local import LocalArtifactStore
from components.errors import ConfigurationError
from components.hybrid.decision_history import Decision
from components.hybrid.decision_log import DecisionLog
from components.hybrid.goals import GOALS, GoalOrientedPlanner
from components.hybrid.rewards import RewardWeights
from components.methods.hybrid.trained_players import read_episode, read_weights
from flows.api.hybrid.core.adaptive_strategy_system import AdaptiveStrategySystem
from flows.api.hybrid.core.decision_history_analyzer import DecisionHistoryAnalyzer
from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv
from flows.api.hybrid.core.exceptions import CheckpointError, EnvironmentError, TrainingError
from flows.api.hybrid.core.hybrid_agent import AgentMode, HybridAgent
from flows.api.hybrid.testing.utils import cleanup_test_files, create_test_trainer, generate_test_config
from flows.api.hybrid.trainer.hybrid_llm_rl_trainer import HybridLLMRLTrainer, create_trainer_from_config
from flows.api.hybrid.trainer.llm_manager import BaseLLMManager, LLMManager
from flows.api.hybrid.trainer.runs import build_config
from troupe.runs.documents import run_document, run_rows
from troupe.runs.verify import verify_document

STEPS = 60
TWIN: dict[str, Any] = {"rom_path": "twin", "observation_type": "state"}


class OtherManager(BaseLLMManager):
    """Always goes up."""

    def get_action(self, context: str) -> tuple[int, dict[str, Any]]:
        return 4, {"confidence": 0.5}


class CustomReward(EnhancedPyBoyPokemonCrystalEnv):
    """Pays for nothing."""

    def _calculate_reward(self, current_state: dict[str, Any], previous_state: dict[str, Any], action: int) -> float:
        return 0.0


def rl_trainer(folder: Path, *, manager: Any = None, env: Any = None, **agent: Any) -> HybridLLMRLTrainer:
    """A trainer on the twin, of a policy alone unless `agent` says otherwise, whose history is kept in memory."""
    analyzer = DecisionHistoryAnalyzer(":memory:")
    strategies = AdaptiveStrategySystem(analyzer, GoalOrientedPlanner())
    player = HybridAgent(manager, strategies, **{"mode": AgentMode.RL_ONLY, **agent})
    env = env or EnhancedPyBoyPokemonCrystalEnv("twin", True, "state")
    return HybridLLMRLTrainer(env, player, strategies, analyzer, manager, str(folder / "checkpoints"))


def store(trainer: HybridLLMRLTrainer) -> LocalArtifactStore:
    return LocalArtifactStore(trainer.save_dir)


@pytest.fixture(scope="module")
def trained(
    prefect_harness: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[HybridLLMRLTrainer, list[Any], dict[str, Any]]]:
    """A trainer after three steps of a run, what was told of it, and its summary."""
    trainer, told = rl_trainer(tmp_path_factory.mktemp("trained")), list[Any]()
    trainer.register_callback("episode_end", lambda _, episode, said: told.append((episode, said)))
    yield trainer, told, trainer.train(3, STEPS, save_interval=2, eval_interval=2)
    trainer.close()


@pytest.mark.slow
def test_a_training_is_a_run_that_every_command_knows(trained: tuple[HybridLLMRLTrainer, list[Any], Any]) -> None:
    trainer, _, summary = trained
    [listed] = run_rows(store(trainer))
    document = run_document(store(trainer), str(trainer.run_id))
    assert (listed["run_id"], listed["step"], document["state"]) == (trainer.run_id, 3, "completed")
    assert [each["step"] for each in document["evaluations"]] == [0, 2, 3]
    assert verify_document(store(trainer), str(trainer.run_id))["state"] == "whole"
    assert summary["total_episodes"] == trainer.episode == 3
    assert summary["total_steps"] == 3 * STEPS
    assert summary["final_evaluation"]["avg_reward"] == pytest.approx(document["evaluations"][-1]["mean_reward"])
    assert trainer.played is not None
    assert trainer.agent.learner is not None
    played, stored = trainer.agent.learner.to_arrays(), read_weights(trainer.played.run, 3)
    assert all(np.array_equal(values, stored[name]) for name, values in played.items()), (
        "the agent plays what was trained"
    )


@pytest.mark.slow
def test_callbacks_are_told_and_decisions_kept_as_steps_are_stored(
    trained: tuple[HybridLLMRLTrainer, list[Any], Any],
) -> None:
    trainer, told, summary = trained
    assert [episode for episode, _ in told] == [1, 2, 3]
    rewards = [said["reward"] for _, said in told]
    assert max(rewards) == summary["best_reward"]
    decisions = trainer.decision_analyzer.history.recent_decisions(1000)
    assert len(decisions) == 3 * STEPS
    assert {each.source for each in decisions} == {"rl"}
    assert sum(each.outcome_reward for each in decisions if each.step_number % 8 == 0) == pytest.approx(sum(rewards))


@pytest.mark.slow
def test_a_training_that_was_stopped_ends_as_if_it_had_not_been(
    trained: tuple[HybridLLMRLTrainer, list[Any], Any], tmp_path: Path
) -> None:
    whole, _, summary = trained
    stopped = rl_trainer(tmp_path)

    def stop(*_: Any) -> None:
        raise TrainingError("the power failed")

    stopped.register_callback("episode_end", stop)
    with pytest.raises(TrainingError, match="the power failed"):
        stopped.train(3, STEPS)
    again = rl_trainer(tmp_path)
    seen: list[int] = []
    again.register_callback("episode_end", lambda _, episode, said: seen.append(episode))
    assert again.train(3, STEPS) == summary
    assert (again.run_id, seen) == (whole.run_id, [2, 3]), "the first step was read"
    ends = [run_document(store(each), str(whole.run_id))["steps"][-1]["checkpoint_digest"] for each in (whole, again)]
    assert ends[0] == ends[1]
    assert again.load_checkpoint(f"{again.run_id}@1")
    assert (again.episode, again.agent.num_updates) == (1, 0)
    assert again.agent.learner is not None
    assert whole.played is not None
    loaded, stored = again.agent.learner.to_arrays(), read_weights(whole.played.run, 1)
    assert all(np.array_equal(values, stored[name]) for name, values in loaded.items())
    assert again.load_checkpoint("latest")
    assert again.episode == 3
    with pytest.raises(ConfigurationError, match=r"has other settings, environment\.max_turns: 60 -> 90"):
        again.train(1, 90)


@pytest.mark.slow
def test_checkpoints_are_of_the_store_and_what_is_none_is_false(
    trained: tuple[HybridLLMRLTrainer, list[Any], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer, _, _ = trained
    assert trainer.save_best_model() == f"{trainer.run_id}@3"
    assert trainer.load_checkpoint("best")
    assert trainer.episode == 3
    with caplog.at_level(logging.WARNING):
        for name in ("nowhere", f"{trainer.run_id}@9", None):
            assert not trainer.load_checkpoint(name)  # type: ignore[arg-type]
    assert "Checkpoint not found" in caplog.text
    seeing = rl_trainer(tmp_path, network="cnn")
    seeing.save_dir = trainer.save_dir
    assert not seeing.load_checkpoint("latest"), "another policy"
    with pytest.raises(CheckpointError, match="call train first"):
        seeing.save_best_model()


@given(st.lists(st.integers(-3, 9), min_size=1, max_size=40))
def test_the_reward_of_an_episode_is_the_sum_of_what_its_steps_earned(rewards: list[int]) -> None:
    ended: list[Decision] = []

    class Sink:
        def record(self, decisions: Any) -> int:
            ended.extend(decisions)
            return len(decisions)

    log = DecisionLog(Sink(), 1)
    for step, reward in enumerate(rewards):
        log.add(0, state_hash=1, action=step % 9, source="llm" if step % 3 == 0 else "rl", strategy=str(step // 5))
        log.credit(0, float(reward))
    log.end_episodes([0])
    episode = read_episode(tuple(ended), True)
    assert (episode.reward, episode.length) == (sum(rewards), len(rewards))
    assert episode.llm_usage == pytest.approx(-(-len(rewards) // 3) / len(rewards))
    assert episode.num_switches == (len(rewards) - 1) // 5


def build_small_config(trainer: HybridLLMRLTrainer, **changes: int) -> Any:
    lengths = {"num_steps": 4, "max_steps": 70, "save_every": 2, "eval_every": 3, "patience": 20}
    return build_config(trainer, **{**lengths, **changes})


def test_parts_and_arguments_become_the_configuration_of_the_run(tmp_path: Path) -> None:
    stage = {"reward_threshold": 5.0, "min_episodes": 3, "llm_confidence": 0.2, "strategy_preference": "llm_heavy"}
    env = EnhancedPyBoyPokemonCrystalEnv(
        "twin", True, "state", goal_badges=1, max_steps=50, weights=RewardWeights(maps=9.0)
    )
    trainer = rl_trainer(
        tmp_path,
        manager=LLMManager("tiny"),
        env=env,
        mode=AgentMode.ADAPTIVE,
        seed=7,
        curriculum_config={"stages": [stage], "confidence_decay_rate": 0.9},
    )
    config = build_small_config(trainer, patience=5)
    hybrid = config.method
    assert (config.seed, config.num_steps, config.environment.max_turns, hybrid.learner.steps) == (7, 4, 50, 50)
    assert (config.evaluation.every, config.retention.every, config.store.root) == (3, 2, str(trainer.save_dir))
    assert (hybrid.mode.type, hybrid.game.type, hybrid.num_games, dict(hybrid.weights)) == (
        "adaptive",
        "twin",
        1,
        {"maps": 9.0},
    )
    assert hybrid.learner.network.type == "mlp"
    assert (hybrid.mode.curriculum.patience, hybrid.mode.curriculum.decay) == (5, 0.9)
    [first] = hybrid.mode.curriculum.stages
    assert (first.llm_confidence, first.strategy, first.min_episodes) == (0.8, "llm_heavy", 3)
    assert (config.policies["model"].base, config.policies["model"].trained) == ("tiny", False)
    trainer.agent.curriculum_config, trainer.first_strategy = None, type(trainer.first_strategy).RULE_HEAVY
    assert [each.strategy for each in build_small_config(trainer).method.mode.curriculum.stages][:2] == [
        "rule_heavy",
        "balanced",
    ]


def with_own_goal(folder: Path) -> HybridLLMRLTrainer:
    trainer = rl_trainer(folder)
    trainer.strategy_system.goal_planner = GoalOrientedPlanner(GOALS[:2])
    return trainer


def make_learned(folder: Path) -> HybridLLMRLTrainer:
    trainer = rl_trainer(folder)
    trainer.agent.num_updates = 2
    return trainer


def asking(folder: Path, manager: Any = None, **agent: Any) -> HybridLLMRLTrainer:
    return rl_trainer(folder, manager=manager or LLMManager("tiny"), mode=AgentMode.ADAPTIVE, **agent)


STATED = {"curriculum_config": {"advancement_patience": 7}}
REFUSED: list[tuple[Callable[[Path], HybridLLMRLTrainer], dict[str, int], str]] = [
    (lambda at: asking(at, OtherManager()), {}, "llm_manager OtherManager: a run asks a model by its name"),
    (lambda at: asking(at, LLMManager("tiny", max_context_length=99)), {}, "max_context_length 99"),
    (
        lambda at: asking(at, **STATED),
        {"curriculum_patience": 5},
        r"curriculum_patience 5: .*advancement_patience is 7; leave one",
    ),
    (
        lambda at: rl_trainer(at, env=CustomReward("twin", True, "state")),
        {},
        "env CustomReward: a run cannot call its _calc",
    ),
    (with_own_goal, {}, "goal_planner: a run knows no goals"),
    (lambda at: rl_trainer(at, network="cnn"), {}, "learner.network cnn: game twin has no screen"),
    (make_learned, {}, "agent: has learned 2 times step by step"),
    (rl_trainer, {"save_interval": 0}, "save_interval 0: .*greater than or equal to 1"),
    (rl_trainer, {"total_episodes": True}, "total_episodes True"),
]


@pytest.mark.parametrize(("make", "arguments", "message"), REFUSED)
def test_what_no_run_can_have_is_refused_by_name(
    make: Callable[[Path], HybridLLMRLTrainer], arguments: dict[str, int], message: str, tmp_path: Path
) -> None:
    trainer = make(tmp_path)
    with pytest.raises(ConfigurationError, match=message):
        trainer.train(**{"total_episodes": 1, "max_steps_per_episode": 5, **arguments})
    assert not trainer.save_dir.exists()


def test_parts_that_are_not_the_agents_unknown_events_and_folders_are_refused(tmp_path: Path) -> None:
    trainer = rl_trainer(tmp_path)
    parts = (trainer.env, trainer.agent, trainer.strategy_system, trainer.decision_analyzer, None)
    with pytest.raises(ConfigurationError, match="strategy_system: is not that of the agent"):
        HybridLLMRLTrainer(*parts[:2], AdaptiveStrategySystem(), *parts[3:])
    with pytest.raises(ConfigurationError, match="llm_manager: is not that of the agent"):
        HybridLLMRLTrainer(*parts[:4], OtherManager())
    with pytest.raises(ConfigurationError, match=r"event 'episod_end': .*'episode_end'"):
        trainer.register_callback("episod_end", print)
    with pytest.raises(ConfigurationError, match="callback None"):
        trainer.register_callback("episode_end", None)  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"save_dir .*file is no folder that can be written"):
        HybridLLMRLTrainer(*parts, str(tmp_path / "file" / "checkpoints"))
    with pytest.raises(TrainingError, match="no episode was trained yet"):
        trainer.get_performance_metrics()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"romm_path": "x"}, "romm_path: unknown key; did you mean 'rom_path'"),
        ({"initial_strategy": "adaptive"}, "initial_strategy: .*got 'adaptive'"),
        ({"log_level": "LOUD"}, "log_level: .*got 'LOUD'"),
        ({"rom_path": "twin"}, "rom_path twin: .*observation_type to state"),
        ({"save_dir": "/dev/null/x"}, "save_dir /dev/null/x"),
    ],
)
def test_a_wrong_configuration_is_refused_by_name(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(generate_test_config(str(tmp_path)) | changes))
    with pytest.raises(ConfigurationError, match=message):
        create_trainer_from_config(str(path))
    assert not (tmp_path / "decisions.db").exists()


def test_a_missing_key_rom_and_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(ConfigurationError, match=r"config\.json: .*give a JSON file"):
        create_trainer_from_config(str(path))
    path.write_text('{"rom_path": "homebrew"}')
    with pytest.raises(ConfigurationError, match="llm_model: required and missing"):
        create_trainer_from_config(str(path))
    with pytest.raises(ConfigurationError, match=r"config_path \{\}: give the path of a file"):
        create_trainer_from_config({})  # type: ignore[arg-type]
    path.write_text(json.dumps(generate_test_config(str(tmp_path), rom_path=str(tmp_path / "crystal.gbc"))))
    with pytest.raises(EnvironmentError, match=r"crystal\.gbc: there is no such file. Put your own copy"):
        create_trainer_from_config(str(path))


def test_the_factory_takes_each_key_and_leaves_the_first_strategy_to_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = {**TWIN, "llm_model": "~/model", "save_dir": "~/kept", "decision_db_path": "~/made/decisions.db"}
    (tmp_path / "config.json").write_text(json.dumps({**config, "initial_strategy": "rule_heavy"}))
    trainer = create_trainer_from_config("~/config.json")
    assert trainer.first_strategy == "rule_heavy"
    assert (trainer.save_dir, trainer.llm_manager.model) == (tmp_path / "kept", str(tmp_path / "model"))  # type: ignore[union-attr]
    for source, wins in (("llm", 35), ("rl", 5)):
        parts: dict[str, Any] = {"episode_id": int(source == "rl"), "state_hash": 1, "action": 1, "source": source}
        decisions = [Decision(**parts, step_number=step, is_success=step < wins) for step in range(40)]
        trainer.decision_analyzer.record(decisions)
    trainer.close()
    (tmp_path / "config.json").write_text(json.dumps(config))
    again = create_trainer_from_config("~/config.json")
    assert again.first_strategy == "llm_heavy"
    again.close()
    screens = create_test_trainer(1, temp_dir=str(tmp_path / "cnn"), observation_type="screen")
    assert screens.agent.learner is not None
    assert screens.agent.learner.rule.sees_screens
    screens.close()
    (tmp_path / "cnn" / "mine.txt").write_text("keep")
    assert cleanup_test_files(str(tmp_path / "cnn")) == [str(tmp_path / "cnn" / "decisions.db")]
    assert [each.name for each in (tmp_path / "cnn").iterdir()] == ["mine.txt"]

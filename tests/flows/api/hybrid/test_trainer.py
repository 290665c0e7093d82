"""Trainings that go on, fail and are watched; configurations and managers that are refused; errors by name."""

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.errors import ConfigurationError
from components.hybrid.errors import HistoryUnusable
from components.hybrid.game_boy.cartridges import homebrew_cartridge
from flows.api.hybrid.core.adaptive_strategy_system import AdaptiveStrategySystem, StrategyType
from flows.api.hybrid.core.curriculum import Curriculum
from flows.api.hybrid.core.decision_history_analyzer import DecisionHistoryAnalyzer
from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv
from flows.api.hybrid.core.exceptions import (
    DecisionValidationError,
    EnvironmentError,
    LLMConnectionError,
    TrainingError,
)
from flows.api.hybrid.core.game_state_analyzer import GameStateAnalysis
from flows.api.hybrid.core.goal_oriented_planner import GoalOrientedPlanner
from flows.api.hybrid.core.hybrid_agent import AgentMode, HybridAgent
from flows.api.hybrid.testing import (
    cleanup_test_files,
    create_mock_environment,
    create_test_trainer,
    generate_test_config,
)
from flows.api.hybrid.testing.utils import SmallTrainer
from flows.api.hybrid.trainer import BaseLLMManager, LLMManager, ScriptedLLMManager, create_trainer_from_config
from flows.api.hybrid.trainer.checkpoints import read_checkpoint
from flows.api.hybrid.trainer.hybrid_llm_rl_trainer import HybridLLMRLTrainer, training_parts
from flows.api.hybrid.trainer.training_config import TrainingConfig

STEPS = 90
TWIN: dict[str, Any] = {"rom_path": "twin", "observation_type": "state"}


def twin_trainer(folder: Path, **changes: Any) -> SmallTrainer:
    return create_test_trainer(2, temp_dir=str(folder), **TWIN, **changes)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallTrainer]:
    trainer = twin_trainer(tmp_path_factory.mktemp("trained"))
    trainer.said = []  # type: ignore[attr-defined]
    for event in trainer._callbacks:
        trainer.register_callback(
            event, lambda _, episode, said, event=event: trainer.said.append((event, episode, said))
        )  # type: ignore[attr-defined]
    trainer.train(4, STEPS, save_interval=2, eval_interval=4)
    yield trainer
    trainer.close()


def test_a_training_that_goes_on_from_a_checkpoint_is_the_one_that_was_not_interrupted(
    trained: SmallTrainer, tmp_path: Path
) -> None:
    path = trained.save_dir / "checkpoint_episode_2.npz"
    whole = read_checkpoint(trained.save_dir / "checkpoint_episode_4.npz")
    resumed = twin_trainer(tmp_path)
    assert resumed.load_checkpoint(str(path))
    assert (resumed.episode, resumed.agent.num_decisions) == (2, 180)
    resumed.train(2, STEPS, save_interval=2, eval_interval=2)
    after = read_checkpoint(resumed.save_dir / "checkpoint_episode_4.npz")
    assert after.keys() == whole.keys()
    for name, values in whole.items():
        if name != "agent":
            assert np.array_equal(values, after[name]), name
    assert json.loads(whole["agent"].tobytes()) == json.loads(after["agent"].tobytes())
    assert any(not np.array_equal(whole[name], read_checkpoint(path)[name]) for name in whole if "weights" in name)
    resumed.close()


def test_a_tilde_in_a_path_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "own.gb").write_bytes(homebrew_cartridge().rom)
    config = {"rom_path": "~/own.gb", "observation_type": "state", "llm_model": "scripted"}
    config |= {"save_dir": "~/kept", "decision_db_path": "~/made/decisions.db"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    trainer = create_trainer_from_config("~/config.json")
    trainer.train_episode(2)
    assert trainer.save_checkpoint() == tmp_path / "kept" / "checkpoint_episode_1.npz"
    assert (tmp_path / "made" / "decisions.db").exists()
    monkeypatch.chdir(tmp_path / "made")
    assert trainer.load_checkpoint("~/kept/checkpoint_episode_1.npz")
    trainer.close()
    assert LLMManager("~/model").model == str(tmp_path / "model")


def test_a_trainer_whose_policy_sees_screens_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    def opened(name: str, kind: str = "screen") -> HybridLLMRLTrainer:
        (tmp_path / name).mkdir()
        config = generate_test_config(str(tmp_path / name), observation_type=kind)
        return HybridLLMRLTrainer(**training_parts(TrainingConfig.from_json(config), network="cnn"))

    whole, resumed = opened("whole"), opened("resumed")
    whole.train_episode(70)
    path = whole.save_checkpoint()
    assert read_checkpoint(path)["steps.states"].dtype == np.uint8
    whole.train_episode(70)
    assert whole.agent.num_updates == 1
    assert resumed.load_checkpoint(str(path))
    resumed.train_episode(70)
    after = resumed.agent.to_arrays()
    for name, values in whole.agent.to_arrays().items():
        assert name == "agent" or np.array_equal(values, after[name]), name
    assert after["steps.states"].shape == (12, 72, 80)
    whole.close()
    resumed.close()
    with pytest.raises(ConfigurationError, match="network cnn: observation_type state has no screen"):
        opened("blind", "state")


def test_each_event_is_told_when_it_happens(trained: SmallTrainer) -> None:
    said = trained.said  # type: ignore[attr-defined]
    found = [event for event, _, _ in said if event not in ("step", "strategy_switch")]
    assert found == [
        "training_start",
        *["episode_start", "episode_end"] * 2,
        "checkpoint",
        *["episode_start", "episode_end"] * 2,
        *("checkpoint", "evaluation", "checkpoint"),  # the best model, then that of the interval
        *["checkpoint", "evaluation", "checkpoint", "training_end"],
    ]
    steps = [each for event, episode, each in said if event == "step" and episode == 1]
    assert {each["source"] for each in steps} == {"llm", "rl"}
    [first] = [each for event, episode, each in said if event == "episode_end" and episode == 1]
    assert sum(each["reward"] for each in steps) == pytest.approx(first["reward"])
    assert len(steps) == first["episode_length"] == 90
    switches = [each for event, _, each in said if event == "strategy_switch"]
    assert len(switches) == trained.strategy_system.num_switches > 0


def test_the_history_has_each_decision_of_training_and_none_of_an_evaluation(trained: SmallTrainer) -> None:
    analyzer = trained.decision_analyzer
    before = {name: values.copy() for name, values in trained.agent.to_arrays().items()}
    trained.evaluate(1, 30)
    assert analyzer.history.num_decisions() == trained.total_steps == 360
    after = trained.agent.to_arrays()
    assert all(np.array_equal(values, after[name]) for name, values in before.items()), "evaluation changes nothing"
    decisions = analyzer.get_recent_decisions(360)
    assert [each["step_number"] for each in decisions[:90]] == list(reversed(range(90)))
    assert {each["episode_id"] for each in decisions} == {"0", "1", "2", "3"}
    stats = trained.strategy_system.get_strategy_stats()
    assert stats["decisions"] == 360
    assert stats["average_reward"] * 360 == pytest.approx(sum(each.reward for each in trained._played))
    sources = [each.source for each in analyzer.history.recent_decisions(360)]
    assert sources.count("llm") == trained.agent.num_llm_decisions


def test_a_lesson_has_the_policys_own_steps_and_the_cuts(trained: SmallTrainer) -> None:
    arrays = trained.agent.to_arrays()
    assert trained.agent.num_updates == 2
    assert len(arrays["steps.own"]) == 360 - 2 * 128
    newest = [each.source for each in trained.decision_analyzer.history.recent_decisions(104)]
    assert arrays["steps.own"].tolist() == [source == "rl" for source in reversed(newest)]
    assert np.flatnonzero(arrays["steps.cut"]).tolist() == [103 - 90, 103]
    assert not arrays["steps.ended"].any()
    planner = trained.strategy_system.goal_planner
    assert planner is not None
    assert set(planner.statuses().values()) == {"pending"}, "an episode has ended"


def test_stages_are_passed_by_reward_and_stall_after_the_patience_of_the_call(tmp_path: Path) -> None:
    trainer, events = twin_trainer(tmp_path), []
    for event in ("curriculum_advance", "curriculum_stalled"):
        trainer.register_callback(event, lambda _, episode, said, event=event: events.append((event, episode, said)))  # type: ignore[misc]
    stage = {"min_episodes": 1, "llm_confidence": 0.9}
    passed = stage | {"reward_threshold": -1.0, "strategy_preference": "rule_heavy"}
    last = stage | {"reward_threshold": 1e9, "strategy_preference": "llm_heavy"}
    trainer.agent.curriculum = Curriculum({"stages": [passed, last]})
    preferred = []
    trainer.strategy_system.prefer_strategy = preferred.append  # type: ignore[method-assign]
    summary = trainer.train(22, 2, curriculum_patience=2)
    assert events == [("curriculum_advance", 10, {"stage": 1}), ("curriculum_stalled", 22, {"stage": 1})]
    assert (summary["curriculum_advancements"], summary["curriculum_stage_reached"]) == (1, 1)
    assert preferred == ["llm_heavy", "llm_heavy"]
    trainer.close()


def test_a_damaged_and_a_missing_checkpoint_are_false_and_leave_the_trainer_as_it_was(
    trained: SmallTrainer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = tmp_path / "damaged.npz"
    content = bytearray((trained.save_dir / "best_model.npz").read_bytes())
    content[len(content) // 2] ^= 255
    damaged.write_bytes(content)
    other = HybridAgent(None, AdaptiveStrategySystem(), mode=AgentMode.RL_ONLY)
    kept = trained.agent.to_arrays()
    with caplog.at_level(logging.WARNING):
        assert not trained.load_checkpoint(str(damaged))
        assert not trained.load_checkpoint("nowhere")
    assert "is damaged" in caplog.text
    assert "there is no such checkpoint" in caplog.text
    assert trained.load_checkpoint("best")
    assert trained.load_checkpoint("latest")
    assert all(np.array_equal(values, trained.agent.to_arrays()[name]) for name, values in kept.items())
    with pytest.raises(ValueError, match="mode adaptive, this one has rl_only"):
        other.load_arrays(kept)


def test_trainers_that_share_a_history_and_notes_by_hand_keep_all_their_decisions(tmp_path: Path) -> None:
    trainers = [twin_trainer(tmp_path) for _ in range(2)]
    trainers[1].agent.seed = 5

    def note(trainer: HybridLLMRLTrainer, *_: Any) -> None:
        trainer.decision_analyzer.record_decision(GameStateAnalysis({"x": 1}), 4, "note", 0.5, 1.0)

    trainers[0].register_callback("episode_end", note)
    for trainer in (*trainers, trainers[0]):
        trainer.train_episode(20)
    assert trainers[1].decision_analyzer.history.num_decisions() == 3 * 20 + 2
    for trainer in trainers:
        trainer.close()


def test_what_fails_in_an_episode_is_a_training_error_and_the_episodes_before_are_kept(tmp_path: Path) -> None:
    trainer = twin_trainer(tmp_path)
    step = trainer.env.step
    lit = iter(range(STEPS + 20))
    trainer.env.step = lambda action: step(action) if next(lit, None) is not None else 1 / 0  # type: ignore[assignment]
    with pytest.raises(TrainingError, match=r"episode 2 failed: ZeroDivisionError.*after episode 1"):
        trainer.train(3, STEPS)
    trainer.env.step = step  # type: ignore[method-assign]
    assert trainer.agent.num_decisions == STEPS, "the half of an episode is forgotten"
    assert trainer.load_checkpoint("latest")
    assert trainer.train(1, STEPS)["total_episodes"] == 2
    assert trainer.decision_analyzer.history.num_decisions() == 2 * STEPS
    with pytest.raises(ConfigurationError, match="save_interval 0"):
        trainer.train(1, save_interval=0)
    trainer.close()
    (tmp_path / "mine.txt").write_text("keep")
    assert len(cleanup_test_files(str(tmp_path))) == 5
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]


def test_what_fails_in_the_final_evaluation_keeps_the_episodes(tmp_path: Path) -> None:
    trainer = twin_trainer(tmp_path)
    trainer.evaluate = lambda *_: 1 / 0  # type: ignore[assignment,method-assign,return-value]
    with pytest.raises(TrainingError, match="what follows episode 2 failed: ZeroDivisionError"):
        trainer.train(2, 20)
    assert (trainer.save_dir / "checkpoint_episode_2.npz").exists()
    trainer.close()


def test_a_history_that_is_damaged_in_training_is_a_training_error_and_latest_is_of_this_training(
    tmp_path: Path,
) -> None:
    earlier = twin_trainer(tmp_path)
    earlier.train(3, 20)
    earlier.close()
    trainer = twin_trainer(tmp_path)

    (tmp_path / "damaged.db").write_bytes(b"damaged" * 3000)

    def damage(trainer: HybridLLMRLTrainer, *_: Any) -> None:
        trainer.decision_analyzer.history._connection = sqlite3.connect(tmp_path / "damaged.db", isolation_level=None)

    trainer.register_callback("episode_end", damage)
    with pytest.raises(TrainingError, match="episode 2 failed: HistoryCorrupt"):
        trainer.train(3, 20)
    assert trainer.load_checkpoint("latest")
    assert trainer.episode == 1
    trainer.close()


def test_folders_are_made_and_what_is_none_is_refused(tmp_path: Path) -> None:
    DecisionHistoryAnalyzer(str(tmp_path / "data" / "run" / "decisions.db")).close()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"save_dir .*file is no folder that can be written"):
        twin_trainer(tmp_path, save_dir=str(tmp_path / "file" / "checkpoints"))
    with pytest.raises(ConfigurationError, match=r"decision_db_path .*use another file"):
        twin_trainer(tmp_path, decision_db_path=str(tmp_path / "file" / "decisions.db"))


REFUSED: list[tuple[Callable[[SmallTrainer], Any], str]] = [
    (lambda t: t.decision_analyzer.record_decision({"x": 4}, 4, "", 0.5, 1.0), "game_state .*give GameStateAnalysis"),  # type: ignore[arg-type]
    (lambda t: t.decision_analyzer.record_decision(GameStateAnalysis({}), 4, "", 0.5, None), "outcome_reward None"),  # type: ignore[arg-type]
    (lambda t: t.decision_analyzer.get_recent_decisions(1.5), "limit 1.5"),  # type: ignore[arg-type]
    (lambda t: GameStateAnalysis(np.zeros(25)), "state_variables ndarray: give info"),  # type: ignore[arg-type]
    (lambda t: t.env.reset(options={"state": "abc"}), "reset: options .*save_state"),
    (lambda t: t.env.reset(options=[1]), "reset: options"),
    *((lambda t, a=a: t.env.step(a), "action .*use a whole number") for a in ("a", None, np.array([3]), 3.7, True)),
    *((lambda t, n=n: create_env(goal_badges=n), "goal_badges .*1 to 16") for n in (1.5, 20)),
    *((lambda t, rom=rom: create_env(rom), "rom_path .*is no file") for rom in ("", "/")),
    (lambda t: LLMManager("./nowhere").count_tokens("Up"), "llm_model '.*nowhere'"),
    (lambda t: t.evaluate(0), "num_episodes 0"),
    (lambda t: create_trainer_from_config({}), "config_path {}: give the path"),  # type: ignore[arg-type]
    (lambda t: t.register_callback("episode_end", None), "callback None"),  # type: ignore[arg-type]
    (lambda t: played(Answers(None), 1), r"get_action returned None: return \(action, metadata\)"),
    *((lambda t, r=r: earning(t.env, r).step(4), f"_calculate_reward returned {r}") for r in (None, float("nan"))),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_nobody_can_mean_is_refused_by_name(
    call: Callable[[SmallTrainer], Any], message: str, tmp_path: Path
) -> None:
    trainer = twin_trainer(tmp_path)
    trainer.env.reset(seed=1)
    with pytest.raises(ValueError, match=message):
        call(trainer)
    assert not trainer.load_checkpoint(None)  # type: ignore[arg-type]
    trainer.close()
    with pytest.raises(HistoryUnusable, match="is closed"):
        trainer.decision_analyzer.get_recent_decisions()


def create_env(rom: str = "twin", **settings: Any) -> EnhancedPyBoyPokemonCrystalEnv:
    return EnhancedPyBoyPokemonCrystalEnv(rom, True, "state", **settings)


def earning(env: Any, reward: Any) -> Any:
    env._calculate_reward = lambda *_: reward
    return env


def test_a_callback_that_fails_is_logged_and_one_of_no_event_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = twin_trainer(tmp_path)
    trainer.register_callback("episode_end", lambda *_: 1 / 0)
    trainer.train_episode(5)
    assert "a callback of episode_end failed" in caplog.text
    with pytest.raises(ConfigurationError, match=r"event 'episod_end'.*did you mean 'episode_end'"):
        trainer.register_callback("episod_end", print)
    with pytest.raises(ConfigurationError, match="strategy_system: is not that of the agent"):
        SmallTrainer(
            trainer.env, trainer.agent, AdaptiveStrategySystem(), trainer.decision_analyzer, trainer.llm_manager
        )
    trainer.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"romm_path": "x"}, "romm_path: unknown key; did you mean 'rom_path'"),
        ({"curriculum": {}}, "curriculum: unknown key"),
        ({"rom_path": None}, "rom_path None"),
        (
            {"observation_type": "pixels"},
            "observation_type 'pixels': Input should be 'multi_modal', 'screen' or 'state'",
        ),
        ({"initial_strategy": "adaptive"}, "initial_strategy 'adaptive'"),
        ({"max_context_length": 0}, "max_context_length 0"),
        ({"log_level": "LOUD"}, "log_level 'LOUD'"),
        ({"headless": "no"}, "headless 'no'"),
        ({"rom_path": "twin"}, "rom_path twin: .*observation_type to state"),
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
    path.write_text(json.dumps(generate_test_config(str(tmp_path), rom_path=str(tmp_path / "crystal.gbc"))))
    with pytest.raises(EnvironmentError, match=r"crystal\.gbc: there is no such file. Put your own copy"):
        create_trainer_from_config(str(path))


def test_the_initial_strategy_is_that_of_the_first_decisions(tmp_path: Path) -> None:
    for wanted, share in (("llm_heavy", 0.8), ("rule_heavy", 0.2)):
        trainer = create_test_trainer(1, temp_dir=str(tmp_path / wanted), initial_strategy=wanted, **TWIN)
        trainer.strategy_system.goal_planner = None
        trainer.agent._context = lambda question: {}  # type: ignore[method-assign]  # nobody is stuck
        assert trainer.train_episode(50)["llm_usage_rate"] == pytest.approx(share)
        trainer.close()


class Sure(BaseLLMManager):
    """Answers what it was made with, and keeps what it was asked."""

    def __init__(self, answer: Any, confidence: Any = 0.6, **settings: Any) -> None:
        super().__init__(**settings)
        self.answer, self.confidence = answer, confidence
        self.contexts: list[str] = []

    def get_action(self, context: str) -> tuple[int, dict[str, Any]]:
        self.contexts.append(context)
        action = self.parse_action(self.answer) if isinstance(self.answer, str) else self.answer
        if isinstance(action, Exception):
            raise action
        return action, {"source": "test", "confidence": self.confidence}


class Answers(Sure):
    """Returns its answer as it is."""

    def get_action(self, context: str) -> Any:
        return self.answer


def played(
    manager: BaseLLMManager,
    steps: int,
    mode: AgentMode = AgentMode.LLM_ONLY,
    planner: GoalOrientedPlanner | None = None,
    **settings: Any,
) -> HybridAgent:
    agent = HybridAgent(manager, AdaptiveStrategySystem(goal_planner=planner), mode=mode, **settings)
    env = create_mock_environment("twin", "state")
    observation, info = env.reset(seed=3)
    for _ in range(steps):
        action = agent.get_action(observation, info)
        following, reward, terminated, truncated, info = env.step(action)
        agent.update(observation, action, reward, following, terminated, truncated=truncated)
        observation = following
    return agent


def test_a_context_is_the_last_steps_and_the_question_within_its_tokens() -> None:
    long, short = Sure("Down"), Sure("Down", max_context_length=80)
    played(long, 3)
    played(short, 3)
    assert len(long.contexts) == len(short.contexts) >= 2
    lines = long.contexts[1].split("\n")
    assert lines[0].endswith("You pressed Down: +0.09.")
    assert [len(each.split("\n")) for each in long.contexts[:3]] == [1, 2, 3]
    assert all(short.count_tokens(each) <= 80 for each in short.contexts)
    assert short.contexts[-1].split("\n")[-1] == long.contexts[-1].split("\n")[-1]
    assert len(short.contexts[-1]) < len(long.contexts[-1])
    planning = Sure("Down")
    agent = played(planning, 2, planner=GoalOrientedPlanner())
    assert planning.contexts[1].split("\n")[1].startswith("Plan: get the first monster. You are in the town")
    env = create_mock_environment("twin", "state")
    observation, info = env.reset(seed=9)
    agent.get_action(observation, info)
    agent.update(observation, 5, 0.0, observation, True)
    observation, _, _, _, info = env.step(6)
    agent.get_action(observation, info)
    assert planning.contexts[-1].count("\n") == 0, "a new episode has a context of its own"
    with pytest.raises(ConfigurationError, match="max_context_length 20: the question alone has"):
        played(Sure("Down", max_context_length=20), 1)


@pytest.mark.parametrize("answer", [3, "I do not know"])
def test_an_answer_that_is_no_allowed_button_presses_nothing_and_counts(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stats = played(Sure(answer), 2).get_stats()
    assert (stats["rejected_answers"], stats["llm_error_rate"]) == (1, 1.0), "one state, one question"
    assert "an answer is rejected" in caplog.text


def test_what_no_manager_may_return_or_cannot_reach_is_an_error_by_name() -> None:
    with pytest.raises(DecisionValidationError, match="the action 9: return 0 to 8"):
        played(Sure(9), 1)
    with pytest.raises(DecisionValidationError, match="confidence from 0 to 1"):
        played(Sure(4, confidence=1.5), 1)
    with pytest.raises(LLMConnectionError, match="Sure did not answer: refused; start the model"):
        played(Sure(ConnectionError("refused")), 1)


def test_the_modes_ask_whom_they_say() -> None:
    manager = Sure("Up")
    assert played(manager, 5, AgentMode.RL_ONLY).num_llm_decisions == 0
    assert manager.contexts == []
    agent = played(manager, 5)
    assert (agent.num_llm_decisions, agent._learner) == (5, None)


def test_a_stage_that_trusts_little_lets_only_sure_advice_count() -> None:
    stages = [
        {"reward_threshold": 1e9, "llm_confidence": trust, "strategy_preference": "llm_heavy"} for trust in (0.5, 0.3)
    ]
    shares = []
    for index in range(2):
        agent = played(Sure("Up"), 40, AgentMode.ADAPTIVE, curriculum_config={"stages": stages[index:]})
        shares.append(agent.num_llm_decisions)
    assert shares[0] > shares[1] == 0, "an adviser that is .6 sure counts at .5, and not at .7"
    assert agent.adaptive_strategy.current_strategy in set(StrategyType)
    with pytest.raises(ConfigurationError, match=r"curriculum_config\.stages\[0\]\.reward: unknown key"):
        HybridAgent(Sure(1), AdaptiveStrategySystem(), curriculum_config={"stages": [{"reward": 1}]})


def test_a_model_in_this_process_is_held_to_allowed_buttons_and_its_tokens() -> None:
    manager = LLMManager("tiny", max_context_length=700)
    context = "You are nowhere. Buttons: UP, DOWN. Which button?"
    action, said = manager.get_action(context)
    assert action in (4, 5)
    assert 0 < said["confidence"] < 1
    assert manager.get_action(context) == (action, said), "equal contexts have equal answers"
    assert manager.count_tokens(context) > len(context), "letters, and the instructions"
    old = "You stood there. You pressed Up: +0.09."
    kept = manager.fit_context("\n".join([old] * 30 + [context]))
    assert 0 < kept.count(old) < 30
    assert manager.get_action(kept)[0] in (4, 5), "this model computes 512 tokens, less than it may read"
    assert manager.count_tokens(f"{old}\n{kept}") > manager.longest_context() == 504
    manager.close()


def test_a_scripted_model_reads_what_models_read_and_wins(tmp_path: Path) -> None:
    trainer = create_test_trainer(1, temp_dir=str(tmp_path), **TWIN)
    agent = HybridAgent(ScriptedLLMManager(), AdaptiveStrategySystem(), mode=AgentMode.LLM_ONLY)
    scripted = SmallTrainer(
        trainer.env,
        agent,
        agent.adaptive_strategy,
        trainer.decision_analyzer,
        agent.llm_manager,
        str(tmp_path),  # type: ignore[arg-type]
    )
    assert scripted.evaluate(2, 300)["success_rate"] == 1.0
    with pytest.raises(DecisionValidationError, match="call get_action first"):
        agent.update({}, 0, 0.0, {}, False)
    trainer.close()


@pytest.mark.parametrize(
    ("response", "action"), [("7", 7), ("Press A", 0), ("a good idea: go up, then LEFT.", 6), ("Start", 2), ("none", 8)]
)
def test_the_last_button_that_is_named_counts(response: str, action: int) -> None:
    assert Sure(0).parse_action(response) == action

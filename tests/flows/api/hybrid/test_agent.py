"""The agent beside managers of language models: what they are asked, what of their answers counts, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.errors import ConfigurationError
from components.hybrid.errors import HistoryUnusable
from components.hybrid.goals import GoalOrientedPlanner
from components.hybrid.recording_manager import RecordingManager
from flows.api.hybrid.core.adaptive_strategy_system import CONTEXT, AdaptiveStrategySystem, StrategyType
from flows.api.hybrid.core.decision_history_analyzer import DecisionHistoryAnalyzer
from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv
from flows.api.hybrid.core.exceptions import DecisionValidationError, LLMConnectionError
from flows.api.hybrid.core.game_state_analyzer import GameStateAnalysis
from flows.api.hybrid.core.hybrid_agent import AgentMode, HybridAgent
from flows.api.hybrid.testing.utils import create_mock_environment
from flows.api.hybrid.trainer.llm_manager import BaseLLMManager, LLMManager


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


def play(
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
    play(long, 3)
    play(short, 3)
    assert len(long.contexts) == len(short.contexts) >= 2
    lines = long.contexts[1].split("\n")
    assert lines[0].endswith("You pressed Down: +0.09.")
    assert [len(each.split("\n")) for each in long.contexts[:3]] == [1, 2, 3]
    assert all(short.count_tokens(each) <= 80 for each in short.contexts)
    assert short.contexts[-1].split("\n")[-1] == long.contexts[-1].split("\n")[-1]
    assert len(short.contexts[-1]) < len(long.contexts[-1])
    planning = Sure("Down")
    agent = play(planning, 2, planner=GoalOrientedPlanner())
    assert planning.contexts[1].split("\n")[1].startswith("Plan: get the first monster. You are in the town")
    env = create_mock_environment("twin", "state")
    observation, info = env.reset(seed=9)
    agent.get_action(observation, info)
    agent.update(observation, 5, 0.0, observation, True)
    observation, _, _, _, info = env.step(6)
    agent.get_action(observation, info)
    assert planning.contexts[-1].count("\n") == 0, "a new episode has a context of its own"
    with pytest.raises(ConfigurationError, match="max_context_length 20: the question alone has"):
        play(Sure("Down", max_context_length=20), 1)


@pytest.mark.parametrize("answer", [3, "I do not know"])
def test_an_answer_that_is_no_allowed_button_presses_nothing_and_counts(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    asked = play(Sure(answer), 2).asked
    assert asked is not None
    assert (asked.num_rejected, asked.error_rate) == (2, 1.0)
    assert "an answer is rejected" in caplog.text


def test_what_no_manager_may_return_or_cannot_reach_is_an_error_by_name() -> None:
    with pytest.raises(DecisionValidationError, match="the action 9: return 0 to 8"):
        play(Sure(9), 1)
    with pytest.raises(DecisionValidationError, match="confidence from 0 to 1"):
        play(Sure(4, confidence=1.5), 1)
    with pytest.raises(LLMConnectionError, match="Sure did not answer: refused; start the model"):
        play(Sure(ConnectionError("refused")), 1)


def test_the_modes_ask_whom_they_say() -> None:
    manager = Sure("Up")
    assert play(manager, 5, AgentMode.RL_ONLY).num_llm_decisions == 0
    assert manager.contexts == []
    agent = play(manager, 5)
    assert (agent.num_llm_decisions, agent.learner) == (5, None)


def test_advice_below_the_confidence_of_the_stage_does_not_count() -> None:
    shares = []
    for threshold in (0.6, 0.7):
        stage = {"reward_threshold": 1e9, "llm_confidence": threshold, "strategy_preference": "llm_heavy"}
        agent = play(Sure("Up"), 40, AgentMode.ADAPTIVE, curriculum_config={"stages": [stage]})
        assert agent.adaptive_strategy.current_strategy in set(StrategyType)
        shares.append(agent.num_llm_decisions)
    assert shares[0] > shares[1] == 0, "an adviser that is .6 sure counts at .6, and not at .7"


def test_stages_are_passed_by_the_rewards_of_step_by_step_play() -> None:
    stages = [
        {"reward_threshold": -9.0, "llm_confidence": 0.1, "strategy_preference": "rule_heavy"},
        {"reward_threshold": 1e9, "llm_confidence": 0.7, "strategy_preference": "llm_heavy"},
    ]
    agent = HybridAgent(Sure("Up"), AdaptiveStrategySystem(), curriculum_config={"stages": stages})
    env = create_mock_environment("twin", "state", max_steps=2)
    preferred: list[str] = []
    agent.adaptive_strategy.prefer_strategy = preferred.append  # type: ignore[method-assign]
    for episode in range(11):
        observation, info = env.reset(seed=episode)
        for step in range(2):
            action = agent.get_action(observation, info)
            following, reward, _, _, info = env.step(action)
            agent.update(observation, action, reward, following, step == 1, truncated=step == 1)
            observation = following
        assert agent._curriculum is not None
        assert agent._curriculum.state.stage == (episode >= 9), "ten episodes, and a mean above -9"
    assert preferred == ["llm_heavy"]


def test_what_helped_before_is_told_to_the_language_model_later() -> None:
    manager = Sure("Down")
    with DecisionHistoryAnalyzer(":memory:") as analyzer:
        agent = HybridAgent(manager, AdaptiveStrategySystem(analyzer), mode=AgentMode.LLM_ONLY)
        env = create_mock_environment("twin", "state")
        observation, info = env.reset(seed=3)
        agent.get_action(observation, info)
        assert "helped before" not in manager.contexts[-1]
        state = GameStateAnalysis(info["facts"])
        for number in range(240):
            analyzer.record_decision(state, 4 + number % 4, "", 0.5, float(number % 4 == 0))
        agent.get_action(observation, info)
        assert "Here Up helped before" in manager.contexts[-1]


def test_an_agent_tells_its_strategies_where_it_is_and_how_its_model_does(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts: list[Any] = []
    select = AdaptiveStrategySystem.select_strategy
    spy = lambda system, context: contexts.append(context) or select(system, context)  # noqa: E731
    monkeypatch.setattr(AdaptiveStrategySystem, "select_strategy", spy)
    play(Sure("nothing at all"), 14, AgentMode.ADAPTIVE)
    assert all({*each} == {*CONTEXT} - {"has_llm_budget"} for each in contexts)
    assert {each["phase"] for each in contexts} == {"start"}
    assert (contexts[0]["llm_error_rate"], contexts[-1]["llm_error_rate"]) == (0.0, 1.0)
    assert contexts[-1]["facts"]["map_number"] == 4


def test_decisions_of_an_episode_are_recorded_when_it_ends() -> None:
    with DecisionHistoryAnalyzer(":memory:") as analyzer:
        agent = HybridAgent(Sure("Up"), AdaptiveStrategySystem(analyzer))
        env = create_mock_environment("twin", "state")
        observation, info = env.reset(seed=3)
        for step in range(12):
            assert analyzer.history.num_decisions() == 0
            action = agent.get_action(observation, info)
            following, reward, _, _, info = env.step(action)
            agent.update(observation, action, reward, following, step == 11)
            observation = following
        found = analyzer.history.recent_decisions(20)
    assert [each.step_number for each in found] == list(reversed(range(12)))
    assert {each.source for each in found} == {"llm", "rl"}
    assert sum(each.source == "llm" for each in found) == agent.num_llm_decisions


def test_a_model_in_this_process_is_held_to_allowed_buttons_and_its_tokens() -> None:
    manager = LLMManager("tiny", max_context_length=700)
    context = "You are nowhere. Buttons: UP, DOWN. Which button?"
    action, said = manager.get_action(context)
    assert action in (4, 5)
    assert 0 < said["confidence"] < 1
    assert manager.get_action(context) == (action, said), "equal contexts have equal answers"
    assert manager.count_tokens(context) > len(context), "letters, and the instructions"
    old = "You stood there. You pressed Up: +0.09."
    kept = RecordingManager(manager).fit_context([old] * 30 + [context])
    assert 0 < kept.count(old) < 30
    assert manager.get_action(kept)[0] in (4, 5), "this model computes 512 tokens, less than it may read"
    assert manager.count_tokens(f"{old}\n{kept}") > manager.longest_context() == 504
    manager.close()


@pytest.mark.parametrize(
    ("response", "action"), [("7", 7), ("Press A", 0), ("a good idea: go up, then LEFT.", 6), ("Start", 2), ("none", 8)]
)
def test_the_last_button_that_is_named_counts(response: str, action: int) -> None:
    assert Sure(0).parse_action(response) == action


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: memory().record_decision({"x": 4}, 4, "", 0.5, 1.0), "game_state .*give GameStateAnalysis"),  # type: ignore[arg-type]
    (lambda: memory().record_decision(GameStateAnalysis({}), 4, "", 0.5, None), "outcome_reward None"),  # type: ignore[arg-type]
    (lambda: memory().analyze_patterns(0), "min_frequency 0"),
    (lambda: GameStateAnalysis(np.zeros(25)), "state_variables ndarray: give info"),  # type: ignore[arg-type]
    (lambda: begin().reset(options={"state": "abc"}), "reset: options is not known; give seed"),
    *((lambda a=a: begin().step(a), "action .*use a whole number") for a in ("a", None, np.array([3]), 3.7, True)),
    *((lambda n=n: create_env(goal_badges=n), "goal_badges .*Input should be") for n in (1.5, 20, True)),
    (lambda: create_env("/"), "rom_path .*is no file"),
    (lambda: create_env(""), "rom_path '': give the path"),
    (lambda: DecisionHistoryAnalyzer(None), "db_path None: give the path"),  # type: ignore[arg-type]
    (lambda: LLMManager("./nowhere").count_tokens("Up"), "llm_model '.*nowhere'"),
    (lambda: play(Answers(None), 1), r"get_action returned None: return \(action, metadata\)"),
    *((lambda r=r: earning(begin(), r).step(4), f"_calculate_reward returned {r}") for r in (None, float("nan"))),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_nobody_can_mean_is_refused_by_name(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def memory() -> DecisionHistoryAnalyzer:
    return DecisionHistoryAnalyzer(":memory:")


def create_env(rom: str = "twin", **settings: Any) -> EnhancedPyBoyPokemonCrystalEnv:
    return EnhancedPyBoyPokemonCrystalEnv(rom, True, "state", **settings)


def begin() -> EnhancedPyBoyPokemonCrystalEnv:
    env = create_env()
    env.reset(seed=1)
    return env


def earning(env: Any, reward: Any) -> Any:
    env._calculate_reward = lambda *_: reward
    return env


def test_folders_of_a_history_are_made_and_a_closed_one_says_so(tmp_path: Path) -> None:
    analyzer = DecisionHistoryAnalyzer(str(tmp_path / "data" / "run" / "decisions.db"))
    analyzer.close()
    with pytest.raises(HistoryUnusable, match="is closed"):
        analyzer.get_recent_decisions()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"decision_db_path .*use another file"):
        DecisionHistoryAnalyzer(str(tmp_path / "file" / "decisions.db"))

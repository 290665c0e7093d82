"""Strategies, goals, the history, the analysis of a state and the environment, each by what it should say."""

import re
import subprocess
import sys
from itertools import pairwise
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from components.errors import ConfigurationError
from components.hybrid.agent import description_hash
from components.hybrid.decision_history import Decision
from components.hybrid.game_boy.cartridges import homebrew_cartridge
from components.hybrid.game_facts import Action
from components.hybrid.goals import GOALS, Goal, GoalOrientedPlanner, GoalPriority
from components.hybrid.llm_actor import Question
from components.hybrid.masked_ppo import MaskedPPO, PPORule
from components.identity import seed_for
from components.machine.package_files import SOURCE_ROOT
from flows.api.hybrid.core.adaptive_strategy_system import AdaptiveStrategySystem, StrategyType
from flows.api.hybrid.core.decision_history_analyzer import DecisionHistoryAnalyzer
from flows.api.hybrid.core.enhanced_pyboy_env import EnhancedPyBoyPokemonCrystalEnv
from flows.api.hybrid.core.exceptions import DecisionValidationError, EnvironmentError
from flows.api.hybrid.core.game_state_analyzer import GameStateAnalysis
from flows.api.hybrid.core.hybrid_agent import AgentMode, HybridAgent


def test_the_best_paid_strategy_is_chosen_in_the_end_and_danger_overrules_it() -> None:
    system = AdaptiveStrategySystem(goal_planner=GoalOrientedPlanner())
    pay = {"llm_heavy": 0.1, "balanced": 0.3, "rule_heavy": 1.0}
    chosen = []
    for _ in range(1500):
        chosen.append(system.select_strategy({"phase": "start"}))
        system.record_outcome(pay[chosen[-1]])
    assert set(chosen) == set(StrategyType)
    assert chosen[-300:].count(StrategyType.RULE_HEAVY) > 250
    stats = system.get_strategy_stats()
    assert stats["decisions"] == 1500 == sum(each["decisions"] for each in stats["by_strategy"].values())
    assert stats["by_strategy"]["balanced"]["average_reward"] == pytest.approx(0.3)
    assert stats["switches"] == sum(one is not two for one, two in pairwise(chosen)) > 1
    with pytest.raises(ConfigurationError, match=r"context\.success_rate: has no effect on the strategy"):
        system.select_strategy({"success_rate": 0.3})
    hurt = {"party_count": 1, "hp": 2, "max_hp": 20}
    assert system.select_strategy({"facts": hurt}) is StrategyType.LLM_HEAVY
    assert system.select_strategy({"facts": hurt | {"hp": 20}, "is_stuck": True}) is StrategyType.LLM_HEAVY
    assert system.select_strategy({"llm_error_rate": 0.6, "is_stuck": True}) is StrategyType.RULE_HEAVY


def record_source(analyzer: DecisionHistoryAnalyzer, source: str, wins: int, **parts: Any) -> None:
    """Record an episode of 40 decisions of an actor, of which so many are successes."""
    same: dict[str, Any] = {"episode_id": 0, "state_hash": 1, "action": 1, "source": source, **parts}
    analyzer.record([Decision(**same, step_number=step, is_success=step < wins) for step in range(40)])


@pytest.mark.parametrize(("better", "strategy"), [("llm", "llm_heavy"), ("rl", "rule_heavy"), ("none", "balanced")])
def test_a_history_gives_the_first_strategy(better: str, strategy: str) -> None:
    with DecisionHistoryAnalyzer(":memory:") as analyzer:
        for source in ("llm", "rl"):
            record_source(analyzer, source, 35 if source == better else 5)
        assert AdaptiveStrategySystem(analyzer).current_strategy == strategy


def test_a_history_decides_later_in_the_phases_that_it_knows() -> None:
    with DecisionHistoryAnalyzer(":memory:") as analyzer:
        system = AdaptiveStrategySystem(analyzer)
        assert system.select_strategy({"phase": "battle"}) is StrategyType.BALANCED
        for _ in range(4):
            for phase, better in (("battle", "rl"), ("start", "llm")):
                for source in ("llm", "rl"):
                    record_source(analyzer, source, 35 if source == better else 5, phase=phase)
        assert system.select_strategy({"phase": "battle"}) is StrategyType.RULE_HEAVY
        assert system.select_strategy({"phase": "start"}) is StrategyType.LLM_HEAVY
        assert system.get_strategy_stats()["is_overruled"]
        assert system.select_strategy({"phase": "start", "llm_error_rate": 0.6}) is StrategyType.RULE_HEAVY
        assert system.select_strategy({"phase": "elsewhere"}) is StrategyType.BALANCED


def test_goals_are_pursued_by_priority_and_prerequisite() -> None:
    see = Goal("see the gym", GoalPriority.CRITICAL, lambda facts: facts["map_number"] == 3 and facts["x"] >= 7)
    healthy = {"party_count": 1, "hp": 6, "max_hp": 20}
    for goals, states in (
        (
            GOALS,
            [
                ({}, "get the first monster"),
                ({**healthy, "level": 5}, "win badge 1"),
                ({**healthy, "hp": 5}, "stay healthy"),
                ({**healthy, "johto_badges": 1}, "win badge 2"),
                ({**healthy, "johto_badges": 8}, "reach level 15"),
                ({**healthy, "johto_badges": 8, "level": 15}, ""),
            ],
        ),
        (
            (*GOALS, see),
            [
                (healthy, "see the gym"),
                ({**healthy, "map_number": 3, "x": 8}, "win badge 1"),
                (healthy, "win badge 1"),
            ],
        ),
    ):
        planner = GoalOrientedPlanner(goals)
        for facts, wanted in states:
            goal = planner.update(facts)
            assert goal is planner.current_goal
            assert ("" if goal is None else goal.name) == wanted
            assert planner.is_emergency == (wanted == "stay healthy")
    planner.reset()
    found = planner.update(healthy)
    assert found is see, "a new episode"
    with pytest.raises(ConfigurationError, match=r"goal 'win badge 9'.*did you mean"):
        GoalOrientedPlanner([*GOALS, Goal("champion", GoalPriority.LOW, lambda facts: False, "win badge 9")])
    with pytest.raises(ConfigurationError, match="two have one name"):
        GoalOrientedPlanner([see, see])


def test_what_helps_in_a_state_is_found_by_its_criteria_and_chance_is_not(tmp_path: Path) -> None:
    state = GameStateAnalysis({"map_group": 24, "map_number": 4, "x": 4, "y": 5})
    chance = np.random.default_rng(0)
    with DecisionHistoryAnalyzer(str(tmp_path / "decisions.db")) as analyzer:
        for _ in range(240):
            action = int(chance.integers(4, 8))
            wins = chance.random() < (0.9 if action == 4 else 0.2)
            analyzer.record_decision(state, action, "", 0.5, float(wins))
        parts: dict[str, Any] = {"episode_id": 0, "state_hash": state.state_hash, "source": "llm", "phase": "start"}
        first = Decision(**parts, step_number=0, action=4, is_success=True)
        analyzer.record([first, Decision(**parts, step_number=1, action=5, is_success=False, is_last=True)])
        found = analyzer.analyze_patterns()
        assert found[0]["action_sequence"] == [4]
        assert (found[0]["type"], found[0]["context"]["phase"]) == ("helps", "start")
        assert found[0]["bounds"][0] < found[0]["success_rate"] < found[0]["bounds"][1]
        assert found[0]["base_rate"] < 0.6
        assert {each["type"] for each in found} == {"helps", "hurts", "unclear"}
        assert analyzer.analyze_patterns(context_filter={"type": "helps", "phase": "start"}) == found[:1]
        counts = [len(analyzer.analyze_patterns(min_frequency=least)) for least in (1, 2, 60, 1000)]
        assert counts == [5, 4, sum(each["frequency"] >= 60 for each in found), 0], "once: up, and then down"
        assert all(each["confidence"] > 0.95 for each in found if each["type"] != "unclear")
        assert analyzer.note_on(state.state_hash).startswith("Here Up helped before")
        assert analyzer.analyze_patterns(context_filter={"phase": "battle"}) == []
        with pytest.raises(ConfigurationError, match=r"context_filter\.stage: no such criterion"):
            analyzer.analyze_patterns(context_filter={"stage": 1})
        for action, confidence in ((9, 0.5), (1, 1.5)):
            with pytest.raises(DecisionValidationError):
                analyzer.record_decision(state, action, "", confidence, 0.0)
    with DecisionHistoryAnalyzer(str(tmp_path / "decisions.db")) as again:
        newest, before = again.get_recent_decisions(2)
        assert (newest["id"], newest["action"], before["step_number"]) == ("240.1", 5, 0)
        assert newest["state_hash"] == state.state_hash


def test_a_state_is_analysed_by_its_numbers() -> None:
    state = GameStateAnalysis(
        {
            "party_count": 1,
            "level": 6,
            "hp": 20,
            "max_hp": 20,
            "battle_mode": 1,
            "enemy_level": 3,
            "enemy_hp": 7,
            "enemy_max_hp": 14,
        }
    )
    battle = state.analyze_battle_state()
    assert battle["advantage"] == pytest.approx(log(6 / 1.5))
    assert (battle["kind"], battle["can_flee"], battle["recommended"]) == ("wild", True, "attack")
    weak = GameStateAnalysis(state.facts | {"hp": 1, "party_hp": 1, "party_max_hp": 20})
    assert (weak.analyze_battle_state()["recommended"], weak.criticality) == ("flee", "emergency")
    assert weak.phase == "battle"
    assert "You fight a wild enemy" in weak.get_summary()
    walking = GameStateAnalysis({"x": 4, "visited_tiles": 9, "idle_steps": 8})
    assert walking.analyze_exploration_state()["visited_tiles"] == 9
    assert walking.is_stuck
    assert walking.health_percentage == 1.0
    with pytest.raises(DecisionValidationError, match=r"state_variables\.levl: no fact; did you mean 'level'"):
        GameStateAnalysis({"levl": 3})
    with pytest.raises(DecisionValidationError, match=r"state_variables\.level 101: give a number from 0 to 100"):
        GameStateAnalysis({"level": 101})


def test_a_state_by_hand_has_the_number_that_an_agent_remembers_it_by() -> None:
    env = EnhancedPyBoyPokemonCrystalEnv("twin", True, "state")
    _, info = env.reset(seed=1)
    legal = tuple(Action(each) for each in np.flatnonzero(info["action_mask"]))
    assert GameStateAnalysis(info["state"]).state_hash == description_hash(
        Question(facts=info["facts"], legal=legal).description
    )


@pytest.mark.parametrize(("rom", "kind"), [("homebrew", "multi_modal"), ("twin", "state")])
@pytest.mark.filterwarnings("error")
def test_the_environment_passes_gymnasiums_check(rom: str, kind: str) -> None:
    env = EnhancedPyBoyPokemonCrystalEnv(rom, True, kind)
    check_env(env, skip_render_check=True)
    env.close()
    with pytest.raises(EnvironmentError, match="is closed"):
        env.step(0)


@pytest.mark.parametrize(("missing", "rom"), [("pyboy", "homebrew"), ("gymnasium", "twin")])
def test_a_missing_library_is_named_with_how_to_get_it(missing: str, rom: str) -> None:
    module = "flows.api.hybrid.core.enhanced_pyboy_env"
    make = f"from {module} import EnhancedPyBoyPokemonCrystalEnv as Env; Env({rom!r}, True, 'state')"
    code = f"import sys; sys.modules[{missing!r}] = None; {make}"
    ended = subprocess.run([sys.executable, "-c", code], cwd=SOURCE_ROOT, capture_output=True, text=True)
    assert re.search(rf"{missing} is not installed: `make extras`", ended.stderr, re.IGNORECASE)


def test_a_seed_decides_an_episode_and_the_next_ones() -> None:
    env, seen = EnhancedPyBoyPokemonCrystalEnv("homebrew", True, "state", max_steps=12), []
    for seed in (7, None, 7, None):
        _, info = env.reset(seed=seed)
        rng, over, facts = np.random.default_rng(1), False, []
        while not over:
            _, _, ended, cut, info = env.step(rng.choice(np.flatnonzero(info["action_mask"])))
            over, facts = ended or cut, [*facts, (info["facts"], info["action_mask"].tolist())]
        seen.append((facts, env._require_game()._game.digests()))
    env.close()
    assert seen[:2] == seen[2:]
    assert len(seen[0][0]) == 12
    assert seen[0] != seen[1]


def test_the_cartridge_and_its_twin_play_alike(tmp_path: Path) -> None:
    own = tmp_path / "mine.gbc"
    own.write_bytes(homebrew_cartridge().rom)
    emulated = EnhancedPyBoyPokemonCrystalEnv(str(own), True, "screen", max_steps=12)
    twin = EnhancedPyBoyPokemonCrystalEnv("twin", True, "state")
    (screen, info), (_, twin_info) = emulated.reset(seed=5), twin.reset(seed=5)
    assert (screen.keys(), screen["screen"].shape) == ({"screen"}, (144, 160, 3))
    for step, action in enumerate((6, 6, 4, 4, 4, 4, 4, 6, 4, 0, 5, 5)):
        _, reward, _, truncated, info = emulated.step(action)
        _, twin_reward, _, _, twin_info = twin.step(action)
        assert reward == pytest.approx(twin_reward)
        assert truncated == (step == 11)
    places = ("x", "y", "party_count", "level", "map_number")
    assert [info["facts"][name] for name in places] == [twin_info["facts"][name] for name in places]
    assert info["state"]["potential"] == pytest.approx(twin_info["state"]["potential"])
    emulated.close()


def test_a_window_that_nobody_would_see_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with pytest.raises(EnvironmentError, match=r"would not be seen .*start it where there is a screen"):
        EnhancedPyBoyPokemonCrystalEnv("homebrew", headless=False)


class GamesOfEnv:
    """An environment as the games that a learner plays itself."""

    def __init__(self, env: EnhancedPyBoyPokemonCrystalEnv) -> None:
        self._env = env
        self._seen, self._info = env.reset(seed=3)

    def states(self) -> Any:
        return self._seen["state_variables"][None]

    def masks(self) -> Any:
        return self._info["action_mask"][None]

    def step(self, actions_N: Any) -> Any:
        self._seen, reward, ended, cut, self._info = self._env.step(int(actions_N[0]))
        final = self._seen["state_variables"][None]
        if ended or cut:
            self._seen, self._info = self._env.reset()
        parts = {"rewards_N": [reward], "ended_N": [ended], "cut_N": [cut], "final_states_N_S": final}
        return SimpleNamespace(**{name: np.array(value) for name, value in parts.items()})


def test_an_agent_learns_step_by_step_what_the_learner_does_by_itself() -> None:
    def env() -> EnhancedPyBoyPokemonCrystalEnv:
        return EnhancedPyBoyPokemonCrystalEnv("twin", True, "state", max_steps=15)

    learner, games = MaskedPPO(PPORule(), seed=seed_for(1, "weights")), GamesOfEnv(env())
    for _ in range(2):
        learner.update(learner.collect(games))  # type: ignore[arg-type]
    agent, played = HybridAgent(None, AdaptiveStrategySystem(), mode=AgentMode.RL_ONLY, seed=1), env()
    observation, info = played.reset(seed=3)
    for step in range(256):
        action = agent.get_action(observation, info)
        following, reward, ended, cut, info = played.step(action)
        agent.update(observation, action, reward, following, ended or cut, truncated=cut)
        observation = following
        if ended or cut:
            observation, info = played.reset()
        assert agent.num_updates == (step + 1) // 128
    assert agent.learner is not None
    after = agent.learner.to_arrays()
    assert all(np.array_equal(values, after[name]) for name, values in learner.to_arrays().items())


def test_an_update_is_of_the_observation_and_the_action_that_were_decided_on() -> None:
    agent = HybridAgent(None, AdaptiveStrategySystem(), mode=AgentMode.RL_ONLY)
    env = EnhancedPyBoyPokemonCrystalEnv("twin", True, "state")
    observation, info = env.reset(seed=1)
    with pytest.raises(DecisionValidationError, match="call get_action first"):
        agent.update(observation, 0, 0.0, observation, False)
    action = agent.get_action(observation, info)
    with pytest.raises(DecisionValidationError, match=f"get_action decided on {action}"):
        agent.update(observation, (action + 1) % 9, 0.0, observation, False)
    action = agent.get_action(observation, info)
    other = {"state_variables": observation["state_variables"] + 1}
    with pytest.raises(DecisionValidationError, match="observation: is not the one"):
        agent.update(other, action, 0.0, observation, False)


def test_a_policy_sees_what_its_network_is_made_for() -> None:
    env = EnhancedPyBoyPokemonCrystalEnv("homebrew", True, "screen")
    observation, info = env.reset(seed=1)
    seeing = HybridAgent(None, AdaptiveStrategySystem(), mode=AgentMode.RL_ONLY, network="cnn")
    seeing.update(observation, seeing.get_action(observation, info), 0.1, observation, False)
    assert seeing.adaptive_strategy.get_strategy_stats()["decisions"] == 1
    with pytest.raises(DecisionValidationError, match="network cnn sees screen"):
        seeing.get_action({"state_variables": np.zeros(25, np.float32)}, info)
    agent = HybridAgent(None, AdaptiveStrategySystem(), mode=AgentMode.RL_ONLY)
    with pytest.raises(DecisionValidationError, match="network mlp sees state_variables"):
        agent.get_action(observation, info)
    with pytest.raises(DecisionValidationError, match=r"info\.facts"):
        agent.get_action({"state_variables": np.zeros(25, np.float32)}, {})
    env.close()


def test_what_an_agent_would_not_read_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="action_space_size 8"):
        HybridAgent(None, AdaptiveStrategySystem(), 8)
    with pytest.raises(ConfigurationError, match="llm_manager None: mode adaptive asks one"):
        HybridAgent(None, AdaptiveStrategySystem())
    with pytest.raises(ConfigurationError, match="curriculum_config: has no effect under mode rl_only"):
        HybridAgent(None, AdaptiveStrategySystem(), curriculum_config={}, mode=AgentMode.RL_ONLY)

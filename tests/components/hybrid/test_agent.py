"""Who is asked, who is believed, what is remembered; on the twin, with real play."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.scripted_advisers import CompetentAdviser, ConfidentBadAdviser
from components.errors import ConfigurationError
from components.hybrid.agent import AgentRule, HybridAgent
from components.hybrid.arbitration import Mode
from components.hybrid.control import ControlRule
from components.hybrid.decision_history import DecisionHistory
from components.hybrid.decision_log import DecisionLog
from components.hybrid.episodes import EpisodeRule
from components.hybrid.game_facts import Action
from components.hybrid.llm_actor import Advice, Question
from components.hybrid.recording_games import Played, play_episodes
from components.hybrid.strategies import TARGET_LLM_SHARES, Strategy
from components.hybrid.twin import Twin


def rule(mode: Mode = Mode.ADAPTIVE, **control: Any) -> AgentRule:
    return AgentRule(control=ControlRule(mode=mode, **control))


class Anything:
    """A policy that presses any allowed button, from a seed."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def choose(self, states_N_S: Any, masks_N_A: Any) -> tuple[Any, Any]:
        weights = masks_N_A / masks_N_A.sum(1, keepdims=True)
        return np.array([self.rng.choice(9, p=row) for row in weights]), weights.astype(np.float32)


class Forbidden:
    """An actor that must not be asked."""

    def advise(self, questions: Any) -> Any:
        raise AssertionError("the adviser was asked")

    def choose(self, states_N_S: Any, masks_N_A: Any) -> Any:
        raise AssertionError("the policy was asked")


class Counting:
    """An adviser that always says the same, and keeps what it was asked."""

    def __init__(self, action: Action) -> None:
        self.action, self.batches = action, []

    def advise(self, questions: list[Question]) -> list[Advice]:
        self.batches.append(questions)
        return [Advice(action=self.action, confidence=0.5) for _ in questions]


def play(agent_rule: AgentRule, games: int = 20, *, max_steps: int = 200, **actors: Any) -> tuple[HybridAgent, Played]:
    agent = HybridAgent(agent_rule, games, seed=0, **actors)
    return agent, play_episodes(agent, Twin(games, seed=0, rule=EpisodeRule(max_steps=max_steps)), explore=True)


def test_one_actor_alone_plays_without_the_other() -> None:
    _, played = play(rule(Mode.LLM_ONLY), llm_actor=CompetentAdviser(), policy=Forbidden())
    assert played.goal_N.all()
    assert played.llm_share == 1
    for mode in (Mode.RL_ONLY, Mode.TEACHER):
        agent, played = play(rule(mode), max_steps=20, llm_actor=Forbidden(), policy=Anything())
        assert (played.llm_share, agent.num_questions) == (0, 0)


@pytest.mark.parametrize(
    ("mode", "missing"), [(Mode.LLM_ONLY, "adviser"), (Mode.RL_ONLY, "policy"), (Mode.ADAPTIVE, "policy")]
)
def test_an_actor_that_is_not_there_is_named(mode: Mode, missing: str) -> None:
    with pytest.raises(ConfigurationError, match=f"give an? {missing}"):
        HybridAgent(rule(mode), 2, seed=0)


def test_games_that_stand_still_are_stuck_until_their_episode_ends() -> None:
    agent = HybridAgent(rule(Mode.LLM_ONLY), 2, seed=0, llm_actor=Counting(Action.NONE))
    games = Twin(2, seed=0, rule=EpisodeRule(max_steps=9))
    stuck = []
    for _ in range(9):
        decided = agent.decide(games.facts, games.states(), games.masks())
        stuck.append(agent.list_stuck())
        agent.observe(games.step(decided.actions_N))
    assert stuck == [[False, False]] * 7 + [[True, True]] * 2
    assert agent.list_stuck() == [False, False]


def test_equal_descriptions_are_asked_once_and_a_stuck_player_anew() -> None:
    llm_actor = Counting(Action.SELECT)  # changes nothing, so that every state is the first one
    agent, twin = HybridAgent(rule(Mode.LLM_ONLY), 6, seed=0, llm_actor=llm_actor), Twin(6, seed=0)
    masks = np.ones_like(twin.masks())
    for _ in range(10):
        agent.observe(twin.step(agent.decide(twin.facts, twin.states(), masks).actions_N))
    assert [len(batch) for batch in llm_actor.batches] == [1, 1, 1, 1], "at first, and from the eighth equal state on"
    assert [len(batch[0].recent) for batch in llm_actor.batches] == [0, 4, 4, 4]
    assert agent.num_questions == 4


@pytest.mark.parametrize("draws_anew", [True, False])
@pytest.mark.parametrize("control", [{"strategy": Strategy.LLM_HEAVY}, {}])
def test_beyond_its_questions_of_an_episode_the_policy_decides_uncredited(
    control: dict[str, Any], draws_anew: bool
) -> None:
    capped = replace(rule(**control), draws_anew=draws_anew, kept_answers=0, questions_per_episode=3)
    llm_actor = Counting(Action.NONE)
    agent, twin = (
        HybridAgent(capped, 5, seed=0, llm_actor=llm_actor, policy=Anything()),
        Twin(5, seed=0, rule=EpisodeRule(max_steps=40)),
    )
    credited: list[int] = []
    agent.control.credit = lambda game, progress: credited.append(game)  # type: ignore[method-assign]
    for _ in range(80):
        asked, led, paid = len(llm_actor.batches), agent.control.num_llm_decisions, len(credited)
        decided = agent.decide(twin.facts, twin.states(), twin.masks())
        agent.observe(twin.step(decided.actions_N))
        assert decided.by_llm_N.any() == (len(llm_actor.batches) > asked)
        refused = agent.control.num_llm_decisions - led - int(decided.by_llm_N.sum())
        assert len(credited) - paid == 5 - refused
    num_asked = [len(batch) for batch in llm_actor.batches]
    assert 0 < sum(num_asked) <= 5 * 3 * 2, "two episodes of five games"
    assert len(credited) < 5 * 80
    if draws_anew and control:
        assert sum(num_asked) == 5 * 3 * 2


@pytest.mark.parametrize(
    ("llm_actor", "lowest", "highest"), [(CompetentAdviser(), 0.8, 1), (ConfidentBadAdviser(), 0, 0.2)]
)
def test_measured_progress_decides_and_all_games_learn_from_each(llm_actor: Any, lowest: float, highest: float) -> None:
    learned, _ = play(rule(), llm_actor=llm_actor, policy=Anything())
    agent = HybridAgent(rule(), 10, seed=0, llm_actor=llm_actor, policy=Anything())
    agent.control.learn_from(learned.control)
    played = play_episodes(agent, Twin(10, seed=5, rule=EpisodeRule(max_steps=100)), explore=False)
    assert lowest <= played.llm_share <= highest


@pytest.mark.parametrize("strategy", list(Strategy))
def test_fixed_strategies_meet_their_shares(strategy: Strategy) -> None:
    _, played = play(rule(strategy=strategy), llm_actor=ConfidentBadAdviser(), policy=Anything())
    assert played.llm_share == pytest.approx(TARGET_LLM_SHARES[strategy], abs=0.02)


@pytest.mark.parametrize(
    ("kept_answers", "limit", "parts"),
    [
        (20_000, None, ("control", "answers", "recent_states", "num_questions")),
        (0, None, ("control", "recent_actions")),
        (0, 9, ("control", "asked")),
    ],
)
def test_a_resumed_agent_goes_on_alike_and_every_part_of_its_state_counts(
    kept_answers: int, limit: int | None, parts: tuple[str, ...]
) -> None:
    agent_rule = replace(rule(), kept_answers=kept_answers, questions_per_episode=limit)

    def actions(agent: HybridAgent, twin: Twin, steps: int) -> list[list[int]]:
        played = []
        for _ in range(steps):
            played.append(agent.decide(twin.facts, twin.states(), twin.masks()).actions_N.tolist())
            agent.observe(twin.step(np.array(played[-1])))
        return played

    twin = Twin(4, seed=1, rule=EpisodeRule(max_steps=40))
    agent = HybridAgent(agent_rule, 4, seed=1, policy=Anything(1), llm_actor=CompetentAdviser())
    actions(agent, twin, 57)
    state, games = json.loads(json.dumps(agent.state_dict())), twin.snapshot()
    agent._policy = Anything(2)
    straight = actions(agent, twin, 60), agent.num_questions

    def resume(**changed: Any) -> Any:
        other, other_twin = (
            HybridAgent(agent_rule, 4, seed=1, policy=Anything(2), llm_actor=CompetentAdviser()),
            Twin(4, seed=1, rule=EpisodeRule(max_steps=40)),
        )
        other.load_state_dict(state | changed)
        other_twin.restore(games)
        return actions(other, other_twin, 60), other.num_questions

    assert resume() == straight
    fresh = HybridAgent(agent_rule, 4, seed=1, policy=Anything(), llm_actor=CompetentAdviser()).state_dict()
    for part in parts:
        assert resume(**{part: fresh[part]}) != straight, part


def test_real_play_writes_its_decisions_with_what_came_of_them() -> None:
    history = DecisionHistory()
    _, played = play(
        rule(strategy=Strategy.LLM_HEAVY), llm_actor=CompetentAdviser(), policy=Anything(), history=history
    )
    assert history.analyse() >= 20
    decisions = history.recent_decisions(history.num_decisions())
    assert {each.source for each in decisions} == {"llm", "rl"}
    assert {each.strategy for each in decisions} == {"llm_heavy"}
    assert {"start", "trainer battle", "map 24.3, 0 badges"} <= {each.phase for each in decisions}
    won = [each for each in decisions if each.is_last and each.outcome_reward > 50]
    assert len(won) >= played.goal_N.sum() > 10
    assert all(each.is_success for each in won)


def test_a_decision_is_credited_with_the_next_rewards_and_what_the_history_refuses_waits() -> None:
    class Sink:
        def __init__(self) -> None:
            self.works, self.decisions = False, []

        def record(self, decisions: Any) -> int:
            if not self.works:
                raise OSError("no space")
            self.decisions += decisions
            return len(decisions)

    sink = Sink()
    log = DecisionLog(sink, 2, steps=2, first_episode=7)
    for reward in (0.0, 0.0, 5.0):
        log.add(1, state_hash=1, action=0, source="rl")
        log.credit(1, reward)
    with pytest.raises(OSError, match="no space"):
        log.end_episodes([1])
    log.restore(json.loads(json.dumps(log.to_json())))
    sink.works = True
    assert log.end_episodes([]) == 3
    found = [
        (each.episode_id, each.step_number, each.outcome_reward, each.is_success, each.is_last)
        for each in sink.decisions
    ]
    assert found == [(8, 0, 0.0, False, False), (8, 1, 5.0, True, False), (8, 2, 5.0, True, True)]
    log.add(1, state_hash=1, action=0, source="rl")
    log.credit(1, 1.0)
    log.end_episodes([1])
    assert sink.decisions[-1].episode_id == 9

"""A curriculum in training: episodes move it, its state decides who plays, and it goes on through bytes."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.scripted_advisers import CompetentAdviser
from components.config.hybrid import CurriculumConfig, StageConfig, StartsConfig
from components.hybrid.agent import AgentRule
from components.hybrid.control import ControlRule
from components.hybrid.curriculum import CurriculumState, first_state, next_state
from components.hybrid.evaluation_games import play_held_out
from components.hybrid.experience import (
    HybridSettings,
    collect_experience,
    digest_state,
    new_learner_state,
    open_twins,
    update_learner,
)
from components.hybrid.llm_actor import Advice, Question
from components.hybrid.masked_ppo import PPORule
from components.hybrid.recording_games import curriculum_in
from components.hybrid.start_positions import GamesFromPositions

SEED = 3
STAGES = (
    StageConfig(name="much", reward_threshold=4.0, llm_confidence=0.9, strategy="llm_heavy", min_episodes=2),
    StageConfig(name="little", reward_threshold=1e9, llm_confidence=0.55, strategy="rule_heavy"),
)
RULE = CurriculumConfig(stages=STAGES, window=3, largest_deviation=9.0, patience=4)
SETTINGS = HybridSettings(
    num_games=4,
    max_steps=17,
    learner=PPORule(steps=24, minibatch=32, epochs=1),
    agent=AgentRule(control=ControlRule()),
    curriculum=RULE,
)


class Recorded:
    """Games whose rewards of whole episodes are kept, with whether they began at the true start."""

    def __init__(self, games: Any, episodes: list[tuple[float, bool]], open_N: list[float]) -> None:
        self.games, self.episodes, self.open_N = games, episodes, open_N

    def __getattr__(self, name: str) -> Any:
        return getattr(self.games, name)

    def step(self, actions_N: Any) -> Any:
        from_start_N = getattr(self.games, "from_start_N", np.ones(len(actions_N), np.bool_)).copy()
        step = self.games.step(actions_N)
        for game in range(len(actions_N)):
            self.open_N[game] += float(step.rewards_N[game])
            if step.ended_N[game] or step.cut_N[game]:
                self.episodes.append((self.open_N[game], bool(from_start_N[game])))
                self.open_N[game] = 0.0
        return step


def train(
    settings: HybridSettings, num_steps: int, state: Any = None, first: int = 0, **opened: Any
) -> tuple[Any, Any]:
    """The state after so many steps, and the metrics of each."""
    state, metrics = new_learner_state(settings, SEED) if state is None else state, []
    for step in range(first, first + num_steps):
        experience = collect_experience(settings, state, SEED, step, llm_actor=CompetentAdviser(), **opened)
        state, _ = update_learner(settings, state, experience, SEED)
        metrics.append(experience.metrics)
    return state, metrics


@pytest.mark.parametrize("starts", [None, StartsConfig(kept=2)])
def test_each_episode_from_the_true_start_moves_it_by_all_that_it_earned(starts: StartsConfig | None) -> None:
    episodes: list[tuple[float, bool]] = []
    open_N, settings = [0.0] * 4, replace(SETTINGS, starts=starts)

    def record(settings: HybridSettings, seed: int) -> AbstractContextManager[Any]:
        with open_twins(settings, seed) as games:
            assert isinstance(games, GamesFromPositions) == (starts is not None)
            return nullcontext(Recorded(games, episodes, open_N))

    state, metrics = train(settings, 5, open_games=record)
    wanted, events = first_state(RULE), []
    for reward, is_from_start in episodes:
        if is_from_start:
            wanted, event = next_state(wanted, RULE, reward)
            events.append(event)
    assert curriculum_in(state, RULE) == wanted
    assert [sum(each[f"curriculum/num_{name}"] for each in metrics) for name in ("advances", "stalls")] == [
        events.count("curriculum_advance"),
        events.count("curriculum_stalled"),
    ]
    assert (wanted.stage, len(episodes)) == (1, 28)
    assert all(is_from_start for _, is_from_start in episodes) == (starts is None)
    assert [metrics[-1][f"curriculum/{name}"] for name in ("stage", "llm_confidence")] == [1.0, wanted.llm_confidence]


class Unsure:
    """An adviser that is never surer than .3."""

    def advise(self, questions: Any) -> list[Advice]:
        return [self.advice(question) for question in questions]

    def advice(self, question: Question) -> Advice:
        return Advice(action=question.legal[0], confidence=0.3)


@pytest.mark.parametrize(("trust", "counts"), [(0.71, True), (0.69, False)])
def test_advice_counts_where_it_is_at_least_as_sure_as_the_trust_asks(trust: float, counts: bool) -> None:
    only = StageConfig(name="only", reward_threshold=0.0, llm_confidence=trust, strategy="llm_heavy")
    settings = replace(SETTINGS, curriculum=CurriculumConfig(stages=(only,)), learner=PPORule(steps=50))
    experience = collect_experience(settings, new_learner_state(settings, SEED), SEED, 0, llm_actor=Unsure())
    shares = [experience.metrics[name] for name in ("rollout/llm_share", "curriculum/unsure_share")]
    assert shares == pytest.approx([0.8, 0.0] if counts else [0.0, 0.8])
    assert len(experience.rollout.to_arrays()["actions_B"]) == (40 if counts else 200), "the policy learns from its own"


def test_a_killed_step_is_done_again_alike_and_every_part_of_the_state_counts() -> None:
    before, _ = train(SETTINGS, 1)
    after = digest_state(train(SETTINGS, 1, before, 1)[0])
    assert digest_state(train(SETTINGS, 1, {**before}, 1)[0]) == after
    for left_out in ("curriculum.state", "curriculum.rewards_N"):
        changed = {name: values for name, values in before.items() if name != left_out}
        assert digest_state(train(SETTINGS, 1, changed, 1)[0]) != after, left_out


@pytest.mark.parametrize(("num_steps", "stage", "share"), [(0, 0, 0.8), (2, 1, 0.2)])
def test_evaluations_play_at_the_stage_that_training_has_reached(num_steps: int, stage: int, share: float) -> None:
    state, _ = train(SETTINGS, num_steps)
    reached = curriculum_in(state, RULE)
    assert reached.stage == stage
    settings = replace(SETTINGS, max_steps=50, goal_badges=2)
    sure = CompetentAdviser()
    sure.advise = lambda questions: [Advice(action=each.legal[0], confidence=1.0) for each in questions]  # type: ignore[method-assign]
    held_out = play_held_out(settings, state, num_episodes=6, seed=9, is_greedy=False, llm_actor=sure)
    assert held_out.llm_share == pytest.approx(share)
    assert curriculum_in(state, RULE) == reached == CurriculumState.from_json(reached.to_json())

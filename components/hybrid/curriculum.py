"""From much help of the language model to little: stages that are passed by reward, with patience and decay.

All is pure: a state is a frozen value that survives JSON exactly.
"""

from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean, pstdev
from typing import Literal

from components.config.hybrid import CurriculumConfig, StageConfig
from components.hybrid.json_state import JsonState
from components.hybrid.strategies import Strategy

Event = Literal["curriculum_advance", "curriculum_stalled"]
_BETTER = 0.01
"""A best mean must be better by this share to count as a gain."""


DEFAULT_STAGES = (
    StageConfig(name="guided", reward_threshold=50.0, llm_confidence=0.9, strategy="llm_heavy"),
    StageConfig(name="shared", reward_threshold=100.0, llm_confidence=0.7, strategy="balanced"),
    StageConfig(name="supervised", reward_threshold=200.0, llm_confidence=0.5, strategy="rule_heavy"),
    StageConfig(name="alone", reward_threshold=500.0, llm_confidence=0.3, strategy="rule_heavy"),
)


def list_stages(rule: CurriculumConfig) -> tuple[StageConfig, ...]:
    """The stages of a curriculum, which are passed when the mean reward of the last episodes reaches their threshold."""
    return rule.stages or DEFAULT_STAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class CurriculumState(JsonState):
    """Where a run is in its stages. `recent` are the rewards of the last episodes of this stage, oldest first."""

    stage: int = 0
    strategy: Strategy
    llm_confidence: float
    num_episodes: int = 0
    recent: tuple[float, ...] = ()
    best_mean: float | None = None
    episodes_without_gain: int = 0
    num_stalls: int = 0

    @property
    def least_confidence(self) -> float:
        """How sure the language model must be for its button to count: the more it is trusted, the less sure.

        **Example** a trust of .9: .1.
        """
        return 1.0 - self.llm_confidence


def first_state(rule: CurriculumConfig) -> CurriculumState:
    """The state before the first episode."""
    return _stage_start(rule, 0)


def next_state(state: CurriculumState, rule: CurriculumConfig, reward: float) -> tuple[CurriculumState, Event | None]:
    """The state after an episode of this stage with this reward, and what happened.

    The stage is passed after `min_episodes` in it, when the mean of the full window reaches the threshold and its deviation is
    at most `largest_deviation * max(|mean|, 1)`; the next one begins with an empty window. After `patience` episodes in which
    the mean of the window was not 1% better than the best one it stalls: the language model gets back the trust of so many
    episodes, up to that of the stage, and one more step of its help. Else its trust decays, down to that of the next stage.

    **Example** decay .9, stages of .9 and .7: .9, .81, .729, .7, .7. Stalled at .729 with a patience of 2: .9, and BALANCED
    becomes LLM_HEAVY.
    """
    if not isfinite(reward):
        raise ValueError(f"reward {reward}: give a finite number")
    recent = (*state.recent, reward)[-rule.window :]
    counted = replace(state, recent=recent, num_episodes=state.num_episodes + 1)
    if _is_passed(counted, rule):
        return _stage_start(rule, state.stage + 1), "curriculum_advance"
    if len(recent) == rule.window:
        counted = _count_gain(counted, fmean(recent))
    if counted.episodes_without_gain >= rule.patience:
        return _add_help(counted, rule), "curriculum_stalled"
    decayed = max(state.llm_confidence * rule.decay, _lowest_confidence(state, rule))
    return replace(counted, llm_confidence=decayed), None


def _stage_start(rule: CurriculumConfig, number: int) -> CurriculumState:
    stage = list_stages(rule)[number]
    return CurriculumState(stage=number, strategy=Strategy(stage.strategy), llm_confidence=stage.llm_confidence)


def _is_passed(state: CurriculumState, rule: CurriculumConfig) -> bool:
    stage = list_stages(rule)[state.stage]
    if state.stage + 1 == len(list_stages(rule)) or state.num_episodes < max(stage.min_episodes, rule.window):
        return False
    mean = fmean(state.recent)
    is_steady = pstdev(state.recent) <= rule.largest_deviation * max(abs(mean), 1)
    return mean >= stage.reward_threshold and is_steady


def _count_gain(state: CurriculumState, mean: float) -> CurriculumState:
    best = state.best_mean
    if best is None or mean > best + _BETTER * max(abs(best), 1):
        return replace(state, best_mean=mean, episodes_without_gain=0)
    return replace(state, episodes_without_gain=state.episodes_without_gain + 1)


def _add_help(state: CurriculumState, rule: CurriculumConfig) -> CurriculumState:
    order = list(Strategy)
    return replace(
        state,
        strategy=order[max(0, order.index(state.strategy) - 1)],
        llm_confidence=min(
            state.llm_confidence / rule.decay**rule.patience, list_stages(rule)[state.stage].llm_confidence
        ),
        episodes_without_gain=0,
        num_stalls=state.num_stalls + 1,
    )


def _lowest_confidence(state: CurriculumState, rule: CurriculumConfig) -> float:
    """Where the trust in the language model stops to decay: at that of the next stage; in the last stage at its own."""
    return list_stages(rule)[min(state.stage + 1, len(list_stages(rule)) - 1)].llm_confidence

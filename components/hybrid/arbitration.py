"""Who decides now, the language model or the policy: by the progress that each was measured to make in this phase.

A confidence alone is as good as the adviser's honesty: a model that is always sure would always play. Progress cannot be
claimed. The arbiter is asked before the actors, so that a model without control costs no call.

The arms are the two actors, the contexts are the phases of the game, and the choice is that of `segment_bandit.py`. An
emergency, for example a player who is stuck, calls the other actor for a few decisions, but only while what it gains in
emergencies is more than the phase brings anyway: to call it each time would give a bad adviser a fifth of the game.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from components.hybrid.json_state import JsonState
from components.hybrid.segment_bandit import (
    BanditRule,
    BanditState,
    close_segment,
    credit,
    error_of_difference,
    next_decision,
    start_segment,
    upper_bounds,
)


class Mode(StrEnum):
    """Who may decide: one of the two alone, or who makes more progress; a TEACHER only sets subgoals for the policy."""

    LLM_ONLY = "llm_only"
    RL_ONLY = "rl_only"
    ADAPTIVE = "adaptive"
    TEACHER = "teacher"


class Actor(StrEnum):
    """Who decides."""

    LLM = "llm"
    RL = "rl"


_BANDIT = BanditRule(arms=tuple(Actor))
_EMERGENCY_HOLD = 4
"""The length of a segment in an emergency, in decisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbiterState(JsonState):
    """What the arbiter knows, and how many of `num_decisions` the language model had."""

    bandit: BanditState
    num_decisions: int = 0
    num_llm_decisions: int = 0
    is_emergency: bool = False

    @property
    def actor(self) -> Actor:
        """Who has the last decision. Raises ValueError before the first."""
        return Actor(self.bandit.arm)


def new_arbiter(seed: int) -> ArbiterState:
    """The state before the first decision. Equal seeds and equal play give equal choices."""
    return ArbiterState(bandit=BanditState(seed=seed))


def next_actor(state: ArbiterState, phase: str, *, emergency: bool = False, explore: bool = True) -> ArbiterState:
    """The state after the next decision was given to its `actor`.

    `explore` is False in evaluation. An emergency counts only inside a segment of its phase.

    **Example** the policy walks into a corner: with `emergency` the language model has the next four decisions if
    it was not called in this phase before, or gained more then than the policy gains in the phase; then the phase decides.
    """
    bandit = state.bandit
    in_emergency = state.is_emergency and bandit.context == _emergency(phase) and bandit.decisions_left > 0
    if in_emergency:
        bandit = replace(bandit, decisions_left=bandit.decisions_left - 1)
    elif emergency and bandit.context == phase and _other_helps(bandit, explore):
        other, in_emergency = _other(bandit.arm), True
        bandit = start_segment(close_segment(bandit, _BANDIT), _emergency(phase), other, _EMERGENCY_HOLD)
    else:
        bandit = next_decision(bandit, _BANDIT, phase, explore=explore)
    return ArbiterState(
        bandit=bandit,
        num_decisions=state.num_decisions + 1,
        num_llm_decisions=state.num_llm_decisions + (bandit.arm == Actor.LLM),
        is_emergency=in_emergency,
    )


def credit_actor(state: ArbiterState, progress: float) -> ArbiterState:
    """The state after the last decision has made this progress: the potential gained, not a reward that somebody chose.

    **Example** two decisions of .5 and 0 in a segment are a gain of .25.
    """
    return replace(state, bandit=credit(state.bandit, progress))


def end_episode(state: ArbiterState) -> ArbiterState:
    """The state after an episode: its last segment is tallied, and the next decision starts a new one.

    **Example** after 7 decisions of a segment of 12 the episode ends: their mean progress is the gain of the segment.
    """
    return replace(state, bandit=close_segment(state.bandit, _BANDIT), is_emergency=False)


def _emergency(phase: str) -> str:
    """The context in which the emergencies of a phase are measured."""
    return f"emergency in {phase}"


def _other(arm: str) -> str:
    return Actor.RL.value if arm == Actor.LLM else Actor.LLM.value


def _other_helps(bandit: BanditState, explore: bool) -> bool:
    """Whether the actor without control is worth a call: untried, or better in emergencies than the phase by the margin."""
    holder, other = (
        bandit.tally(bandit.context, bandit.arm),
        bandit.tally(_emergency(bandit.context), _other(bandit.arm)),
    )
    if not explore and other.segments < 1:
        return False
    ordinary, called = upper_bounds([holder, other], _BANDIT.exploration if explore else 0.0)
    return called > ordinary + _BANDIT.margin * error_of_difference(holder, other)


def is_stuck(recent_states: Sequence[int], *, window: int = 8) -> bool:
    """Whether the last `window` states are at most two: a wall is bumped into, or a door walked to and fro.

    **Example** the hashes 5, 6, 5, 6, 5, 6, 5, 6 are stuck; seven of them are not yet.
    """
    last = recent_states[-window:]
    return len(last) == window and len(set(last)) <= 2

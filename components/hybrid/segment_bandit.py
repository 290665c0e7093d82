"""Which of a few arms gains most in which context: discounted UCB over segments of play, with hysteresis.

An arm is held for a *segment*: `hold` decisions, or until the context changes. The gain of a segment is the progress in it per
decision. Discounted UCB (Garivier and Moulines, "On upper-confidence bound policies for non-stationary bandit problems",
arXiv:0805.3415) forgets old segments, because a policy that learns is another arm a week later. The bonus is scaled by the
gains of the context, so that one rule serves rewards of any size.

All functions are pure. A state is a frozen value that survives JSON exactly, so that a resumed run chooses as an uninterrupted
one. Ties are broken by the seed and the number of the segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log, sqrt

from components.hybrid.json_state import JsonState
from components.identity import seed_for

_TRIED = 0.5
"""An arm with a smaller discounted number of segments counts as untried."""
_PROVEN_BY = 3
"""Of fewer discounted segments a mean proves nothing: where gains are rare and large, the first ones may all be 0."""
_SMALLEST_SCALE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditRule:
    """How arms are chosen: fixed for a run.

    `margin` is the hysteresis: another arm than the last of a context, or without exploration than the favourite, must be
    better by so many standard errors of the difference of both means. `exploration` 0 plays the best mean alone, once every
    arm was tried.
    """

    arms: tuple[str, ...]
    hold: int = 12
    discount: float = 0.995
    exploration: float = 0.5
    margin: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The discounted number of segments of one arm in one context, with the sums of their gains and squared gains.

    `last_segment` is the number of its last segment; the arm with the largest one is the incumbent of the context.
    """

    context: str
    arm: str
    segments: float = 0.0
    gains: float = 0.0
    squares: float = 0.0
    last_segment: int = -1

    @property
    def mean(self) -> float:
        """The mean gain of its segments; 0 without any."""
        return self.gains / self.segments if self.segments else 0.0

    @property
    def squared_deviations(self) -> float:
        """The sum of the squared differences of its gains from their mean."""
        return max(0.0, self.squares - self.mean * self.gains)


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditState(JsonState):
    """What a bandit knows, and the segment it is in: `decisions_left` of it, with `progress` over `num_credited` decisions."""

    seed: int
    tallies: tuple[Tally, ...] = ()
    num_segments: int = 0
    context: str = ""
    arm: str = ""
    decisions_left: int = 0
    progress: float = 0.0
    num_credited: int = 0

    def tally(self, context: str, arm: str) -> Tally:
        """The tally of an arm in a context; an empty one before its first segment."""
        known = (tally for tally in self.tallies if (tally.context, tally.arm) == (context, arm))
        return next(known, Tally(context=context, arm=arm))


def next_decision(state: BanditState, rule: BanditRule, context: str, *, explore: bool = True) -> BanditState:
    """The state after a decision was given to its `arm`: that of the segment, or of a new one where that one is over.

    **Example** hold 2: the arm chosen at decision 0 also has decision 1; decision 2, or a change of context, chooses anew.
    """
    if not state.arm or state.decisions_left == 0 or context != state.context:
        state = close_segment(state, rule)
        arm = (_best_arm if explore else _proven_arm)(state, rule, context)
        return start_segment(state, context, arm, rule.hold)
    return replace(state, decisions_left=state.decisions_left - 1)


def start_segment(state: BanditState, context: str, arm: str, hold: int) -> BanditState:
    """The state after the first of `hold` decisions was given to this arm; the segment before must be closed."""
    assert not state.num_credited, f"an open segment of {state.arm}"
    return replace(state, context=context, arm=arm, decisions_left=hold - 1, num_segments=state.num_segments + 1)


def credit(state: BanditState, progress: float) -> BanditState:
    """The state after its last decision has made this progress, for example the potential gained.

    **Example** decisions that make 3 and 1 are a gain of 2.
    """
    return replace(state, progress=state.progress + progress, num_credited=state.num_credited + 1)


def close_segment(state: BanditState, rule: BanditRule) -> BanditState:
    """The state with the gain of its segment tallied: at the end of an episode, and between segments.

    **Example** discount .5, an arm with 1 segment and gains .2: after a segment with progress 3 over 6 decisions it has 1.5
    and .6, and the tallies of the other arms of the context are halved.
    """
    if not state.num_credited:
        return replace(state, decisions_left=0)
    gain = state.progress / state.num_credited
    tallies = []
    for tally in _context_tallies(state, rule, state.context):
        mine = tally.arm == state.arm
        tallies.append(
            replace(
                tally,
                segments=tally.segments * rule.discount + mine,
                gains=tally.gains * rule.discount + gain * mine,
                squares=tally.squares * rule.discount + gain * gain * mine,
                last_segment=state.num_segments if mine else tally.last_segment,
            )
        )
    others = (tally for tally in state.tallies if tally.context != state.context)
    return replace(state, tallies=(*others, *tallies), decisions_left=0, progress=0.0, num_credited=0)


def upper_bounds(tallies: Sequence[Tally], exploration: float) -> list[float]:
    """The index of each arm of a context: its mean gain and a bonus for the segments that it lacks; infinite if untried.

    `mean + exploration * scale * sqrt(log(1 + N) / n)`, n the discounted segments of the arm, N those of all, and scale the
    largest absolute mean, or the root mean square of all gains if that is more: where gains are rare and large, the mean of
    many is small, and one unlucky segment would condemn the other arm.

    **Example** means .4 and .1 over 4 and 1 segments, exploration .5, gains that hardly vary: .4 + .2 sqrt(log 6 / 4) = .534,
    and .1 + .2 sqrt(log 6) = .368.
    """
    num_segments = sum(tally.segments for tally in tallies)
    spread = sqrt(sum(tally.squares for tally in tallies) / num_segments) if num_segments else 0.0
    scale = max([_SMALLEST_SCALE, spread, *(abs(tally.mean) for tally in tallies)])
    everything = log(1 + num_segments)
    return [
        inf if tally.segments < _TRIED else tally.mean + exploration * scale * sqrt(everything / tally.segments)
        for tally in tallies
    ]


def error_of_difference(one: Tally, other: Tally) -> float:
    """The standard error of the difference of two means; 0 where a tally is empty.

    The spread is that of both together: a tally of one or two segments tells none of its own.

    **Example** 8 segments with squared deviations of 9 in all, and 1 segment: sqrt(9 / 9 (1/8 + 1)) = 1.06.
    """
    if not (one.segments and other.segments):
        return 0.0
    variance = (one.squared_deviations + other.squared_deviations) / (one.segments + other.segments)
    return sqrt(variance * (1 / one.segments + 1 / other.segments))


def favourites(state: BanditState, rule: BanditRule) -> list[str]:
    """The arms that gained most beside the average of the contexts that they were tried in: one, or several that are equal.

    **Example** in town "rl" gained 2 in 9 segments and "llm" 0 in 1: 10 (2 - 1.8) = 2 and 10 (0 - 1.8) = -18. What only one of
    them did, in a cave, counts for none. Before the first segment all are favourites.
    """
    scores = dict.fromkeys(rule.arms, -inf)
    for context in sorted({tally.context for tally in state.tallies}):
        tallies = _context_tallies(state, rule, context)
        segments = sum(tally.segments for tally in tallies)
        average = sum(tally.gains for tally in tallies) / segments if segments else 0.0
        for tally in tallies:
            if tally.segments >= _TRIED:
                before = scores[tally.arm] if scores[tally.arm] > -inf else 0.0
                scores[tally.arm] = before + segments * (tally.mean - average)
    return [arm for arm, score in scores.items() if score == max(scores.values())]


def _best_arm(state: BanditState, rule: BanditRule, context: str) -> str:
    """The arm of the next segment: the best index, or the incumbent where the best is not better by the margin."""
    tallies = _context_tallies(state, rule, context)
    bounds = upper_bounds(tallies, rule.exploration)
    ties = [index for index, bound in enumerate(bounds) if bound == max(bounds)]
    best = ties[_chance(state, len(ties))]
    incumbent = max(range(len(tallies)), key=lambda index: tallies[index].last_segment)
    if tallies[incumbent].last_segment >= 0 and bounds[best] < inf:
        error = error_of_difference(tallies[best], tallies[incumbent])
        if bounds[best] - bounds[incumbent] <= rule.margin * error:
            best = incumbent
    return rule.arms[best]


def _proven_arm(state: BanditState, rule: BanditRule, context: str) -> str:
    """The arm of a segment without exploration: the favourite, or one that is better in this context by the margin.

    What is measured in a context is the progress that is made there, and not what it leads to: an arm that walks about in
    town gains its tiles, and keeps the other one from the road. So a small advantage of few segments counts for nothing.
    """
    equal = favourites(state, rule)
    favourite = state.tally(context, equal[_chance(state, len(equal))])
    best = max(
        _context_tallies(state, rule, context), key=lambda tally: tally.mean if tally.segments >= _PROVEN_BY else -inf
    )
    is_proven = min(best.segments, favourite.segments) >= _PROVEN_BY and (
        best.mean - favourite.mean > rule.margin * error_of_difference(best, favourite)
    )
    return best.arm if is_proven else favourite.arm


def _chance(state: BanditState, number: int) -> int:
    """One of so many equal arms, by the seed and the number of the segment."""
    return seed_for(state.seed, "segment", state.num_segments) % number


def _context_tallies(state: BanditState, rule: BanditRule, context: str) -> list[Tally]:
    """The tallies of a context, one for each arm, in the order of the rule."""
    return [state.tally(context, arm) for arm in rule.arms]

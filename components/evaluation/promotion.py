"""The rule by which a challenger becomes the champion, with a share of the error for each: nights of noise promote nothing.

Each night a challenger and the champion play fresh problems. Evidence that the challenger solves more is an e-value: the
capital of a gambler who bets on its wins among the problems that exactly one of the two solved. If it is no better, the capital
ever reaches 1/a with probability at most a, however often one looks (J. Ville, 1939; A. Ramdas, P. Grünwald, V. Vovk and
G. Shafer, "Game-theoretic statistics and safe anytime-valid inference", Statistical Science 38, 2023). So looks at one
challenger are free. The k-th run of a period has the share 1/(k(k+1)) of the rate of false promotions, and the j-th checkpoint
that the run sends has the share 1/(j(j+1)) of that. All shares add up to 1, which bounds the rate for any number of challengers
under any dependence between them (Bonferroni).

A trial is of weights, not of a name: while a run trains on, the checkpoint that entered keeps playing as long as it has won
more than it lost; else the run's newest one takes its place, with evidence of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from components.evaluation.comparison import PairedComparison
from components.frozen import Settings

Outcome = Literal["promoted", "open", "given_up", "waiting", "repeated"]
"""open: the evidence does not suffice yet. repeated: this draw was counted. waiting: only in records of earlier versions."""


class PromotionConfig(Settings):
    """When a challenger becomes the champion. With the defaults a year promotes one that is not better with probability 5% at
    most."""

    num_problems: int = Field(200, ge=1)
    """Fresh problems that champion and challengers play each night."""
    period_nights: int = Field(365, ge=1)
    false_promotion_rate: float = Field(0.05, gt=0.0, lt=1.0)
    """The largest probability of one or more false promotions in a period."""
    min_problems: int = Field(200, ge=1)
    """Fresh problems that a challenger plays before it can be promoted."""
    max_nights: int = Field(30, ge=1)
    """After which a challenger is given up."""

    def needed_evidence(self, entrant: int, trial: int) -> float:
        """The e-value that promotes: of the period's `entrant`-th run, and its `trial`-th checkpoint, both from 1.

        **Example** at 5% the first checkpoint of the first run: 80; of the 20th: 16,800; its second: 50,400.
        """
        return entrant * (entrant + 1) * trial * (trial + 1) / self.false_promotion_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A checkpoint by its name, RUN@STEP, and by the digest of its weights; None where nobody knows it."""

    name: str
    weights: str | None = None

    @property
    def run(self) -> str:
        """**Example** "plan-path@100" is of "plan-path"."""
        return run_named(self.name)

    def is_same(self, other: "Contestant") -> bool:
        """Whether both are the same weights; by their names where a digest is unknown."""
        if self.weights is None or other.weights is None:
            return self.name == other.name
        return self.weights == other.weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A challenger's evidence against the champion: problems that only it or only the champion solved."""

    challenger: str
    weights: str | None = None
    num_won: int = 0
    num_lost: int = 0
    num_problems: int = 0
    draws: tuple[str, ...] = ()
    """The names of the nights' problem sets."""

    @property
    def contestant(self) -> Contestant:
        """Whom it is of."""
        return Contestant(name=self.challenger, weights=self.weights)

    @property
    def evidence(self) -> float:
        """The e-value that it is better."""
        return e_value(self.num_won, self.num_lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """A run that has sent challengers in this period."""

    run: str
    num_trials: int = 0
    given_up: str | None = None
    """The weights that were given up against the present champion: they do not play again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionState:
    """Who is champion, the open trials, and which runs have sent challengers. Plain values: it is stored as JSON."""

    champion: str
    champion_weights: str | None = None
    night: int = 0
    """Finished nights of the period."""
    entrants: tuple[Entrant, ...] = ()
    """The runs of the period, in the order in which they entered."""
    trials: tuple[Trial, ...] = ()
    """At most one of each run."""

    @property
    def holder(self) -> Contestant:
        """The champion."""
        return Contestant(name=self.champion, weights=self.champion_weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a night means for one challenger."""

    challenger: str
    outcome: Outcome
    evidence: float
    needed_evidence: float


def run_named(subject: str) -> str:
    """The run of a subject. **Example** "plan-path@100" is of "plan-path"."""
    return subject.partition("@")[0]


def e_value(num_won: int, num_lost: int) -> float:
    """The evidence that wins are more likely than losses: 1 says nothing, 20 happens by chance to at most one in 20.

    The capital of bets on each won probability above 1/2, in equal shares: `2^n` times the integral of
    `2 p^won (1 - p)^lost` over p from 1/2 to 1, n = won + lost (H. Robbins, "Statistical methods related to the law of the
    iterated logarithm", Annals of Mathematical Statistics 41, 1970). It equals
    `sum over j <= won of C(n + 1, j) / ((n + 1) C(n, won))`. Infinite beyond the range of floats.

    **Example** no problem: 1; one won: 1.5; one lost: 0.5; 20 won and 5 lost: 49.
    """
    n = num_won + num_lost
    term = total = (n + 1) / (n + 1 - num_won)
    for j in range(num_won, 0, -1):
        term *= j / (n + 2 - j)
        total += term
        if term < 1e-17 * total and j < (n + 1) / 2:
            break
    return total / (n + 1)


def crown(state: PromotionState, champion: Contestant) -> PromotionState:
    """The state with another champion: all trials end, which were against the former one."""
    entrants = tuple(replace(each, given_up=None) for each in state.entrants)
    return replace(state, champion=champion.name, champion_weights=champion.weights, entrants=entrants, trials=())


def select_challengers(
    state: PromotionState, newest: Sequence[Contestant], is_there: Callable[[Contestant], bool]
) -> tuple[Contestant, ...]:
    """Who plays the champion tonight: one checkpoint of each run that has an open trial or is in `newest`.

    An open trial goes on, also of a run that nobody works on any more, unless its weights are gone, by `is_there`, or the run
    has newer ones and those on trial have won no more than they lost. The champion's own weights are no challenger, and those
    that were given up against it do not play again.

    **Example** "r@1" has won 20 and lost 11: it plays, whatever `newest` says; "s@1" has 9 and 9: "s@2" plays, if there is one.
    """
    found = {each.run: each for each in newest}
    for trial in state.trials:
        mine, newer = trial.contestant, found.get(run_named(trial.challenger))
        leads = trial.num_won > trial.num_lost
        if newer is not None and newer.is_same(mine):
            continue  # and its digest is known
        if is_there(mine) and (newer is None or leads):
            found[mine.run] = mine
    given_up = {each.given_up for each in state.entrants} - {None}
    return tuple(each for each in found.values() if not each.is_same(state.holder) and each.weights not in given_up)


def after_night(
    rule: PromotionConfig,
    state: PromotionState,
    played: Sequence[PairedComparison],
    *,
    draw: str,
    weights: Mapping[str, str] = MappingProxyType({}),
) -> tuple[PromotionState, tuple[Decision, ...]]:
    """The state after a night, and the decision on each challenger that played, in the given order.

    `played` compares challengers (`other`) with the champion (`base`) on the problems that `draw` names, as the digest of a
    suite and its seed; `weights` are their digests by name. Problems of different draws must be different: a repeated draw adds
    nothing to a trial, but an unnamed repetition would count as new evidence. The first promotion ends the night's and all open
    trials, which were against the former champion. Raises ValueError if a comparison is with another than the champion.

    **Example** at 5% the first run of a period needs an e-value of 80: one with 40 won and 8 lost has 30,000 and is promoted.
    """
    if state.night >= rule.period_nights:
        state = replace(state, night=0, entrants=(), trials=())
    state = replace(state, night=state.night + 1)
    decisions: list[Decision] = []
    for comparison in played:
        if comparison.base != state.champion:
            raise ValueError(f"{comparison.other} played {comparison.base}, and the champion is {state.champion}")
        challenger = Contestant(name=comparison.other, weights=weights.get(comparison.other))
        state, decision = _after_comparison(rule, state, challenger, comparison, draw)
        decisions.append(decision)
        if decision.outcome == "promoted":
            break
    return state, tuple(decisions)


def _after_comparison(
    rule: PromotionConfig, state: PromotionState, challenger: Contestant, comparison: PairedComparison, draw: str
) -> tuple[PromotionState, Decision]:
    state, trial = _enter(state, challenger)
    number, entrant = next((n, each) for n, each in enumerate(state.entrants, 1) if each.run == challenger.run)
    needed = rule.needed_evidence(number, entrant.num_trials)

    def decide(outcome: Outcome) -> Decision:
        return Decision(challenger=challenger.name, outcome=outcome, evidence=trial.evidence, needed_evidence=needed)

    if draw in trial.draws:
        return state, decide("repeated")
    trial = replace(
        trial,
        num_won=trial.num_won + comparison.num_won,
        num_lost=trial.num_lost + comparison.num_lost,
        num_problems=trial.num_problems + comparison.num_problems,
        draws=(*trial.draws, draw),
    )
    others = tuple(each for each in state.trials if run_named(each.challenger) != challenger.run)
    if trial.num_problems >= rule.min_problems and trial.evidence >= needed:
        return crown(state, challenger), decide("promoted")
    if len(trial.draws) >= rule.max_nights:
        left = replace(entrant, given_up=challenger.weights)
        entrants = tuple(left if each.run == left.run else each for each in state.entrants)
        return replace(state, entrants=entrants, trials=others), decide("given_up")
    return replace(state, trials=(*others, trial)), decide("open")


def _enter(state: PromotionState, challenger: Contestant) -> tuple[PromotionState, Trial]:
    """The challenger's trial, a new one unless its weights have one, and the state in which its run has entered with it."""
    for trial in state.trials:
        if run_named(trial.challenger) == challenger.run and trial.contestant.is_same(challenger):
            return state, replace(trial, challenger=challenger.name, weights=challenger.weights or trial.weights)
    known = next((each for each in state.entrants if each.run == challenger.run), None)
    mine = known or Entrant(run=challenger.run)
    entered = replace(mine, num_trials=mine.num_trials + 1)
    others = state.entrants if known else (*state.entrants, mine)
    trial = Trial(challenger=challenger.name, weights=challenger.weights)
    trials = tuple(each for each in state.trials if run_named(each.challenger) != challenger.run)
    entrants = tuple(entered if each.run == mine.run else each for each in others)
    return replace(state, entrants=entrants, trials=(*trials, trial)), trial

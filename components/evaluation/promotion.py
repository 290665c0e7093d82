"""The rule by which a challenger becomes the champion, with a budget of challengers, so that nights of noise promote nothing.

Each night a challenger and the champion play fresh problems. Evidence that the challenger solves more is an e-value: the
capital of a gambler who bets on its wins among the problems that exactly one of the two solved. If it is no better, the capital
ever reaches 1/a with probability at most a, however often one looks (J. Ville, 1939; A. Ramdas, P. Grünwald, V. Vovk and
G. Shafer, "Game-theoretic statistics and safe anytime-valid inference", Statistical Science 38, 2023). So looks at one
challenger are free, and challengers are what the budget counts: each gets an equal share of the rate of false promotions, and
their sum bounds it under any dependence between challengers (Bonferroni).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from components.evaluation.comparison import PairedComparison

Outcome = Literal["promoted", "open", "given_up", "waiting", "repeated"]
"""open: the evidence does not suffice yet. waiting: the budget of the period is spent. repeated: this draw was counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionRule:
    """When a challenger is promoted. With the defaults a year promotes one that is not better with probability 5% at most."""

    period_nights: int = 365
    false_promotion_rate: float = 0.05
    """The largest probability of one or more false promotions in a period."""
    max_challengers: int = 100
    """The budget of a period. More challengers need more evidence each, by the logarithm of their number."""
    min_problems: int = 200
    """Fresh problems that a challenger plays before it can be promoted."""
    max_nights: int = 30
    """After which a challenger is given up."""

    def __post_init__(self) -> None:
        for name in ("period_nights", "max_challengers", "min_problems", "max_nights"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: give at least 1")
        if not 0 < self.false_promotion_rate < 1:
            raise ValueError(f"false_promotion_rate = {self.false_promotion_rate}: give a probability, as 0.05")

    @property
    def needed_evidence(self) -> float:
        """The e-value that promotes. **Example** 100 challengers at 5%: 2000."""
        return self.max_challengers / self.false_promotion_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A challenger's evidence against the champion: problems that only it or only the champion solved."""

    challenger: str
    num_won: int = 0
    num_lost: int = 0
    num_problems: int = 0
    draws: tuple[str, ...] = ()
    """The names of the nights' problem sets."""

    @property
    def evidence(self) -> float:
        """The e-value that it is better."""
        return e_value(self.num_won, self.num_lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionState:
    """Who is champion, the open trials, and what of the period's budget is spent. Plain values: it is stored as JSON."""

    champion: str
    night: int = 0
    """Finished nights of the period."""
    num_challengers: int = 0
    """Challengers of the period so far."""
    trials: tuple[Trial, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a night means for one challenger."""

    challenger: str
    outcome: Outcome
    evidence: float
    needed_evidence: float


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


def after_night(
    rule: PromotionRule, state: PromotionState, played: Sequence[PairedComparison], *, draw: str
) -> tuple[PromotionState, tuple[Decision, ...]]:
    """The state after a night, and the decision on each challenger that played, in the given order.

    `played` compares challengers (`other`) with the champion (`base`) on the problems that `draw` names, as the digest of a
    suite and its seed. Problems of different draws must be different: a repeated draw adds nothing to a trial, but an unnamed
    repetition would count as new evidence. The first promotion ends the night's and all open trials, which were against the
    former champion. Raises ValueError if a comparison is with another than the champion.

    **Example** 100 challengers a period at 5% need an e-value of 2,000: one with 40 won and 8 lost has 30,000 and is
    promoted.
    """
    if state.night >= rule.period_nights:
        state = replace(state, night=0, num_challengers=0, trials=())
    state = replace(state, night=state.night + 1)
    decisions: list[Decision] = []
    for comparison in played:
        if comparison.base != state.champion:
            raise ValueError(f"{comparison.other} played {comparison.base}, and the champion is {state.champion}")
        state, decision = _after_comparison(rule, state, comparison, draw)
        decisions.append(decision)
        if decision.outcome == "promoted":
            break
    return state, tuple(decisions)


def _after_comparison(
    rule: PromotionRule, state: PromotionState, comparison: PairedComparison, draw: str
) -> tuple[PromotionState, Decision]:
    known = next((trial for trial in state.trials if trial.challenger == comparison.other), None)
    trial = known or Trial(challenger=comparison.other)
    is_new = known is None
    if is_new and state.num_challengers >= rule.max_challengers:
        return state, _decision(rule, trial, "waiting")
    state = replace(state, num_challengers=state.num_challengers + is_new)
    if draw in trial.draws:
        return state, _decision(rule, trial, "repeated")
    trial = replace(
        trial,
        num_won=trial.num_won + comparison.num_won,
        num_lost=trial.num_lost + comparison.num_lost,
        num_problems=trial.num_problems + comparison.num_problems,
        draws=(*trial.draws, draw),
    )
    others = tuple(each for each in state.trials if each.challenger != trial.challenger)
    if trial.num_problems >= rule.min_problems and trial.evidence >= rule.needed_evidence:
        return replace(state, champion=trial.challenger, trials=()), _decision(rule, trial, "promoted")
    if len(trial.draws) >= rule.max_nights:
        return replace(state, trials=others), _decision(rule, trial, "given_up")
    return replace(state, trials=(*others, trial)), _decision(rule, trial, "open")


def _decision(rule: PromotionRule, trial: Trial, outcome: Outcome) -> Decision:
    return Decision(
        challenger=trial.challenger, outcome=outcome, evidence=trial.evidence, needed_evidence=rule.needed_evidence
    )

"""`python -m benchmarks.promotion_years`: simulated years of nights, by the promotion rule as the nightly flow uses it.

Nobody is trained: a night of a challenger is a draw of the problems that it alone and the champion alone solve. Runs train
meanwhile, so that each has new weights every night; who plays, what a night means and who is promoted are decided by the
functions that the flow calls. It prints how soon a better challenger is promoted, as the first, 20th or 100th run of a year,
and in how many years of equal models one is promoted.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from components.evaluation.comparison import PairedComparison
from components.evaluation.promotion import (
    Contestant,
    Entrant,
    PromotionConfig,
    PromotionState,
    after_night,
    select_challengers,
)

NUM_PROBLEMS = 200
SHARE_THAT_DIFFERS = 0.15
"""Of the problems, exactly one of champion and challenger solves these."""
TWO_WEEKS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Nights:
    """Nights in which runs challenge a champion: how much better each is, and for how long it trains on."""

    rule: PromotionConfig
    better: float
    """The true difference of success."""
    num_training_nights: int
    """New weights on each of so many nights; then the last ones stay."""

    def first_promotion(self, draws: np.random.Generator, state: PromotionState, runs: list[list[str]]) -> int | None:
        """The night of the first promotion, from 0; None without one. `runs` are the active ones of each night."""
        began: dict[str, int] = {}
        for night, active in enumerate(runs):
            for run in active:
                began.setdefault(run, night)
            newest = [self._newest(run, night - began[run]) for run in active]
            challengers = select_challengers(state, newest, lambda _: True)
            played = [self._play(draws, state.champion, each) for each in challengers]
            weights = {each.name: str(each.weights) for each in challengers}
            state, decisions = after_night(self.rule, state, played, draw=str(night), weights=weights)
            if any(each.outcome == "promoted" for each in decisions):
                return night
        return None

    def _newest(self, run: str, age: int) -> Contestant:
        name = f"{run}@{min(age, self.num_training_nights)}"
        return Contestant(name=name, weights=name)

    def _play(self, draws: np.random.Generator, champion: str, challenger: Contestant) -> PairedComparison:
        num_differing = int(draws.binomial(NUM_PROBLEMS, SHARE_THAT_DIFFERS))
        num_won = int(draws.binomial(num_differing, 0.5 + self.better / (2 * SHARE_THAT_DIFFERS)))
        num_lost = num_differing - num_won
        return PairedComparison(
            base=champion,
            other=challenger.name,
            num_problems=NUM_PROBLEMS,
            num_samples=1,
            base_rate=0.5,
            other_rate=0.5 + (num_won - num_lost) / NUM_PROBLEMS,
            num_won=num_won,
            num_lost=num_lost,
            difference=(num_won - num_lost) / NUM_PROBLEMS,
            interval=(-1.0, 1.0),
            smallest_difference=1.0,
            spread=num_differing / NUM_PROBLEMS,
        )


def share_promoted(entrant: int, *, years: int, seed: int, better: float = 0.05) -> float:
    """The share of years in which a better challenger that trains meanwhile is promoted within 14 nights, as the `entrant`-th
    run of its period."""
    nights = Nights(rule=PromotionConfig(), better=better, num_training_nights=TWO_WEEKS)
    earlier = tuple(Entrant(run=f"earlier-{n}", num_trials=1) for n in range(1, entrant))
    state = PromotionState(champion="champion@1", champion_weights="champion", entrants=earlier)
    draws = np.random.default_rng([seed, entrant])
    found = [nights.first_promotion(draws, state, [["run"]] * TWO_WEEKS) for _ in range(years)]
    return sum(each is not None for each in found) / years


def share_false(*, years: int, seed: int, num_active: int = 8, nights_each: int = 30, rate: float = 0.05) -> float:
    """The share of years of equal models with a promotion: so many runs are active at once, each for so many nights, of which
    it trains half."""
    rule = PromotionConfig(false_promotion_rate=rate)
    nights = Nights(rule=rule, better=0.0, num_training_nights=nights_each // 2)
    runs = [
        [f"run-{slot}-{(night + slot * nights_each // num_active) // nights_each}" for slot in range(num_active)]
        for night in range(rule.period_nights)
    ]
    state = PromotionState(champion="champion@1", champion_weights="champion")
    draws = np.random.default_rng(seed)
    return sum(nights.first_promotion(draws, state, runs) is not None for _ in range(years)) / years


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for entrant in (1, 20, 100):
        share = share_promoted(entrant, years=asked.years, seed=asked.seed)
        print(f"+5 points, trains meanwhile, run {entrant} of its year: promoted within 14 nights in {share:.3f}")
    share = share_false(years=asked.years, seed=asked.seed)
    print(f"equal models, 8 runs at once that train meanwhile: a promotion in {share:.3f} of {asked.years} years")


if __name__ == "__main__":
    main()

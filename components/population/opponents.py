"""A pool of frozen past selves, and who is played next.

Prioritised fictitious self-play (PFSP; Vinyals et al., "Grandmaster level in StarCraft II", Nature 575, 2019, methods)
draws an opponent with probability proportional to a function of the learner's chance against it:

    hard      (1 - x) ** power    those it loses to; nothing is spent on those it always beats
    variance  x (1 - x)           those of its own strength
    even      1                   all alike: fictitious self-play

x is the learner's mean payoff scaled to 0..1, so that games with graded payoffs have no need of wins. Draws depend on
the seed and the parts that the caller names, never on the order in which games end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from random import Random

from components.config import OpponentConfig
from components.identity import seed_for
from components.population.payoffs import PayoffMatrix

PRIOR_GAMES = 2.0
"""So many games of equals stand before those that were played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opponent:
    """A frozen policy: the digest of its checkpoint, and the step at which it was taken."""

    name: str
    step: int
    checkpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpponentPool:
    """Opponents from the oldest to the youngest, at most `capacity`."""

    opponents: tuple[Opponent, ...] = ()
    capacity: int = 16

    def with_opponent(self, opponent: Opponent) -> "OpponentPool":
        """The pool with one more, which must be younger than all others.

        A full pool drops its second oldest: the start stays, as the one opponent to whom all steps compare.

        **Example** capacity 3 after steps 0, 10, 20, 30: steps 0, 20, 30.
        """
        assert all(opponent.step > each.step for each in self.opponents), f"{opponent} is not the youngest"
        kept = self.opponents
        if len(kept) == self.capacity:
            kept = (kept[0], *kept[2:])
        return OpponentPool(opponents=(*kept, opponent), capacity=self.capacity)


def learner_chance(payoffs: PayoffMatrix, learner: str, opponent: str, config: OpponentConfig) -> float:
    """The learner's chance x, 0 to 1: its scaled mean payoff in played seats, drawn to 1/2 by PRIOR_GAMES even games.

    **Example** payoffs -1..1, 6 games of mean 1: (6 x 1 + 2 x .5) / 8 = .875; unplayed: .5.
    """
    mean = payoffs.compute_played_mean(learner, opponent)
    if mean is None:
        return 0.5
    num, lowest, highest = payoffs.num_games(learner, opponent), config.lowest_payoff, config.highest_payoff
    scaled = (min(max(mean, lowest), highest) - lowest) / (highest - lowest)
    return (num * scaled + PRIOR_GAMES * 0.5) / (num + PRIOR_GAMES)


def _weight(chance: float, config: OpponentConfig) -> float:
    """The unnormalised weight of an opponent against whom the learner has this chance.

    **Example** chance .8: hard .04, variance .16, even 1.
    """
    if config.priority == "hard":
        return float((1 - chance) ** config.power)
    return chance * (1 - chance) if config.priority == "variance" else 1.0


def payoff_outside(payoffs: PayoffMatrix, config: OpponentConfig) -> tuple[str, str, float] | None:
    """Two players and the first mean payoff found outside of the range, which the former earns; None: all lie inside."""
    for row in (payoffs.first, payoffs.second):
        for player, opponents in row.items():
            for opponent in opponents:
                mean = payoffs.compute_played_mean(player, opponent)
                if mean is not None and not config.lowest_payoff <= mean <= config.highest_payoff:
                    return player, opponent, mean
    return None


def opponent_shares(
    pool: OpponentPool, payoffs: PayoffMatrix, learner: str, config: OpponentConfig
) -> dict[str, float]:
    """The probability of each opponent of the pool, oldest first; they add to 1.

    Prior games keep every weight above 0, so that nobody is forgotten for good.

    **Example** hard, chances .8 and .4: weights .04 and .36, shares .1 and .9.
    """
    weights = {
        each.name: _weight(learner_chance(payoffs, learner, each.name, config), config) for each in pool.opponents
    }
    total = fsum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def draw_opponent(shares: Mapping[str, float], seed: int, *parts: str | int) -> str:
    """The name of one opponent, drawn by its share; equal seeds and parts draw the same one.

    **Example** `draw_opponent(shares, 0, step, problem)`.
    """
    point, below = Random(seed_for(seed, "opponent", *parts)).random(), 0.0
    for name, share in shares.items():
        below += share
        if point < below:
            return name
    return next(name for name in reversed(list(shares)) if shares[name])  # the shares add to a little less than 1

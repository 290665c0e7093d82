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
from typing import Literal

from components.errors import ConfigurationError
from components.identity import seed_for
from components.population.payoffs import PayoffMatrix

Priority = Literal["hard", "variance", "even"]


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

    def __post_init__(self) -> None:
        if self.capacity < 2:
            raise ConfigurationError(f"capacity {self.capacity}: use 2 or more, the start and one past self")

    def with_opponent(self, opponent: Opponent) -> "OpponentPool":
        """The pool with one more, which must be younger than all others under a new name.

        A full pool drops its second oldest: the start stays, as the one opponent to whom all steps compare.

        **Example** capacity 3 after steps 0, 10, 20, 30: steps 0, 20, 30.
        """
        if any(opponent.name == each.name or opponent.step <= each.step for each in self.opponents):
            raise ConfigurationError(
                f"opponent {opponent.name!r} of step {opponent.step}: use a new name and a later step"
            )
        kept = self.opponents
        if len(kept) == self.capacity:
            kept = (kept[0], *kept[2:])
        return OpponentPool(opponents=(*kept, opponent), capacity=self.capacity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matchmaking:
    """How opponents are drawn. Payoffs of a game lie in `lowest`..`highest`; a mean outside counts as the bound."""

    priority: Priority = "hard"
    power: float = 2.0
    lowest: float = -1.0
    highest: float = 1.0
    prior_games: float = 2.0

    def __post_init__(self) -> None:
        if self.priority not in ("hard", "variance", "even"):
            raise ConfigurationError(f"priority {self.priority!r}: use hard, variance or even")
        if self.power < 0 or self.prior_games <= 0:
            raise ConfigurationError(f"power {self.power}, prior_games {self.prior_games}: use 0 or more, above 0")
        if self.lowest >= self.highest:
            raise ConfigurationError(f"lowest {self.lowest}, highest {self.highest}: use the game's range of payoffs")

    def chance(self, payoffs: PayoffMatrix, learner: str, opponent: str) -> float:
        """The learner's chance x, 0 to 1: its scaled mean payoff in played seats, drawn to 1/2 by `prior_games` even games.

        **Example** payoffs -1..1, 6 games of mean 1, 2 prior games: (6 x 1 + 2 x .5) / 8 = .875; unplayed: .5.
        """
        mean = payoffs.played_mean(learner, opponent)
        if mean is None:
            return 0.5
        num = payoffs.num_games(learner, opponent)
        scaled = (min(max(mean, self.lowest), self.highest) - self.lowest) / (self.highest - self.lowest)
        return (num * scaled + self.prior_games * 0.5) / (num + self.prior_games)

    def weight(self, chance: float) -> float:
        """The unnormalised weight of an opponent against whom the learner has this chance.

        **Example** chance .8: hard .04, variance .16, even 1.
        """
        if self.priority == "hard":
            return float((1 - chance) ** self.power)
        return chance * (1 - chance) if self.priority == "variance" else 1.0


def payoff_outside(payoffs: PayoffMatrix, matchmaking: Matchmaking) -> tuple[str, str, float] | None:
    """Two players and the first mean payoff found outside of the range, which the former earns; None: all lie inside."""
    for row in (payoffs.first, payoffs.second):
        for player, opponents in row.items():
            for opponent in opponents:
                mean = payoffs.played_mean(player, opponent)
                if mean is not None and not matchmaking.lowest <= mean <= matchmaking.highest:
                    return player, opponent, mean
    return None


def opponent_shares(
    pool: OpponentPool, payoffs: PayoffMatrix, learner: str, matchmaking: Matchmaking
) -> dict[str, float]:
    """The probability of each opponent of the pool, oldest first; they add to 1.

    Prior games keep every weight above 0, so that nobody is forgotten for good.

    **Example** hard, chances .8 and .4: weights .04 and .36, shares .1 and .9.
    """
    if not pool.opponents:
        raise ConfigurationError("opponents: the pool is empty; freeze the start of the run as the first")
    weights = {
        each.name: matchmaking.weight(matchmaking.chance(payoffs, learner, each.name)) for each in pool.opponents
    }
    total = fsum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def draw_opponent(shares: Mapping[str, float], seed: int, *parts: str | int) -> str:
    """The name of one opponent, drawn by its share; equal seeds and parts draw the same one.

    **Example** `draw_opponent(shares, 0, step, problem)`.
    """
    if not any(shares.values()):
        raise ConfigurationError(f"shares {dict(shares)}: use one above 0")
    point, below = Random(seed_for(seed, "opponent", *parts)).random(), 0.0
    for name, share in shares.items():
        below += share
        if point < below:
            return name
    return next(name for name in reversed(list(shares)) if shares[name])  # the shares add to a little less than 1

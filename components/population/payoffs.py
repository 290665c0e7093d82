"""The payoff matrix: what each player earned against each other one, by seat.

Games favour a seat (the first one of Kuhn poker loses 1/18 a game), so that every comparison swaps sides: each problem
is played twice with one seed, and the means of both seats count half each, however many games either has. The matrix is
a value: JSON, folded in the order of the problems, equal to the bit after a resume. In a game of more than two, a seat is
the earlier or the later one of a pair, and a player's return counts beside each other player.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import inf, isfinite, sqrt
from typing import Protocol, TypeVar

from components.errors import ConfigurationError
from components.identity import seed_for

_Z_95 = 1.959963984540054


class Ordered(Protocol):
    """What has a place in a run."""

    @property
    def order(self) -> int:
        """The place among all of a run, counted over its steps."""
        ...


Item = TypeVar("Item", bound=Ordered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One game to play: who sits where, and the seed of its chances. Both matches of a problem have one seed."""

    problem: int
    first: str
    second: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedGame:
    """One game that was played, with the raw returns of both seats. `order` is its place among the games of the run."""

    order: int
    first: str
    second: str
    first_return: float
    second_return: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The games of one player in one seat against one other player."""

    num_games: int = 0
    mean: float = 0.0
    spread: float = 0.0

    def after(self, earned: float) -> "Tally":
        """The tally after one more game; `spread` is the sum of squared differences to the mean (Welford's update)."""
        num = self.num_games + 1
        mean = self.mean + (earned - self.mean) / num
        return Tally(num_games=num, mean=mean, spread=self.spread + (earned - self.mean) * (earned - mean))

    @property
    def variance_of_mean(self) -> float:
        """The estimated variance of `mean`; infinite for less than two games."""
        if self.num_games < 2:
            return inf
        return self.spread / (self.num_games - 1) / self.num_games


@dataclass(frozen=True, slots=True, kw_only=True)
class PayoffMatrix:
    """`first` and `second` are player -> opponent -> what the player earned in that seat."""

    first: Mapping[str, Mapping[str, Tally]] = field(default_factory=dict)
    second: Mapping[str, Mapping[str, Tally]] = field(default_factory=dict)

    def after(self, games: Sequence[PlayedGame]) -> "PayoffMatrix":
        """The matrix after games, folded by `order`.

        Raises ConfigurationError for a return that is not finite, and for two games of one place.
        """
        seats = {
            "first": {name: dict(row) for name, row in self.first.items()},
            "second": {name: dict(row) for name, row in self.second.items()},
        }
        for game in in_order(games):
            for seat, own, other, earned in (
                ("first", game.first, game.second, game.first_return),
                ("second", game.second, game.first, game.second_return),
            ):
                if not isfinite(earned):
                    raise ConfigurationError(f"return {earned} of {own!r} in game {game.order}: leave the game out")
                row = seats[seat].setdefault(own, {})
                row[other] = row.get(other, Tally()).after(earned)
        return PayoffMatrix(first=seats["first"], second=seats["second"])

    def num_games(self, player: str, opponent: str) -> int:
        """The games of two players in both seats."""
        return sum(each.num_games for each in self._seats(player, opponent))

    def mean(self, player: str, opponent: str) -> float | None:
        """What `player` earns a game against `opponent`, each seat counting half; None until both seats were played.

        **Example** 1 as first and -.4 as second: .3, whether the first seat had 2 games or 200.
        """
        seats = self._seats(player, opponent)
        return None if min(each.num_games for each in seats) == 0 else sum(each.mean for each in seats) / 2

    def played_mean(self, player: str, opponent: str) -> float | None:
        """What `player` earns a game in the seats that it has played: `mean`, or that of the one seat; None without a game.

        For draws of opponents, not for comparisons: it leaves in what one seat is worth.

        **Example** 1 as first and no game as second: 1.
        """
        played = [each.mean for each in self._seats(player, opponent) if each.num_games]
        return sum(played) / len(played) if played else None

    def interval(self, player: str, opponent: str) -> tuple[float, float]:
        """The 95% interval of `mean` by the normal distribution; infinite below two games a seat.

        Games of a problem share their seed, which makes the true interval narrower where the luck of the deal cancels.
        """
        mean = self.mean(player, opponent)
        half = _Z_95 * sqrt(sum(each.variance_of_mean for each in self._seats(player, opponent))) / 2
        return (-inf, inf) if mean is None or half == inf else (mean - half, mean + half)

    def advantage(self, player: str, opponent: str) -> float | None:
        """How much more `player` earns than `opponent` in their games, halved: the mean itself in a zero-sum game."""
        own, other = self.mean(player, opponent), self.mean(opponent, player)
        return None if own is None or other is None else (own - other) / 2

    def _seats(self, player: str, opponent: str) -> tuple[Tally, Tally]:
        unplayed = Tally()
        return (
            self.first.get(player, {}).get(opponent, unplayed),
            self.second.get(player, {}).get(opponent, unplayed),
        )


def games_by_pair(players_A: Sequence[str], returns_A: Sequence[float], *, order: int) -> tuple[PlayedGame, ...]:
    """A game of any number of players as one game of each pair, the earlier seat first. `order` is its place in the run.

    **Example** a, b, c earn 1, 2, 3 in the second game (order 1): a-b 1, 2; a-c 1, 3; b-c 2, 3, at the places 3, 4, 5.
    """
    pairs = list(combinations(zip(players_A, returns_A, strict=True), 2))
    return tuple(
        PlayedGame(
            order=order * len(pairs) + place, first=one, second=other, first_return=earned, second_return=other_earned
        )
        for place, ((one, earned), (other, other_earned)) in enumerate(pairs)
    )


def swap_matches(one: str, other: str, *, problems: Sequence[int], seed: int) -> tuple[Match, ...]:
    """Two matches a problem, with swapped seats and one seed, in the order of the problems.

    The seed depends on `seed` and the problem alone, so that every pair of players meets the same deals.

    **Example** problems (7, 9) of a and b: a-b and b-a on 7, a-b and b-a on 9.
    """
    return tuple(
        Match(problem=problem, first=first, second=second, seed=seed_for(seed, "match", problem))
        for problem in problems
        for first, second in ((one, other), (other, one))
    )


def in_order(items: Sequence[Item]) -> list[Item]:
    """The items by `order`, on which sums of floating-point numbers depend. Raises ConfigurationError for two of one place.

    **Example** places (2, 0, 1): 0, 1, 2.
    """
    ordered = sorted(items, key=lambda item: item.order)
    for one, other in pairwise(ordered):
        if one.order == other.order:
            raise ConfigurationError(f"order {one.order}: two results of one place; number them over the whole run")
    return ordered

"""The payoff matrix: what each player earned against each other one, by seat.

Games favour a seat (the first one of Kuhn poker loses 1/18 a game), so that every comparison swaps sides: each problem
is played twice with one seed, and the means of both seats count half each, however many games either has. The matrix is
a value: JSON, folded in the order of the problems, equal to the bit after a resume. In a game of more than two, a seat is
the earlier or the later one of a pair, and a player's return counts beside each other player.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import isfinite
from typing import Protocol, TypeVar

from components.errors import ConfigurationError


class Ordered(Protocol):
    """What has a place in a run."""

    @property
    def order(self) -> int:
        """The place among all of a run, counted over its steps."""
        ...


Item = TypeVar("Item", bound=Ordered)


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

    def compute_played_mean(self, player: str, opponent: str) -> float | None:
        """What `player` earns a game in the seats that it has played, each counting half; None without a game.

        For draws of opponents, not for comparisons: where one seat was played alone, it leaves in what that is worth.

        **Example** 1 as first and -.4 as second: .3, whether the first seat had 2 games or 200; 1 as first and no game as
        second: 1.
        """
        played = [each.mean for each in self._seats(player, opponent) if each.num_games]
        return sum(played) / len(played) if played else None

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


def in_order(items: Sequence[Item]) -> list[Item]:
    """The items by `order`, on which sums of floating-point numbers depend. Raises ConfigurationError for two of one place.

    **Example** places (2, 0, 1): 0, 1, 2.
    """
    ordered = sorted(items, key=lambda item: item.order)
    for one, other in pairwise(ordered):
        if one.order == other.order:
            raise ConfigurationError(f"order {one.order}: two results of one place; number them over the whole run")
    return ordered

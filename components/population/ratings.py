"""Ratings: one number a player, by what it earns, or by wins where there is nothing else.

Win and loss order players wrongly where payoffs are graded: many pots of one chip won, fewer pots of two lost. In Kuhn
poker there are two policies of which one wins 7 of 12 games, sides swapped, and loses 1/4 chip a game (a test has
them), and in self-play an early checkpoint won 53% of its games against a later one and lost .175 a game. Every rating
by wins puts the loser first. `payoff_ratings` looks at what was earned.

Elo and Bradley-Terry are for games of win, draw and loss; Elo depends on the order of games (some 30 points), so it is
folded in the order of problems, while Bradley-Terry is a fit to counts and has no order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import fsum, log

import numpy as np
from numpy.typing import NDArray

from components.errors import ConfigurationError
from components.population.payoffs import PayoffMatrix

Floats = NDArray[np.float64]
Wins = Mapping[tuple[str, str], float]
"""(winner, loser) -> games; a draw counts half for both."""

_POINTS = 400 / log(10)
"""Elo's points for a factor e in the odds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayoffRatings:
    """`ratings` in units of the payoff, with mean 0. `cyclic_share` is the part of all advantages that no rating can explain.

    0 for payoffs that are differences of ratings, 1 for rock, paper, scissors: above a half, show the matrix and not
    the ratings.
    """

    ratings: Mapping[str, float]
    cyclic_share: float


def payoff_ratings(payoffs: PayoffMatrix) -> PayoffRatings:
    """The ratings whose differences are nearest to the advantages in a payoff matrix, over all pairs that have met.

    **Example** advantages a over b .3, a over c .5, b over c .2: ratings .267, -.033, -.233, cyclic share 0.
    """
    known = {(one, other): payoffs.advantage(one, other) for one, other in combinations(payoffs.players(), 2)}
    met = {pair: value for pair, value in known.items() if value is not None}
    return ratings_from_advantages(met, payoffs.players())


def ratings_from_advantages(advantages: Mapping[tuple[str, str], float], players: Sequence[str]) -> PayoffRatings:
    """The ratings r with `r_i - r_j` nearest to the advantage of i over j, by least squares; each pair is given once.

    If all have met all, r is each player's mean advantage over everybody, itself included. Source: Jiang, Lim, Yao and
    Ye, "Statistical ranking and combinatorial Hodge theory", Math. Program. 127 (2011), the gradient component; every
    pair counts one. Raises ConfigurationError if players fall into groups that have not met.

    **Example** exact advantages (`exploitability.exact_advantage`) a over b .3, b over c .2: ratings .267, -.033,
    -.233.
    """
    if not {name for pair in advantages for name in pair} <= set(players) or any(
        (other, one) in advantages for one, other in advantages
    ):
        raise ConfigurationError(f"advantages of {sorted(advantages)}: give each pair of {tuple(players)} once")
    _check_connected(players, {pair for one, other in advantages for pair in ((one, other), (other, one))})
    index = {name: i for i, name in enumerate(players)}
    rows, values = np.zeros((len(advantages), len(players))), np.array(list(advantages.values()))
    for row, (one, other) in enumerate(advantages):
        rows[row, index[one]], rows[row, index[other]] = 1.0, -1.0
    ratings = np.linalg.lstsq(rows, values)[0] if advantages else np.zeros(len(players))
    whole = float((values**2).sum())
    missing = float(((values - rows @ ratings) ** 2).sum())
    return PayoffRatings(
        ratings={name: float(rating) for name, rating in zip(players, ratings, strict=True)},
        cyclic_share=missing / whole if whole else 0.0,
    )


def expected_score(own: float, other: float) -> float:
    """The chance of `own` against `other` in Elo points, 0 to 1: `1 / (1 + 10 ** ((other - own) / 400))`.

    **Example** 1000 against 1000: .5; 1400 against 1000: 10/11.
    """
    return float(1 / (1 + 10 ** ((other - own) / 400)))


def elo_ratings(
    games: Sequence[tuple[str, str, float]], *, k: float = 16.0, start: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The Elo rating of each player after games (one, other, score of one), in the order given; new players start at 1000.

    A score is 1, .5 or 0. Each game moves both by `k (score - expected score)`, so that the sum stays. Give the games
    in the order of problems: the ratings depend on it. Continuing from `start` equals one pass over all games.

    **Example** a beats b at 1000 each: 1008 and 992.
    """
    ratings = dict(start or {})
    for one, other, score in games:
        if score not in (0.0, 0.5, 1.0) or one == other:
            raise ConfigurationError(f"score {score} of {one!r} against {other!r}: use 1, 0.5 or 0, and two players")
        before_one, before_other = ratings.get(one, 1000.0), ratings.get(other, 1000.0)
        change = k * (score - expected_score(before_one, before_other))
        ratings[one], ratings[other] = before_one + change, before_other - change
    return ratings


def win_counts(games: Sequence[tuple[str, str, float]]) -> dict[tuple[str, str], float]:
    """(winner, loser) -> games, a draw as a half for both, from games (one, other, score of one).

    **Example** (a, b, 1), (a, b, .5): a over b 1.5, b over a .5.
    """
    counts: dict[tuple[str, str], float] = {}
    for one, other, score in games:
        counts[one, other] = counts.get((one, other), 0.0) + score
        counts[other, one] = counts.get((other, one), 0.0) + 1 - score
    return counts


def bradley_terry_ratings(wins: Wins, *, prior_draws: float = 0.0) -> dict[str, float]:
    """The ratings of highest likelihood, in Elo points with mean 1000: player i beats j with odds `10 ** ((r_i - r_j) / 400)`.

    The fit is unique if everybody has beaten everybody by some chain of wins (Ford, 1957); otherwise some rating would
    be infinite, and ConfigurationError asks for `prior_draws`, which adds that many draws to every pair that has met.

    **Example** a beats b 3 times of 4: a lead of 400 log10 3 = 190.8 points.
    """
    if prior_draws < 0:
        raise ConfigurationError(f"prior_draws {prior_draws}: use 0 or more")
    players = tuple(sorted({name for pair in wins for name in pair}))
    index = {name: i for i, name in enumerate(players)}
    wins_N_N = np.zeros((len(players), len(players)))
    for (one, other), num in wins.items():
        if num < 0 or one == other:
            raise ConfigurationError(f"wins {num} of {one!r} over {other!r}: use counts of 0 or more, and two players")
        wins_N_N[index[one], index[other]] += num
    wins_N_N += prior_draws / 2 * ((wins_N_N + wins_N_N.T) > 0)
    _check_connected(players, {(players[i], players[j]) for i, j in zip(*np.nonzero(wins_N_N), strict=True)})
    strengths = _most_likely(wins_N_N)
    return {name: 1000 + _POINTS * float(strengths[i]) for name, i in index.items()}


def _most_likely(wins_N_N: Floats) -> Floats:
    """Strengths with mean 0, by Newton's method with halved steps; the log-likelihood is concave."""
    games_N_N, won_N = wins_N_N + wins_N_N.T, wins_N_N.sum(1)

    def chances(strengths: Floats) -> Floats:
        return np.asarray((1 + np.tanh((strengths[:, None] - strengths[None, :]) / 2)) / 2)

    def likelihood(strengths: Floats) -> float:
        return -fsum((wins_N_N * np.logaddexp(0, strengths[None, :] - strengths[:, None])).ravel())

    strengths = np.zeros(len(won_N))
    for _ in range(100):
        chances_N_N = chances(strengths)
        gradient = won_N - (games_N_N * chances_N_N).sum(1)
        if np.abs(gradient).max(initial=0.0) <= 1e-10 * max(1.0, games_N_N.max(initial=0.0)):
            return strengths
        information = games_N_N * chances_N_N * (1 - chances_N_N)
        step = np.linalg.pinv(np.diag(information.sum(1)) - information, hermitian=True) @ gradient
        strengths = _uphill(likelihood, strengths, step - step.mean())
    raise ConfigurationError("wins: no convergence in 100 steps; add prior_draws")


def _uphill(likelihood: Callable[[Floats], float], start: Floats, step: Floats) -> Floats:
    """`start + step`, the step halved until the likelihood does not fall."""
    known = likelihood(start)
    for _ in range(40):
        if likelihood(start + step) >= known - 1e-12 * abs(known):
            break
        step = step / 2
    return start + step


def _check_connected(players: Sequence[str], better: set[tuple[str, str]]) -> None:
    """Raise ConfigurationError unless each player reaches each other one along `better`."""
    for edges in (better, {(other, one) for one, other in better}):
        reached = set(players[:1])
        while more := {other for one, other in edges if one in reached} - reached:
            reached |= more
        if missing := sorted(set(players) - reached):
            raise ConfigurationError(
                f"players {missing}: no chain of games or wins joins them with {players[0]!r} both ways;"
                " let them meet, or add prior_draws"
            )

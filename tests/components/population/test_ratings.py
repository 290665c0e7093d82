"""Ratings: closed forms, an independent optimizer, and a game in which wins and payoffs disagree."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from components.errors import ConfigurationError
from components.population.exploitability import exact_advantage, information_sets
from components.population.kuhn_poker import KuhnPoker, KuhnState, equilibrium
from components.population.payoffs import PayoffMatrix, PlayedGame
from components.population.ratings import (
    bradley_terry_ratings,
    elo_ratings,
    expected_score,
    payoff_ratings,
    ratings_from_advantages,
    win_counts,
)

LOG3 = 400 * float(np.log10(3))


def matrix(advantages: dict[tuple[str, str], float], first_edge: float = 0.0) -> PayoffMatrix:
    """Zero-sum games in both seats, of which the first earns an edge."""
    games = [
        PlayedGame(order=i, first=one, second=other, first_return=value + first_edge, second_return=-value - first_edge)
        for i, (one, other, value) in enumerate(
            each for (a, b), value in advantages.items() for each in ((a, b, value), (b, a, -value))
        )
    ]
    return PayoffMatrix().after(games)


def test_where_wins_and_payoffs_disagree_payoffs_are_right() -> None:
    """`often` wins 53 of 100 games by one chip, and loses 47 by two: it loses .41 a game."""
    returns = [1.0] * 53 + [-2.0] * 47
    games = [
        PlayedGame(
            order=2 * i + seat, first=first, second=second, first_return=sign * value, second_return=-sign * value
        )
        for i, value in enumerate(returns)
        for seat, first, second, sign in ((0, "often", "rich", 1.0), (1, "rich", "often", -1.0))
    ]
    by_payoff = payoff_ratings(PayoffMatrix().after(games)).ratings
    assert by_payoff == pytest.approx({"often": -0.205, "rich": 0.205})
    scores = [("often", "rich", float(value > 0)) for value in returns]
    for by_wins in (elo_ratings(scores[::-1]), bradley_terry_ratings(win_counts(scores))):
        assert by_wins["often"] > by_wins["rich"], "a rating by wins puts the loser first"


class WinsOfKuhn(KuhnPoker):
    """Kuhn poker for one chip, whatever was in the pot."""

    def payoff(self, state: KuhnState) -> float:
        return 1.0 if super().payoff(state) > 0 else -1.0


def test_kuhn_poker_itself_has_a_loser_that_wins_more_often() -> None:
    """Exactly, sides swapped. `bluffs` bets J and passes the rest, and calls with all but K as second player."""

    def betting(*names: str) -> dict[str, dict[str, float]]:
        sets = information_sets(KuhnPoker())
        return {name: {"p": float(name not in names), "b": float(name in names)} for name in sets}

    bluffs = betting("J", "Jb", "Jp", "Jpb", "Kpb", "Qb", "Qpb")
    values = betting("Jb", "Jpb", "K", "Kb", "Kp", "Kpb", "Qpb")
    assert (exact_advantage(WinsOfKuhn(), bluffs, values) + 1) / 2 == pytest.approx(7 / 12)
    lost = exact_advantage(KuhnPoker(), bluffs, values)
    assert lost == pytest.approx(-1 / 4)
    third = exact_advantage(KuhnPoker(), equilibrium(0.1), values)
    best = exact_advantage(KuhnPoker(), equilibrium(0.1), bluffs)
    found = ratings_from_advantages(
        {("bluffs", "values"): lost, ("best", "values"): third, ("best", "bluffs"): best}, ["best", "bluffs", "values"]
    )
    assert sorted(found.ratings, key=found.ratings.__getitem__) == ["bluffs", "values", "best"]


@given(st.lists(st.integers(-20, 20), min_size=2, max_size=5), st.floats(-3, 3))
def test_payoffs_that_are_differences_give_back_the_ratings(strengths: list[int], edge: float) -> None:
    names = "abcde"[: len(strengths)]
    by_name = dict(zip(names, strengths, strict=True))
    found = payoff_ratings(matrix({(a, b): by_name[a] - by_name[b] for a, b in combinations(names, 2)}, edge))
    assert found.ratings == pytest.approx({n: s - np.mean(strengths) for n, s in by_name.items()}, abs=1e-9)
    assert found.cyclic_share == pytest.approx(0, abs=1e-9)


@given(st.lists(st.floats(-2, 2), min_size=6, max_size=6))
def test_if_all_have_met_the_rating_is_the_mean_advantage(values: list[float]) -> None:
    advantages = dict(zip(combinations("abcd", 2), values, strict=True))
    both_ways = {**advantages, **{(b, a): -value for (a, b), value in advantages.items()}}
    wanted = {name: sum(value for (own, _), value in both_ways.items() if own == name) / 4 for name in "abcd"}
    found = payoff_ratings(matrix(advantages))
    assert found.ratings == pytest.approx(wanted, abs=1e-9)
    assert -1e-9 <= found.cyclic_share <= 1 + 1e-9


def test_rock_paper_scissors_is_all_cycle() -> None:
    found = payoff_ratings(matrix({("paper", "rock"): 1.0, ("rock", "scissors"): 1.0, ("scissors", "paper"): 1.0}))
    assert found.ratings == pytest.approx({"paper": 0.0, "rock": 0.0, "scissors": 0.0}, abs=1e-9)
    assert found.cyclic_share == pytest.approx(1)


def test_players_that_never_met_are_joined_by_others_or_refused() -> None:
    assert payoff_ratings(matrix({("a", "b"): 1.0, ("b", "c"): 1.0})).ratings == pytest.approx(
        {"a": 1, "b": 0, "c": -1}
    )
    with pytest.raises(ConfigurationError, match=r"players \['c', 'd'\]"):
        payoff_ratings(matrix({("a", "b"): 1.0, ("c", "d"): 1.0}))
    assert payoff_ratings(PayoffMatrix()).ratings == {}


def test_bradley_terry_of_two_is_the_log_of_the_odds() -> None:
    assert bradley_terry_ratings({("a", "b"): 3, ("b", "a"): 1}) == pytest.approx(
        {"a": 1000 + LOG3 / 2, "b": 1000 - LOG3 / 2}
    )
    assert bradley_terry_ratings({("a", "b"): 5, ("b", "a"): 5, ("a", "c"): 0, ("c", "b"): 1, ("b", "c"): 1})[
        "c"
    ] == pytest.approx(1000)
    assert bradley_terry_ratings({("a", "b"): 5, ("b", "a"): 5}) == pytest.approx({"a": 1000, "b": 1000})
    one_sided = bradley_terry_ratings({("a", "b"): 2}, prior_draws=2.0)  # 3 to 1
    assert one_sided == pytest.approx({"a": 1000 + LOG3 / 2, "b": 1000 - LOG3 / 2})


def test_bradley_terry_finds_the_strengths_behind_exact_counts() -> None:
    strengths = {"a": 1200.0, "b": 1000.0, "c": 950.0, "d": 850.0}
    wins = {
        (one, other): 100 * expected_score(own, against)
        for one, own in strengths.items()
        for other, against in strengths.items()
        if one != other
    }
    assert bradley_terry_ratings(wins) == pytest.approx(strengths, abs=1e-6)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 30), min_size=12, max_size=12))
def test_bradley_terry_is_as_likely_as_what_scipy_finds(counts: list[int]) -> None:
    pairs = [(one, other) for one in "abcd" for other in "abcd" if one != other]
    wins = dict(zip(pairs, counts, strict=True))

    def loss(strengths: Any) -> float:
        by_name = dict(zip("abcd", strengths, strict=True))
        return float(sum(num * np.log1p(np.exp(by_name[b] - by_name[a])) for (a, b), num in wins.items()))

    found = bradley_terry_ratings(wins)
    ours = loss([(found[name] - 1000) * np.log(10) / 400 for name in "abcd"])
    assert ours <= minimize(loss, np.zeros(4)).fun + 1e-6
    assert sum(found.values()) == pytest.approx(4000)


@given(st.lists(st.sampled_from([0.5, 1, 1000, 10**7]), min_size=12, max_size=12))
def test_bradley_terry_expects_as_many_wins_as_there_were_however_lopsided(counts: list[float]) -> None:
    pairs = [(one, other) for one in "abcd" for other in "abcd" if one != other]
    wins = dict(zip(pairs, counts, strict=True))
    found = bradley_terry_ratings(wins)
    for one in "abcd":
        others = [other for other in "abcd" if other != one]
        expected = sum((wins[one, b] + wins[b, one]) * expected_score(found[one], found[b]) for b in others)
        assert expected == pytest.approx(sum(wins[one, b] for b in others), abs=1e-8 * max(counts) + 1e-9)


@pytest.mark.parametrize("num", [1, 10**6])
def test_lopsided_chains_converge(num: int) -> None:
    chain = {("a", "b"): num, ("b", "a"): 1, ("b", "c"): num, ("c", "b"): 1, ("c", "d"): num, ("d", "c"): 1}
    found = bradley_terry_ratings(chain)
    assert found["a"] - found["d"] == pytest.approx(3 * 400 * np.log10(num), abs=1e-3)


def test_elo_moves_by_surprise_and_keeps_the_sum() -> None:
    assert elo_ratings([("a", "b", 1.0)]) == {"a": 1008.0, "b": 992.0}
    assert elo_ratings([("a", "b", 0.5)]) == {"a": 1000.0, "b": 1000.0}
    assert expected_score(1400, 1000) == pytest.approx(10 / 11)


@given(
    st.lists(
        st.tuples(st.sampled_from([("a", "b"), ("b", "c"), ("c", "a")]), st.sampled_from([0, 0.5, 1])), max_size=20
    ),
    st.integers(0, 20),
)
def test_elo_continues_to_the_bit(drawn: list[tuple[tuple[str, str], float]], kill: int) -> None:
    games = [(one, other, score) for (one, other), score in drawn]
    assert elo_ratings(games[kill:], start=elo_ratings(games[:kill])) == elo_ratings(games)
    found = elo_ratings(games)
    assert sum(found.values()) == pytest.approx(1000 * len(found))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: bradley_terry_ratings({("a", "b"): 2}), "add prior_draws"),
        (lambda: bradley_terry_ratings({("a", "b"): -1}), "wins -1"),
        (lambda: bradley_terry_ratings({("a", "b"): 1}, prior_draws=-1.0), "prior_draws -1"),
        (lambda: ratings_from_advantages({("a", "b"): 1.0, ("b", "a"): -1.0}, "ab"), "once"),
        (lambda: ratings_from_advantages({("a", "b"): 1.0}, "ac"), "once"),
        (lambda: elo_ratings([("a", "b", 0.7)]), r"score 0\.7"),
        (lambda: elo_ratings([("a", "a", 1.0)]), "two players"),
    ],
)
def test_what_cannot_be_rated_is_refused(call: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        call()

"""Payoffs by seat, and opponents drawn from them: closed forms, bit-exact state, frequencies of fixed draws."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.config import OpponentConfig
from components.errors import ConfigurationError
from components.population.payoffs import PayoffMatrix, PlayedGame, Tally, games_by_pair
from components.population.seating import Opponent, OpponentPool, draw_opponent, learner_chance, opponent_shares

GAMES = st.lists(
    st.tuples(st.sampled_from(["ab", "ba", "bc", "cb", "ac"]), st.floats(-2, 2), st.floats(-2, 2)), max_size=25
).map(
    lambda drawn: [
        PlayedGame(order=i, first=seats[0], second=seats[1], first_return=one, second_return=other)
        for i, (seats, one, other) in enumerate(drawn)
    ]
)


def zero_sum(first: str, second: str, *returns: float) -> list[PlayedGame]:
    return [
        PlayedGame(order=i, first=first, second=second, first_return=value, second_return=-value)
        for i, value in enumerate(returns)
    ]


def test_a_seats_edge_cancels_however_often_each_seat_was_played() -> None:
    """Equal players in a game that gives its first seat .5."""
    payoffs = PayoffMatrix().after(zero_sum("a", "b", *[0.5] * 20)).after(zero_sum("b", "a", 0.5))
    assert payoffs.compute_played_mean("a", "b") == payoffs.compute_played_mean("b", "a") == 0.0
    assert payoffs.num_games("a", "b") == 21


@given(GAMES)
def test_means_are_numpys(games: list[PlayedGame]) -> None:
    payoffs = PayoffMatrix().after(games)
    first = [each.first_return for each in games if (each.first, each.second) == ("a", "b")]
    second = [each.second_return for each in games if (each.first, each.second) == ("b", "a")]
    if first and second:
        assert payoffs.compute_played_mean("a", "b") == pytest.approx((np.mean(first) + np.mean(second)) / 2)


@given(GAMES, st.integers(0, 25), st.randoms(use_true_random=False))
def test_the_matrix_is_equal_to_the_bit_in_parts_and_in_any_order(games: list[PlayedGame], kill: int, rng: Any) -> None:
    early, late = games[:kill], games[kill:]
    rng.shuffle(late)
    assert PayoffMatrix().after(early).after(late) == PayoffMatrix().after(games)


def pool(*names: str, capacity: int = 16) -> OpponentPool:
    made = OpponentPool(capacity=capacity)
    for step, name in enumerate(names):
        made = made.with_opponent(Opponent(name=name, step=10 * step, checkpoint=f"sha-{name}"))
    return made


def against(**means: float) -> PayoffMatrix:
    """A million games of learner `me` in each seat: the prior no longer matters."""
    row = {name: Tally(num_games=10**6, mean=mean) for name, mean in means.items()}
    return PayoffMatrix(first={"me": row}, second={"me": row})


def test_the_three_priorities_by_hand() -> None:
    payoffs, both = against(weak=0.6, strong=-0.2), pool("weak", "strong")  # chances .8 and .4
    for priority, weights in (("hard", (0.04, 0.36)), ("variance", (0.16, 0.24)), ("even", (1.0, 1.0))):
        shares = opponent_shares(both, payoffs, "me", OpponentConfig(priority=priority))  # type: ignore[arg-type]
        assert list(shares.values()) == pytest.approx([each / sum(weights) for each in weights], abs=1e-5)
        assert list(shares) == ["weak", "strong"]


def test_a_new_opponent_is_even_and_a_beaten_one_is_never_forgotten() -> None:
    config = OpponentConfig()
    payoffs = PayoffMatrix().after(zero_sum("me", "old", 1.0, 1.0, 1.0)).after(zero_sum("old", "me", -1.0, -1.0, -1.0))
    assert learner_chance(payoffs, "me", "old", config) == pytest.approx(0.875)
    assert learner_chance(payoffs, "old", "me", config) == pytest.approx(0.125)
    assert learner_chance(payoffs, "me", "new", config) == 0.5
    assert 0 < opponent_shares(pool("old", "new"), payoffs, "me", config)["old"] < 0.1


def test_draws_are_by_share_and_by_seed() -> None:
    shares = {"a": 0.1, "b": 0.0, "c": 0.9}
    draws = [draw_opponent(shares, 5, "step", number) for number in range(2000)]
    assert draws == [draw_opponent(shares, 5, "step", number) for number in range(2000)]
    assert draws != [draw_opponent(shares, 6, "step", number) for number in range(2000)]
    counts = Counter(draws)
    assert counts["b"] == 0
    assert counts["a"] == pytest.approx(200, abs=54)  # four deviations; the draws are fixed
    assert draw_opponent({"a": 1e-17, "b": 0.0}, 0, 1) == "a", "shares that add to less than the drawn point"


def test_a_full_pool_keeps_the_start_and_the_youngest() -> None:
    full = pool("s0", "s10", "s20", "s30", capacity=3)
    assert [each.name for each in full.opponents] == ["s0", "s20", "s30"]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: PayoffMatrix().after(zero_sum("a", "b", float("nan"))), "return nan of 'a' in game 0"),
        (lambda: PayoffMatrix().after(zero_sum("a", "b", 1.0) * 2), "order 0: two results of one place"),
    ],
)
def test_what_cannot_be_meant_is_refused(call: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        call()


def test_a_game_of_three_is_one_of_each_pair() -> None:
    assert games_by_pair(("a", "b"), (1.0, 2.0), order=4) == (
        PlayedGame(order=4, first="a", second="b", first_return=1.0, second_return=2.0),
    )
    payoffs = PayoffMatrix()
    for order, (players, earned) in enumerate([("abc", (1.0, 2.0, 3.0)), ("cba", (5.0, 6.0, 7.0))]):
        payoffs = payoffs.after(games_by_pair(tuple(players), earned, order=order))
    assert payoffs.compute_played_mean("a", "b") == payoffs.compute_played_mean("a", "c") == (1.0 + 7.0) / 2
    assert payoffs.compute_played_mean("c", "b") == (3.0 + 5.0) / 2
    assert payoffs.num_games("b", "c") == 2

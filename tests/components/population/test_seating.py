"""Who plays whom: seats in turn, past selves drawn by the state, leaders by their returns."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.config import OpponentConfig, PopulationMethod
from components.population.payoffs import PayoffMatrix, PlayedGame, games_by_pair
from components.population.seating import (
    OpponentPool,
    find_homes,
    member_and_step,
    past_self,
    pools_after,
    range_warning,
    step_seatings,
)

HOMES = {"ann": "first", "bob": "second"}
VERSIONS = {"first": (0, "w1"), "second": (0, "w2")}


def seatings(
    step: int = 0, num_shards: int = 4, pools: dict[str, OpponentPool] | None = None, **settings: object
) -> tuple:
    payoffs = settings.pop("payoffs", PayoffMatrix())
    method = PopulationMethod.model_validate(settings)
    return step_seatings(HOMES, pools or {}, payoffs, method=method, step=step, num_shards=num_shards, seed=0)


def test_members_stay_in_their_seats_unless_they_rotate() -> None:
    assert seatings() == (HOMES,) * 4
    swapped = {"ann": "second", "bob": "first"}
    assert seatings(rotates_seats=True) == (HOMES, swapped, HOMES, swapped)
    assert seatings(step=1, rotates_seats=True) == (swapped, HOMES, swapped, HOMES)


@given(st.integers(0, 5), st.integers(1, 3))
def test_each_member_learns_each_role_equally_often(step: int, rounds: int) -> None:
    found = seatings(step=step, num_shards=2 * rounds, rotates_seats=True)
    counts = Counter((agent, member) for each in found for agent, member in each.items())
    assert set(counts.values()) == {rounds}


@pytest.mark.parametrize("rotates_seats", [False, True])
@pytest.mark.parametrize("num_past", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_each_member_learns_against_past_selves_equally_often(size: int, num_past: int, rotates_seats: bool) -> None:
    homes = {f"agent_{number}": f"m{number}" for number in range(size)}
    pools = pools_after({}, dict.fromkeys(homes.values(), (0, "w")), config=OpponentConfig(), step=0)
    method = PopulationMethod.model_validate({"rotates_seats": rotates_seats, "opponents": {"share": 0.5}})
    learned: Counter[tuple[str, str]] = Counter()
    for step in range(size**2):
        found = step_seatings(homes, pools, PayoffMatrix(), method=method, step=step, num_shards=2 * num_past, seed=0)
        games = [seating for seating in found if any("@" in player for player in seating.values())]
        assert len(games) == num_past
        learned.update((agent, player) for game in games for agent, player in game.items() if "@" not in player)
    pairs = {(agent, member) for agent in homes for member in homes.values()} if rotates_seats else set(homes.items())
    assert learned == dict.fromkeys(pairs, num_past * size**2 // len(pairs))


def test_one_learner_meets_past_selves_of_the_others_in_its_share_of_the_shards() -> None:
    pools = pools_after({}, VERSIONS, config=OpponentConfig(), step=0)
    found = seatings(pools=pools, opponents=OpponentConfig(share=0.5))
    assert found == (
        {"ann": "first", "bob": "second@0"},
        {"ann": "first@0", "bob": "second"},
        HOMES,
        HOMES,
    )
    second = seatings(step=1, num_shards=2, pools=pools, opponents=OpponentConfig(share=0.5))[0]
    assert second == {"ann": "first@0", "bob": "second"}, "the second of these games"
    assert seatings(opponents=OpponentConfig(share=1.0)) == (HOMES,) * 4, "nobody has a past yet"


def test_those_who_beat_the_learner_are_drawn_more_often() -> None:
    pools = pools_after({}, VERSIONS, config=OpponentConfig(), step=0)
    pools = pools_after(pools, {"second": (10, "w3")}, config=OpponentConfig(), step=10)
    games = [
        PlayedGame(order=2 * n + seat, first=one, second=other, first_return=paid, second_return=-paid)
        for n in range(20)
        for seat, (one, other, paid) in enumerate(
            (("first", "second@0", 1.0), ("second@0", "first", -1.0))
            if n % 2
            else (("first", "second@10", -1.0), ("second@10", "first", 1.0))
        )
    ]
    payoffs = PayoffMatrix().after(games)
    drawn = Counter(
        seatings(step=2 * step, num_shards=1, pools=pools, payoffs=payoffs, opponents=OpponentConfig(share=1.0))[0][
            "bob"
        ]
        for step in range(200)
    )
    # Chances of the learner with 2 even games before 20: 21/22 and 1/22, squared from above.
    weak, strong = (1 - 21 / 22) ** 2, (1 - 1 / 22) ** 2
    assert drawn["second@10"] / 200 == pytest.approx(strong / (strong + weak), abs=0.03)


def test_a_learner_that_keeps_its_seat_meets_the_one_who_beats_it() -> None:
    """Twenty steps of two shards, in which second's start beats first and its later self loses to it."""
    pools = pools_after({}, VERSIONS, config=OpponentConfig(), step=0)
    pools = pools_after(pools, {"second": (10, "w3")}, config=OpponentConfig(), step=10)
    earned = {"second@0": -1.0, "second@10": 1.0}
    payoffs, drawn = PayoffMatrix(), []
    for step in range(20):
        for shard, seating in enumerate(seatings(step=step, num_shards=2, pools=pools, payoffs=payoffs, opponents={})):
            players = tuple(seating.values())
            paid = earned.get(players[1], 0.0)
            payoffs = payoffs.after(games_by_pair(players, (paid, -paid), order=2 * step + shard))
            drawn += [players[1]] if players[1] in earned else []
    assert drawn[-6:] == ["second@0"] * 6


def test_payoffs_outside_of_the_range_count_as_the_bound_and_are_named() -> None:
    pools = pools_after({}, VERSIONS, config=OpponentConfig(), step=0)
    payoffs = PayoffMatrix().after(games_by_pair(("first", "second@0"), (-1.7, 1.7), order=0))
    assert seatings(pools=pools, payoffs=payoffs, opponents={})[0]["bob"] == "second@0"
    warning = range_warning(payoffs, OpponentConfig()) or ""
    for part in ("first earns -1.7 a game beside second@0", "lowest_payoff -1", "highest_payoff 1"):
        assert part in warning
    assert range_warning(payoffs, OpponentConfig(lowest_payoff=-2, highest_payoff=2)) is None


def test_pools_grow_every_so_many_steps_by_those_who_have_learned() -> None:
    config = OpponentConfig(every=10, capacity=2)
    pools = pools_after({}, VERSIONS, config=config, step=0)
    assert pools_after(pools, {"first": (5, "w")}, config=config, step=5) == pools
    pools = pools_after(pools, {"first": (10, "w"), "second": (0, "w2")}, config=config, step=10)
    pools = pools_after(pools, {"first": (20, "w"), "second": (0, "w2")}, config=config, step=20)
    names = {member: [each.name for each in pool.opponents] for member, pool in pools.items()}
    assert names == {"first": ["first@0", "first@20"], "second": ["second@0"]}, (
        "the start stays, the second oldest goes"
    )


def test_the_best_member_takes_the_leading_seat_at_the_end_of_a_term() -> None:
    method, led_by_bob = (
        PopulationMethod.model_validate({"training_mode": {"type": "hierarchical", "leader_term": 3, "leader": leader}})
        for leader in (None, "bob")
    )
    returns = {"first": 0.2, "second": 0.5}
    led = {"ann": "second", "bob": "first"}
    assert [find_homes(HOMES, returns, method, step) for step in range(4)] == [HOMES, HOMES, HOMES, led]
    assert find_homes(led, returns, method, 6) == led
    assert find_homes(HOMES, {}, method, 3) == HOMES, "of equals the first"
    assert find_homes(HOMES, returns, led_by_bob, 3) == HOMES


@given(st.text(min_size=1), st.integers(0, 10**6))
def test_a_past_self_names_its_member_and_step(member: str, step: int) -> None:
    assert member_and_step(past_self(member, step)) == (member, step)
    assert member_and_step("first") == ("first", None)

"""Selection updates the best, by raw returns, and starves nobody."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.population.selective import Record, select_members

NAMES = ("a", "b", "c", "d", "e")


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=5), st.floats(0.01, 1))
def test_without_exploration_the_best_share_is_updated(returns: list[float], share: float) -> None:
    records = {name: Record(average_return=value) for name, value in zip(NAMES, returns, strict=False)}
    found = select_members(records, seed=0, round_number=0, share=share, exploration=0.0)
    assert len(found) == ceil(share * len(records)) >= 1
    worst_in = min(records[name].average_return or 0.0 for name in found)
    assert all((records[name].average_return or 0.0) <= worst_in for name in records.keys() - found.keys())


def test_ties_go_to_fewer_updates_then_to_the_first_name_and_new_members_come_first() -> None:
    records = {"a": Record(average_return=1.0, num_updates=3), "b": Record(average_return=1.0), "c": Record()}
    assert list(select_members(records, seed=0, round_number=0, share=0.3, exploration=0.0)) == ["c"]
    assert list(select_members(records, seed=0, round_number=0, share=0.6, exploration=0.0)) == ["b", "c"]


def test_the_worst_is_updated_every_fifth_round() -> None:
    records = {"a": Record(average_return=0.9), "b": Record(average_return=0.5), "c": Record(average_return=0.7)}
    rounds = []
    for number in range(12):
        found = select_members(records, seed=0, round_number=number, exploration=0.0)
        rounds.append(found.get("b"))
        records = {name: record.after_round(name in found) for name, record in records.items()}
    assert [number for number, reason in enumerate(rounds) if reason == "starved"] == [4, 9]
    assert set(rounds) == {None, "starved"}
    assert records["b"] == Record(average_return=0.5, num_updates=2, rounds_waiting=2)


def test_exploration_is_drawn_from_seed_and_round_at_its_rate() -> None:
    records = {name: Record(average_return=1.0 - number) for number, name in enumerate("abcd")}
    draws = [select_members(records, seed=3, round_number=number, exploration=0.2) for number in range(400)]
    assert draws == [select_members(records, seed=3, round_number=number, exploration=0.2) for number in range(400)]
    assert draws != [select_members(records, seed=4, round_number=number, exploration=0.2) for number in range(400)]
    num = sum(reason == "explored" for each in draws for reason in each.values())
    assert num == pytest.approx(160, abs=45)  # four deviations; the draws are fixed
    assert all(each["a"] == each["b"] == "best" for each in draws)


def test_the_average_starts_at_the_first_return() -> None:
    assert Record().after_return(1.0).average_return == 1.0
    assert Record(average_return=1.0).after_return(3.0).average_return == pytest.approx(1.2)

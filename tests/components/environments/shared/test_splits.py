"""Which split a row belongs to, and in which order the rows of a split are met."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.environments.shared.splits import divide_rows, shuffle_index, split_of, train_without_test


@given(num_rows=st.integers(1, 40), seed=st.integers(0, 5), epoch=st.integers(0, 10**9))
def test_an_epoch_meets_every_row_once(num_rows: int, seed: int, epoch: int) -> None:
    walk = [shuffle_index(epoch * num_rows + n, num_rows=num_rows, seed=seed, split="train") for n in range(num_rows)]
    assert sorted(walk) == list(range(num_rows))


def test_epochs_seeds_and_splits_have_orders_of_their_own() -> None:
    def walk(seed: int, split: str, epoch: int) -> list[int]:
        return [shuffle_index(epoch * 50 + n, num_rows=50, seed=seed, split=split) for n in range(50)]

    walks = [walk(0, "train", 0), walk(0, "train", 1), walk(1, "train", 0), walk(0, "test", 0)]
    assert len({tuple(one) for one in walks}) == 4
    assert walk(0, "train", 0) == walks[0]


def test_train_rows_that_are_test_rows_are_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "troupe.environments.data"):
        assert train_without_test(["a", "b", "a", "c", "d", "c"], ["c", "x", "c"]) == (0, 1, 4)
    assert caplog.messages == ["3 train problems, 2 dropped because the test split has them too"]


@given(train=st.lists(st.sampled_from("abcdefgh")), test=st.lists(st.sampled_from("abcdefgh")))
def test_what_is_kept_is_all_that_is_new(train: list[str], test: list[str]) -> None:
    ids = [train[position] for position in train_without_test(train, test)]
    assert set(ids) == set(train) - set(test)
    assert ids == list(dict.fromkeys(ids)) == [row for row in dict.fromkeys(train) if row not in test]


@given(rows=st.lists(st.text("abcdefgh", max_size=3)))
def test_one_table_is_divided_without_a_rest(rows: list[str]) -> None:
    sides = {split: [rows[position] for position in positions] for split, positions in divide_rows(rows).items()}
    assert sorted([*sides["train"], *sides["test"]]) == sorted(set(rows))
    assert all(split_of({"statement": row}) == split for split, side in sides.items() for row in side)

"""What a piece of work costs does not depend on the process that measures it, and what costs too much is found."""

import gc

import pytest

from tests.costs import assert_cheap, cost_of


def test_a_piece_does_not_pay_for_what_the_process_holds() -> None:
    held = [[number] for number in range(100_000)]

    def what_is_collected_is_little() -> None:
        num_walked = len(gc.get_objects())
        if num_walked >= len(held):
            raise ValueError(f"a collection walks through {num_walked} objects")

    assert not cost_of([("collected", what_is_collected_is_little)]).failed


def test_a_piece_above_its_bound_is_named() -> None:
    def dear() -> None:
        sum(range(6_000_000))

    assert_cheap([("little", lambda: None)], most_cpu_seconds=0.02)
    with pytest.raises(AssertionError, match="dearest='dear'"):
        assert_cheap([("little", lambda: None), ("dear", dear)], most_cpu_seconds=0.02)
    with pytest.raises(AssertionError, match="failed='refused: ValueError: no'"):
        assert_cheap([("refused", lambda: (_ for _ in ()).throw(ValueError("no")))])

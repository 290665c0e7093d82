"""The exact test against its definition by brute force."""

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.hybrid.patterns import Block, chance_of_at_least


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    population = draw(st.integers(0, 30))
    drawn, successes = draw(st.integers(0, population)), draw(st.integers(0, population))
    return Block(drawn=drawn, successes=successes, population=population)


def ways(block: Block, wanted: int) -> int:
    others = block.population - block.successes
    return sum(comb(block.successes, x) * comb(others, block.drawn - x) for x in range(wanted, block.drawn + 1))


@given(blocks(), blocks(), st.data())
def test_the_tail_is_that_of_the_sum_of_hypergeometric_draws(one: Block, other: Block, data: st.DataObject) -> None:
    wanted = data.draw(st.integers(0, one.drawn + other.drawn))
    exact = Fraction(
        sum((ways(one, x) - ways(one, x + 1)) * ways(other, max(0, wanted - x)) for x in range(one.drawn + 1)),
        comb(one.population, one.drawn) * comb(other.population, other.drawn),
    )
    assert chance_of_at_least(wanted, [one, other]) == pytest.approx(float(exact), rel=1e-9, abs=1e-15)


def test_the_tail_of_a_long_history_neither_overflows_nor_vanishes() -> None:
    half = Block(drawn=1, successes=1, population=2)
    assert chance_of_at_least(60, [half] * 60) == pytest.approx(0.5**60)
    assert 0 < chance_of_at_least(2_200, [half] * 4_000) < 1e-9
    assert chance_of_at_least(1, []) == 0.0
    assert chance_of_at_least(0, []) == 1.0

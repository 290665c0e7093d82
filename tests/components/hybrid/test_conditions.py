"""Conditions mean what Python means by them, and nothing else can be said."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.hybrid.conditions import read_condition
from components.hybrid.errors import ConditionRefused
from components.hybrid.game_facts import LARGEST

NAMES = ("x", "y", "hp")
operands = st.sampled_from(NAMES) | st.integers(-9, 9).map(str)
operators = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
comparisons = st.tuples(st.sampled_from(NAMES), operators, operands).map(" ".join)
chains = st.tuples(operands, operators, st.sampled_from(NAMES), operators, operands).map(" ".join)
expressions = st.recursive(
    comparisons | chains,
    lambda inner: st.tuples(inner, st.sampled_from([" and ", " or "]), inner).map(lambda parts: f"({''.join(parts)})"),
    max_leaves=6,
).filter(lambda text: len(text) <= 200)


@given(expressions, st.lists(st.tuples(*[st.integers(-10, 10)] * 3), min_size=1, max_size=5))
def test_a_condition_is_pythons_of_each_game(text: str, games: list[tuple[int, int, int]]) -> None:
    facts = {name: np.array(values) for name, values in zip(NAMES, zip(*games, strict=True), strict=True)}
    wanted = [eval(text, {}, dict(zip(NAMES, game, strict=True))) for game in games]
    assert read_condition(text, NAMES).holds(facts).tolist() == wanted


REFUSED = {
    "__import__('os').system('x')": "Call",
    "x.__class__ == 1": "Attribute",
    "x[0] > 1": "Subscript",
    "x ** 9 > 1": "BinOp",
    "not x > 1": "UnaryOp",
    "x > 1.5": "1.5",
    "x == 'a'": "'a'",
    "x == True": "True",
    "x > 99999999": "whole numbers up to",
    "x in (1, 2)": "compare by ==",
    "x is 1": "compare by ==",
    "x": "write `x > 0`",
    "1 < 2": "always the same",
    "x > 1 if y > 1 else hp > 1": "IfExp",
    "(lambda: 1)() > 0": "Call",
    "[x > 1 for x in y]": "ListComp",
    "(x := 1) > 0": "NamedExpr",
    "hpp > 1": "did you mean `hp`?",
    "reputation > 1": "use one of hp, x, y",
    "x >": "not a condition",
    "x > 1and y > 1": "not a condition",
    "x > 1\x00": "not a condition",
    "(" * 150 + "x > 1" + ")" * 40: "not a condition",
    "": "not a condition",
    "x > 1 or " * 30 + "x > 1": "use at most 200",
}


@pytest.mark.parametrize(("text", "named"), REFUSED.items(), ids=range(len(REFUSED)))
def test_everything_else_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(ConditionRefused) as caught:
        read_condition(text, NAMES)
    assert named in str(caught.value)


def test_deep_nesting_within_the_limit_is_read() -> None:
    assert read_condition("(" * 60 + "x > 1" + ")" * 60, NAMES).holds({"x": np.array([2, 0])}).tolist() == [True, False]


def test_every_fact_can_be_named() -> None:
    assert all(read_condition(f"{name} >= {largest}", LARGEST) for name, largest in LARGEST.items())

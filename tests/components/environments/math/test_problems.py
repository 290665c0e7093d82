"""Problems made by rule: arithmetic against Python itself, and every generator that is on the list."""

from random import Random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.environments.math.numbers import number
from components.environments.math.procedural import LEVELS, Generator, draw_expression, draw_question
from components.environments.math.verifier import verdict

LIBRARY = [name for name in get_args(Generator) if name != "arithmetic"]


@given(level=st.integers(0, 3), seed=st.integers(0, 10**6))
def test_an_expression_has_the_value_that_python_finds(level: int, seed: int) -> None:
    drawn = draw_expression(level, Random(seed))
    assert eval(drawn.text) == drawn.value
    assert len(drawn.text) <= LEVELS[level].max_characters
    assert sum(character in "+-*/%" for character in drawn.text.replace("//", "/")) == LEVELS[level].num_terms - 1


def test_level_0_is_short_and_flat() -> None:
    drawn = [draw_expression(0, Random(seed)).text for seed in range(500)]
    assert not any(set(text) & set("()/%") or text.count("*") > 1 for text in drawn)
    assert max(map(len, drawn)) == LEVELS[0].max_characters == 8
    assert {sign for text in drawn for sign in "+-*" if sign in text} == {*"+-*"}


def test_prose_says_what_the_rarer_operators_mean() -> None:
    statements = [draw_question("arithmetic", level=2, prose=True, rng=Random(seed)) for seed in range(50)]
    for question in statements:
        assert question is not None
        assert question["statement"].startswith(f"Compute {question['expression']}.")
        assert ("rounds down" in question["statement"]) == ("//" in question["expression"])


@pytest.mark.parametrize("generator", LIBRARY)
def test_a_generator_gives_ascii_statements_with_one_number_each(generator: Generator) -> None:
    drawn = [draw_question(generator, level=0, prose=False, rng=Random(seed)) for seed in range(8)]
    questions = [question for question in drawn if question is not None]
    assert len(questions) >= 6
    assert len({question["statement"] for question in questions}) >= 5
    for question in questions:
        assert question["statement"].isascii()
        assert number(question["answer"]) is not None
        assert verdict(question["answer"], question["answer"])
        assert not verdict(question["statement"], question["answer"])
    assert drawn[0] == draw_question(generator, level=0, prose=False, rng=Random(0))


def test_library_answers_agree_with_arithmetic_of_our_own() -> None:
    from math import gcd, lcm, prod
    from re import findall

    for generator, compute in (("gcd", gcd), ("lcm", lcm), ("products", lambda *numbers: prod(numbers))):
        for seed in range(5):
            question = draw_question(generator, level=0, prose=False, rng=Random(seed))  # type: ignore[arg-type]
            assert question is not None
            numbers = [int(digits) for digits in findall(r"\d+", question["statement"])]
            assert verdict(str(compute(*numbers)), question["answer"])

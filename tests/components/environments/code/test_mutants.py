"""Mutants are different, valid, repeatable and hardly ever endless."""

import ast

import pytest

from components.environments.code.mutants import mutants

PROGRAM = (
    "def f(x):\n    total = 0\n    for v in x:\n        if v > 3 and v % 2 == 0:\n            total += v * 2\n"
    "    return max(total, 1)\n"
)


def test_each_mutant_differs_from_the_program_and_from_the_others() -> None:
    made = mutants(PROGRAM, max_mutants=100)
    assert len(made) == len({*made}) >= 10
    assert ast.unparse(ast.parse(PROGRAM)) + "\n" not in made
    for mutant in made:
        ast.parse(mutant)


@pytest.mark.parametrize(
    "change",
    [
        *("v >= 3", "v > 4", "or v % 2", "v // 2 ==", "!= 0", "total -= v", "v + 2", "min(total"),
        *("if not (v > 3", "total = 1"),
    ],
)
def test_every_kind_of_change_is_made_once_at_a_time(change: str) -> None:
    original = ast.unparse(ast.parse(PROGRAM)).splitlines()
    having = [mutant for mutant in mutants(PROGRAM, max_mutants=100) if change in mutant]
    assert having
    for mutant in having:
        assert sum(a != b for a, b in zip(mutant.splitlines(), original, strict=True)) == 1


def test_the_choice_is_repeatable_and_bounded() -> None:
    few = mutants.__wrapped__(PROGRAM, max_mutants=4)
    assert len(few) == 4
    assert few == mutants.__wrapped__(PROGRAM, max_mutants=4) == mutants(PROGRAM, max_mutants=9)[:4]
    assert mutants(PROGRAM, max_mutants=0) == ()


def test_what_ends_a_while_loop_is_left_alone() -> None:
    program = "n = 9\nwhile n > 1:\n    n = n // 2\n    if n == 7:\n        n -= 1\n    print(n + 5)\n"
    made = mutants(program, max_mutants=100)
    for mutant in made:
        assert "while n > 1:\n    n = n // 2\n    if n == 7:\n        n -= 1\n" in mutant
    assert any("print(n - 5)" in mutant for mutant in made)


@pytest.mark.parametrize("program", ["def f(:", "x = '\x00'", "pass", "-" * 5000 + "1"])
def test_what_cannot_be_changed_has_no_mutants(program: str) -> None:
    assert mutants(program, max_mutants=4) == ()

"""Problems drawn by rule: our own arithmetic, and generators of the library reasoning-gym."""

import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Literal

from components.environments.math.numbers import number

Generator = Literal[
    "arithmetic",
    "basic_arithmetic",
    "chain_sum",
    "count_bits",
    "count_primes",
    "decimal_chain_sum",
    "dice",
    "gcd",
    "lcm",
    "leg_counting",
    "products",
    "simple_equations",
    "simple_geometry",
]
"""arithmetic is our own; the others are datasets of reasoning-gym whose answer is one number."""

_CHARACTERS = str.maketrans({"°": " degrees", "−": "-", "×": "*", "’": "'", "\u00a0": " "})


def draw_question(generator: Generator, *, level: int, prose: bool, rng: Random) -> Mapping[str, Any] | None:
    """A question as JSON: `statement`, `answer`, and for arithmetic `expression`; None if this draw gives none.

    `level` and `prose` apply to arithmetic alone: without prose its statement is the bare expression.
    """
    if generator == "arithmetic":
        drawn = draw_expression(level, rng)
        statement = _in_words(drawn.text) if prose else drawn.text
        return {"statement": statement, "answer": str(drawn.value), "expression": drawn.text}
    entry = _reasoning_gym().create_dataset(generator, seed=rng.getrandbits(31), size=1)[0]
    statement, answer = str(entry["question"]).translate(_CHARACTERS).strip(), str(entry["answer"]).strip()
    return {"statement": statement, "answer": answer} if statement.isascii() and number(answer) else None


def _in_words(expression: str) -> str:
    notes = {"//": "// divides and rounds down", "%": "% is the remainder with the sign of the divisor"}
    meaning = "; ".join(note for sign, note in notes.items() if sign in expression)
    return f"Compute {expression}." + (f" Here {meaning}." if meaning else "")


@cache
def _reasoning_gym() -> Any:
    with warnings.catch_warnings():  # one of its dependencies compiles with syntax warnings
        warnings.simplefilter("ignore")
        import reasoning_gym
    return reasoning_gym


NUM_LEVELS = 4
_MAX_MAGNITUDE = 10**12
_OPERATIONS: Mapping[str, tuple[int, Callable[[int, int], int]]] = {
    "+": (1, operator.add),
    "-": (1, operator.sub),
    "*": (2, operator.mul),
    "//": (2, operator.floordiv),
    "%": (2, operator.mod),
}
"""Operator -> precedence and function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The shape of the expressions of a level. Level 0 has no brackets and at most one product."""

    num_terms: int
    max_number: int
    operators: tuple[str, ...]

    @property
    def max_characters(self) -> int:
        """A bound of the length of an expression: all terms and operators, and brackets around every inner node."""
        num_operators = self.num_terms - 1
        num_brackets = 0 if self.num_terms < 4 else 2 * (num_operators - 1)
        return self.num_terms * len(str(self.max_number)) + num_operators * max(map(len, self.operators)) + num_brackets


LEVELS = (
    Level(num_terms=3, max_number=20, operators=("+", "-", "*")),
    Level(num_terms=4, max_number=99, operators=("+", "-", "*")),
    Level(num_terms=5, max_number=999, operators=("+", "-", "*", "//", "%")),
    Level(num_terms=8, max_number=9999, operators=("+", "-", "*", "//", "%")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """An expression in Python's notation and its value."""

    text: str
    value: int
    binding: int
    """The precedence of the outermost operator; the highest for a number."""


def draw_expression(level: int, rng: Random) -> Expression:
    """A random expression of `level`, such as `12+7*3` with the value 33."""
    shape = LEVELS[level]
    while True:
        drawn = _draw(shape, shape.num_terms, rng)
        if drawn is None or abs(drawn.value) > _MAX_MAGNITUDE:
            continue
        if level > 0 or ("(" not in drawn.text and drawn.text.count("*") <= 1):
            return drawn


def _draw(shape: Level, num_terms: int, rng: Random) -> Expression | None:
    """None for a division by zero."""
    if num_terms == 1:
        value = rng.randint(1, shape.max_number)
        return Expression(text=str(value), value=value, binding=3)
    num_left = rng.randint(1, num_terms - 1)
    left, right = _draw(shape, num_left, rng), _draw(shape, num_terms - num_left, rng)
    sign = rng.choice(shape.operators)
    binding, compute = _OPERATIONS[sign]
    if left is None or right is None or (sign in ("//", "%") and right.value == 0):
        return None
    text = _bracket(left, left.binding < binding) + sign + _bracket(right, right.binding <= binding)
    return Expression(text=text, value=compute(left.value, right.value), binding=binding)


def _bracket(part: Expression, needed: bool) -> str:
    return f"({part.text})" if needed else part.text

"""Problems drawn by rule: our own arithmetic, and generators of the library reasoning-gym."""

import warnings
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any, Literal

from components.environments.math.arithmetic import draw_expression
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

"""What the loops in HumanEval's check functions check, written out: random inputs come from a fixed seed."""

import string
from collections.abc import Callable, Iterator, Mapping
from random import Random

from components.environments.code.grammar import function_case
from components.environments.code.problem import Case

_NUM_DRAWS = 100
_IS_A_ZERO = """import json
(coefficients,) = json.load(open("input"))
x = json.load(open("output"))
assert abs(sum(c * float(x) ** power for power, c in enumerate(coefficients))) < 1e-4
"""
"""Any zero of the polynomial is right."""


def checker_of(task_id: str) -> str:
    """The checker of a problem with several right answers, empty for all others."""
    return _IS_A_ZERO if task_id == "HumanEval/32" else ""


def cases_of_loops(task_id: str) -> Iterator[Case]:
    """The tests that a problem's check function makes in a loop."""
    drawn = _LOOPS.get(task_id)
    return iter(()) if drawn is None else drawn(Random(42))


def _zeros(rng: Random) -> Iterator[Case]:
    """Polynomials with an even number of coefficients, and a zero of each by bisection."""
    for _ in range(_NUM_DRAWS):
        coefficients = [rng.randint(-10, 10) or 1 for _ in range(2 * rng.randint(1, 4))]
        yield function_case([coefficients], _zero(coefficients))


def _zero(coefficients: list[int]) -> float:
    def value(x: float) -> float:
        return sum(c * x**power for power, c in enumerate(coefficients))

    low, high = -1.0, 1.0
    while value(low) * value(high) > 0:
        low, high = 2 * low, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if value(low) * value(middle) > 0 else (low, middle)
    return high


def _cyclic(rng: Random) -> Iterator[Case]:
    for text in _texts(rng):
        groups = [text[first : first + 3] for first in range(0, len(text), 3)]
        encoded = "".join(group[1:] + group[0] if len(group) == 3 else group for group in groups)
        yield function_case([encoded], text)


def _shift_texts(rng: Random) -> Iterator[Case]:
    letters = string.ascii_lowercase
    table = str.maketrans(letters, letters[5:] + letters[:5])
    return (function_case([text.translate(table)], text) for text in _texts(rng))


def _texts(rng: Random) -> Iterator[str]:
    for _ in range(_NUM_DRAWS):
        yield "".join(rng.choices(string.ascii_lowercase, k=rng.randint(10, 20)))


def _bases(rng: Random) -> Iterator[Case]:
    return (function_case([x, x + 1], str(x)) for x in range(2, 8))


def _sums(rng: Random) -> Iterator[Case]:
    for _ in range(_NUM_DRAWS):
        x, y = rng.randint(0, 1000), rng.randint(0, 1000)
        yield function_case([x, y], x + y)


def _odd_squares(rng: Random) -> Iterator[Case]:
    numbers = list(range(-99, 100, 2))
    yield function_case([numbers], sum(n**2 for n in numbers if n > 0))


_LOOPS: Mapping[str, Callable[[Random], Iterator[Case]]] = {
    "HumanEval/32": _zeros,
    "HumanEval/38": _cyclic,
    "HumanEval/44": _bases,
    "HumanEval/50": _shift_texts,
    "HumanEval/53": _sums,
    "HumanEval/151": _odd_squares,
}

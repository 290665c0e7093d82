"""Whether a tester's test is its own or a given one in other words."""

import json
import re
from typing import Any

from components.environments.code.problem import Case, Kind
from components.environments.code.programs import agrees

_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")


def repeats(case: Case, given: Case, kind: Kind) -> bool:
    """Whether `case` asks what `given` asks: the same input, or one that begins with it and has the same output.

    A program that reads "3" reads "03", "+3" and "3" with a further line alike, so a tester could sell a test from its prompt
    as new.

    **Example** beside the given test "3 4 => 7", "03 4 => 7" and "3 4 9 => 7" are repetitions; "3 4 9 => 16" is none.
    """
    if case.given == given.given:
        return True
    asked, known = _parts(case.given, kind), _parts(given.given, kind)
    return asked[: len(known)] == known and agrees(case.expected, given, kind)


def _parts(text: str, kind: Kind) -> list[Any]:
    """The arguments of a function, or the tokens that a program reads, equal where most programs read them alike."""
    if kind == "function":
        arguments: list[Any] = json.loads(text)
        return arguments
    return [int(token) if _WHOLE.fullmatch(token) else token for token in text.split()]

"""An environment for one agent: sums of two numbers, answered in a sentence. Its reward runs no program and asks no model."""

import re
from collections.abc import Mapping
from random import Random
from typing import Any

from pydantic import BaseModel

from troupe import Environment, MalformedAnswer, Step

LARGEST = 12
_NUMBER = re.compile(r"\d+")


class Sums(Environment):
    """The last number of an answer is the sum, or it is not.

    **Example** "3 and 4 are 7" is right for 3 and 4, "7, because 3 + 4" is wrong, and "seven" is malformed.
    """

    roles = ("calculator",)
    max_answer_characters = 400

    def draw(self, options: BaseModel, rng: Random) -> Mapping[str, Any]:
        return {"numbers": [rng.randint(1, LARGEST) for _ in range(2)]}

    def instructions(self, state: Mapping[str, Any], agent: str) -> str:
        return "You are a calculator."

    def observe(self, state: Mapping[str, Any], agent: str) -> str:
        first, second = state["numbers"]
        return f"What is {first} + {second}? Think, then say: The answer is"

    def step(self, state: Mapping[str, Any], agent: str, answer: str) -> Step:
        numbers = _NUMBER.findall(answer)
        if not numbers:
            raise MalformedAnswer("no number")
        return Step(state=state, solved=int(numbers[-1]) == sum(state["numbers"]))

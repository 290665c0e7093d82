"""An environment as a user writes it, with whole numbers as answers."""

from collections.abc import Mapping
from random import Random
from typing import Any

from components.environments.base import Step
from components.environments.environment import Environment
from components.errors import MalformedAction


class Guess(Environment):
    roles = ("guesser",)

    def draw(self, options: Any, rng: Random) -> Mapping[str, Any]:
        return {"number": rng.randrange(1000)}

    def observe(self, state: Any, agent: str) -> str:
        return str(state["number"])

    def instructions(self, state: Any, agent: str) -> str:
        return "Answer with a whole number and nothing else."

    def step(self, state: Any, agent: str, answer: str) -> Step:
        return Step(state=state, solved=read(answer) == state["number"])

    def expert(self, state: Any, agent: str) -> str:
        return str(state["number"])


class Marked(Guess):
    """Its answers are between exclamation marks, of which a default reading knows nothing."""

    answer_ending = "your number between the last two exclamation marks."

    def final_answer(self, state: Any, agent: str, text: str) -> str:
        return text.split("!")[-2] if text.count("!") > 1 else text


def read(answer: str) -> int:
    """The number. Raises MalformedAction."""
    if not answer.isdecimal():
        raise MalformedAction(f"{answer!r} is no number")
    return int(answer)

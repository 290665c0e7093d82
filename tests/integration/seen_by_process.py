"""An environment whose problems look different in each process, so no two processes compute the same."""

import os
from random import Random
from typing import Any

from troupe import Environment, Step


class SeenByProcess(Environment):
    """One agent repeats a number; it also sees the id of its process."""

    roles = ("caller",)

    def draw(self, options: Any, rng: Random) -> dict[str, int]:
        return {"number": rng.randrange(10_000)}

    def observe(self, state: dict[str, int], agent: str) -> str:
        return f"number {state['number']} process {os.getpid()}"

    def step(self, state: dict[str, int], agent: str, answer: str) -> Step:
        return Step(state=state, solved=answer == str(state["number"]))

    def expert(self, state: dict[str, int], agent: str) -> str:
        return str(state["number"])

"""Environments whose size is exactly what is asked for: any number of agents, as many turns as allowed, prompts of one length.

Each agent answers in turn with letters; an answer is worth the share of its letters that are an "a". Nobody ever finishes.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

from components.environments import registry
from components.environments.base import Split, Step, Tools
from components.environments.environment import Demonstrator, Environment

NUM_LETTERS = 12
PROMPT_CHARACTERS = 24


class RelayEnvironment(Demonstrator, Environment):
    """A relay; its state is its name and how often it was answered."""

    weights: Mapping[str, float] = {"team.worth": 1.0}
    alphabet = "abcdefghijklmnopqrstuvwxyz0123456789: "
    max_answer_characters = NUM_LETTERS
    copies_proposals = True
    states_are_immutable = True

    def draw(self, options: Any, rng: Random) -> None:
        """None: a relay is its split and index."""

    def problem(self, options: Any, *, split: Split, index: int, seed: int) -> Mapping[str, Any]:
        return {"name": f"{split}{index}"}

    def start(self, problem: Mapping[str, Any]) -> tuple[str, int]:
        return problem["name"], 0

    def observe(self, state: tuple[str, int], agent: str) -> str:
        name, count = state
        return f"{name}:{count:03d}:{agent[-1]}".ljust(PROMPT_CHARACTERS)

    def step(self, state: tuple[str, int], agent: str, answer: str) -> Step:
        name, count = state
        return Step(state=(name, count + 1), done=False, team={"worth": answer.count("a") / NUM_LETTERS})

    def noisy_expert(self, state: Any, agent: str, *, noise: float, rng: Random) -> str:
        return "".join(rng.choice("abcd") if rng.random() < noise else "a" for _ in range(NUM_LETTERS))

    def random_answer(self, state: Any, agent: str, rng: Random) -> str:
        return "".join(rng.choice("abcd") for _ in range(NUM_LETTERS))

    def scramble(self, state: tuple[str, int], rng: Random, tools: Tools) -> tuple[str, int]:
        return state[0], rng.randrange(100)


def _relay_of(num_agents: int) -> type[RelayEnvironment]:
    return type(f"RelayOf{num_agents}", (RelayEnvironment,), {"roles": tuple(f"agent{n}" for n in range(num_agents))})


RelayOf1, RelayOf2, RelayOf4, RelayOf8 = map(_relay_of, (1, 2, 4, 8))


def register() -> None:
    """Let configurations of this process name relay1, relay2, relay4 and relay8."""
    relays = {f"relay{number}": f"{__name__}:RelayOf{number}" for number in (1, 2, 4, 8)}
    registry.FAMILIES = {**registry.FAMILIES, **relays}

"""Environments whose size is exactly what is asked for: any number of agents, as many turns as allowed, prompts of one length.

Each agent answers in turn with letters; an answer is worth the share of its letters that are an "a". Nobody ever finishes.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

from components.environments import registry
from components.environments.base import NO_TOOLS, Tools
from components.frozen import Frozen
from components.identity import content_id
from components.schema import ActionOutcome, Observation, Problem

NUM_LETTERS = 12
PROMPT_CHARACTERS = 24


class NoOptions(Frozen):
    """A relay has none."""


class RelayEnv:
    """A `MultiAgentEnv` whose state is how often it was answered."""

    def __init__(self, payload: Any, roles: tuple[str, ...]) -> None:
        self._name, self.roles = payload["name"], roles
        self._count, self._worth = 0, 0.0

    def observe(self, agent: str) -> Observation:
        state = f"{self._name}:{self._count:03d}:{agent[-1]}"
        return Observation(instructions="", state=state.ljust(PROMPT_CHARACTERS))

    def calls(self, agent: str, action: str) -> tuple[Any, ...]:
        return ()

    def apply(self, agent: str, action: str) -> ActionOutcome:
        self._count += 1
        self._worth = action.count("a") / NUM_LETTERS
        return ActionOutcome(team={"worth": self._worth}, local={}, solves=False, done=False)

    def snapshot(self) -> Any:
        return (self._count, self._worth)

    def restore(self, snapshot: Any) -> None:
        self._count, self._worth = snapshot

    @property
    def team_reward(self) -> float:
        return self._worth

    def local_reward(self, agent: str) -> float:
        return 0.0

    @property
    def done(self) -> bool:
        return False

    @property
    def success(self) -> bool:
        return False

    def render(self, *, color: bool) -> str:
        return f"{self._name}: {self._count} answers"


class RelayFamily:
    """The `EnvironmentFamily` of relays with a fixed number of agents."""

    num_agents = 1
    options_type = NoOptions
    default_weights: Mapping[str, float] = {"team.worth": 1.0}
    copies_proposals = True

    def __init__(self, answers: str = "compact") -> None:
        """A relay reads all answers alike."""

    @property
    def name(self) -> str:
        return f"relay{self.num_agents}"

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(f"agent{number}" for number in range(self.num_agents))

    def problem(self, options: Any, *, split: str, index: int, seed: int) -> Problem:
        payload = {"name": f"{split}{index}"}
        return Problem(problem_id=content_id(self.name, payload), environment=self.name, payload=payload)

    def uses_sandbox(self, options: Any) -> bool:
        return False

    def retriever(self, options: Any) -> None:
        return None

    def build(self, problem: Problem, tools: Tools = NO_TOOLS) -> RelayEnv:
        return RelayEnv(problem.payload, self.roles)

    def expert_action(self, env: Any, agent: str) -> str:
        return "a" * NUM_LETTERS

    def noisy_expert_action(self, env: Any, agent: str, *, noise: float, rng: Random) -> str:
        return "".join(rng.choice("abcd") if rng.random() < noise else "a" for _ in range(NUM_LETTERS))

    def random_action(self, env: Any, agent: str, rng: Random) -> str:
        return "".join(rng.choice("abcd") for _ in range(NUM_LETTERS))

    def scramble(self, env: Any, rng: Random) -> None:
        env.restore((rng.randrange(100), 0.0))

    def alphabet(self, options: Any) -> str:
        return "abcdefghijklmnopqrstuvwxyz0123456789: "

    def max_action_characters(self, options: Any) -> int:
        return NUM_LETTERS


class RelayOf1(RelayFamily):
    num_agents = 1


class RelayOf2(RelayFamily):
    num_agents = 2


class RelayOf4(RelayFamily):
    num_agents = 4


class RelayOf8(RelayFamily):
    num_agents = 8


def register() -> None:
    """Let configurations of this process name relay1, relay2, relay4 and relay8."""
    relays = {f"relay{number}": f"{__name__}:RelayOf{number}" for number in (1, 2, 4, 8)}
    registry.FAMILIES = {**registry.FAMILIES, **relays}

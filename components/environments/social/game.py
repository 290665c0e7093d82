"""What games of several players share: members, choices, payoffs, and what a malformed answer plays."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, ClassVar

from components.environments.base import JointStep
from components.environments.environment import Environment
from components.identity import seed_for

WEIGHTS: Mapping[str, float] = MappingProxyType({"team.solved": 0.0, "local.malformed": -0.1, "local.payoff": 1.0})

EXTRA = "get it by `make extras`, or pip install 'troupe[populations]'"
"""How the libraries of games are installed."""


def member_names(num_members: int) -> tuple[str, ...]:
    """The roles of a game. **Example** 2: ("player_0", "player_1")."""
    return tuple(f"player_{member}" for member in range(num_members))


def place_of(agent: str) -> int:
    """The number of a member. **Example** player_3: 3."""
    return int(agent.removeprefix("player_"))


class SocialGame(Environment):
    """A game whose members answer by one of a few choices. A problem is a seed; play is a pure function of seed and answers.

    A state is immutable, and has a `seed`. Who acts is decided by it (`next_role`): one member, or several at once. The raw
    reward of each member and step is in `payoffs`. Instead of a malformed answer a legal one is played that the seed draws, so
    that one member cannot stop the others; it costs `local.malformed`.
    """

    weights: ClassVar[Mapping[str, float]] = WEIGHTS
    states_are_immutable = True
    max_answer_characters = None
    over = "the game is over"
    answer_ending = "your choice alone in the last line."

    @abstractmethod
    def choices(self, state: Any, agent: str) -> tuple[str, ...]: ...

    @abstractmethod
    def after(self, state: Any, played: Mapping[str, str]) -> JointStep:
        """The result of the choices of all who act in `state`, by agent."""

    def draw(self, options: Any, rng: Random) -> Mapping[str, Any]:
        return {**options.model_dump(mode="json"), "seed": rng.getrandbits(48)}

    def step_together(self, state: Any, answers: Mapping[str, str | None]) -> JointStep:
        played = {agent: self._draw(state, agent) if answer is None else answer for agent, answer in answers.items()}
        return self.after(state, played)

    def _draw(self, state: Any, agent: str) -> str:
        return Random(seed_for(state.seed, "malformed", state.num_steps, agent)).choice(self.choices(state, agent))


def join_choices(choices: Sequence[str]) -> str:
    """**Example** "compete or cooperate"; three as "a, b or c"."""
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


def number(value: float) -> str:
    """A payoff as text: at most three decimals, no needless zeros. **Example** "0.85", "2", "-0.1"."""
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text

"""The environment border: what the sampler may ask of any environment, and what an environment family must provide."""

import random
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from components.artifacts.refs import Frozen
from components.schema import ActionOutcome, Observation, Problem

Split = Literal["train", "test"]
Snapshot = Any
"""An opaque immutable value that `restore` accepts; taking one must be cheap."""


class MultiAgentEnv(Protocol):
    """One problem being played by one team. Single-use: there is no reset.

    Agents act in the order of `roles`; each reads `observe(agent)` and answers with text. `apply` never raises on what an
    agent wrote: a malformed answer is an outcome with `error`, and leaves the state as it was. `done` and `success` speak
    of the real state, never of a simulation; success means solved.
    """

    @property
    def roles(self) -> tuple[str, ...]:
        """The agents in turn order."""
        ...

    def observe(self, agent: str) -> Observation:
        """What `agent` sees now, the earlier agents' actions of this turn included."""
        ...

    def apply(self, agent: str, action: str) -> ActionOutcome:
        """Let `agent` act, change the state, and return what happened as facts."""
        ...

    def snapshot(self) -> Snapshot:
        """The whole state as an immutable value."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a state taken by `snapshot` of this very object or of another one built from the same problem."""
        ...

    @property
    def team_reward(self) -> float:
        """The team components of the newest action under the family's default weights; 0 before the first."""
        ...

    def local_reward(self, agent: str) -> float:
        """The local components of `agent`'s newest action under the family's default weights; 0 before its first."""
        ...

    @property
    def done(self) -> bool: ...

    @property
    def success(self) -> bool: ...

    def render(self, *, color: bool) -> str:
        """A picture of the current state for people, with ANSI colours or plain ASCII."""
        ...


class EnvironmentFamily(Protocol):
    """All problems of one kind: how they are made, played, solved and spelled.

    Splits are disjoint by construction: a problem's content hash decides its split, and `problem` skips what belongs to the
    other one.
    """

    @property
    def name(self) -> str: ...

    @property
    def roles(self) -> tuple[str, ...]: ...

    @property
    def options_type(self) -> type[Frozen]:
        """The pydantic model of this family's options: sizes, densities, limits."""
        ...

    @property
    def default_weights(self) -> Mapping[str, float]:
        """Reward weights by component: `team.<name>` and `local.<name>`."""
        ...

    def problem(self, options: Frozen, *, split: Split, index: int, seed: int) -> Problem:
        """The problem number `index` of a split: a pure function of its arguments, always solvable."""
        ...

    def build(self, problem: Problem) -> MultiAgentEnv:
        """A fresh environment for `problem`."""
        ...

    def expert_action(self, env: MultiAgentEnv, agent: str) -> str:
        """The solver's answer for `agent` in the current state of `env`."""
        ...

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: random.Random) -> str:
        """Well-formed play in which each elementary move is replaced by a random one with probability `noise`."""
        ...

    def random_action(self, env: MultiAgentEnv, agent: str, rng: random.Random) -> str:
        """A well-formed random answer."""
        ...

    def scramble(self, env: MultiAgentEnv, rng: random.Random) -> None:
        """Move `env` to a random unsolved state from which it is still solvable, to vary behaviour cloning."""
        ...

    def alphabet(self, options: Frozen) -> str:
        """Every character that observations and answers may contain, in a fixed order."""
        ...

    def max_action_characters(self, options: Frozen) -> int:
        """The longest well-formed answer, in characters."""
        ...

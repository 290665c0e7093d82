"""The base classes of all environment families."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from random import Random
from typing import Any, ClassVar, Generic, TypeVar, cast

from components.environments.base import NO_TOOLS, Answers, MultiAgentEnv, Retriever, Split, Tools
from components.environments.shared.splits import split_of
from components.environments.shared.text import PRINTABLE
from components.errors import ConfigurationError
from components.frozen import Frozen
from components.identity import content_id, seed_for
from components.schema import Problem

Options = TypeVar("Options", bound=Frozen)
Env = TypeVar("Env", bound=MultiAgentEnv)

_MAX_DRAWS = 2000


class Family(ABC, Generic[Options, Env]):
    """An `EnvironmentFamily`. Subclasses define `name`, `options_type`, `env_type`, `payload`, `play` and
    `max_action_characters`."""

    name: str
    options_type: type[Options]
    env_type: type[MultiAgentEnv]
    """The class of the environments: `Env`."""

    def __init__(self, answers: Answers = "compact") -> None:
        self.answers: Answers = answers

    @abstractmethod
    def payload(self, options: Options, *, split: Split, index: int, seed: int) -> Mapping[str, Any]:
        """Problem `index` of `split` as plain JSON: a pure function of its arguments. Raises ConfigurationError."""

    @abstractmethod
    def play(self, payload: Mapping[str, Any], tools: Tools) -> Env:
        """A fresh environment for a problem."""

    @property
    def roles(self) -> tuple[str, ...]:
        return self.env_type.roles

    @property
    def default_weights(self) -> Mapping[str, float]:
        return self.env_type.weights

    @property
    def return_weights(self) -> Mapping[str, float]:
        return self.env_type.return_weights

    @property
    def has_solver_value(self) -> bool:
        return False

    def uses_sandbox(self, options: Frozen) -> bool:
        return False

    def retriever(self, options: Frozen) -> Retriever | None:
        return None

    def problem(self, options: Frozen, *, split: Split, index: int, seed: int) -> Problem:
        """Problem `index` of `split`. Raises ConfigurationError if the options allow hardly any, or name unreadable data."""
        payload = dict(self.payload(self.checked(options), split=split, index=index, seed=seed))
        return Problem(problem_id=self.problem_id(payload), environment=self.name, payload=payload)

    def problem_id(self, payload: Mapping[str, Any]) -> str:
        """Equal for equal problems."""
        return content_id(self.name, payload)

    def build(self, problem: Problem, tools: Tools = NO_TOOLS) -> Env:
        assert problem.environment == self.name, f"{problem.problem_id} belongs to {problem.environment!r}"
        env = self.play(problem.payload, tools)
        env.answers = self.answers
        return env

    def checked(self, options: Frozen) -> Options:
        """`options` as this family's own type."""
        assert isinstance(options, self.options_type), f"{self.name} got options {options!r}"
        return options

    def played(self, env: MultiAgentEnv, agent: str) -> Env:
        """`env`, in which `agent` acts, as this family's own type."""
        assert isinstance(env, self.env_type), f"{env!r} was not built by this family"
        assert agent in env.roles, f"agent {agent!r} is none of {env.roles}"
        return cast(Env, env)


class DrawnFamily(Family[Options, Env]):
    """A family whose problems are drawn at random. The part that decides the right answers also decides the split.

    A problem may be drawn in two steps: `draw` gives the deciding part, and `completed`, which costs more, adds the rest if
    that part belongs to the requested split.
    """

    remedy: ClassVar[str]
    """What to change if the options allow hardly any problem."""

    @abstractmethod
    def draw(self, options: Options, rng: Random) -> Mapping[str, Any] | None:
        """A random problem, or its deciding part, as JSON; None if this draw gives none."""

    def deciding(self, drawn: Mapping[str, Any]) -> Any:
        """The part that decides the right answers, as JSON. Problems with equal parts are in the same split."""
        return drawn

    def completed(self, options: Options, drawn: Mapping[str, Any], rng: Random) -> Mapping[str, Any] | None:
        """The whole problem as JSON; None if `drawn` cannot be completed within `options`."""
        return drawn

    def payload(self, options: Options, *, split: Split, index: int, seed: int) -> Mapping[str, Any]:
        for attempt in range(_MAX_DRAWS):
            rng = Random(seed_for(seed, self.name, split, index, attempt))
            drawn = self.draw(options, rng)
            if drawn is None or split_of(self.deciding(drawn)) != split:
                continue
            payload = self.completed(options, drawn, rng)
            if payload is not None:
                return payload
        raise ConfigurationError(
            f"environment.name {self.name!r} with the options {options.model_dump()!r}: no problem of the {split} split in "
            f"{_MAX_DRAWS} draws; {self.remedy}"
        )


class Demonstrations(ABC):
    """A mixin with the defaults of a `Demonstrator`."""

    copies_proposals = False

    def alphabet(self, options: Frozen) -> str:
        return PRINTABLE

    def expert_action(self, env: MultiAgentEnv, agent: str) -> str:
        return self.noisy_expert_action(env, agent, noise=0.0, rng=Random(0))

    @abstractmethod
    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: Random) -> str:
        """The expert's answer, changed with probability `noise`."""

    @abstractmethod
    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """A well-formed random answer."""

    @abstractmethod
    def scramble(self, env: MultiAgentEnv, rng: Random) -> None:
        """Move `env` to a random unsolved state that is still solvable."""

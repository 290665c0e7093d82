"""The shortest way to an environment of one's own: what is drawn, what each agent sees of it, and what an answer does."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from string import printable
from typing import Any, ClassVar

from components.artifacts.refs import Frozen
from components.schema import Observation

PRINTABLE = "\n" + "".join(sorted(printable[:95]))
"""Printable ASCII and the line feed."""


class NoOptions(Frozen):
    """The options of an environment that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What an answer came to: the state after it, and the facts that rewards are made of.

    `team` and `local` are components by name (`{"progress": 0.5}`); each needs a weight in `Environment.weights`. An agent
    that only proposes changes nothing that counts: its `solved` says whether its proposal would solve the problem, and
    `done` is False.
    """

    state: Any
    solved: bool = False
    done: bool | None = None
    """Whether the episode ends here; None means: when it is solved."""
    team: Mapping[str, float] = field(default_factory=dict)
    local: Mapping[str, float] = field(default_factory=dict)


class Environment(ABC):
    """All problems of one kind, and how a team plays them. Subclass it and write `roles`, `draw`, `observe` and `step`.

    A state is any value that `copy.deepcopy` can copy; each call gets a copy of its own, so that `step` may change it. What
    `step` does depends on nothing else: no clock, no global random numbers.

    **Example** One agent that must repeat a number (the README has a team of two):

        class Echo(Environment):
            roles = ("pupil",)

            def draw(self, options, rng):
                return {"number": rng.randrange(1000)}

            def observe(self, state, agent):
                return str(state["number"])

            def step(self, state, agent, answer):
                return Step(state=state, solved=answer == str(state["number"]))
    """

    roles: ClassVar[tuple[str, ...]]
    """The agents in turn order."""
    Options: ClassVar[type[Frozen]] = NoOptions
    """A pydantic model of the keys of `environment.options`."""
    weights: ClassVar[Mapping[str, float]] = {}
    """Reward weights by component, `team.<name>` and `local.<name>`, beside `team.solved` (1) and `local.malformed` (-.1)."""
    max_answer_characters: ClassVar[int] = 64
    """A longer answer is malformed. Agents without `max_new_tokens` may write one token per character."""
    alphabet: ClassVar[str] = PRINTABLE
    """Every character that observations and answers may contain, for models that are made from nothing."""

    @abstractmethod
    def draw(self, options: Any, rng: Random) -> Mapping[str, Any]:
        """A random problem, as plain JSON. All its randomness comes from `rng`."""

    @abstractmethod
    def observe(self, state: Any, agent: str) -> str:
        """What `agent` sees of `state`."""

    @abstractmethod
    def step(self, state: Any, agent: str, answer: str) -> Step:
        """What `answer` does. Raises MalformedAnswer for one that does not follow the grammar; the state then stays."""

    def start(self, problem: Mapping[str, Any]) -> Any:
        """The state in which an episode of a drawn problem begins; the problem itself unless this is overridden."""
        return problem

    def deciding(self, problem: Mapping[str, Any]) -> Any:
        """The part of a problem, as JSON, that decides its right answers: the whole unless this is overridden.

        Problems that agree in it belong to one split, train or test.
        """
        return problem

    def instructions(self, agent: str) -> str:
        """Who the agent is and how it answers, for models that read prose. `observe` alone is what small models see."""
        return ""

    def render(self, state: Any) -> str:
        """A picture of a state for people."""
        return "\n".join(f"{role}: {self.observe(state, role)}" for role in self.roles)

    def expert(self, state: Any, agent: str) -> str:
        """The right answer of `agent`. Only models that are made from nothing need it, which learn the grammar from it, and
        `troupe play --agent expert`."""
        raise NotImplementedError


def has_expert(environment: Environment) -> bool:
    """Whether an environment knows right answers."""
    return type(environment).expert is not Environment.expert


def observation(environment: Environment, state: Any, agent: str) -> Observation:
    """What `agent` sees, with its instructions."""
    return Observation(instructions=environment.instructions(agent), state=environment.observe(state, agent))

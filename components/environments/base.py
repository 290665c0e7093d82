"""The environment border: what the sampler may ask of any environment, and what an environment family must provide."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn, Protocol, runtime_checkable

from components.artifacts.refs import Frozen
from components.errors import ConfigurationError, ExecutionFailed, MalformedAction
from components.schema import (
    ActionOutcome,
    Execution,
    ExecutionResult,
    Observation,
    Passage,
    Problem,
    Query,
    ToolRecord,
)

Split = Literal["train", "test"]
Snapshot = Any
"""An opaque immutable value that `restore` accepts; taking one must be cheap."""

MAX_ANSWER_CHARACTERS = 1 << 18
"""A longer answer is malformed in every environment, whatever it says: these are some sixty thousand tokens of prose. All that
reads an answer does so in linear time, half a second of CPU for one of this length."""


ToolCall = Execution | Query
"""What an environment may ask of the world outside it."""


class Tools(Protocol):
    """The world outside an environment. Every answer is recorded under the content of the call: the same call has the same
    answer in the rollout, on a retry and in the reward stage."""

    def run(self, execution: Execution) -> ExecutionResult:
        """How the program ended; never `sandbox_error`. Raises ExecutionFailed when the sandbox failed at it."""
        ...

    def retrieve(self, query: Query) -> tuple[Passage, ...]:
        """The best passages, best first. Raises RetrieverUnavailable."""
        ...

    def prepare(self, calls: Sequence[ToolCall]) -> None:
        """Answer `calls` side by side, so that `run` and `retrieve` find them recorded."""
        ...


class RecordingTools(Tools, Protocol):
    """Tools that can hand over what they answered."""

    def take_record(self) -> ToolRecord:
        """The answers that were used since the last time."""
        ...


class Retriever(Protocol):
    """Finds passages in one corpus."""

    @property
    def digest(self) -> str:
        """Names the corpus and the way of searching: equal digests give equal answers."""
        ...

    def search(self, query: Query) -> tuple[Passage, ...]:
        """The best passages, best first. Raises RetrieverUnavailable."""
        ...


class NoTools:
    """The tools of an environment that needs none."""

    def take_record(self) -> ToolRecord:
        return ToolRecord()

    def run(self, execution: Execution) -> ExecutionResult:
        self._refuse("runs programs")

    def retrieve(self, query: Query) -> tuple[Passage, ...]:
        self._refuse("retrieves passages")

    def prepare(self, calls: Sequence[ToolCall]) -> None:
        if calls:
            self._refuse("uses tools")

    def _refuse(self, doing: str) -> NoReturn:
        raise ConfigurationError(
            f"tools: this environment {doing}; build it with tools, as `family.build(problem, tools)`"
        )


NO_TOOLS = NoTools()


class MultiAgentEnv(Protocol):
    """One problem being played by one team. Single-use: there is no reset.

    Agents act in turn order; each reads `observe(agent)` and answers with text. `apply` never raises on what an
    agent wrote: a malformed answer is an outcome with `error`, and leaves the state as it was; one of more than
    `MAX_ANSWER_CHARACTERS` always is. `done` and `success` speak of the real state, never of a simulation; success means
    solved.
    """

    @property
    def roles(self) -> tuple[str, ...]:
        """The agents, in the order in which they act unless another is given."""
        ...

    def observe(self, agent: str) -> Observation:
        """What `agent` sees now, the earlier agents' actions of this turn included."""
        ...

    def calls(self, agent: str, action: str) -> tuple[ToolCall, ...]:
        """What `apply(agent, action)` would ask of the tools in the current state; answered side by side before it.

        Never raises on what an agent wrote. An empty answer is always right, only slower.
        """
        ...

    def apply(self, agent: str, action: str) -> ActionOutcome:
        """Let `agent` act, change the state, and return what happened as facts.

        Raises ExecutionFailed, with the state as it was, when a tool failed: what the action did is then unknown.
        """
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


def refuse_overlong(action: str) -> None:
    """Raise MalformedAction when an answer is longer than any environment reads."""
    if len(action) > MAX_ANSWER_CHARACTERS:
        raise MalformedAction(f"an answer of {len(action)} characters; at most {MAX_ANSWER_CHARACTERS} are read")


def applied(env: MultiAgentEnv, agent: str, action: str) -> ActionOutcome:
    """What `action` did, or, where the sandbox failed at it, an unscorable outcome and the state as it was."""
    before = env.snapshot()
    try:
        return env.apply(agent, action)
    except ExecutionFailed as error:
        env.restore(before)
        return ActionOutcome(team={}, local={}, solves=False, done=False, unscorable=str(error))


class EnvironmentFamily(Protocol):
    """All problems of one kind: how they are made and played. Training, evaluation and play by people ask for nothing else.

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

    def uses_sandbox(self, options: Frozen) -> bool:
        """Whether environments with these options run programs that agents wrote."""
        ...

    def retriever(self, options: Frozen) -> Retriever | None:
        """What answers the queries of environments with these options; None where none is asked.

        Raises ConfigurationError when the options name a corpus or an address that cannot be used.
        """
        ...

    def build(self, problem: Problem, tools: Tools = NO_TOOLS) -> MultiAgentEnv:
        """A fresh environment for `problem`, which asks `tools` for all that lies outside it."""
        ...

    def max_action_characters(self, options: Frozen) -> int:
        """The longest well-formed answer, in characters."""
        ...


@runtime_checkable
class RandomPlayer(Protocol):
    """A family that can play at random."""

    def random_action(self, env: MultiAgentEnv, agent: str, rng: random.Random) -> str:
        """A well-formed random answer."""
        ...


@runtime_checkable
class Demonstrator(EnvironmentFamily, RandomPlayer, Protocol):
    """A family that can also show how it is played well or badly. Only behaviour cloning and scripted play ask for this."""

    @property
    def copies_proposals(self) -> bool:
        """Whether an earlier agent's answer is also a well-formed answer of the last agent."""
        ...

    def expert_action(self, env: MultiAgentEnv, agent: str) -> str:
        """The solver's answer for `agent` in the current state of `env`."""
        ...

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: random.Random) -> str:
        """Well-formed play in which each elementary move is replaced by a random one with probability `noise`."""
        ...

    def scramble(self, env: MultiAgentEnv, rng: random.Random) -> None:
        """Move `env` to a random unsolved state from which it is still solvable, to vary behaviour cloning."""
        ...

    def alphabet(self, options: Frozen) -> str:
        """Every character that observations and answers may contain, in a fixed order."""
        ...


def demonstrator(family: EnvironmentFamily) -> Demonstrator:
    """`family` itself, where it has an expert. Raises ConfigurationError where it has none."""
    if isinstance(family, Demonstrator):
        return family
    raise ConfigurationError(
        f"environment.name {family.name!r} has no expert(state, agent): a model that is made from nothing learns the grammar "
        "from it; write one, or begin with a pretrained model (policies.<name>.base)"
    )


def alphabet_of(family: EnvironmentFamily, options: Frozen) -> str:
    """The characters of a model that is made from nothing; empty where there is no expert from which it could learn."""
    return family.alphabet(options) if isinstance(family, Demonstrator) else ""

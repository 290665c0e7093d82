"""The interfaces of environments: what the pipeline asks of an environment, of its family, and of the tools outside it."""

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NoReturn, Protocol, runtime_checkable

from components.environments.shared.answer_extraction import final_text
from components.errors import ConfigurationError, ExecutionFailed, MalformedAction
from components.frozen import Frozen
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
from components.think_tags import without_thinking

Split = Literal["train", "test"]
Answers = Literal["compact", "reasoned"]
"""How answers are read. compact: the answer and nothing else. reasoned: a reader's view of a text that may reason first."""
Snapshot = Any
"""An opaque immutable value that `restore` accepts; taking one must be cheap."""

MAX_ANSWER_CHARACTERS = 1 << 18
"""Longer answers are malformed in every environment (about sixty thousand tokens of prose). Parsers take linear time, half a
second of CPU for an answer of this length."""


ToolCall = Execution | Query
"""A call of an environment to its tools."""


class Tools(Protocol):
    """The tools of an environment. Answers are recorded by the content of the call: equal calls have equal answers in the
    rollout, on a retry and in the reward stage."""

    def run(self, execution: Execution) -> ExecutionResult:
        """The result of a program, never `sandbox_error`. Raises ExecutionFailed if the sandbox failed."""

    def retrieve(self, query: Query) -> tuple[Passage, ...]:
        """The best passages, best first. Raises RetrieverUnavailable."""

    def prepare(self, calls: Sequence[ToolCall]) -> None:
        """Answer `calls` in parallel, so that `run` and `retrieve` find them recorded."""


class RecordingTools(Tools, Protocol):
    """Tools that record their answers."""

    def take_record(self) -> ToolRecord:
        """The answers used since the last call."""


class Retriever(Protocol):
    """Finds passages in one corpus."""

    @property
    def digest(self) -> str:
        """Identifies the corpus and the search method: equal digests give equal answers."""

    def search(self, query: Query) -> tuple[Passage, ...]:
        """The best passages, best first. Raises RetrieverUnavailable."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The result of an answer: the state after it, and the facts that rewards are computed from.

    `team` and `local` are components by name (`{"progress": 0.5}`); each needs a weight in the environment's `weights`. For an
    agent that only proposes, `solved` says whether its proposal would solve the problem, and `done` is False.
    """

    state: Any
    solved: bool = False
    done: bool | None = None
    """Whether the episode ends here; None: if it is solved."""
    team: Mapping[str, float] = field(default_factory=dict)
    local: Mapping[str, float] = field(default_factory=dict)
    team_from_start: Mapping[str, float] = field(default_factory=dict)
    """Those of `team` that count from the state before the answer, counted from the episode's start: progress, for example.
    Returns of whole episodes are computed from them, so that an episode cannot earn by first moving away from the goal."""
    value_gain: float | None = None
    """V(state after) - V(state before) by an exact solver, if the environment has one and `measures_value` is set."""


class MultiAgentEnv(ABC):
    """One problem being played by one team, with immutable states. Single-use: there is no reset.

    Agents act in turn order; each reads `observe(agent)` and answers with text. Subclasses define `roles`, `weights`,
    `observe`, `step`, `success` and `render`, and declare the type of `_state`; and `final_answer`, if an answer that reasons
    first ends otherwise than with a fenced block or a line.
    """

    roles: tuple[str, ...]
    """The agents, in their default turn order."""
    weights: Mapping[str, float]
    """Reward weights by component: `team.<name>` and `local.<name>`."""
    return_weights: Mapping[str, float] = MappingProxyType({})
    """The weights in the return of a whole episode that differ from `weights`."""
    measures_value: bool = False
    """Whether outcomes hold `value_gain`, which costs a solver's search in some environments. Set by who plays."""
    over: ClassVar[str] = "the episode is over"
    """The error of an answer after the end."""
    answers: Answers = "compact"
    """How answers are read. Families set it on the environments that they build."""
    _state: Any

    def __init__(self, start: Any) -> None:
        self._state = start

    @abstractmethod
    def observe(self, agent: str) -> Observation:
        """The observation of `agent`, with the earlier agents' actions of this turn."""

    @abstractmethod
    def step(self, agent: str, answer: str) -> Step:
        """The result of an answer. Raises MalformedAction, or ExecutionFailed if a tool failed."""

    def after_malformed(self, agent: str, error: MalformedAction) -> Step:
        """The result of a malformed answer; the state unchanged by default. `local.malformed` is added."""
        return Step(state=self._state)

    def final_answer(self, agent: str, text: str) -> str:
        """The answer in a text that may reason first, as `step` reads it; in time linear in the text.

        A text without one is returned as it is, for `step` to refuse. Raises MalformedAction.
        """
        return final_text(text)

    def asked(self, agent: str, answer: str) -> Iterable[ToolCall]:
        """The tool calls of `step`. Raises MalformedAction."""
        return ()

    @property
    @abstractmethod
    def success(self) -> bool:
        """Whether the real state, never a simulation, is solved."""

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self.success

    @abstractmethod
    def render(self, *, color: bool) -> str:
        """The current state for people, with ANSI colours or in plain ASCII."""

    def calls(self, agent: str, action: str) -> tuple[ToolCall, ...]:
        """The tool calls that `apply(agent, action)` would make in the current state, to be answered in parallel before it."""
        try:
            return tuple(self.asked(agent, self._read(agent, action)))
        except MalformedAction:
            return ()

    def apply(self, agent: str, action: str) -> ActionOutcome:
        """Let `agent` act, change the state, and return the outcome.

        Thinking in `<think>` tags is left out, and of an answer that reasons first `final_answer` is read. Never raises on an
        agent's text: an answer is malformed, an outcome with `error`, after the end, beyond `MAX_ANSWER_CHARACTERS`, if its
        thinking never ends, or if `step` refuses it. Raises ExecutionFailed, with the state unchanged, if a tool failed.
        """
        assert agent in self.roles, f"agent {agent!r} is none of {self.roles}"
        error = None
        try:
            step = self.step(agent, self._read(agent, action))
            local, solves, done = step.local, step.solved, step.solved if step.done is None else step.done
        except MalformedAction as malformed:
            error = str(malformed) or "malformed"
            step = self.after_malformed(agent, malformed)
            local, solves, done = {**step.local, "malformed": 1.0}, self.success, self.done
        self._state = step.state
        team = {"solved": float(step.solved), **step.team}
        differing = {name: value for name, value in step.team_from_start.items() if value != team.get(name)}
        return ActionOutcome(
            team=team,
            local=local,
            solves=solves,
            done=done,
            error=error,
            team_from_start=differing or None,
            value_gain=step.value_gain,
        )

    def _read(self, agent: str, action: str) -> str:
        """The answer in `action`. Raises MalformedAction."""
        if self.done:
            raise MalformedAction(self.over)
        if len(action) > MAX_ANSWER_CHARACTERS:
            raise MalformedAction(f"an answer of {len(action)} characters; at most {MAX_ANSWER_CHARACTERS} are read")
        text = without_thinking(action)
        return text if self.answers == "compact" else self.final_answer(agent, text)

    def snapshot(self) -> Snapshot:
        """The whole state as an immutable value."""
        return self._state

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot of this environment or of another one of the same problem."""
        self._state = snapshot


def apply_or_unscorable(env: MultiAgentEnv, agent: str, action: str) -> ActionOutcome:
    """The outcome of `action`; if the sandbox failed, an unscorable outcome with the state unchanged."""
    before = env.snapshot()
    try:
        return env.apply(agent, action)
    except ExecutionFailed as error:
        env.restore(before)
        return ActionOutcome(team={}, local={}, solves=False, done=False, unscorable=str(error))


class EnvironmentFamily(Protocol):
    """All problems of one kind: how they are generated and played.

    Splits are disjoint by construction: a problem's content hash decides its split.
    """

    @property
    def name(self) -> str: ...

    @property
    def roles(self) -> tuple[str, ...]: ...

    @property
    def options_type(self) -> type[Frozen]:
        """The pydantic model of this family's options."""

    @property
    def default_weights(self) -> Mapping[str, float]:
        """Reward weights by component: `team.<name>` and `local.<name>`."""

    def problem(self, options: Frozen, *, split: Split, index: int, seed: int) -> Problem:
        """Problem `index` of a split: a pure function of its arguments, always solvable."""

    def uses_sandbox(self, options: Frozen) -> bool:
        """Whether environments with these options run programs of agents."""

    def retriever(self, options: Frozen) -> Retriever | None:
        """The retriever of environments with these options, None if they need none.

        Raises ConfigurationError if the options name an unusable corpus or address.
        """

    def build(self, problem: Problem, tools: Tools = NO_TOOLS) -> MultiAgentEnv:
        """A fresh environment for `problem`."""

    def max_action_characters(self, options: Frozen) -> int:
        """The length of the longest well-formed answer."""


@runtime_checkable
class RandomPlayer(Protocol):
    """A family that can play at random."""

    def random_action(self, env: MultiAgentEnv, agent: str, rng: random.Random) -> str:
        """A well-formed random answer."""


@runtime_checkable
class Demonstrator(EnvironmentFamily, RandomPlayer, Protocol):
    """A family with an expert, for behaviour cloning and scripted play."""

    @property
    def copies_proposals(self) -> bool:
        """Whether an earlier agent's answer is also a well-formed answer of the last agent."""

    def expert_action(self, env: MultiAgentEnv, agent: str) -> str:
        """The solver's answer for `agent` in the current state of `env`."""

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: random.Random) -> str:
        """Well-formed play in which each elementary move is replaced by a random one with probability `noise`."""

    def scramble(self, env: MultiAgentEnv, rng: random.Random) -> None:
        """Move `env` to a random unsolved state that is still solvable, to vary behaviour cloning."""

    def alphabet(self, options: Frozen) -> str:
        """All characters of observations and answers, in a fixed order."""


def demonstrator(family: EnvironmentFamily) -> Demonstrator:
    """`family`, if it has an expert. Raises ConfigurationError otherwise."""
    if isinstance(family, Demonstrator):
        return family
    raise ConfigurationError(
        f"environment.name {family.name!r} has no expert(state, agent), from which a new model learns the answer grammar; "
        "write one, or start from a pretrained model (policies.<name>.base)"
    )


def alphabet_of(family: EnvironmentFamily, options: Frozen) -> str:
    """The characters of a model trained from scratch; empty for a family without an expert."""
    return family.alphabet(options) if isinstance(family, Demonstrator) else ""

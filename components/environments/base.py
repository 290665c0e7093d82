"""What environments give and take: the result of an answer, and the tools outside them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, Protocol

from components.errors import ConfigurationError
from components.schema import Execution, ExecutionResult, Passage, Query, ToolRecord

Split = Literal["train", "test"]
AnswerFormat = Literal["strict", "free", "choice"]
"""How answers are read. strict: the answer and nothing else. free: a reader's view of a text that may reason first. choice: one
of the answers that the environment names."""

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
        _refuse("runs a program")

    def retrieve(self, query: Query) -> tuple[Passage, ...]:
        _refuse("retrieves passages")

    def prepare(self, calls: Sequence[ToolCall]) -> None:
        if calls:
            _refuse("calls its tools")


def _refuse(doing: str) -> NoReturn:
    raise ConfigurationError(
        f"tools: this environment {doing} and was given no tools; its `uses_sandbox(options)` must be true if it runs "
        "programs, and its `retriever(options)` return what answers its queries"
    )


NO_TOOLS = NoTools()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The result of an answer: the state after it, and the facts that rewards are computed from.

    `team` and `local` are components by name (`{"progress": 0.5}`); each needs a weight in the environment's `weights`. For an
    agent that only proposes, `solved` says whether its proposal would solve the problem, and `done` is False.

    `success` says whether the state after the answer is solved, not only proposed; None: it is if the episode ends solved.
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
    success: bool | None = None
    payoffs: Mapping[str, float] = field(default_factory=dict)
    """What agents earn by this answer, by name, in a game in which each has a return of its own; who is not named earns
    nothing. The author's is its component `local.payoff`, whose weight is 1 unless `weights` says otherwise."""
    value_gain: Callable[[], float] | None = None
    """V(state after) - V(state before) by an exact solver, if the environment has one. Called only where it is measured,
    because it may cost a search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointStep:
    """The result of answers that are given at once: one state after all of them, and the facts that rewards are computed from.

    `team` are components that all of these agents share, `local` those of each agent by name, and `payoffs` what each agent
    earns in a game in which each has a return of its own, as in `Step`.

    **Example** ann and bob both cooperate: `JointStep(state=after, payoffs={"ann": 3.0, "bob": 3.0})`.
    """

    state: Any
    solved: bool = False
    done: bool | None = None
    """Whether the episode ends here; None: if it is solved."""
    team: Mapping[str, float] = field(default_factory=dict)
    local: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    payoffs: Mapping[str, float] = field(default_factory=dict)

"""The base class of all environments: state, snapshots and malformed answers."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from components.environments.base import Snapshot, ToolCall, refuse_overlong
from components.errors import MalformedAction
from components.schema import ActionOutcome, Observation

State = TypeVar("State")


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


class TeamEnv(ABC, Generic[State]):
    """The `MultiAgentEnv` of one problem with immutable states. Subclasses define `roles`, `weights`, `observe`, `step`,
    `success` and `render`, and read the state as `_state`.

    An answer is malformed after the end, if it is overlong, or if `step` raises MalformedAction.
    """

    roles: tuple[str, ...]
    """The agents, in turn order."""
    weights: Mapping[str, float]
    """Reward weights by component: `team.<name>` and `local.<name>`."""
    over: ClassVar[str] = "the episode is over"
    """The error of an answer after the end."""

    def __init__(self, start: State) -> None:
        self._state = start

    @abstractmethod
    def observe(self, agent: str) -> Observation:
        """The observation of `agent`."""

    @abstractmethod
    def step(self, agent: str, answer: str) -> Step:
        """The result of an answer. Raises MalformedAction, or ExecutionFailed if a tool failed."""

    def after_malformed(self, agent: str, error: MalformedAction) -> Step:
        """The result of a malformed answer; the state unchanged by default. `local.malformed` is added."""
        return Step(state=self._state)

    def asked(self, agent: str, answer: str) -> Iterable[ToolCall]:
        """The tool calls of `step`. Raises MalformedAction."""
        return ()

    @property
    @abstractmethod
    def success(self) -> bool: ...

    @property
    def done(self) -> bool:
        return self.success

    @abstractmethod
    def render(self, *, color: bool) -> str: ...

    def calls(self, agent: str, action: str) -> tuple[ToolCall, ...]:
        if self.done:
            return ()
        try:
            refuse_overlong(action)
            return tuple(self.asked(agent, action))
        except MalformedAction:
            return ()

    def apply(self, agent: str, action: str) -> ActionOutcome:
        assert agent in self.roles, f"agent {agent!r} is none of {self.roles}"
        error = None
        try:
            if self.done:
                raise MalformedAction(self.over)
            refuse_overlong(action)
            step = self.step(agent, action)
            local, solves, done = step.local, step.solved, step.solved if step.done is None else step.done
        except MalformedAction as malformed:
            error = str(malformed) or "malformed"
            step = self.after_malformed(agent, malformed)
            local, solves, done = {**step.local, "malformed": 1.0}, self.success, self.done
        self._state = step.state
        team = {"solved": float(step.solved), **step.team}
        return ActionOutcome(team=team, local=local, solves=solves, done=done, error=error)

    def snapshot(self) -> Snapshot:
        return self._state

    def restore(self, snapshot: Snapshot) -> None:
        self._state = snapshot


def progress(before: float, after: float) -> float:
    """The fraction of the distance to the goal that an action covered, in [-1, 1].

    -1 if the new state is unsolvable (infinite distance), 0 if the old one was already.

    **Example** from distance 8 to 6: 0.25; from 2 to 7: -1.
    """
    if before == float("inf"):
        return 0.0
    return max(-1.0, min(1.0, (before - after) / before))

"""One problem being played by a team: what every environment does in the same way."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from components.environments.base import Snapshot, ToolCall, refuse_overlong
from components.errors import MalformedAction
from components.rewards.base import Rubric
from components.schema import ActionOutcome, Observation

State = TypeVar("State")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What an answer came to: the state after it, and the facts that rewards are made of.

    `team` and `local` are components by name (`{"progress": 0.5}`); each needs a weight in the environment's `weights`. An
    agent that only proposes changes nothing that counts: its `solved` says whether its proposal would solve the problem, and
    `done` is False.
    """

    state: Any
    solved: bool = False
    done: bool | None = None
    """Whether the episode ends here; None means: when it is solved."""
    team: Mapping[str, float] = field(default_factory=dict)
    local: Mapping[str, float] = field(default_factory=dict)


class TeamEnv(ABC, Generic[State]):
    """The `MultiAgentEnv` of one problem, over states that nothing changes. A subclass writes `roles`, `weights`, `observe`,
    `step`, `success` and `render`, and reads the state as `_state`.

    What follows the end, is longer than any environment reads, or makes `step` raise MalformedAction is a malformed answer.
    """

    roles: tuple[str, ...]
    """The agents, in turn order."""
    weights: Mapping[str, float]
    """Reward weights by component: `team.<name>` and `local.<name>`."""
    over: ClassVar[str] = "the episode is over"
    """Why an answer after the end is malformed."""

    def __init__(self, start: State) -> None:
        self._state = start
        self._newest: ActionOutcome | None = None
        self._newest_by_role: Mapping[str, ActionOutcome] = {}

    @abstractmethod
    def observe(self, agent: str) -> Observation:
        """What `agent` sees of the state."""

    @abstractmethod
    def step(self, agent: str, answer: str) -> Step:
        """What a well-formed answer does. Raises MalformedAction for any other, and ExecutionFailed when a tool failed."""

    def after_malformed(self, agent: str, error: MalformedAction) -> Step:
        """What a malformed answer leaves behind: nothing, unless the state tells of it. `local.malformed` is added."""
        return Step(state=self._state)

    def asked(self, agent: str, answer: str) -> Iterable[ToolCall]:
        """What `step` would ask of the tools. Raises MalformedAction."""
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
        try:
            if self.done:
                raise MalformedAction(self.over)
            refuse_overlong(action)
            step = self.step(agent, action)
            outcome = _outcome(step)
        except MalformedAction as error:
            step = self.after_malformed(agent, error)
            outcome = self._malformed(step, str(error))
        self._state, self._newest = step.state, outcome
        self._newest_by_role = {**self._newest_by_role, agent: outcome}
        return outcome

    def _malformed(self, step: Step, error: str) -> ActionOutcome:
        return ActionOutcome(
            team={"solved": float(step.solved), **step.team},
            local={**step.local, "malformed": 1.0},
            solves=self.success,
            done=self.done,
            error=error or "malformed",
        )

    def snapshot(self) -> Snapshot:
        return self._state, self._newest, self._newest_by_role

    def restore(self, snapshot: Snapshot) -> None:
        self._state, self._newest, self._newest_by_role = snapshot

    @property
    def team_reward(self) -> float:
        return 0.0 if self._newest is None else self._rubric.team(self._newest)

    def local_reward(self, agent: str) -> float:
        newest = self._newest_by_role.get(agent)
        return 0.0 if newest is None else self._rubric.local(newest)

    @property
    def _rubric(self) -> Rubric:
        return Rubric(team_weight=1.0, weights=self.weights)


def _outcome(step: Step) -> ActionOutcome:
    return ActionOutcome(
        team={"solved": float(step.solved), **step.team},
        local=step.local,
        solves=step.solved,
        done=step.solved if step.done is None else step.done,
    )


def progress(before: float, after: float) -> float:
    """The share of the way to the goal that an action covered, in [-1, 1].

    Ending where nothing can be solved any more is -1; where that was so before, there is no progress either way.

    **Example** from distance 8 to 6: 0.25; from 2 to 7: -1.
    """
    if before == float("inf"):
        return 0.0
    return max(-1.0, min(1.0, (before - after) / before))

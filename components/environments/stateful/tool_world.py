"""One problem of a tool world: its start, its tools, its goal, and the plan language that leads to it.

A plan is a list of steps in short plain words, as `buy 2 pear;pay`. A step says what shall be, without the identifiers,
places and prices that a tool needs: finding those is the tool agent's part.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

from components.environments.shared.json_text import unfenced
from components.environments.shared.text import shown
from components.environments.stateful.tools import Call, Run, Tool, run_calls
from components.errors import MalformedAction

State = TypeVar("State")

STEP_SEPARATOR = ";"


class ToolWorld(ABC, Generic[State]):
    """Rules and goal of one problem, over immutable states."""

    start: State
    tools: Mapping[str, Tool[State]]
    goal_text: str
    step_pattern: ClassVar[re.Pattern[str]]
    """What one step looks like, with single spaces."""
    max_step_characters: ClassVar[int]
    """The longest well-formed step of a plan."""
    max_call_characters: ClassVar[int]
    """The longest well-formed call, as compact JSON."""
    planner_guide: str
    """What the planner reads, the step forms with `{max_steps}`, and an example that solves nothing."""
    tool_guide: ClassVar[str]
    """What the tool agent reads, how steps are meant, and an example that solves nothing."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        """Raises KeyError when the limits of `WorldOptions` are missing in `payload`."""
        self.max_steps: int = payload["max_steps"]
        self.max_calls: int = payload["max_calls"]
        self.max_answer_characters: int = payload["max_answer_characters"]
        self.planner_guide = self.planner_guide.format(max_steps=self.max_steps)

    @abstractmethod
    def distance(self, state: State) -> int:
        """How many conditions of the goal do not hold: 0 exactly when it holds."""

    @abstractmethod
    def planner_view(self, state: State) -> str:
        """What the planner sees of `state`, in a bounded number of characters."""

    @abstractmethod
    def tool_view(self, state: State) -> str:
        """What the tool agent sees of `state`, in a bounded number of characters."""

    @abstractmethod
    def calls_for(self, state: State, step: str) -> list[Call]:
        """How `step` is done in `state`; empty when it cannot be done."""

    @abstractmethod
    def expert_steps(self, state: State) -> list[str]:
        """Steps from `state` to the goal, however many; empty where the goal holds or is out of reach."""

    @abstractmethod
    def random_step(self, rng: Random) -> str:
        """One well-formed random step."""

    @abstractmethod
    def random_call(self, state: State, rng: Random) -> Call:
        """One random call whose arguments have the right types."""

    @abstractmethod
    def picture(self, state: State, *, color: bool) -> str:
        """The state and the goal for people."""

    def parse_plan(self, text: str) -> tuple[str, ...]:
        """The steps of a plan: separated by `;` or line feeds, in any case and spacing; no step at all is a plan too.

        Raises MalformedAction on anything else and on more than `max_steps`.

        **Example** `"Buy 2 pear; pay"` is `("buy 2 pear", "pay")`.
        """
        longest = 4 * self.max_steps * (self.max_step_characters + 1)
        if len(text) > longest:
            raise MalformedAction(f"{len(text)} characters; at most {longest} are allowed")
        parts = (" ".join(part.split()).lower() for part in re.split(r"[;\n]", unfenced(text)))
        steps = tuple(part for part in parts if part)
        for step in steps:
            if len(step) > self.max_step_characters or not self.step_pattern.fullmatch(step):
                raise MalformedAction(f"{shown(step)} is not a step of a plan")
        if len(steps) > self.max_steps:
            raise MalformedAction(f"{len(steps)} steps; at most {self.max_steps} are allowed")
        return steps


def list_characters(num_calls: int, call_characters: int) -> int:
    """The length of a compact JSON list of `num_calls` calls of `call_characters` each."""
    return num_calls * (call_characters + 1) + 1


def calls_of_plan(world: ToolWorld[State], state: State, steps: Sequence[str]) -> tuple[list[Call], int]:
    """How a plan is done from `state` with at most `max_calls` calls, and how many of its steps cannot be done.

    A step that cannot be done is left out; at the first that needs more calls than are left the list ends.
    """
    calls: list[Call] = []
    num_impossible = 0
    for step in steps:
        needed = world.calls_for(state, step)
        if len(calls) + len(needed) > world.max_calls:
            break
        run = run_calls(world.tools, state, needed)
        if needed and run.refusal is None:
            calls += needed
            state = run.state
        else:
            num_impossible += 1
    return calls, num_impossible


def carried_out(world: ToolWorld[State], state: State, steps: Sequence[str]) -> Run[State]:
    """What a plan does from `state` when every call that it needs is made."""
    run: Run[State] = Run(state=state, answers=(), refusal=None)
    for step in steps:
        run = run_calls(world.tools, run.state, world.calls_for(run.state, step))
    return run

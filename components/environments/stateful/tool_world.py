"""One problem of a tool world: its start, tools, goal, and plan language.

A plan is a list of steps in short plain words, such as `buy 2 pear;pay`. A step names neither the identifiers nor the places
that a tool needs: the tool agent finds them.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

from components.environments.shared.answer_extraction import last_lines, last_meant, strip_bullet
from components.environments.shared.json_text import strip_fence
from components.environments.shared.pictures import apply_style
from components.environments.shared.text import quote_start
from components.environments.stateful.tools import Call, Run, Tool, run_calls
from components.errors import MalformedAction

State = TypeVar("State")

STEP_SEPARATOR = ";"
PLAN_ENDING = "the last steps, on one line or one a line."
"""How answers that reason first end, for the instructions."""
_MAX_STEP_LINE = 2000
_REMARK = re.compile(r"(?<=\S) {1,8}\([^()]*\)\s*\Z")


class ToolWorld(ABC, Generic[State]):
    """Rules and goal of one problem, over immutable states."""

    start: State
    tools: Mapping[str, Tool[State]]
    goal_text: str
    step_pattern: ClassVar[re.Pattern[str]]
    """The pattern of one step, with single spaces."""
    max_step_characters: ClassVar[int]
    """The length of the longest well-formed step."""
    max_call_characters: ClassVar[int]
    """The length of the longest well-formed call in compact JSON."""
    planner_guide: str
    """Instructions: the observation, the steps with `{max_steps}`, and an example that solves nothing."""
    tool_guide: ClassVar[str]
    """Instructions: the observation, the meaning of steps, and an example that solves nothing."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self.max_steps: int = payload["max_steps"]
        self.max_calls: int = payload["max_calls"]
        self.max_answer_characters: int = payload["max_answer_characters"]
        self.planner_guide = self.planner_guide.format(max_steps=self.max_steps)

    @abstractmethod
    def distance(self, state: State) -> int:
        """The number of unmet conditions of the goal; 0 exactly if the goal holds."""

    @abstractmethod
    def planner_view(self, state: State) -> str:
        """The planner's view of `state`, of bounded length."""

    @abstractmethod
    def tool_view(self, state: State) -> str:
        """The tool agent's view of `state`, of bounded length."""

    @abstractmethod
    def calls_for(self, state: State, step: str) -> list[Call]:
        """The calls that carry out `step` in `state`; empty if that is impossible."""

    @abstractmethod
    def expert_steps(self, state: State) -> list[str]:
        """Steps from `state` to the goal, of any number; empty if the goal holds or is out of reach."""

    @abstractmethod
    def random_step(self, rng: Random) -> str:
        """One well-formed random step."""

    @abstractmethod
    def random_call(self, state: State, rng: Random) -> Call:
        """One random call with arguments of the right types."""

    @abstractmethod
    def picture(self, state: State, *, color: bool) -> str:
        """The state and the goal for people."""

    def parse_plan(self, text: str) -> tuple[str, ...]:
        """The steps of a plan, possibly none, separated by `;` or line feeds, in any case and spacing.

        Raises MalformedAction on anything else and on more than `max_steps`.

        **Example** `"Buy 2 pear; pay"` is `("buy 2 pear", "pay")`.
        """
        longest = 4 * self.max_steps * (self.max_step_characters + 1)
        if len(text) > longest:
            raise MalformedAction(f"{len(text)} characters; at most {longest} are allowed")
        parts = (" ".join(part.split()).lower() for part in re.split(r"[;\n]", strip_fence(text)))
        steps = tuple(part for part in parts if part)
        for step in steps:
            if len(step) > self.max_step_characters or not self.step_pattern.fullmatch(step):
                raise MalformedAction(f"{quote_start(step)} is not a step of a plan")
        if len(steps) > self.max_steps:
            raise MalformedAction(f"{len(steps)} steps; at most {self.max_steps} are allowed")
        return steps


def final_plan(text: str, step: re.Pattern[str]) -> str:
    """The last steps of `text`, each matching `step`, on lines without a remark between them; `text` itself without any.

    The steps of a line are all of it without Markdown, what follows its last colon, or its only text in backticks. A line of
    steps and something else is returned, to be refused. Raises MalformedAction if the text says that the steps are not meant.

    **Example** for a shop: `"First pay? No.\\n1. **buy 2 pear**\\n2. pay\\nGood luck!"` is `"buy 2 pear\\npay"`.
    """

    def are_steps(part: str) -> list[bool]:
        return [step.fullmatch(" ".join(each.split()).lower()) is not None for each in part.split(STEP_SEPARATOR)]

    def read(line: str) -> str | None:
        if len(line) > _MAX_STEP_LINE or not step.search(line.lower()):
            return None
        quoted = line.split("`")[1::2]
        parts = (strip_bullet(line), re.split("[:：]", line)[-1], *(quoted if len(quoted) == 1 else ()))
        found = next((part.strip() for part in parts if all(are_steps(_plain(part)))), None)
        return line if found is None and STEP_SEPARATOR in line and any(are_steps(line)) else found

    last = last_lines(text, read)
    if last is None or last_meant(text, [last]) is None:
        return text
    return "\n".join(map(_plain, last.content.split("\n")))


def _plain(part: str) -> str:
    """Steps without Markdown, and without a remark in brackets or a full stop behind them."""
    return _REMARK.sub("", re.sub("[*`]", "", part)).strip().rstrip(".;")


def list_characters(num_calls: int, call_characters: int) -> int:
    """The length of a compact JSON list of `num_calls` calls of `call_characters` each."""
    return num_calls * (call_characters + 1) + 1


def calls_of_plan(world: ToolWorld[State], state: State, steps: Sequence[str]) -> tuple[list[Call], int]:
    """The calls, at most `max_calls`, that carry out a plan from `state`, and the number of impossible steps.

    Impossible steps are left out; the list ends at the first step that needs more calls than are left.
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


def carry_out(world: ToolWorld[State], state: State, steps: Sequence[str]) -> Run[State]:
    """The result of a plan from `state` when every call that it needs is made."""
    run: Run[State] = Run(state=state, answers=(), refusal=None)
    for step in steps:
        run = run_calls(world.tools, run.state, world.calls_for(run.state, step))
    return run


def first_solving(world: ToolWorld[State], state: State, plans: Iterable[list[str]]) -> list[str]:
    """The first of `plans` that leads from `state` to the goal; empty if none does."""
    return next((steps for steps in plans if world.distance(carry_out(world, state, steps).state) == 0), [])


def highlight_goal(goal: str, *, color: bool) -> str:
    """`goal` for people."""
    return apply_style(goal, "1;33") if color else goal

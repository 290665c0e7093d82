"""A planner and a tool agent on one tool world.

The planner knows the goal and writes the next steps; the tool agent reads the steps, not the goal, and makes the calls that
change the world. A plan is scored by making the calls of a reference translator on a copy of the state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from components.environments.base import MultiAgentEnv, Step
from components.environments.shared.answer_extraction import reasoning_instructions
from components.environments.shared.progress import progress
from components.environments.stateful.answer_extraction import CALLS_ENDING, PLAN_ENDING, final_calls, final_plan
from components.environments.stateful.tool_world import STEP_SEPARATOR, ToolWorld, calls_of_plan, list_characters
from components.environments.stateful.tools import Call, Refusal, compact_json, parse_calls, run_calls
from components.errors import MalformedAction
from components.schema import Observation

PLANNER = "planner"
TOOL_AGENT = "tool_agent"
ROLES = (PLANNER, TOOL_AGENT)
DEFAULT_WEIGHTS: Mapping[str, float] = {
    "team.solved": 1.0,
    "team.progress": 0.2,
    "local.clean": 0.02,
    "local.malformed": -0.1,
    "local.errors": 0.0,
}
"""Refused calls cost nothing by default: otherwise, where all candidates fail, one that tries nothing would be the best."""
RETURN_WEIGHTS: Mapping[str, float] = {"local.clean": 0.0, "local.malformed": 0.0}
"""A whole episode is paid by where it ended alone, as in the games."""
MALFORMED = "malformed"
"""The news after an answer of the tool agent that is not a list of calls."""
BAD_PLAN = "bad_plan"
"""The news after a turn with a malformed plan, whatever the tool agent did."""
NOT_UNDERSTOOD = "!"
NO_PLAN = "?"
CUT = "~"
"""Ends truncated answers."""

_PLANNER_DUTY = (
    "You are the planner. You know the goal and write the next steps of a plan; the tool agent, who does not know the goal, "
    "carries them out with tools. The last thing you see is how its calls of the turn before went: ok, malformed, or the "
    "type of the error that ended them; bad_plan when your steps were malformed."
)
_TOOL_DUTY = (
    "You are the tool agent. First you see the planner's steps (a malformed plan is shown as !; where nobody planned, ? and "
    "the goal). You carry them out with tools; only your calls change anything. The last thing you see are the answers to "
    "your calls of the turn before. Calls are made in order up to the first error."
)

State = TypeVar("State")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table(Generic[State]):
    """The world's state, this turn's plan (None if nobody planned; a malformed one is not `understood`), and the results of
    the previous turn's calls."""

    state: State
    plan: tuple[str, ...] | None = None
    understood: bool = True
    news: str = ""
    answers: tuple[str, ...] = ()


class PlannedWorldEnv(MultiAgentEnv, Generic[State]):
    """The `MultiAgentEnv` of a tool world. A malformed answer changes no state of the world."""

    roles = ROLES
    weights = DEFAULT_WEIGHTS
    return_weights = RETURN_WEIGHTS
    over = "the episode is over: the goal is reached"

    _state: _Table[State]

    def __init__(self, world: ToolWorld[State]) -> None:
        super().__init__(_Table(state=world.start))
        self.world = world

    @property
    def state(self) -> State:
        return self._state.state

    @property
    def plan(self) -> tuple[str, ...] | None:
        """The steps that the tool agent reads; empty for a malformed plan, None if nobody planned."""
        return self._state.plan

    def set_state(self, state: State, *, news: str = "", answers: tuple[str, ...] = ()) -> None:
        """Replace the state, as before a turn."""
        self._state = _Table(state=state, news=news, answers=answers)

    def observe(self, agent: str) -> Observation:
        table, world = self._state, self.world
        if agent == PLANNER:
            text = f"P{world.goal_text}|{world.planner_view(table.state)}|{table.news}>"
            told = self._told(f"{_PLANNER_DUTY}\n{world.planner_guide}", PLAN_ENDING)
            return Observation(instructions=told, state=text)
        assert agent == TOOL_AGENT, f"agent {agent!r} is none of {ROLES}"
        text = f"T{self._plan_text()}|{world.tool_view(table.state)}|{self._answers_text()}>"
        return Observation(instructions=self._told(self._tool_instructions(), CALLS_ENDING), state=text)

    def _told(self, instructions: str, ending: str) -> str:
        return instructions if self.answers == "compact" else reasoning_instructions(instructions, ending)

    def final_answer(self, agent: str, text: str) -> str:
        """The last steps of a plan, or the last calls."""
        if agent == PLANNER:
            return final_plan(text, self.world.step_pattern, max_steps=self.world.max_steps)
        return final_calls(text)

    def _plan_text(self) -> str:
        if self.plan is None:
            return NO_PLAN + self.world.goal_text
        return STEP_SEPARATOR.join(self.plan) if self._state.understood else NOT_UNDERSTOOD

    def _answers_text(self) -> str:
        whole, longest = ",".join(self._state.answers), self.world.max_answer_characters
        return whole if len(whole) <= longest else whole[: longest - 1] + CUT

    def _tool_instructions(self) -> str:
        signatures = "\n".join(tool.signature for tool in self.world.tools.values())
        grammar = (
            f"Answer with a JSON list of at most {self.world.max_calls} calls and nothing else, each an object with the "
            "tool's name and its arguments."
        )
        return f"{_TOOL_DUTY}\nTools:\n{signatures}\n{grammar}\n{self.world.tool_guide}"

    def step(self, agent: str, answer: str) -> Step:
        """The effect of an answer; of a plan, its effect when the reference translator carries it out."""
        table, world = self._state, self.world
        if agent == PLANNER:
            steps = world.parse_plan(answer)
            calls, num_impossible = calls_of_plan(world, table.state, steps)
            reached = run_calls(world.tools, table.state, calls).state
            errors, after = num_impossible > 0, replace(table, plan=steps, understood=True)
        else:
            longest = list_characters(world.max_calls, world.max_call_characters)
            calls = parse_calls(answer, max_calls=world.max_calls, max_characters=longest)
            run = run_calls(world.tools, table.state, calls)
            reached, errors = run.state, run.refusal is not None
            news = news_of(run.refusal, calls) if table.understood else BAD_PLAN
            after = _Table(state=run.state, news=news, answers=run.answers)
        distance = world.distance(reached)
        gained = progress(world.distance(table.state), distance)
        # As in the games: an answer without progress earns nothing, or giving up would be learned.
        clean = bool(calls) and not errors and gained > 0
        return Step(
            state=after,
            solved=distance == 0,
            done=distance == 0 and agent != PLANNER,
            team={"progress": gained},
            local={"clean": float(clean), "malformed": 0.0, "errors": float(errors)},
            team_from_start=self._from_start(distance),
        )

    def _from_start(self, distance: float) -> Mapping[str, float]:
        return {"progress": progress(self.world.distance(self.world.start), distance)}

    def after_malformed(self, agent: str, error: MalformedAction) -> Step:
        table = self._state
        if agent == PLANNER:
            after = replace(table, plan=(), understood=False)
        else:
            answer = compact_json({"error": {"type": MALFORMED, "message": str(error)}})
            news = MALFORMED if table.understood else BAD_PLAN
            after = _Table(state=table.state, news=news, answers=(answer,))
        return Step(
            state=after,
            team={"progress": 0.0},
            local={"clean": 0.0, "errors": 0.0},
            team_from_start=self._from_start(self.world.distance(table.state)),
        )

    @property
    def success(self) -> bool:
        return self.world.distance(self.state) == 0

    def render(self, *, color: bool) -> str:
        return self.world.picture(self.state, color=color)


def news_of(refusal: Refusal | None, calls: Sequence[Call]) -> str:
    """The type of the error that ended the calls of a turn, ok without an error, or nothing without a call."""
    return refusal.type if refusal else "ok" if calls else ""

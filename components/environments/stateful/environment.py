"""A planner and a tool agent on one tool world.

The planner knows the goal and writes the next steps; the tool agent reads the steps, not the goal, and makes the calls that
change the world. What a plan is worth is found by having a reference translator make its calls on a copy of the state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from components.environments.base import Snapshot, ToolCall, refuse_overlong
from components.environments.games.proposal import progress
from components.environments.stateful.tool_world import STEP_SEPARATOR, ToolWorld, calls_of_plan, list_characters
from components.environments.stateful.tools import Call, Refusal, compact_json, parse_calls, run_calls
from components.errors import MalformedAction
from components.rewards.base import Rubric
from components.schema import ActionOutcome, Observation

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
"""A call that is refused costs nothing by default: where all fail, it would make those the best that try nothing."""
MALFORMED = "malformed"
"""The news after an answer of the tool agent that was no list of calls."""
BAD_PLAN = "bad_plan"
"""The news after a turn whose plan was malformed, whatever the tool agent then did."""
NOT_UNDERSTOOD = "!"
NO_PLAN = "?"
CUT = "~"
"""Ends answers that were too long to be shown whole."""

_DEFAULT_RUBRIC = Rubric(team_weight=1.0, weights=DEFAULT_WEIGHTS)
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
    """All that lies on the table: the world's state, this turn's plan (None: nobody planned; a malformed one is not
    `understood`), and how the calls of the turn before went."""

    state: State
    plan: tuple[str, ...] | None = None
    understood: bool = True
    news: str = ""
    answers: tuple[str, ...] = ()


class PlannedWorldEnv(Generic[State]):
    """The `MultiAgentEnv` of a tool world. A malformed answer changes no state of the world."""

    def __init__(self, world: ToolWorld[State]) -> None:
        self.world = world
        self._table = _Table(state=world.start)
        self._newest: ActionOutcome | None = None
        self._newest_by_role: tuple[ActionOutcome | None, ...] = (None,) * len(ROLES)

    @property
    def roles(self) -> tuple[str, ...]:
        return ROLES

    @property
    def state(self) -> State:
        """The real state."""
        return self._table.state

    @property
    def plan(self) -> tuple[str, ...] | None:
        """The steps that the tool agent reads now; empty for a malformed plan, None where nobody planned."""
        return self._table.plan

    def set_state(self, state: State, *, news: str = "", answers: tuple[str, ...] = ()) -> None:
        """Go to another state of the same world, as before a turn."""
        self._table = _Table(state=state, news=news, answers=answers)

    def observe(self, agent: str) -> Observation:
        table, world = self._table, self.world
        if agent == PLANNER:
            text = f"P{world.goal_text}|{world.planner_view(table.state)}|{table.news}>"
            return Observation(instructions=f"{_PLANNER_DUTY}\n{world.planner_guide}", state=text)
        assert agent == TOOL_AGENT, f"agent {agent!r} is none of {ROLES}"
        text = f"T{self._plan_text()}|{world.tool_view(table.state)}|{self._answers_text()}>"
        return Observation(instructions=self._tool_instructions(), state=text)

    def _plan_text(self) -> str:
        if self._table.plan is None:
            return NO_PLAN + self.world.goal_text
        return STEP_SEPARATOR.join(self._table.plan) if self._table.understood else NOT_UNDERSTOOD

    def _answers_text(self) -> str:
        whole, longest = ",".join(self._table.answers), self.world.max_answer_characters
        return whole if len(whole) <= longest else whole[: longest - 1] + CUT

    def _tool_instructions(self) -> str:
        signatures = "\n".join(tool.signature for tool in self.world.tools.values())
        grammar = (
            f"Answer with a JSON list of at most {self.world.max_calls} calls and nothing else, each an object with the "
            "tool's name and its arguments."
        )
        return f"{_TOOL_DUTY}\nTools:\n{signatures}\n{grammar}\n{self.world.tool_guide}"

    def calls(self, agent: str, action: str) -> tuple[ToolCall, ...]:
        return ()

    def apply(self, agent: str, action: str) -> ActionOutcome:
        assert agent in ROLES, f"agent {agent!r} is none of {ROLES}"
        role = ROLES.index(agent)
        try:
            if self.success:
                raise MalformedAction("the episode is over: the goal is reached")
            refuse_overlong(action)
            outcome = self._planned(action) if agent == PLANNER else self._called(action)
        except MalformedAction as error:
            outcome = self._refused(agent, error)
        self._newest = outcome
        self._newest_by_role = (*self._newest_by_role[:role], outcome, *self._newest_by_role[role + 1 :])
        return outcome

    def _planned(self, action: str) -> ActionOutcome:
        """The outcome of a plan: what it would do if the reference translator carried it out."""
        table, world = self._table, self.world
        steps = world.parse_plan(action)
        calls, num_impossible = calls_of_plan(world, table.state, steps)
        after = run_calls(world.tools, table.state, calls).state
        self._table = _Table(state=table.state, plan=steps, news=table.news, answers=table.answers)
        clean = bool(calls) and num_impossible == 0
        return self._outcome(after, clean=clean, errors=num_impossible > 0, final=False)

    def _called(self, action: str) -> ActionOutcome:
        table, world = self._table, self.world
        longest = list_characters(world.max_calls, world.max_call_characters)
        calls = parse_calls(action, max_calls=world.max_calls, max_characters=longest)
        run = run_calls(world.tools, table.state, calls)
        clean = bool(calls) and run.refusal is None
        outcome = self._outcome(run.state, clean=clean, errors=run.refusal is not None, final=True)
        news = news_of(run.refusal, calls) if table.understood else BAD_PLAN
        self._table = _Table(state=run.state, news=news, answers=run.answers)
        return outcome

    def _outcome(self, after: State, *, clean: bool, errors: bool, final: bool) -> ActionOutcome:
        """The facts about an action that leads, or would lead, from the real state to `after`."""
        distance = self.world.distance(after)
        gained = progress(self.world.distance(self._table.state), distance)
        return ActionOutcome(
            team={"solved": float(distance == 0), "progress": gained},
            # As in the games: what leads nowhere earns nothing, however correct, or giving up would be learned.
            local={"clean": float(clean and gained > 0), "malformed": 0.0, "errors": float(errors)},
            solves=distance == 0,
            done=distance == 0 and final,
        )

    def _refused(self, agent: str, error: MalformedAction) -> ActionOutcome:
        table = self._table
        if agent == PLANNER:
            self._table = _Table(state=table.state, plan=(), understood=False, news=table.news, answers=table.answers)
        else:
            answer = compact_json({"error": {"type": MALFORMED, "message": str(error)}})
            news = MALFORMED if table.understood else BAD_PLAN
            self._table = _Table(state=table.state, news=news, answers=(answer,))
        return ActionOutcome(
            team={"solved": 0.0, "progress": 0.0},
            local={"clean": 0.0, "malformed": 1.0, "errors": 0.0},
            solves=self.success,
            done=self.done,
            error=str(error),
        )

    def snapshot(self) -> Snapshot:
        return (self._table, self._newest, self._newest_by_role)

    def restore(self, snapshot: Snapshot) -> None:
        self._table, self._newest, self._newest_by_role = snapshot

    @property
    def team_reward(self) -> float:
        return _DEFAULT_RUBRIC.team(self._newest) if self._newest else 0.0

    def local_reward(self, agent: str) -> float:
        newest = self._newest_by_role[ROLES.index(agent)]
        return _DEFAULT_RUBRIC.local(newest) if newest else 0.0

    @property
    def done(self) -> bool:
        return self.success

    @property
    def success(self) -> bool:
        return self.world.distance(self._table.state) == 0

    def render(self, *, color: bool) -> str:
        return self.world.picture(self._table.state, color=color)


def news_of(refusal: Refusal | None, calls: Sequence[Call]) -> str:
    """How the calls of a turn went, in a word: the type of the error that ended them, ok, or nothing where none was made."""
    return refusal.type if refusal else "ok" if calls else ""

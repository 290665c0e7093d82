"""A planner and a tool agent on one tool world.

The planner knows the goal and writes the next steps; the tool agent reads the steps, not the goal, and makes the calls that
change the world. A plan is scored by making the calls of a reference translator on a copy of the state.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import Field

from components.environments.base import Step, Tools
from components.environments.environment import Demonstrator, Environment
from components.environments.shared.progress import progress
from components.environments.stateful.tool_world import (
    PLAN_ENDING,
    STEP_SEPARATOR,
    ToolWorld,
    calls_of_plan,
    carry_out,
    final_plan,
    list_characters,
)
from components.environments.stateful.tools import (
    CALLS_ENDING,
    Call,
    Refusal,
    calls_text,
    compact_json,
    final_calls,
    parse_calls,
    run_calls,
)
from components.errors import MalformedAction
from components.frozen import Settings

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

_MAX_SCRAMBLES = 20
_PROBABILITY_SLIP = 0.5
"""Probability that the last call before a scrambled state is random."""


class WorldOptions(Settings):
    """The options of every tool world."""

    level: int = Field(1, ge=0, le=3)
    """Size and difficulty; 0 has one thing to do."""
    max_steps: int = Field(6, ge=1, le=20)
    """Maximum steps in the plan of one turn."""
    max_calls: int = Field(6, ge=1, le=20)
    """Maximum calls of one turn."""
    max_answer_characters: int = Field(120, ge=8, le=4000)
    """How many characters of the tools' answers are shown in the next turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene(Generic[State]):
    """A problem being played: its world and the world's state, this turn's plan (None if nobody planned; a malformed one is not
    `understood`), and the results of the previous turn's calls."""

    world: ToolWorld[State]
    state: State
    plan: tuple[str, ...] | None = None
    understood: bool = True
    news: str = ""
    answers: tuple[str, ...] = ()

    @property
    def distance_from_start(self) -> int:
        """The distance of the problem's start."""
        return self.world.distance(self.world.start)

    def after_turn(self, state: State, *, news: str = "", answers: tuple[str, ...] = ()) -> "Scene[State]":
        """The scene in another state of the world, as before a turn."""
        return Scene(world=self.world, state=state, news=news, answers=answers)


class WorldEnvironment(Demonstrator, Environment, Generic[State]):
    """All problems of one tool world. A malformed answer changes no state of the world.

    `deciding` is the part of a problem that the planner reads in every turn, that determines a right plan, and that play never
    changes.
    """

    roles = ROLES
    weights = DEFAULT_WEIGHTS
    return_weights = RETURN_WEIGHTS
    Options = WorldOptions
    over = "the episode is over: the goal is reached"
    remedy = "raise max_steps and max_calls, or lower level"
    states_are_immutable = True
    max_answer_characters = None
    world_type: ClassVar[type[ToolWorld[Any]]]
    """The rules of one problem, made from its payload."""

    @staticmethod
    @abstractmethod
    def draw_level(level: int, rng: Random) -> dict[str, Any] | None:
        """A random problem of `level` without the limits of the options, or None if this draw has none."""

    def draw(self, options: WorldOptions, rng: Random) -> Mapping[str, Any] | None:
        return self.draw_level(options.level, rng)

    def complete_problem(
        self, options: WorldOptions, drawn: Mapping[str, Any], rng: Random
    ) -> Mapping[str, Any] | None:
        """The problem with its limits, if the expert solves it."""
        payload = {**drawn, **options.model_dump(exclude={"level"})}
        world = self.world_type(payload)
        return payload if is_solvable(world, world.start) else None

    def start(self, problem: Mapping[str, Any]) -> Scene[State]:
        world: ToolWorld[State] = self.world_type(problem)
        return Scene(world=world, state=world.start)

    def longest_answer(self, options: WorldOptions) -> int:
        plan = options.max_steps * (self.world_type.max_step_characters + 1) - 1
        return max(plan, list_characters(options.max_calls, self.world_type.max_call_characters))

    def observe(self, state: Scene[State], agent: str) -> str:
        world = state.world
        if agent == PLANNER:
            return f"P{world.goal_text}|{world.planner_view(state.state)}|{state.news}>"
        return f"T{_plan_text(state)}|{world.tool_view(state.state)}|{_answers_text(state)}>"

    def instructions(self, state: Scene[State], agent: str) -> str:
        world = state.world
        if agent == PLANNER:
            return f"{_PLANNER_DUTY}\n{world.planner_guide}"
        signatures = "\n".join(tool.signature for tool in world.tools.values())
        grammar = (
            f"Answer with a JSON list of at most {world.max_calls} calls and nothing else, each an object with the "
            "tool's name and its arguments."
        )
        return f"{_TOOL_DUTY}\nTools:\n{signatures}\n{grammar}\n{world.tool_guide}"

    def ending(self, state: Scene[State], agent: str) -> str:
        return PLAN_ENDING if agent == PLANNER else CALLS_ENDING

    def final_answer(self, state: Scene[State], agent: str, text: str) -> str:
        """The last steps of a plan, or the last calls."""
        if agent == PLANNER:
            return final_plan(text, state.world.step_pattern)
        return final_calls(text)

    def step(self, state: Scene[State], agent: str, answer: str) -> Step:
        """The effect of an answer; of a plan, its effect when the reference translator carries it out."""
        world = state.world
        if agent == PLANNER:
            steps = world.parse_plan(answer)
            calls, num_impossible = calls_of_plan(world, state.state, steps)
            reached = run_calls(world.tools, state.state, calls).state
            errors, after = num_impossible > 0, replace(state, plan=steps, understood=True)
        else:
            longest = list_characters(world.max_calls, world.max_call_characters)
            calls = parse_calls(answer, max_calls=world.max_calls, max_characters=longest)
            run = run_calls(world.tools, state.state, calls)
            reached, errors = run.state, run.refusal is not None
            news = news_of(run.refusal, calls) if state.understood else BAD_PLAN
            after = state.after_turn(run.state, news=news, answers=run.answers)
        distance = world.distance(reached)
        gained = progress(world.distance(state.state), distance)
        # As in the games: an answer without progress earns nothing, or giving up would be learned.
        clean = bool(calls) and not errors and gained > 0
        return Step(
            state=after,
            solved=distance == 0,
            done=distance == 0 and agent != PLANNER,
            team={"progress": gained},
            local={"clean": float(clean), "malformed": 0.0, "errors": float(errors)},
            team_from_start={"progress": progress(state.distance_from_start, distance)},
        )

    def after_malformed(self, state: Scene[State], agent: str, error: MalformedAction) -> Step:
        if agent == PLANNER:
            after = replace(state, plan=(), understood=False)
        else:
            answer = compact_json({"error": {"type": MALFORMED, "message": str(error)}})
            after = state.after_turn(state.state, news=MALFORMED if state.understood else BAD_PLAN, answers=(answer,))
        return Step(
            state=after,
            team={"progress": 0.0},
            local={"clean": 0.0, "errors": 0.0},
            team_from_start={"progress": progress(state.distance_from_start, state.world.distance(state.state))},
        )

    def picture(self, state: Scene[State], *, color: bool) -> str:
        return state.world.picture(state.state, color=color)

    def noisy_expert(self, state: Scene[State], agent: str, *, noise: float, rng: Random) -> str:
        """The planner's next steps to the goal, or the tool agent's calls for its plan; each step or call is replaced by a
        random one with probability `noise`.

        After a random step the expert continues from the resulting state. The tool agent makes no calls for a malformed plan;
        if nobody planned, it knows the goal and plans itself.
        """
        world, plan = state.world, state.plan
        if agent == PLANNER:
            return STEP_SEPARATOR.join(_plan(world, state.state, noise, rng))
        steps = plan if plan is not None else world.expert_steps(state.state)[: world.max_steps]
        calls, _ = calls_of_plan(world, state.state, steps)
        return calls_text([world.random_call(state.state, rng) if rng.random() < noise else call for call in calls])

    def random_answer(self, state: Scene[State], agent: str, rng: Random) -> str:
        """One random step, or one random call."""
        world = state.world
        return world.random_step(rng) if agent == PLANNER else calls_text([world.random_call(state.state, rng)])

    def scramble(self, state: Scene[State], rng: Random, tools: Tools) -> Scene[State]:
        """The scene after a turn that carried out part of a plan, possibly with a slip; the goal stays reachable."""
        world = state.world
        for _ in range(_MAX_SCRAMBLES):
            calls, _ = calls_of_plan(world, world.start, world.expert_steps(world.start))
            made = list(calls[: rng.randrange(len(calls) + 1)])
            if rng.random() < _PROBABILITY_SLIP:
                made[rng.randrange(len(made) + 1) :] = [world.random_call(world.start, rng)]
            run = run_calls(world.tools, world.start, made)
            if world.distance(run.state) > 0 and is_solvable(world, run.state):
                return state.after_turn(run.state, news=news_of(run.refusal, made), answers=run.answers)
        return state.after_turn(world.start)


def _plan_text(scene: Scene[Any]) -> str:
    if scene.plan is None:
        return NO_PLAN + scene.world.goal_text
    return STEP_SEPARATOR.join(scene.plan) if scene.understood else NOT_UNDERSTOOD


def _answers_text(scene: Scene[Any]) -> str:
    whole, longest = ",".join(scene.answers), scene.world.max_answer_characters
    return whole if len(whole) <= longest else whole[: longest - 1] + CUT


def news_of(refusal: Refusal | None, calls: Sequence[Call]) -> str:
    """The type of the error that ended the calls of a turn, ok without an error, or nothing without a call."""
    return refusal.type if refusal else "ok" if calls else ""


def is_solvable(world: ToolWorld[Any], state: Any) -> bool:
    """Whether the expert reaches the goal from `state` within the limits of a turn."""
    for _ in range(_MAX_SCRAMBLES):
        if world.distance(state) == 0:
            return True
        calls, _ = calls_of_plan(world, state, world.expert_steps(state)[: world.max_steps])
        if not calls:
            return False
        state = run_calls(world.tools, state, calls).state
    return False


def _plan(world: ToolWorld[Any], state: Any, noise: float, rng: Random) -> list[str]:
    if noise == 0.0:
        return world.expert_steps(state)[: world.max_steps]
    steps: list[str] = []
    while len(steps) < world.max_steps and (ahead := world.expert_steps(state)):
        steps.append(world.random_step(rng) if rng.random() < noise else ahead[0])
        state = carry_out(world, state, steps[-1:]).state
    return steps

"""What the tool worlds share: options, drawing, and expert, noisy and random play over a `ToolWorld`."""

from abc import abstractmethod
from collections.abc import Mapping
from random import Random
from typing import Any, TypeVar

from pydantic import Field

from components.environments.base import MultiAgentEnv, Tools
from components.environments.family import Demonstrations, DrawnFamily
from components.environments.stateful.environment import PLANNER, PlannedWorldEnv, news_of
from components.environments.stateful.tool_world import (
    STEP_SEPARATOR,
    ToolWorld,
    calls_of_plan,
    carried_out,
    list_characters,
)
from components.environments.stateful.tools import calls_text, run_calls
from components.frozen import Frozen

State = TypeVar("State")

_MAX_SCRAMBLES = 20
_PROBABILITY_SLIP = 0.5
"""Probability that the last call before a scrambled state is random."""


class WorldOptions(Frozen):
    """The options of every tool world."""

    level: int = Field(1, ge=0, le=3)
    """Size and difficulty; 0 has one thing to do."""
    max_steps: int = Field(6, ge=1, le=20)
    """Maximum steps in the plan of one turn."""
    max_calls: int = Field(6, ge=1, le=20)
    """Maximum calls of one turn."""
    max_answer_characters: int = Field(120, ge=8, le=4000)
    """How many characters of the tools' answers are shown in the next turn."""


class WorldFamily(Demonstrations, DrawnFamily[WorldOptions, PlannedWorldEnv[State]]):
    """An `EnvironmentFamily` of one tool world.

    `deciding` is the part of a problem that the planner reads in every turn, that determines a right plan, and that play never
    changes.
    """

    env_type = PlannedWorldEnv
    options_type = WorldOptions
    world_type: type[ToolWorld[State]]
    """The rules of one problem, made from its payload."""
    remedy = "raise max_steps and max_calls, or lower level"

    @staticmethod
    @abstractmethod
    def draw_level(level: int, rng: Random) -> dict[str, Any] | None:
        """A random problem of `level` without the limits of the options, or None if this draw has none."""

    def draw(self, options: WorldOptions, rng: Random) -> Mapping[str, Any] | None:
        return self.draw_level(options.level, rng)

    def completed(self, options: WorldOptions, drawn: Mapping[str, Any], rng: Random) -> Mapping[str, Any] | None:
        """The problem with its limits, if the expert solves it."""
        payload = {**drawn, **options.model_dump(exclude={"level"})}
        world = self.world_type(payload)
        return payload if is_solvable(world, world.start) else None

    def play(self, payload: Mapping[str, Any], tools: Tools) -> PlannedWorldEnv[State]:
        return PlannedWorldEnv(self.world_type(payload))

    def max_action_characters(self, options: Frozen) -> int:
        wanted = self.checked(options)
        plan = wanted.max_steps * (self.world_type.max_step_characters + 1) - 1
        return max(plan, list_characters(wanted.max_calls, self.world_type.max_call_characters))

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: Random) -> str:
        """The planner's next steps to the goal, or the tool agent's calls for its plan; each step or call is replaced by a
        random one with probability `noise`.

        After a random step the expert continues from the resulting state. The tool agent makes no calls for a malformed plan;
        if nobody planned, it knows the goal and plans itself.
        """
        played = self.played(env, agent)
        if agent == PLANNER:
            return STEP_SEPARATOR.join(_planned(played.world, played.state, noise, rng))
        world, state, plan = played.world, played.state, played.plan
        steps = plan if plan is not None else world.expert_steps(state)[: world.max_steps]
        calls, _ = calls_of_plan(world, state, steps)
        return calls_text([world.random_call(state, rng) if rng.random() < noise else call for call in calls])

    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """One random step, or one random call."""
        played = self.played(env, agent)
        if agent == PLANNER:
            return played.world.random_step(rng)
        return calls_text([played.world.random_call(played.state, rng)])

    def scramble(self, env: MultiAgentEnv, rng: Random) -> None:
        """Move `env` to after a turn that carried out part of a plan, possibly with a slip; the goal stays reachable."""
        played = self.played(env, PLANNER)
        world = played.world
        played.set_state(world.start)
        for _ in range(_MAX_SCRAMBLES):
            calls, _ = calls_of_plan(world, world.start, world.expert_steps(world.start))
            made = list(calls[: rng.randrange(len(calls) + 1)])
            if rng.random() < _PROBABILITY_SLIP:
                made[rng.randrange(len(made) + 1) :] = [world.random_call(world.start, rng)]
            run = run_calls(world.tools, world.start, made)
            if world.distance(run.state) > 0 and is_solvable(world, run.state):
                played.set_state(run.state, news=news_of(run.refusal, made), answers=run.answers)
                return


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


def _planned(world: ToolWorld[Any], state: Any, noise: float, rng: Random) -> list[str]:
    if noise == 0.0:
        return world.expert_steps(state)[: world.max_steps]
    steps: list[str] = []
    while len(steps) < world.max_steps and (ahead := world.expert_steps(state)):
        steps.append(world.random_step(rng) if rng.random() < noise else ahead[0])
        state = carried_out(world, state, steps[-1:]).state
    return steps

"""What the tool worlds share: splits, seeds, and expert, noisy and random play over a `ToolWorld`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from random import Random
from string import printable
from typing import Any, Generic, TypeVar

from pydantic import Field

from components.artifacts.refs import Frozen
from components.environments.base import NO_TOOLS, MultiAgentEnv, Retriever, Split, Tools
from components.environments.shared.splits import split_of
from components.environments.stateful.environment import DEFAULT_WEIGHTS, PLANNER, ROLES, PlannedWorldEnv, news_of
from components.environments.stateful.tool_world import (
    STEP_SEPARATOR,
    ToolWorld,
    calls_of_plan,
    carried_out,
    list_characters,
)
from components.environments.stateful.tools import Call, calls_text, run_calls
from components.errors import ConfigurationError
from components.identity import content_id, seed_for
from components.schema import Problem

State = TypeVar("State")
Options = TypeVar("Options", bound="WorldOptions")

ALPHABET = "\n" + "".join(sorted(printable[:95]))
"""Printable ASCII and the line feed: tools quote what agents wrote."""

_MAX_ATTEMPTS = 2000
_MAX_SCRAMBLES = 20
_PROBABILITY_SLIP = 0.5
"""That the last call of the turn before a scrambled state was a random one."""


class WorldOptions(Frozen):
    """What every tool world can be told."""

    level: int = Field(1, ge=0, le=3)
    """How large and how entangled: 0 has one thing to do."""
    max_steps: int = Field(6, ge=1, le=20)
    """Longest plan of one turn, in steps."""
    max_calls: int = Field(6, ge=1, le=20)
    """Longest list of calls of one turn."""
    max_answer_characters: int = Field(120, ge=8, le=4000)
    """How much of the tools' answers is shown in the next turn."""


class WorldFamily(ABC, Generic[Options, State]):
    """An `EnvironmentFamily` of one tool world."""

    name: str
    options_type: type[Options]
    max_step_characters: int
    """The longest well-formed step of a plan."""
    max_call_characters: int
    """The longest well-formed call, as compact JSON."""

    @abstractmethod
    def draw(self, options: Options, rng: Random) -> dict[str, Any] | None:
        """The content of a random problem as JSON, limits left out, or None when this draw has none."""

    @abstractmethod
    def deciding(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """The part of a problem that alone decides its split: what the planner reads in every turn and what a right plan
        follows from. Play never changes it, and problems that differ elsewhere alone are of one split."""

    @abstractmethod
    def world(self, payload: Mapping[str, Any]) -> ToolWorld[State]:
        """The rules of one problem."""

    @property
    def roles(self) -> tuple[str, ...]:
        return ROLES

    @property
    def default_weights(self) -> Mapping[str, float]:
        return DEFAULT_WEIGHTS

    @property
    def copies_proposals(self) -> bool:
        return False

    def uses_sandbox(self, options: Frozen) -> bool:
        return False

    def retriever(self, options: Frozen) -> Retriever | None:
        return None

    def alphabet(self, options: Frozen) -> str:
        return ALPHABET

    def max_action_characters(self, options: Frozen) -> int:
        """The longer of the longest plan and the longest list of calls."""
        wanted = self.checked(options)
        plan = wanted.max_steps * (self.max_step_characters + 1) - 1
        return max(plan, list_characters(wanted.max_calls, self.max_call_characters))

    def problem(self, options: Frozen, *, split: Split, index: int, seed: int) -> Problem:
        """Problem `index` of `split`; the expert solves it. Raises ConfigurationError when hardly any draw has one."""
        wanted = self.checked(options)
        for attempt in range(_MAX_ATTEMPTS):
            rng = Random(seed_for(seed, self.name, split, index, attempt))
            content = self.draw(wanted, rng)
            if content is None or split_of(self.deciding(content)) != split:
                continue
            payload = {**content, **wanted.model_dump(exclude={"level"})}
            if is_solvable(world := self.world(payload), world.start):
                return Problem(problem_id=content_id(self.name, payload), environment=self.name, payload=payload)
        raise ConfigurationError(
            f"environment.options {options.model_dump()!r}: no {self.name} problem in {_MAX_ATTEMPTS} draws; raise "
            "max_steps and max_calls, or lower level"
        )

    def build(self, problem: Problem, tools: Tools = NO_TOOLS) -> PlannedWorldEnv[State]:
        assert problem.environment == self.name, f"{problem.problem_id} belongs to {problem.environment!r}"
        return PlannedWorldEnv(self.world(problem.payload))

    def expert_action(self, env: MultiAgentEnv, agent: str) -> str:
        """The planner's next steps to the goal; the tool agent's calls for the plan it reads.

        A plan that was not understood gets no calls; where nobody planned, the tool agent knows the goal and plans itself.
        """
        return self._demonstrated(_played(env, agent), agent, noise=0.0, rng=None)

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: Random) -> str:
        """The same with each step, or each call, replaced by a random one with probability `noise`.

        After a random step the expert goes on from where that would lead. The tool agent's calls stay those of its plan.
        """
        return self._demonstrated(_played(env, agent), agent, noise=noise, rng=rng)

    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """One random step, or one random call."""
        played = _played(env, agent)
        if agent == PLANNER:
            return played.world.random_step(rng)
        return calls_text([played.world.random_call(played.state, rng)])

    def scramble(self, env: MultiAgentEnv, rng: Random) -> None:
        """To after a turn in which part of a plan was carried out, with slips, and from where the goal can be reached."""
        played = _played(env, PLANNER)
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

    def checked(self, options: Frozen) -> Options:
        """`options` as this family's own type."""
        assert isinstance(options, self.options_type), f"{self.name} got options {options!r}"
        return options

    def _demonstrated(self, played: PlannedWorldEnv[Any], agent: str, *, noise: float, rng: Random | None) -> str:
        if agent == PLANNER:
            return STEP_SEPARATOR.join(_planned(played.world, played.state, noise, rng))
        calls: list[Call] = _translated(played)
        if rng is not None:
            calls = [_slipped(played, call, noise, rng) for call in calls]
        return calls_text(calls)


def is_solvable(world: ToolWorld[Any], state: Any) -> bool:
    """Whether the expert comes from `state` to the goal, in turns of as many calls as are allowed."""
    for _ in range(_MAX_SCRAMBLES):
        if world.distance(state) == 0:
            return True
        calls, _ = calls_of_plan(world, state, world.expert_steps(state)[: world.max_steps])
        if not calls:
            return False
        state = run_calls(world.tools, state, calls).state
    return False


def _planned(world: ToolWorld[Any], state: Any, noise: float, rng: Random | None) -> list[str]:
    if rng is None or noise == 0.0:
        return world.expert_steps(state)[: world.max_steps]
    steps: list[str] = []
    while len(steps) < world.max_steps and (ahead := world.expert_steps(state)):
        steps.append(world.random_step(rng) if rng.random() < noise else ahead[0])
        state = carried_out(world, state, steps[-1:]).state
    return steps


def _translated(played: PlannedWorldEnv[Any]) -> list[Call]:
    world, state = played.world, played.state
    steps = played.plan if played.plan is not None else world.expert_steps(state)[: world.max_steps]
    return calls_of_plan(world, state, steps)[0]


def _slipped(played: PlannedWorldEnv[Any], call: Call, noise: float, rng: Random) -> Call:
    return played.world.random_call(played.state, rng) if rng.random() < noise else call


def _played(env: MultiAgentEnv, agent: str) -> PlannedWorldEnv[Any]:
    assert isinstance(env, PlannedWorldEnv), f"{env!r} was not built by this family"
    assert agent in ROLES, f"agent {agent!r} is none of {ROLES}"
    return env

"""Who answers in `troupe play`: a person, a scripted agent, or the team of a run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from components.environments.base import Demonstrator, EnvironmentFamily, MultiAgentEnv
from components.errors import ConfigurationError, ServiceMissing
from components.evaluation.answered_play import Answer
from components.evaluation.held_out import Sampling
from components.identity import GroupKey, seed_for
from components.nearest import remedy_for
from components.schema import Problem
from components.turn_order import TurnOrder
from tasks.run import Run
from troupe.teams.evaluation import SCRIPTED, scripted_answer
from troupe.teams.person import Person
from troupe.teams.run_team import Team, named_step, stored_run

AGENTS = ("human", *SCRIPTED)
"""Who plays without a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Who plays, in which order, and by `answers(i, problem)` how they answer in episode i."""

    name: str
    turn_order: TurnOrder
    answers: Callable[[int, Problem], Answer]

    @property
    def is_person(self) -> bool:
        return self.name == "human"


def person(family: EnvironmentFamily, turn_order: TurnOrder, stdin: TextIO, stdout: TextIO) -> Player:
    """The person at the terminal; the first episode explains itself."""

    writes_prose = not (isinstance(family, Demonstrator) and family.copies_proposals)

    def answers(index: int, problem: Problem) -> Answer:
        asked = Person(stdin, stdout, explains=index == 0, writes_prose=writes_prose)
        return lambda env, node: asked(env, node.agent)

    return Player(name="human", turn_order=turn_order, answers=answers)


def scripted(agent: str, family: EnvironmentFamily, turn_order: TurnOrder, *, seed: int) -> Player:
    """The expert, the random or the idle agent."""

    def answers(index: int, problem: Problem) -> Answer:
        return scripted_answer(agent, family, seed_for(seed, "play", index))

    return Player(name=agent, turn_order=turn_order, answers=answers)


def named_run(agent: str, store_uri: str | None) -> tuple[Run, int | None]:
    """The run and the step that `RUN` or `RUN@STEP` names; the step is None where the newest is meant.

    Raises ConfigurationError, with the scripted agent that may have been meant.
    """
    name, step = named_step(agent, argument="agent")
    remedy = remedy_for(agent, AGENTS, otherwise=f"use one of {', '.join(AGENTS)}, or a run's name", cutoff=0.5)
    try:
        return stored_run(name, store_uri), step
    except (ConfigurationError, ServiceMissing) as error:
        raise ConfigurationError(f"agent {agent!r}: {remedy} (as a run: {error})") from error


def team_player(team: Team, turn_order: TurnOrder, *, sampling: Sampling, suite: str, seed: int) -> Player:
    """The team of a run, one candidate a node, under the draws of an evaluation of `suite` with this seed."""
    rules = team.rules(turn_order, sampling=sampling, suite=suite, seed=seed)

    def answer(env: MultiAgentEnv, node: GroupKey) -> str:
        (seed,) = rules.seeds(node)
        return team.answer(node.agent, env.observe(node.agent), sampling=sampling, seed=seed)

    return Player(name=team.name, turn_order=turn_order, answers=lambda index, problem: answer)

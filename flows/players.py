"""Who answers in `troupe play`: a person, a scripted agent, or the team of a run."""

import difflib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from components.environments.base import EnvironmentFamily, MultiAgentEnv
from components.errors import ConfigurationError, ServiceMissing
from components.evaluation.runner import Sampling
from components.identity import GroupKey, seed_for
from components.rollout.router import RoleRequest
from components.rollout.rules import Rules
from components.schema import Problem
from flows.evaluation import SCRIPTED, scripted_answer
from flows.person import Person
from flows.run_team import Team, stored_run, team_roles
from tasks.run import Run

AGENTS = ("human", *SCRIPTED)
"""Who plays without a run."""
Answer = Callable[[MultiAgentEnv, str], str | None]
"""What an agent answers in a state; None leaves the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Who plays: `roles` are those that act, and `answers(i, problem)` is how they answer in episode i."""

    name: str
    roles: tuple[str, ...]
    answers: Callable[[int, Problem], Answer]

    @property
    def is_person(self) -> bool:
        return self.name == "human"


def person(family: EnvironmentFamily, stdin: TextIO, stdout: TextIO) -> Player:
    """Whoever sits at the terminal; the first episode explains itself."""

    def answers(index: int, problem: Problem) -> Answer:
        return Person(stdin, stdout, explains=index == 0, writes_prose=not family.copies_proposals)

    return Player(name="human", roles=family.roles, answers=answers)


def scripted(agent: str, family: EnvironmentFamily, *, seed: int) -> Player:
    """The expert, the random or the idle agent."""
    return Player(
        name=agent,
        roles=family.roles,
        answers=lambda index, problem: scripted_answer(agent, family, seed_for(seed, "play", index)),
    )


def named_run(agent: str, store_uri: str | None) -> tuple[Run, int | None]:
    """The run and the step that `RUN` or `RUN@STEP` names; the step is None where the newest is meant.

    Raises ConfigurationError, with the scripted agent that may have been meant.
    """
    name, at, step = agent.partition("@")
    if at and not (step.isascii() and step.isdigit()):
        raise ConfigurationError(f"agent {agent!r}: {step!r} is no step; write RUN@STEP, as {name or 'plan-path'}@100")
    nearest = difflib.get_close_matches(agent, AGENTS, n=1, cutoff=0.5)
    remedy = f"did you mean {nearest[0]!r}?" if nearest else f"use one of {', '.join(AGENTS)}, or a run's name"
    try:
        return stored_run(name, store_uri), int(step) if at else None
    except (ConfigurationError, ServiceMissing) as error:
        raise ConfigurationError(f"agent {agent!r}: {remedy} (as a run: {error})") from error


def team_player(team: Team, family: EnvironmentFamily, *, sampling: Sampling, suite: str, seed: int) -> Player:
    """The team of a run, one candidate a node, under the draws of an evaluation of `suite` with this seed."""
    roles = team_roles(team.config, family.roles, named=f"ENV {family.name}", team=team.name)
    rules = Rules(
        roles=roles,
        max_turns=team.config.environment.max_turns,
        group_size=1,
        temperature=1.0 if sampling == "sample" else 0.0,
        seed=seed,
        purpose=("evaluate", suite),
    )
    return Player(
        name=team.name, roles=roles, answers=lambda index, problem: _TeamAnswers(team, rules, problem.problem_id)
    )


class _TeamAnswers:
    """How a team answers in one episode."""

    def __init__(self, team: Team, rules: Rules, problem_id: str) -> None:
        self._team = team
        self._rules = rules
        self._problem_id = problem_id
        self._num_answers: Counter[str] = Counter()

    def __call__(self, env: MultiAgentEnv, role: str) -> str:
        group = GroupKey(problem_id=self._problem_id, episode=0, turn=self._num_answers[role], agent=role)
        self._num_answers[role] += 1
        request = RoleRequest(
            role=role,
            prompt_tokens=self._team.router.encode(role, env.observe(role)),
            seeds_K=self._rules.seeds(group),
        )
        ((completion,),) = self._team.router.generate([request], temperature=self._rules.temperature)
        return self._team.router.decode(role, completion.tokens)

"""Who plays without the tree, person, script or team, and the loop that plays their episodes."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TextIO

from components.environments.family import Family
from components.environments.play import Playthrough
from components.errors import ConfigurationError, ServiceMissing
from components.evaluation.answered_play import Answer, Ended, Onlooker, play_answers
from components.evaluation.held_out import Sampling
from components.evaluation.scripted_play import SCRIPTED, make_scripted_answer
from components.identity import GroupKey, seed_for
from components.rewards.base import Rubric
from components.runs.history import Progress
from components.runs.run import Run
from components.schema import Problem
from components.session.scenario import Scenario
from components.session.toolbox import Toolbox
from components.text.suggestions import suggest
from components.turn_order import TurnOrder
from troupe.teams.human import Person
from troupe.teams.run_team import Team, find_named_step, find_run

AGENTS = ("human", *SCRIPTED)
"""The players that need no run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """A player and its turn order; `answers(i)` gives the answers of episode i."""

    name: str
    turn_order: TurnOrder
    answers: Callable[[int], Answer]


def play_episodes(
    scenario: Scenario,
    player: Player,
    problems: Sequence[Problem],
    *,
    rubric: Rubric,
    max_turns: int | None,
    progress: Progress,
    problems_per_block: int = 1,
    onlooker: Onlooker | None = None,
) -> list[Ended]:
    """Play the problems in order, block by block, until all are played or a person leaves."""
    finished: list[Ended] = []
    with closing(Toolbox(scenario)) as toolbox:
        tools = toolbox.tools()
        for first in range(0, len(problems), problems_per_block):
            block = problems[first : first + problems_per_block]
            episodes = play_answers(
                block,
                [player.answers(first + i) for i in range(len(block))],
                family=scenario.family,
                tools=tools,
                rubric=rubric,
                turn_order=player.turn_order,
                max_turns=max_turns,
                onlooker=onlooker,
            )
            finished += [ended for ended in episodes if ended is not None]
            if None in episodes:
                break
            progress(len(finished), len(problems))
    return finished


def person(family: Family, turn_order: TurnOrder, stdin: TextIO, stdout: TextIO, *, num_episodes: int = 1) -> Player:
    """The person at the terminal, who gets an explanation in the first episode."""
    writes_prose = not family.copies_proposals

    def answers(index: int) -> Answer:
        print(f"\n{family.name}, episode {index + 1} of {num_episodes}", file=stdout)
        asked = Person(stdin, stdout, explains=index == 0, writes_prose=writes_prose)
        return lambda played, node: asked(played, node.agent)

    return Player(name="human", turn_order=turn_order, answers=answers)


def make_scripted(agent: str, family: Family, turn_order: TurnOrder, seed: int) -> Player:
    """The expert, random or idle agent in every role."""

    def answers(index: int) -> Answer:
        return make_scripted_answer(agent, family, seed_for(seed, "play", index))

    return Player(name=agent, turn_order=turn_order, answers=answers)


def find_named_run(agent: str, store_uri: str | None) -> tuple[Run, int | None]:
    """The run and the step in `RUN` or `RUN@STEP`; the step is None for the newest. Raises ConfigurationError."""
    name, step = find_named_step(agent, argument="agent")
    remedy = suggest(agent, AGENTS, otherwise=f"use one of {', '.join(AGENTS)}, or a run's name", cutoff=0.5)
    try:
        return find_run(name, store_uri), step
    except (ConfigurationError, ServiceMissing) as error:
        raise ConfigurationError(f"agent {agent!r}: {remedy} (as a run: {error})") from error


def team_player(team: Team, turn_order: TurnOrder, *, sampling: Sampling, split: str, seed: int) -> Player:
    """The team of a run, with one candidate per node and the random draws of an evaluation on this split with this seed."""
    rules = team.rules(turn_order, sampling=sampling, split=split, seed=seed)

    def answer(played: Playthrough, node: GroupKey) -> str:
        (seed,) = rules.seeds(node)
        return team.answer(node.agent, played.observe(node.agent), sampling=sampling, seed=seed)

    return Player(name=team.name, turn_order=turn_order, answers=lambda index: answer)

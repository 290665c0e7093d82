"""Play by text answers: scripted teams, a person, or policies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from components.environments.base import EnvironmentFamily, MultiAgentEnv, Tools
from components.identity import GroupKey
from components.rewards.base import Rubric
from components.schema import ActionOutcome, Problem
from components.turn_order import BRANCHING, Phase, TurnOrder, phases

Answer = Callable[[MultiAgentEnv, GroupKey], str | None]
"""(environment, node) -> the answer of the node's agent; None quits."""


class Onlooker(Protocol):
    """Displays episodes during play."""

    def began(self, env: MultiAgentEnv) -> None: ...

    def acted(self, turn: int, role: str, action: str, outcome: ActionOutcome) -> None: ...

    def turn_ended(self, env: MultiAgentEnv, turn: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of an episode. `reward` is that of the newest action; 0 without one."""

    success: bool
    reward: float


def play_answers(
    problems: Sequence[Problem],
    answers: Sequence[Answer],
    *,
    family: EnvironmentFamily,
    tools: Tools,
    rubric: Rubric,
    turn_order: TurnOrder,
    max_turns: int | None,
    onlooker: Onlooker | None = None,
) -> list[Ended | None]:
    """One episode per problem, played by its answer in `answers`, in lock-step so that tools work in parallel.

    None for an abandoned episode. Raises ExecutionFailed if the sandbox failed at an action: this play must be complete.
    """
    tables = [_Table(problem, answer, family, tools) for problem, answer in zip(problems, answers, strict=True)]
    for table in tables:
        if onlooker is not None:
            onlooker.began(table.env)
    followed = [(table, phases(table.env, turn_order, max_turns)) for table in tables]
    while acting := [
        (table, phase) for table, coming in followed if not table.is_left and (phase := next(coming, None)) is not None
    ]:
        answered = [(table, phase, actions) for table, phase in acting if (actions := table.asked(phase))]
        tools.prepare([call for table, _, actions in answered for call in table.env.calls(*actions[0])])
        for table, phase, actions in answered:
            table.act(phase.turn, actions, rubric, onlooker)
            if onlooker is not None and (table.env.done or phase.is_last or turn_order == BRANCHING):
                onlooker.turn_ended(table.env, phase.turn)
    return [None if table.is_left else Ended(success=table.env.success, reward=table.reward) for table in tables]


class _Table:
    """One running episode."""

    def __init__(self, problem: Problem, answer: Answer, family: EnvironmentFamily, tools: Tools) -> None:
        self.env = family.build(problem, tools)
        self.is_left = False
        self._answer = answer
        self._problem_id = problem.problem_id
        self.reward = 0.0

    def asked(self, phase: Phase) -> list[tuple[str, str]]:
        """The role and the answer of each agent of a phase, all in the state before it; none if one quits."""
        answers = [(node.agent, self._answer(self.env, node)) for node in phase.groups(self._problem_id, 0)]
        self.is_left = any(action is None for _, action in answers)
        return [(role, action) for role, action in answers if action is not None and not self.is_left]

    def act(self, turn: int, actions: Sequence[tuple[str, str]], rubric: Rubric, onlooker: Onlooker | None) -> None:
        """Apply the answers of a phase, up to one that ends the episode."""
        for role, action in actions:
            if not self.env.done:
                outcome = self.env.apply(role, action)
                self.reward = rubric.reward(outcome)
                if onlooker is not None:
                    onlooker.acted(turn, role, action, outcome)

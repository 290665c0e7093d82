"""Teams without a policy: what an expert, a random or an idle team makes of a suite."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from components.environments.base import EnvironmentFamily, MultiAgentEnv, Tools
from components.rewards.base import Rubric
from components.schema import Problem
from components.turn_order import TurnOrder, phases

Answer = Callable[[MultiAgentEnv, str], str]
"""What the agent of a role answers in a state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedEpisode:
    """How one episode of a scripted team ended. `reward` is that of the newest action; 0 where nobody acted."""

    problem_id: str
    success: bool
    num_turns: int
    reward: float


def play_scripted(
    problems: Sequence[Problem],
    answers: Sequence[Answer],
    *,
    family: EnvironmentFamily,
    tools: Tools,
    rubric: Rubric,
    turn_order: TurnOrder,
    max_turns: int,
) -> list[ScriptedEpisode]:
    """One episode a problem, played by its answer in `answers`, all in lock-step so that tools work side by side.

    Raises ExecutionFailed when the sandbox failed at an action: a scripted team is a check, so nothing is left out of it.
    """
    tables = [_Table(problem, answer, family, tools) for problem, answer in zip(problems, answers, strict=True)]
    followed = [(table, phases(table.env, turn_order, max_turns)) for table in tables]
    while acting := [(table, phase) for table, coming in followed if (phase := next(coming, None)) is not None]:
        answered = [
            (table, [(role, table.answer(table.env, role)) for role in phase.agents]) for table, phase in acting
        ]
        tools.prepare([call for table, actions in answered for call in table.env.calls(*actions[0])])
        for (table, phase), (_, actions) in zip(acting, answered, strict=True):
            table.act(actions, rubric)
            table.num_turns = phase.turn + 1
    return [table.episode() for table in tables]


class _Table:
    """One episode while it is played."""

    def __init__(self, problem: Problem, answer: Answer, family: EnvironmentFamily, tools: Tools) -> None:
        self.answer = answer
        self.env = family.build(problem, tools)
        self.num_turns = 0
        self._problem_id = problem.problem_id
        self._reward = 0.0

    def act(self, actions: Sequence[tuple[str, str]], rubric: Rubric) -> None:
        """Enter the answers of a phase, up to one that ends the episode."""
        for role, action in actions:
            if not self.env.done:
                self._reward = rubric.reward(self.env.apply(role, action))

    def episode(self) -> ScriptedEpisode:
        return ScriptedEpisode(
            problem_id=self._problem_id, success=self.env.success, num_turns=self.num_turns, reward=self._reward
        )

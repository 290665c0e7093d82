"""Play by text answers: scripted teams, a person, or policies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from components.environments.base import ToolCall, Tools
from components.environments.family import Family
from components.environments.play import Playthrough
from components.errors import ExecutionFailed
from components.identity import GroupKey
from components.rewards.base import Rubric
from components.schema import ActionOutcome, Problem
from components.turn_order import BRANCHING, Phase, TurnOrder

Answer = Callable[[Playthrough, GroupKey], str | None]
"""(playthrough, node) -> the answer of the node's agent; None quits."""


class Onlooker(Protocol):
    """Displays episodes during play."""

    def began(self, playthrough: Playthrough) -> None: ...

    def show_action(self, turn: int, role: str, action: str, outcome: ActionOutcome) -> None: ...

    def turn_ended(self, playthrough: Playthrough, turn: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of an episode. `reward` is that of the newest action; 0 without one.

    `earned` is the sum over all actions where one agent plays and each step pays, and else `reward`. `payoffs` is what each
    agent was paid in a game of payoffs.
    """

    success: bool
    reward: float
    earned: float
    num_turns: int
    num_answers: int
    payoffs: Mapping[str, float] = field(default_factory=dict)


class PayoffSums:
    """What each agent was paid by actions in the order in which they were played. Those of a joint step tell one payment."""

    def __init__(self) -> None:
        self.by_agent: dict[str, float] = {}
        self._told: Mapping[str, float] | None = None

    def add(self, outcome: ActionOutcome) -> None:
        """Count what an action paid, unless another of its joint step told it."""
        if outcome.payoffs is not None and outcome.payoffs is not self._told:
            self._told = outcome.payoffs
            for agent, payoff in outcome.payoffs.items():
                self.by_agent[agent] = self.by_agent.get(agent, 0.0) + payoff


def play_answers(
    problems: Sequence[Problem],
    answers: Sequence[Answer],
    *,
    family: Family,
    tools: Tools,
    rubric: Rubric,
    turn_order: TurnOrder,
    max_turns: int | None,
    onlooker: Onlooker | None = None,
) -> list[Ended | None]:
    """One episode per problem, played by its answer in `answers`, in lock-step so that tools work in parallel.

    None for an abandoned episode. Raises ExecutionFailed if the sandbox failed at an action: this play must be complete.
    """
    referee = family.referee(tools)
    tables = [_Table(Playthrough(referee, problem), answer) for problem, answer in zip(problems, answers, strict=True)]
    for table in tables:
        if onlooker is not None:
            onlooker.began(table.playthrough)
    while acting := [table for table in tables if table.has_phase(turn_order, max_turns)]:
        asked = [table for table in acting if table.ask()]
        tools.prepare([call for table in asked for call in table.first_calls])
        for table in asked:
            phase = table.act(rubric, onlooker)
            if onlooker is not None and (table.playthrough.done or phase.is_last or turn_order == BRANCHING):
                onlooker.turn_ended(table.playthrough, phase.turn)
    return [None if table.is_left else table.ended for table in tables]


class _Table:
    """One running episode."""

    def __init__(self, playthrough: Playthrough, answer: Answer) -> None:
        self.playthrough = playthrough
        self.is_left = False
        self._reward = self._sum = 0.0
        self._is_paid_by_step = False
        self._turns: set[int] = set()
        self._num_answers = 0
        self._payoffs = PayoffSums()
        self._answer = answer
        self._phase: Phase | None = None
        self._texts: list[str] = []

    @property
    def ended(self) -> Ended:
        """How the episode has ended."""
        return Ended(
            success=self.playthrough.success,
            reward=self._reward,
            earned=self._sum if self._is_paid_by_step else self._reward,
            num_turns=len(self._turns),
            num_answers=self._num_answers,
            payoffs=self._payoffs.by_agent,
        )

    def has_phase(self, turn_order: TurnOrder, max_turns: int | None) -> bool:
        """Whether somebody is to act; then it is that phase's turn."""
        if self.is_left:
            return False
        position, referee = self.playthrough.position, self.playthrough.referee
        coming = referee.next_phase(position, turn_order, after=self._phase, max_turns=max_turns)
        self._phase = self.playthrough.phase = coming or self._phase
        return coming is not None

    def ask(self) -> bool:
        """Ask each agent of the phase, all in the state before it; False if one quits, after whom nobody is asked."""
        self._texts = []
        for node in self._acting.groups(self.playthrough.problem.problem_id, 0):
            text = self._answer(self.playthrough, node)
            if text is None:
                self.is_left = True
                return False
            self._texts.append(text)
        return True

    @property
    def first_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the answer that is applied first."""
        position, referee = self.playthrough.position, self.playthrough.referee
        return referee.calls(position, self._acting.agents[0], self._texts[0])

    def act(self, rubric: Rubric, onlooker: Onlooker | None) -> Phase:
        """Play the phase with its answers. Raises ExecutionFailed if a tool failed."""
        played, phase = self.playthrough, self._acting
        outcomes, played.position = played.referee.advance(played.position, phase, self._texts)
        for role, action, outcome in zip(phase.agents, self._texts, outcomes, strict=False):
            if outcome.unscorable is not None:
                raise ExecutionFailed(outcome.unscorable)
            self._reward = rubric.reward(outcome)
            self._sum += self._reward
            self._payoffs.add(outcome)
            self._is_paid_by_step |= outcome.payoffs is not None and len(played.roles) == 1
            self._turns.add(phase.turn)
            self._num_answers += 1
            if onlooker is not None:
                onlooker.show_action(phase.turn, role, action, outcome)
        return phase

    @property
    def _acting(self) -> Phase:
        assert self._phase is not None, "nobody is to act"
        return self._phase

"""One problem being played: the tool agent's program is run, the reasoner answers, and its answer is the team's."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from components.environments.base import Snapshot, ToolCall, Tools, refuse_overlong
from components.environments.math.grammar import failure, parse_answer, parse_program, printed_answer
from components.environments.math.history import Round, Run
from components.environments.math.verifier import verdict
from components.environments.math.views import (
    REASONER,
    TOOL_AGENT,
    compact_view,
    instructions,
    picture,
    prose_view,
    shown_output,
)
from components.errors import MalformedAction
from components.rewards.base import Rubric
from components.schema import ActionOutcome, Observation

ROLES = (TOOL_AGENT, REASONER)
DEFAULT_WEIGHTS: Mapping[str, float] = {
    "team.solved": 1.0,
    "local.correct": 1.0,
    "local.failed": -0.1,
    "local.malformed": -0.1,
}
_DEFAULT_RUBRIC = Rubric(team_weight=1.0, weights=DEFAULT_WEIGHTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where the team stands. `run` is this turn's program, `answer` the newest well-formed answer of the reasoner.

    `agreed` is all that the team can know by itself: its answer is what its program printed.
    """

    rounds: tuple[Round, ...] = ()
    run: Run | None = None
    answer: str | None = None
    agreed: bool = False


class MathEnv:
    """The `MultiAgentEnv` of one problem. The reference answer decides success and rewards, and never `done`."""

    def __init__(self, payload: Mapping[str, Any], tools: Tools) -> None:
        self.payload = payload
        self._tools = tools
        self._progress = Progress()
        self._newest: ActionOutcome | None = None
        self._newest_by_role: tuple[ActionOutcome | None, ...] = (None,) * len(ROLES)

    @property
    def roles(self) -> tuple[str, ...]:
        return ROLES

    @property
    def progress(self) -> Progress:
        """The real state."""
        return self._progress

    def set_progress(self, progress: Progress) -> None:
        """Go to another state of the same problem, as before a turn."""
        self._progress = progress

    def observe(self, agent: str) -> Observation:
        assert agent in ROLES, f"agent {agent!r} is none of {ROLES}"
        compact: bool = self.payload["compact"]
        view = compact_view if compact else prose_view
        state = view(agent, self.payload["statement"], self._progress.rounds, self._progress.run)
        return Observation(instructions=instructions(agent, compact=compact), state=state)

    def calls(self, agent: str, action: str) -> tuple[ToolCall, ...]:
        if agent != TOOL_AGENT or self.done:
            return ()
        try:
            refuse_overlong(action)
            return (parse_program(action, max_characters=self.payload["max_program_characters"]),)
        except MalformedAction:
            return ()

    def apply(self, agent: str, action: str) -> ActionOutcome:
        assert agent in ROLES, f"agent {agent!r} is none of {ROLES}"
        role = ROLES.index(agent)
        try:
            if self.done:
                raise MalformedAction("the episode is over: program and reasoner agree")
            refuse_overlong(action)
            outcome = self._programmed(action) if agent == TOOL_AGENT else self._answered(action)
        except MalformedAction as error:
            outcome = self._refused(agent, str(error))
        self._newest = outcome
        self._newest_by_role = (*self._newest_by_role[:role], outcome, *self._newest_by_role[role + 1 :])
        return outcome

    def _programmed(self, action: str) -> ActionOutcome:
        execution = parse_program(action, max_characters=self.payload["max_program_characters"])
        result = self._tools.run(execution)
        printed = printed_answer(result)
        is_right = printed is not None and verdict(printed, self.payload["answer"])
        solved = self.success
        run = Run(
            program=execution.program,
            output=shown_output(result.stdout, self.payload["max_output_characters"]),
            printed=printed,
            failure="" if printed is not None else failure(result),
        )
        self._progress = replace(self._progress, run=run)
        return ActionOutcome(
            team={"solved": float(solved)},
            local={"correct": float(is_right), "failed": float(printed is None), "malformed": 0.0},
            solves=is_right,
            done=False,
        )

    def _answered(self, action: str) -> ActionOutcome:
        answer = parse_answer(
            action, max_characters=self.payload["max_answer_characters"], numbers_only=self.payload["compact"]
        )
        run = self._progress.run
        agreed = run is not None and run.printed is not None and verdict(run.printed, answer)
        is_right = verdict(answer, self.payload["answer"])
        self._progress = Progress(
            rounds=(*self._progress.rounds, Round(run=run, answer=answer)), answer=answer, agreed=agreed
        )
        return ActionOutcome(team={"solved": float(is_right)}, local={"malformed": 0.0}, solves=is_right, done=agreed)

    def _refused(self, agent: str, reason: str) -> ActionOutcome:
        """A malformed answer. A tool agent that is not over leaves a note of it where its program would stand."""
        local = {"malformed": 1.0}
        if agent == TOOL_AGENT:
            local |= {"correct": 0.0, "failed": 0.0}
            if not self.done:
                self._progress = replace(self._progress, run=Run(program="", output="", printed=None, failure=reason))
        return ActionOutcome(
            team={"solved": float(self.success)}, local=local, solves=self.success, done=self.done, error=reason
        )

    def snapshot(self) -> Snapshot:
        return (self._progress, self._newest, self._newest_by_role)

    def restore(self, snapshot: Snapshot) -> None:
        self._progress, self._newest, self._newest_by_role = snapshot

    @property
    def team_reward(self) -> float:
        return _DEFAULT_RUBRIC.team(self._newest) if self._newest else 0.0

    def local_reward(self, agent: str) -> float:
        newest = self._newest_by_role[ROLES.index(agent)]
        return _DEFAULT_RUBRIC.local(newest) if newest else 0.0

    @property
    def done(self) -> bool:
        return self._progress.agreed

    @property
    def success(self) -> bool:
        answer = self._progress.answer
        return answer is not None and verdict(answer, self.payload["answer"])

    def render(self, *, color: bool) -> str:
        progress = self._progress
        return picture(self.payload["statement"], progress.rounds, progress.run, solved=self.success, color=color)

"""One problem being played: the tool agent's program is run, and the reasoner gives the team's answer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from components.environments.base import MultiAgentEnv, Step, Tools
from components.environments.math.answer_extraction import PROGRAM_ENDING, VALUE_ENDING, final_value
from components.environments.math.grammar import failure, parse_answer, parse_program, printed_answer
from components.environments.math.history import Progress, Round, Run
from components.environments.math.observations import (
    REASONER,
    TOOL_AGENT,
    compact_view,
    instructions,
    picture,
    prose_view,
    shown_output,
)
from components.environments.math.verifier import verdict
from components.environments.shared.answer_extraction import final_program, reasoning_instructions
from components.errors import MalformedAction
from components.schema import Execution, Observation

ROLES = (TOOL_AGENT, REASONER)
DEFAULT_WEIGHTS: Mapping[str, float] = {
    "team.solved": 1.0,
    "local.correct": 1.0,
    "local.failed": -0.1,
    "local.malformed": -0.1,
}


class MathEnv(MultiAgentEnv):
    """The `MultiAgentEnv` of one problem. The reference answer determines success and rewards, but never `done`."""

    roles = ROLES
    weights = DEFAULT_WEIGHTS
    over = "the episode is over: program and reasoner agree"

    _state: Progress

    def __init__(self, payload: Mapping[str, Any], tools: Tools) -> None:
        super().__init__(Progress())
        self.payload = payload
        self._tools = tools

    @property
    def progress(self) -> Progress:
        return self._state

    def set_progress(self, progress: Progress) -> None:
        """Replace the state, as before a turn."""
        self._state = progress

    def observe(self, agent: str) -> Observation:
        assert agent in ROLES, f"agent {agent!r} is none of {ROLES}"
        compact: bool = self.payload["compact"]
        view = compact_view if compact else prose_view
        state = view(agent, self.payload["statement"], self.progress)
        told = instructions(agent, compact=compact)
        if self.answers == "reasoned":
            told = reasoning_instructions(told, PROGRAM_ENDING if agent == TOOL_AGENT else VALUE_ENDING)
        return Observation(instructions=told, state=state)

    def final_answer(self, agent: str, text: str) -> str:
        """The last block of a program, or the final value."""
        return final_program(text) if agent == TOOL_AGENT else final_value(text)

    def asked(self, agent: str, answer: str) -> tuple[Execution, ...]:
        return (self._execution(answer),) if agent == TOOL_AGENT else ()

    def _execution(self, answer: str) -> Execution:
        return parse_program(answer, max_characters=self.payload["max_program_characters"])

    def step(self, agent: str, answer: str) -> Step:
        return self._programmed(self._execution(answer)) if agent == TOOL_AGENT else self._answered(answer)

    def _programmed(self, execution: Execution) -> Step:
        result = self._tools.run(execution)
        printed = printed_answer(result)
        is_right = printed is not None and verdict(printed, self.payload["answer"])
        run = Run(
            program=execution.program,
            output=shown_output(result.stdout, self.payload["max_output_characters"]),
            printed=printed,
            failure="" if printed is not None else failure(result),
        )
        return Step(
            state=replace(self.progress, run=run),
            solved=is_right,
            done=False,
            team={"solved": float(self.success)},
            local={"correct": float(is_right), "failed": float(printed is None), "malformed": 0.0},
        )

    def _answered(self, answer: str) -> Step:
        given = parse_answer(
            answer, max_characters=self.payload["max_answer_characters"], numbers_only=self.payload["compact"]
        )
        run = self.progress.run
        agreed = run is not None and run.printed is not None and verdict(run.printed, given)
        rounds = (*self.progress.rounds, Round(run=run, answer=given))
        return Step(
            state=Progress(rounds=rounds, agreed=agreed),
            solved=verdict(given, self.payload["answer"]),
            done=agreed,
            local={"malformed": 0.0},
        )

    def after_malformed(self, agent: str, error: MalformedAction) -> Step:
        """A tool agent leaves a note in place of its program, unless the episode is over."""
        progress = self.progress
        if agent == TOOL_AGENT and not self.done:
            progress = replace(progress, run=Run(program="", output="", printed=None, failure=str(error)))
        local = {"correct": 0.0, "failed": 0.0} if agent == TOOL_AGENT else {}
        return Step(state=progress, solved=self.success, local=local)

    @property
    def done(self) -> bool:
        return self.progress.agreed

    @property
    def success(self) -> bool:
        answer = self.progress.answer
        return answer is not None and verdict(answer, self.payload["answer"])

    def render(self, *, color: bool) -> str:
        return picture(self.payload["statement"], self.progress, solved=self.success, color=color)

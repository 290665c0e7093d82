"""One game played by two roles: `tool_agent` proposes moves that a tool tries out, then `plan_agent` decides.

A `Game` is the rules of one puzzle as pure functions of its state. `ProposalEnv` adds the roles: it tries the proposal on a
copy of the state and reports the result to the plan agent, whose answer alone changes the real state.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

from components.environments.base import NO_TOOLS, MultiAgentEnv, Step, Tools
from components.environments.games.answer_extraction import LIST_ENDING, PROGRAM_ENDING, final_moves
from components.environments.games.parsing import MoveList
from components.environments.games.python_tool import (
    MALFORMED_MARK,
    MARKS_MEANING,
    ProgramFailed,
    execution_of,
    printed_moves,
)
from components.environments.shared.answer_extraction import final_program, reasoning_instructions
from components.environments.shared.progress import progress, value_gain
from components.errors import MalformedAction
from components.schema import Execution, Observation

TOOL_AGENT = "tool_agent"
PLAN_AGENT = "plan_agent"
ROLES = (TOOL_AGENT, PLAN_AGENT)
DEFAULT_WEIGHTS: Mapping[str, float] = {
    "team.solved": 1.0,
    "team.progress": 0.2,
    "local.clean": 0.1,
    "local.malformed": -0.1,
}
RETURN_WEIGHTS: Mapping[str, float] = {"local.clean": 0.0, "local.malformed": 0.0}
"""A whole episode is paid by where it ended alone: the form of its last answer must not outweigh a step towards the goal."""
PAD = "-"
MARKS = "yn!-"
"""Marks of a proposal: solves, does not solve, malformed, missing."""

_TOOL_DUTY = "You are the tool agent. You propose a list of moves; a tool tries it out and reports to the plan agent."
_PROGRAM_DUTY = (
    "You are the tool agent. You write a program in Python 3, of at most {max_characters} characters and with the standard "
    "library alone. It is run, and the last line that it prints must be a list of moves in JSON; a tool tries that list out "
    "and reports to the plan agent."
)
_PLAN_DUTY = (
    "You are the plan agent. After the board you see the list that the tool agent proposed (padded with '-'), then '|', "
    "{report}, and a mark: y it would solve, n it would not, ! the proposal was malformed, - there was none. You decide: "
    "only your list changes anything."
)

State = TypeVar("State")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial(Generic[State]):
    """The result of a list of moves, and how many of them were blocked or broke a rule of the puzzle."""

    state: State
    num_faults: int


class Game(ABC, Generic[State]):
    """One puzzle: its start and the rules, over small immutable states. A move is a string of `move_width` characters."""

    start: State
    max_moves: int
    move_width: int = 1
    move_list: MoveList
    legend: str
    """How to read the board, and the effect of moves."""
    grammar: str
    """The grammar of an answer, with an example that solves nothing."""
    program_rules: str
    """The input and output of a program, with an example that solves nothing."""
    report_meaning: str
    """The meaning of `report_text`, for the plan agent's instructions."""

    @abstractmethod
    def __init__(self, payload: Mapping[str, Any]) -> None: ...

    def parse(self, text: str) -> Sequence[str]:
        """The moves of an answer. Raises MalformedAction."""
        return self.move_list.parse(text, max_moves=self.max_moves)

    @abstractmethod
    def play(self, state: State, moves: Sequence[str]) -> Trial[State]:
        """The result of the moves. Raises MalformedAction if the puzzle forbids the list as a whole."""

    @abstractmethod
    def distance(self, state: State) -> float:
        """The distance from solved: 0 exactly if `state` is solved, infinite if it cannot be solved any more."""

    def optimal_distance(self, state: State) -> float:
        """The least number of moves to a solved state, infinite for a dead end; `distance` where that is exact."""
        return self.distance(state)

    @abstractmethod
    def board_text(self, state: State) -> str:
        """The state as text whose width depends on the options alone."""

    @abstractmethod
    def board_json(self, state: State) -> Mapping[str, Any]:
        """The state as input of a program: small plain JSON, a function of the state alone."""

    @abstractmethod
    def report_text(self, state: State) -> str:
        """The tool's report on the result of a proposal, whose width depends on the options alone."""

    @abstractmethod
    def picture(self, state: State, *, color: bool) -> str:
        """The state for people."""

    @abstractmethod
    def expert_move(self, state: State, rng: Random | None) -> str | None:
        """The solver's next move, None if the puzzle is solved or lost; `rng` chooses between equally good moves."""

    @abstractmethod
    def random_move(self, state: State, rng: Random) -> str:
        """One well-formed random move."""

    @abstractmethod
    def random_state(self, rng: Random) -> State:
        """A random unsolved state from which the puzzle can still be solved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposal(Generic[State]):
    """The tool agent's moves, none if malformed, their result, and the mark of both."""

    moves: Sequence[str] = ()
    state: State
    mark: str


class _Table(NamedTuple, Generic[State]):
    """The real state of a game, and the proposal that the plan agent sees."""

    state: State
    proposal: _Proposal[State] | None = None


class ProposalEnv(MultiAgentEnv, Generic[State]):
    """The `MultiAgentEnv` of a game. A malformed answer leaves a mark and does not change the game.

    With `max_program_characters` the tool agent writes a program, which `tools` runs on the board; its last line of output is
    the proposal.
    """

    roles = ROLES
    weights = DEFAULT_WEIGHTS
    return_weights = RETURN_WEIGHTS
    over = "the episode is over: the puzzle is solved"
    _state: _Table[State]

    def __init__(
        self, game: Game[State], *, max_program_characters: int | None = None, tools: Tools = NO_TOOLS
    ) -> None:
        super().__init__(_Table(game.start))
        self.game = game
        self._start_distance = game.distance(game.start)
        self.max_program_characters = max_program_characters
        self._tools = tools

    @property
    def state(self) -> State:
        return self._state.state

    def set_state(self, state: State) -> None:
        """Replace the state, as before a turn."""
        self._state = _Table(state)

    def observe(self, agent: str) -> Observation:
        board = self.game.board_text(self.state)
        if agent == TOOL_AGENT:
            text = f"T{board}:"
        else:
            assert agent == PLAN_AGENT, f"agent {agent!r} is none of {ROLES}"
            text = f"P{board}:{self._proposal_text()}>"
        return Observation(instructions=self._instructions(agent), state=text)

    def _instructions(self, agent: str) -> str:
        told = self._compact_instructions(agent)
        if self.answers == "compact":
            return told
        return reasoning_instructions(told, PROGRAM_ENDING if self._writes_program(agent) else LIST_ENDING)

    def _compact_instructions(self, agent: str) -> str:
        if agent == PLAN_AGENT:
            explained = f" Other marks: {MARKS_MEANING}." if self.max_program_characters else ""
            duty = f"{_PLAN_DUTY.format(report=self.game.report_meaning)}{explained}"
            return f"{duty}\n{self.game.legend}\n{self.game.grammar}"
        if self.max_program_characters is None:
            return f"{_TOOL_DUTY}\n{self.game.legend}\n{self.game.grammar}"
        duty = _PROGRAM_DUTY.format(max_characters=self.max_program_characters)
        return f"{duty}\n{self.game.legend}\n{self.game.program_rules}"

    def _proposal_text(self) -> str:
        proposal = self._state.proposal or _Proposal(state=self.state, mark=PAD)
        moves = "".join(proposal.moves).ljust(self.game.max_moves * self.game.move_width, PAD)
        return f"{moves}|{self.game.report_text(proposal.state)}{proposal.mark}"

    def _writes_program(self, agent: str) -> bool:
        return agent == TOOL_AGENT and self.max_program_characters is not None

    def final_answer(self, agent: str, text: str) -> str:
        """The last block of a program, or the last list of moves."""
        if self._writes_program(agent):
            return final_program(text)
        return final_moves(text, self.game.move_list)

    def asked(self, agent: str, answer: str) -> tuple[Execution, ...]:
        if agent != TOOL_AGENT or self.max_program_characters is None:
            return ()
        board = self.game.board_json(self.state)
        return (execution_of(answer, board, max_characters=self.max_program_characters),)

    def step(self, agent: str, answer: str) -> Step:
        for execution in self.asked(agent, answer):
            answer = printed_moves(self._tools.run(execution))
        moves = self.game.parse(answer)
        trial = self.game.play(self.state, moves)
        after = self.game.distance(trial.state)
        gained = progress(self.game.distance(self.state), after)
        # A legal list without progress earns nothing: among failures it would be the best, so that giving up would be learned.
        clean = trial.num_faults == 0 and gained > 0
        proposes, solves = agent == TOOL_AGENT, after == 0
        proposal = _Proposal(moves=moves, state=trial.state, mark="y" if solves else "n") if proposes else None
        return Step(
            state=_Table(self.state if proposes else trial.state, proposal),
            solved=solves,
            done=solves and not proposes,
            team={"progress": gained},
            local={"clean": float(clean), "malformed": 0.0},
            team_from_start=self._from_start(after),
            value_gain=self._value_gain(trial.state),
        )

    def _from_start(self, distance: float) -> Mapping[str, float]:
        return {"progress": progress(self._start_distance, distance)}

    def _value_gain(self, after: State) -> float | None:
        if not self.measures_value:
            return None
        game = self.game
        return value_gain(
            game.optimal_distance(self.state), game.optimal_distance(after), game.optimal_distance(game.start)
        )

    def after_malformed(self, agent: str, error: MalformedAction) -> Step:
        table = self._state
        if agent == TOOL_AGENT:
            mark = error.mark if isinstance(error, ProgramFailed) else MALFORMED_MARK
            table = _Table(self.state, _Proposal(state=self.state, mark=mark))
        return Step(
            state=table,
            team={"progress": 0.0},
            local={"clean": 0.0},
            team_from_start=self._from_start(self.game.distance(self.state)),
            value_gain=self._value_gain(self.state),
        )

    @property
    def success(self) -> bool:
        return self.game.distance(self.state) == 0

    def render(self, *, color: bool) -> str:
        return self.game.picture(self.state, color=color)

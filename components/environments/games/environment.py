"""A puzzle played by two roles: `tool_agent` proposes moves that a tool tries out, then `plan_agent` decides.

The proposal is tried on a copy of the state and its result is reported to the plan agent, whose answer alone changes the real
state. What the puzzles share stands here; a puzzle adds its options, how it is drawn, and its rules as a `Game`.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import Field, model_validator

from components.environments.base import Step, Tools
from components.environments.environment import Demonstrator, ToolEnvironment
from components.environments.games.game import Game
from components.environments.games.parsing import LIST_ENDING, final_moves
from components.environments.games.python_tool import (
    MALFORMED_MARK,
    MARKS_MEANING,
    ProgramFailed,
    ToolOptions,
    execution_of,
    printing_program,
    read_printed_moves,
)
from components.environments.shared.answer_extraction import PROGRAM_ENDING, final_program
from components.environments.shared.progress import progress, value_gain
from components.environments.shared.text import PRINTABLE
from components.errors import MalformedAction
from components.schema import Execution

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
Options = TypeVar("Options", bound=ToolOptions)


class DistanceOptions(ToolOptions):
    """The options of a puzzle whose difficulty is the number of moves to solve it."""

    min_distance: int = Field(ge=2)
    max_distance: int = Field(ge=2)
    max_moves: int = Field(ge=1)

    @model_validator(mode="after")
    def _consistent(self) -> "DistanceOptions":
        if self.min_distance > self.max_distance:
            raise ValueError(f"min_distance {self.min_distance} exceeds max_distance {self.max_distance}; lower it")
        return self

    @property
    def longest_list(self) -> int:
        return self.max_moves


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(Generic[State]):
    """The tool agent's moves, none if malformed, their result, and the mark of both."""

    moves: Sequence[str] = ()
    state: State
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Board(Generic[State]):
    """A puzzle being played: its rules, its real state, and the proposal that the plan agent sees.

    With `max_program_characters` the tool agent writes a program; the last line of its output is the proposal.
    """

    game: Game[State]
    state: State
    start_distance: float
    max_program_characters: int | None
    proposal: Proposal[State] | None = None

    def writes_program(self, agent: str) -> bool:
        """Whether answers of `agent` are programs."""
        return agent == TOOL_AGENT and self.max_program_characters is not None


class PuzzleEnvironment(Demonstrator, ToolEnvironment, Generic[Options, State]):
    """All problems of one puzzle. `draw` draws the board, which play never changes and which alone decides the split; `puzzle`
    draws the rest. A malformed answer leaves a mark and does not change the game."""

    roles: ClassVar[tuple[str, ...]] = ROLES
    weights = DEFAULT_WEIGHTS
    return_weights = RETURN_WEIGHTS
    over = "the episode is over: the puzzle is solved"
    remedy = "ask for a larger size or for less (density, distance, number of boxes or blanks)"
    copies_proposals = True
    has_solver_value = True
    states_are_immutable = True
    max_answer_characters = None
    game_type: ClassVar[type[Game[Any]]]
    """The rules of one puzzle, made from its payload."""
    move_separator: ClassVar[str] = ""

    @abstractmethod
    def puzzle(self, options: Options, drawn: Mapping[str, Any], rng: Random) -> Mapping[str, Any] | None:
        """The payload of a puzzle on the board `drawn` that meets `options`, or None if there is none."""

    @abstractmethod
    def move_alphabet(self, options: Options) -> str:
        """Every character of observations and of compact lists of moves, in a fixed order."""

    def solver_program(self) -> str | None:
        """A short program that solves any puzzle from its board as JSON; None if there is none."""
        return None

    def complete_problem(self, options: Options, drawn: Mapping[str, Any], rng: Random) -> Mapping[str, Any] | None:
        payload = self.puzzle(options, drawn, rng)
        return None if payload is None else {**payload, **options.tool_payload}

    def start(self, problem: Mapping[str, Any]) -> Board[State]:
        game: Game[State] = self.game_type(problem)
        return Board(
            game=game,
            state=game.start,
            start_distance=game.distance(game.start),
            max_program_characters=problem.get("max_program_characters"),
        )

    def uses_sandbox(self, options: Options) -> bool:
        return options.tool == "python"

    def characters(self, options: Options) -> str:
        return PRINTABLE if options.tool == "python" else self.move_alphabet(options)

    def longest_answer(self, options: Options) -> int:
        """The length of the longest program or compact list of moves."""
        separator = len(self.move_separator)
        longest = options.longest_list * (self.game_type.move_width + separator) - separator
        return max(options.max_program_characters, longest) if options.tool == "python" else longest

    def observe(self, state: Board[State], agent: str) -> str:
        board = state.game.board_text(state.state)
        return f"T{board}:" if agent == TOOL_AGENT else f"P{board}:{_proposal_text(state)}>"

    def instructions(self, state: Board[State], agent: str) -> str:
        game, longest = state.game, state.max_program_characters
        if agent == PLAN_AGENT:
            explained = f" Other marks: {MARKS_MEANING}." if longest else ""
            return f"{_PLAN_DUTY.format(report=game.report_meaning)}{explained}\n{game.legend}\n{game.grammar}"
        if longest is None:
            return f"{_TOOL_DUTY}\n{game.legend}\n{game.grammar}"
        return f"{_PROGRAM_DUTY.format(max_characters=longest)}\n{game.legend}\n{game.program_rules}"

    def ending(self, state: Board[State], agent: str) -> str:
        return PROGRAM_ENDING if state.writes_program(agent) else LIST_ENDING

    def final_answer(self, state: Board[State], agent: str, text: str) -> str:
        """The last block of a program, or the last list of moves."""
        return final_program(text) if state.writes_program(agent) else final_moves(text, state.game.move_list)

    def tool_calls(self, state: Board[State], agent: str, answer: str) -> tuple[Execution, ...]:
        if agent != TOOL_AGENT or state.max_program_characters is None:
            return ()
        board = state.game.board_json(state.state)
        return (execution_of(answer, board, max_characters=state.max_program_characters),)

    def step(self, state: Board[State], agent: str, answer: str, tools: Tools) -> Step:
        for execution in self.tool_calls(state, agent, answer):
            answer = read_printed_moves(tools.run(execution))
        game = state.game
        moves = game.parse(answer)
        trial = game.play(state.state, moves)
        distance = game.distance(trial.state)
        gained = progress(game.distance(state.state), distance)
        # A legal list without progress earns nothing: among failures it would be the best, so that giving up would be learned.
        clean = trial.num_faults == 0 and gained > 0
        proposes, solves = agent == TOOL_AGENT, distance == 0
        if proposes:
            proposal = Proposal(moves=moves, state=trial.state, mark="y" if solves else "n")
            after = replace(state, proposal=proposal)
        else:
            after = replace(state, state=trial.state, proposal=None)
        return Step(
            state=after,
            solved=solves,
            done=solves and not proposes,
            team={"progress": gained},
            local={"clean": float(clean), "malformed": 0.0},
            team_from_start={"progress": progress(state.start_distance, distance)},
            value_gain=lambda: _value_gain(state, trial.state),
        )

    def after_malformed(self, state: Board[State], agent: str, error: MalformedAction) -> Step:
        after = state
        if agent == TOOL_AGENT:
            mark = error.mark if isinstance(error, ProgramFailed) else MALFORMED_MARK
            after = replace(state, proposal=Proposal(state=state.state, mark=mark))
        return Step(
            state=after,
            team={"progress": 0.0},
            local={"clean": 0.0},
            team_from_start={"progress": progress(state.start_distance, state.game.distance(state.state))},
            value_gain=lambda: _value_gain(state, state.state),
        )

    def picture(self, state: Board[State], *, color: bool) -> str:
        return state.game.picture(state.state, color=color)

    def expert(self, state: Board[State], agent: str) -> str:
        """The solver's list; the same for both agents, because both act from the real state.

        A tool agent that writes Python answers with the solver's program if it fits, else with a program that prints the list.
        """
        longest = state.max_program_characters
        if agent == TOOL_AGENT and longest is not None:
            program = self.solver_program()
            if program is not None and len(program) <= longest:
                return program
        return self._demonstrate(state, agent, noise=0.0, rng=None)

    def noisy_expert(self, state: Board[State], agent: str, *, noise: float, rng: Random) -> str:
        """The solver's list with each move replaced by a random one with probability `noise`.

        After a random move the solver continues from the resulting state, so that a clone sees how a slip is repaired. The
        list ends when the puzzle is solved or lost, or at the longest length.
        """
        return self._demonstrate(state, agent, noise=noise, rng=rng)

    def random_answer(self, state: Board[State], agent: str, rng: Random) -> str:
        """One random move; a long random list would often solve small boards by luck."""
        return _as_answer(state, agent, state.game.random_move(state.state, rng))

    def scramble(self, state: Board[State], rng: Random, tools: Tools) -> Board[State]:
        return replace(state, state=state.game.random_state(rng), proposal=None)

    def _demonstrate(self, board: Board[State], agent: str, *, noise: float, rng: Random | None) -> str:
        game, state, moves = board.game, board.state, list[str]()
        while len(moves) < game.max_moves and (move := game.expert_move(state, rng)) is not None:
            if rng is not None and rng.random() < noise:
                move = game.random_move(state, rng)
            moves.append(move)
            state = game.play(state, (move,)).state
        return _as_answer(board, agent, self.move_separator.join(moves))


def _as_answer(board: Board[Any], agent: str, moves: str) -> str:
    """`moves` as an answer of `agent`: if it writes Python, a program that prints them."""
    return printing_program(moves) if board.writes_program(agent) else moves


def _proposal_text(board: Board[Any]) -> str:
    game, proposal = board.game, board.proposal or Proposal(state=board.state, mark=PAD)
    moves = "".join(proposal.moves).ljust(game.max_moves * game.move_width, PAD)
    return f"{moves}|{game.report_text(proposal.state)}{proposal.mark}"


def _value_gain(board: Board[State], after: State) -> float:
    game = board.game
    return value_gain(
        game.optimal_distance(board.state), game.optimal_distance(after), game.optimal_distance(game.start)
    )

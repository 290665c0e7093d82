"""The rules of one puzzle, as pure functions of its state."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from components.environments.games.parsing import MoveList

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

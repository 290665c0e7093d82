"""eight_queens: complete a board with one queen per row such that none attacks another. Given queens cannot be moved."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from pydantic import Field, model_validator

from components.environments.games.environment import MARKS, PuzzleEnvironment
from components.environments.games.game import Game, Trial
from components.environments.games.parsing import SYMBOLS, MoveList
from components.environments.games.python_tool import ToolOptions
from components.environments.shared.pictures import paint
from components.errors import MalformedAction

BLANK = "."
OWN = "abcdefghij"
"""The letters of columns 1 to 10 for queens that an agent placed; given queens have the symbols."""

_STYLES = {BLANK: "2", "Q": "1", "q": "1;36"}
_PROBABILITY_WRONG = 0.3
"""Probability that a queen of a scrambled board is misplaced, so that clones see mistakes to repair."""


class EightQueensOptions(ToolOptions):
    """The options of eight_queens."""

    size: int = Field(8, ge=4, le=10)
    """Number of rows, columns and queens."""
    num_free: int = Field(4, ge=3, le=10)
    """Number of rows without a given queen; at least 3, so that luck solves nothing."""
    max_placements: int | None = Field(None, ge=1, le=40)
    """Maximum number of placements in one answer; None means the number of free rows."""

    @model_validator(mode="after")
    def _fits(self) -> "EightQueensOptions":
        if self.num_free >= self.size:
            raise ValueError(
                f"num_free {self.num_free} at size {self.size}: one given queen is needed, or all puzzles are one; use at "
                f"most {self.size - 1}"
            )
        return self

    @property
    def longest_list(self) -> int:
        return self.max_placements if self.max_placements is not None else self.num_free


class EightQueensGame(Game[str]):
    """The state is one character per row: the column of a given queen, the letter of an own one, or BLANK."""

    move_width = 2
    report_meaning = "how many rows it would leave without a queen and how many queens would be attacked"

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self.start: str = payload["rows"]
        self.size = len(self.start)
        self.max_moves = payload["max_placements"]
        symbols = SYMBOLS[: self.size]
        self.move_list = MoveList(move=f"[{symbols}]{{2}}", expected=f"placements, a row and a column of {symbols}")
        self._free = [row for row, mark in enumerate(self.start) if mark == BLANK]
        self._solved_states = _completions(self.start)
        assert self._solved_states, f"no solution has the queens {self.start}"
        self.legend, self.grammar, self.program_rules = _rules(self.size, self.max_moves)

    def play(self, state: str, moves: Sequence[str]) -> Trial[str]:
        """Make the placements in order; one that is attacked at once counts as a fault."""
        rows, num_attacked_at_once = list(state), 0
        for move in moves:
            row, column = (SYMBOLS.index(symbol) for symbol in move)
            if self.start[row] != BLANK:
                raise MalformedAction(f"{move}: the queen in row {move[0]} is given and cannot be moved")
            rows[row] = OWN[column]
            others = [(other, held) for other, held in enumerate(columns_of("".join(rows))) if held is not None]
            num_attacked_at_once += any(attacks(row, column, *other) for other in others)
        return Trial(state="".join(rows), num_faults=num_attacked_at_once)

    def distance(self, state: str) -> int:
        """The number of rows that differ from the nearest solution."""
        return min(_num_differing(state, solved) for solved in self._solved_states)

    def board_text(self, state: str) -> str:
        return f"{state}\n"

    def board_json(self, state: str) -> Mapping[str, Any]:
        given = [None if mark == BLANK else SYMBOLS.index(mark) + 1 for mark in self.start]
        columns = [None if column is None else column + 1 for column in columns_of(state)]
        return {"columns": columns, "given": given, "max_placements": self.max_moves}

    def report_text(self, state: str) -> str:
        width = len(str(self.size))
        return f"{state.count(BLANK):0{width}d}{num_attacked(columns_of(state)):0{width}d}"

    def picture(self, state: str, *, color: bool) -> str:
        rows = []
        for mark, column in zip(state, columns_of(state), strict=True):
            queen = "Q" if mark in SYMBOLS else "q"
            rows.append("".join(queen if place == column else BLANK for place in range(self.size)))
        return paint(rows, _STYLES, color=color)

    def expert_move(self, state: str, rng: Random | None) -> str | None:
        """The first row that differs from the nearest solution; `rng` chooses between equally near ones."""
        nearest = self.distance(state)
        if nearest == 0:
            return None
        targets = [solved for solved in self._solved_states if _num_differing(state, solved) == nearest]
        target = rng.choice(targets) if rng else targets[0]
        row = next(row for row in self._free if state[row] != target[row])
        return SYMBOLS[row] + SYMBOLS[OWN.index(target[row])]

    def random_move(self, state: str, rng: Random) -> str:
        return SYMBOLS[rng.choice(self._free)] + SYMBOLS[rng.randrange(self.size)]

    def random_state(self, rng: Random) -> str:
        """Some queens placed, most of them as in one solution; at least one row is empty, and one list can solve it."""
        num_placed = rng.randrange(max(0, len(self._free) - self.max_moves), len(self._free))
        target, rows, num_wrong = rng.choice(self._solved_states), list(self.start), 0
        most_wrong = self.max_moves - (len(self._free) - num_placed)
        for row in rng.sample(self._free, num_placed):
            wrong = num_wrong < most_wrong and rng.random() < _PROBABILITY_WRONG
            rows[row] = OWN[rng.randrange(self.size)] if wrong else target[row]
            num_wrong += wrong
        return "".join(rows)


class EightQueensEnvironment(PuzzleEnvironment[EightQueensOptions, str]):
    """All eight_queens puzzles. The board is the given queens: some rows of a solution."""

    Options = EightQueensOptions
    game_type = EightQueensGame

    def draw(self, options: EightQueensOptions, rng: Random) -> dict[str, Any] | None:
        free = {*rng.sample(range(options.size), options.num_free)}
        columns = rng.choice(solutions(options.size))
        return {"rows": "".join(BLANK if row in free else SYMBOLS[column] for row, column in enumerate(columns))}

    def puzzle(self, options: EightQueensOptions, drawn: Mapping[str, Any], rng: Random) -> dict[str, Any] | None:
        return {**drawn, "max_placements": options.longest_list}

    def move_alphabet(self, options: EightQueensOptions) -> str:
        return f"\n{BLANK}TP:|>{MARKS}0123456789{SYMBOLS[9 : options.size]}{OWN[: options.size]}"


def columns_of(state: str) -> list[int | None]:
    """Each row's column, counted from 0; None without a queen: `"3.b"` is `[2, None, 1]`."""
    return [None if mark == BLANK else (SYMBOLS + OWN).index(mark) % len(SYMBOLS) for mark in state]


@cache
def _completions(start: str) -> tuple[str, ...]:
    """Every full board with the given queens of `start`, as states."""
    given = {row: SYMBOLS.index(mark) for row, mark in enumerate(start) if mark != BLANK}
    return tuple(
        "".join(SYMBOLS[column] if row in given else OWN[column] for row, column in enumerate(columns))
        for columns in solutions(len(start))
        if all(columns[row] == column for row, column in given.items())
    )


def _num_differing(state: str, other: str) -> int:
    return sum(mark != wanted for mark, wanted in zip(state, other, strict=True))


@cache
def _rules(size: int, max_placements: int) -> tuple[str, str, str]:
    """Legend, grammar and program rules. The queens of the example attack each other, so that it solves nothing."""
    symbols = SYMBOLS[:size]
    legend = (
        f"A board of {size} rows and {size} columns, one character a row: . for a row without a queen, {symbols} for the "
        f"column of a given queen, {OWN[:size]} for columns 1 to {size} of a queen that you placed. Every row shall have a "
        "queen, and no two queens may share a column or a diagonal. A placement puts the queen of a row into a column, also "
        "when you had placed it before. Given queens stay: a list that names the row of one does nothing at all."
    )
    grammar = (
        f"Answer with at most {max_placements} placements and nothing else: row and column, each one of {symbols}. Example: "
        "[11, 22] places queens in row 1, column 1, and in row 2, column 2."
    )
    program_rules = (
        'Its standard input is JSON: {"columns": each row\'s column counted from 1, null for none, "given": the same for the '
        f'given queens alone, "max_placements": {max_placements}}}. It must print at most {max_placements} placements of two '
        f'symbols each, row and column, from {symbols}. Example: print(\'["11", "22"]\') proposes queens in row 1, column 1, '
        "and in row 2, column 2."
    )
    return legend, grammar, program_rules


Columns = tuple[int, ...]


@cache
def solutions(size: int) -> tuple[Columns, ...]:
    """Every way to place `size` queens such that none attacks another, in lexical order: 92 for size 8."""
    return tuple(_complete((), size))


def _complete(columns: Columns, size: int) -> Iterator[Columns]:
    if len(columns) == size:
        yield columns
        return
    row = len(columns)
    for column in range(size):
        if not any(attacks(row, column, other, held) for other, held in enumerate(columns)):
            yield from _complete((*columns, column), size)


def attacks(row: int, column: int, other_row: int, other_column: int) -> bool:
    """Whether queens on two different squares attack each other."""
    down, right = abs(row - other_row), abs(column - other_column)
    return (down, right) != (0, 0) and (down == 0 or right == 0 or down == right)


def num_attacked(columns: Sequence[int | None]) -> int:
    """The number of attacked queens on a partly filled board."""
    placed = [(row, column) for row, column in enumerate(columns) if column is not None]
    return sum(any(attacks(*square, *other) for other in placed) for square in placed)

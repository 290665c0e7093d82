"""sudoku: fill the blanks so that each row, column and box holds every symbol once. Clues cannot be overwritten."""

from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, Literal

from pydantic import Field, model_validator

from components.environments.games.environment import MARKS, PuzzleEnvironment
from components.environments.games.game import Game, Trial
from components.environments.games.grid import rows_of, rows_text
from components.environments.games.parsing import SYMBOLS, MoveList
from components.environments.games.python_tool import ToolOptions
from components.environments.games.sudoku_grids import (
    BOX_SHAPES,
    Grid,
    grid_picture,
    only_solution,
    peers_of,
    random_solution,
    with_blanks,
)
from components.errors import MalformedAction

BLANK = "."
OWN = "abcdefghijklmnop"
"""The letters of 1 to 16 in cells that an agent filled; clues have the symbols."""

_DEFAULT_NUM_BLANKS = {4: 6, 6: 12, 9: 30, 16: 40}
_MAX_NUM_BLANKS = {4: 11, 6: 24, 9: 52, 16: 120}
_PROBABILITY_WRONG = 0.15
"""Probability that a cell of a scrambled state is random, so that clones see mistakes to repair."""


class SudokuOptions(ToolOptions):
    """The options of sudoku."""

    size: Literal[4, 6, 9, 16] = 4
    """Number of rows, columns and symbols; boxes are 2x2, 2x3, 3x3 and 4x4."""
    num_blanks: int | None = Field(None, ge=3)
    """Number of blanks; None means 6, 12, 30 or 40 by size. At least 3: the example in the instructions solves nothing."""
    max_placements: int | None = Field(None, ge=1, le=256)
    """Maximum number of placements in one answer; None means the number of blanks."""

    @model_validator(mode="after")
    def _sparse_enough(self) -> "SudokuOptions":
        most = _MAX_NUM_BLANKS[self.size]
        if self.blanks > most:
            raise ValueError(
                f"num_blanks {self.blanks} at size {self.size}: grids with one solution are too rare; use at most {most}"
            )
        return self

    @property
    def blanks(self) -> int:
        return self.num_blanks if self.num_blanks is not None else _DEFAULT_NUM_BLANKS[self.size]

    @property
    def longest_list(self) -> int:
        return self.max_placements if self.max_placements is not None else self.blanks


class SudokuGame(Game[str]):
    """The state is one character per cell: a clue's symbol, the letter of an agent's number, or BLANK."""

    move_width = 3
    report_meaning = "how many blanks it would leave and how many cells would clash"

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self.size: int = payload["size"]
        self.max_moves = payload["max_placements"]
        self.move_list = placement_list(self.size)
        self.legend, self.grammar, self.program_rules = _rules(self.size, self.max_moves)
        self.start = "".join(payload["rows"])
        clues = numbers_of(self.start)
        solution = only_solution(clues, self.size)
        assert solution, f"the grid {self.start} has not exactly one solution"
        self.solved_state = "".join(
            mark if mark != BLANK else OWN[number - 1] for mark, number in zip(self.start, solution, strict=True)
        )
        self._free = [cell for cell, mark in enumerate(self.start) if mark == BLANK]

    def play(self, state: str, moves: Sequence[str]) -> Trial[str]:
        """Make the placements in order; one that clashes with a row, column or box counts as a fault."""
        cells, num_clashes = list(state), 0
        for move in moves:
            row, column, number = (SYMBOLS.index(symbol) for symbol in move)
            cell = row * self.size + column
            if self.start[cell] != BLANK:
                raise MalformedAction(f"{move}: row {move[0]}, column {move[1]} is a clue and cannot be overwritten")
            cells[cell] = OWN[number]
            num_clashes += any(cells[peer] in (OWN[number], SYMBOLS[number]) for peer in peers_of(self.size)[cell])
        return Trial(state="".join(cells), num_faults=num_clashes)

    def distance(self, state: str) -> int:
        """The number of cells that differ from the solution."""
        return 0 if state == self.solved_state else sum(state[cell] != self.solved_state[cell] for cell in self._free)

    def board_text(self, state: str) -> str:
        return rows_text(state, self.size)

    def board_json(self, state: str) -> Mapping[str, Any]:
        return {
            "rows": _number_rows(state, self.size),
            "clues": _number_rows(self.start, self.size),
            "box": BOX_SHAPES[self.size],
            "max_placements": self.max_moves,
        }

    def report_text(self, state: str) -> str:
        """The number of blanks, then the number of clashing cells."""
        numbers, width = numbers_of(state), len(str(self.size * self.size))
        num_clashing = sum(
            number != 0 and any(numbers[peer] == number for peer in peers)
            for number, peers in zip(numbers, peers_of(self.size), strict=True)
        )
        return f"{state.count(BLANK):0{width}d}{num_clashing:0{width}d}"

    def picture(self, state: str, *, color: bool) -> str:
        return grid_picture(numbers_of(state), numbers_of(self.start), self.size, color=color)

    def expert_move(self, state: str, rng: Random | None) -> str | None:
        """The first wrong cell; the order is fixed because every order is equally good."""
        for cell in self._free:
            if state[cell] != self.solved_state[cell]:
                return self._move(cell, OWN.index(self.solved_state[cell]))
        return None

    def random_move(self, state: str, rng: Random) -> str:
        return self._move(rng.choice(self._free), rng.randrange(self.size))

    def random_state(self, rng: Random) -> str:
        """Some blanks filled, most of them correctly; at least one cell is blank."""
        cells = list(self.start)
        for cell in rng.sample(self._free, rng.randrange(len(self._free))):
            wrong = rng.random() < _PROBABILITY_WRONG
            cells[cell] = OWN[rng.randrange(self.size)] if wrong else self.solved_state[cell]
        return "".join(cells)

    def _move(self, cell: int, number: int) -> str:
        return SYMBOLS[cell // self.size] + SYMBOLS[cell % self.size] + SYMBOLS[number]


class SudokuEnvironment(PuzzleEnvironment[SudokuOptions, str]):
    """All sudoku puzzles. The board is the solution, so that splits share none; then cells are emptied."""

    Options = SudokuOptions
    game_type = SudokuGame
    move_separator = " "

    def draw(self, options: SudokuOptions, rng: Random) -> dict[str, Any] | None:
        return {"solution": list(random_solution(options.size, rng))}

    def puzzle(self, options: SudokuOptions, drawn: Mapping[str, Any], rng: Random) -> dict[str, Any] | None:
        grid = with_blanks(tuple(drawn["solution"]), options.size, num_blanks=options.blanks, rng=rng)
        if grid is None:
            return None
        cells = "".join(SYMBOLS[number - 1] if number else BLANK for number in grid)
        return {"size": options.size, "rows": rows_of(cells, options.size), "max_placements": options.longest_list}

    def move_alphabet(self, options: SudokuOptions) -> str:
        size = options.size
        return "".join(dict.fromkeys(f"\n {BLANK}TP:|>{MARKS}0123456789{SYMBOLS[:size]}{OWN[:size]}"))


def placement_list(size: int) -> MoveList:
    """Lists of placements, each a row, a column and a value."""
    symbols = SYMBOLS[:size]
    expected = f"row, column and value from {symbols}"
    return MoveList(move=f"[{symbols}]{{3}}", expected=expected, called="placements", is_separated=True)


def numbers_of(cells: str) -> Grid:
    """The numbers of the cells of a state, 0 for blanks: `"3.c"` is `(3, 0, 3)`."""
    return tuple(0 if mark == BLANK else (SYMBOLS.find(mark) + 1 or OWN.index(mark) + 1) for mark in cells)


def _number_rows(cells: str, size: int) -> list[list[int]]:
    numbers = numbers_of(cells)
    return [list(numbers[start : start + size]) for start in range(0, size * size, size)]


@cache
def _rules(size: int, max_placements: int) -> tuple[str, str, str]:
    """Legend, grammar and program rules. The example fills two cells, and every puzzle has at least three blanks."""
    height, width = BOX_SHAPES[size]
    legend = (
        f"The board: . is a blank, {SYMBOLS[:size]} are clues, {OWN[:size]} are the numbers 1 to {size} where you placed "
        f"them. Each row, column and box of {height} rows and {width} columns must hold every number once. A move is a "
        "placement. You may change what you placed, never a clue: a list that names a clue does nothing at all."
    )
    grammar = (
        f"Answer with at most {max_placements} placements and nothing else: row, column and number, each one of "
        f"{SYMBOLS[:size]}, with spaces or commas between placements. Example: [123, 214] puts 3 in row 1, column 2, and "
        "4 in row 2, column 1."
    )
    program_rules = (
        'Its standard input is JSON: {"rows": the numbers row by row, 0 for a blank, "clues": the same at the start, "box": '
        f'[rows, columns], "max_placements": {max_placements}}}. It must print at most {max_placements} placements of three '
        f'symbols each, row, column and number, from {SYMBOLS[:size]}. Example: print(\'["123", "214"]\') proposes 3 in '
        "row 1, column 2, and 4 in row 2, column 1."
    )
    return legend, grammar, program_rules

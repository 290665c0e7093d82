"""plan_path: walk from A to G on a grid with walls. The list of moves must END on the goal; passing over it does not count."""

from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from pydantic import Field

from components.environments.games.environment import MARKS, DistanceOptions, PuzzleEnvironment
from components.environments.games.game import Game, Trial
from components.environments.games.grid import FLOOR, WALL, cell_at, coordinates_text, rows_of, rows_text, walk_table
from components.environments.games.parsing import GRID_MOVES, MOVES
from components.environments.shared.pictures import paint

_STYLES = {WALL: "90", FLOOR: "2", "A": "1;36", "G": "1;33"}
_MOVE_NUMBERS = {move: number for number, move in enumerate(MOVES)}


_LEGEND = (
    "The board: A is where you are, G the goal, # a wall, . free. Moves: U up, D down, L left, R right. A move into a "
    "wall or over the edge leaves A where it is. The list must end on G; passing over it does not count."
)
_SOLVER = """\
import json, sys
board = json.load(sys.stdin)
rows = board["rows"]
start = tuple(board["position"])
ways = {start: ""}
queue = [start]
for r, c in queue:
    for m, i, j in ("U", r - 1, c), ("D", r + 1, c), ("L", r, c - 1), ("R", r, c + 1):
        if 0 <= i < len(rows) and 0 <= j < len(rows) and rows[i][j] == "." and (i, j) not in ways:
            ways[i, j] = ways[r, c] + m
            queue.append((i, j))
print(json.dumps(ways[tuple(board["goal"])][: board["max_moves"]]))
"""
"""Breadth-first search, as a tool agent might write it."""


class PlanPathOptions(DistanceOptions):
    """The options of plan_path."""

    size: int = Field(5, ge=3, le=64)
    """Number of rows and of columns."""
    wall_density: float = Field(0.22, ge=0.0, le=0.6)
    """Probability that a cell is a wall."""
    min_distance: int = Field(4, ge=2)
    """Minimum length of a shortest solution; at least 2, so that the example in the instructions solves nothing."""
    max_distance: int = Field(10, ge=2)
    """Maximum length of a shortest solution."""
    max_moves: int = Field(10, ge=1, le=200)
    """Maximum number of moves in one answer."""


class PlanPathGame(Game[int]):
    """The state is the walker's cell."""

    move_list = GRID_MOVES
    report_meaning = "the row and column where it would end (counted from 0)"

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self.size: int = payload["size"]
        self._walls: list[str] = payload["rows"]
        walls = "".join(self._walls)
        self.goal = cell_at(payload["goal"], self.size)
        self.start = cell_at(payload["start"], self.size)
        self.max_moves = payload["max_moves"]
        self.legend = _LEGEND
        self.grammar, self.program_rules = _grammars(self.max_moves)
        self._table = walk_table(walls, self.size, self.goal)
        self._board = walls[: self.goal] + "G" + walls[self.goal + 1 :]
        self._text = rows_text(self._board, self.size)

    def play(self, state: int, moves: Sequence[str]) -> Trial[int]:
        steps, num_bumps = self._table.steps, 0
        for move in moves:
            there = steps[state][_MOVE_NUMBERS[move]]
            num_bumps += there == state
            state = there
        return Trial(state=state, num_faults=num_bumps)

    def distance(self, state: int) -> int:
        return self._table.distances[state]

    def board_text(self, state: int) -> str:
        place = state + state // self.size
        return f"{self._text[:place]}A{self._text[place + 1 :]}"

    def board_json(self, state: int) -> Mapping[str, Any]:
        return {
            "rows": self._walls,
            "position": divmod(state, self.size),
            "goal": divmod(self.goal, self.size),
            "max_moves": self.max_moves,
        }

    def report_text(self, state: int) -> str:
        return coordinates_text(self.size)[state]

    def picture(self, state: int, *, color: bool) -> str:
        return paint(rows_of(f"{self._board[:state]}A{self._board[state + 1 :]}", self.size), _STYLES, color=color)

    def expert_move(self, state: int, rng: Random | None) -> str | None:
        nearer = self._table.shortest[state]
        if not nearer:
            return None
        return MOVES[nearer[int(rng.random() * len(nearer))] if rng else nearer[0]]

    def random_move(self, state: int, rng: Random) -> str:
        return MOVES[int(rng.random() * len(MOVES))]

    def random_state(self, rng: Random) -> int:
        return rng.choice([cell for cell, away in enumerate(self._table.distances) if 0 < away <= self.max_moves])


class PlanPathEnvironment(PuzzleEnvironment[PlanPathOptions, int]):
    """All plan_path puzzles. The board is walls and goal; the start is drawn on it."""

    Options = PlanPathOptions
    game_type = PlanPathGame

    def draw(self, options: PlanPathOptions, rng: Random) -> dict[str, Any] | None:
        num_cells = options.size * options.size
        walls = "".join(WALL if rng.random() < options.wall_density else FLOOR for _ in range(num_cells))
        free = [cell for cell, mark in enumerate(walls) if mark == FLOOR]
        if not free:
            return None
        return {"rows": rows_of(walls, options.size), "goal": list(divmod(rng.choice(free), options.size))}

    def puzzle(self, options: PlanPathOptions, drawn: Mapping[str, Any], rng: Random) -> dict[str, Any] | None:
        table = walk_table("".join(drawn["rows"]), options.size, cell_at(drawn["goal"], options.size))
        starts = [
            cell for cell, away in enumerate(table.distances) if options.min_distance <= away <= options.max_distance
        ]
        if not starts:
            return None
        start = list(divmod(rng.choice(starts), options.size))
        return {**drawn, "size": options.size, "start": start, "max_moves": options.max_moves}

    def solver_program(self) -> str:
        return _SOLVER

    def move_alphabet(self, options: PlanPathOptions) -> str:
        return f"\n{FLOOR}{WALL}AGTP:|>{MARKS}{MOVES}0123456789"


@cache
def _grammars(max_moves: int) -> tuple[str, str]:
    """The grammars of lists and of programs. The example goes one step and back, so it does not solve any puzzle."""
    return (
        f"Answer with at most {max_moves} moves and nothing else. Example: [U, D] tries one step up and then one down.",
        'Its standard input is JSON: {"rows": the rows with # for walls and . elsewhere, "position": [row, column] of A, '
        f'"goal": [row, column] of G, "max_moves": {max_moves}}}, counted from 0. It must print at most {max_moves} moves. '
        'Example: print(\'["U", "D"]\') proposes one step up and then one down.',
    )

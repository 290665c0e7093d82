"""sokoban: push every box B onto a goal G. Boxes can be pushed, one at a time, and never pulled."""

from collections.abc import Mapping, Sequence
from functools import cache
from math import inf
from random import Random
from typing import Any

from pydantic import Field

from components.environments.games.environment import MARKS, DistanceOptions, PuzzleEnvironment
from components.environments.games.game import Game, Trial
from components.environments.games.grid import FLOOR, WALL, cell_at, coordinates_text, rows_of, rows_text
from components.environments.games.parsing import GRID_MOVES, MOVES
from components.environments.games.sokoban_solver import (
    SokobanState,
    Warehouse,
    assign_pushes,
    list_pulls,
    move_boxes,
    solution,
    walks,
)
from components.environments.shared.pictures import paint

_STYLES = {WALL: "90", FLOOR: "2", "A": "1;36", "+": "1;36", "B": "1;31", "*": "1;32", "G": "1;33"}
_MOVE_NUMBERS = {move: number for number, move in enumerate(MOVES)}

_MAX_GENERATOR_EXPANSIONS = 1000
"""A draw whose solution takes a longer search is discarded, which bounds the time to draw large puzzles."""


_LEGEND = (
    "The board: A is you, B a box, G a goal, * a box on a goal, + you on a goal, # a wall, . free; the edge is a "
    "wall. Moves: U up, D down, L left, R right. Walking into a box pushes it, unless a wall or another box is behind "
    "it; then nothing moves. It is solved when every box is on a goal."
)


class SokobanOptions(DistanceOptions):
    """The options of sokoban."""

    size: int = Field(6, ge=4, le=32)
    """Number of rows and of columns; the edge of the grid is a wall that is not drawn."""
    num_boxes: int = Field(1, ge=1, le=6)
    """Number of boxes, and of goals."""
    wall_density: float = Field(0.12, ge=0.0, le=0.5)
    """Probability that a cell is a wall."""
    min_distance: int = Field(5, ge=2)
    """Minimum length of a shortest solution; at least 2, so that the example in the instructions solves nothing."""
    max_distance: int = Field(16, ge=2)
    """Maximum length of a shortest solution."""
    max_moves: int = Field(16, ge=1, le=200)
    """Maximum number of moves in one answer."""


class SokobanGame(Game[SokobanState]):
    """The state is the player's cell and the boxes."""

    move_list = GRID_MOVES
    report_meaning = "the row and column (counted from 0) where it would leave you and then those of each box"

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self.size: int = payload["size"]
        self.max_moves = payload["max_moves"]
        self.legend = _LEGEND
        self.grammar, self.program_rules = _grammars(self.max_moves)
        self.warehouse = _warehouse(payload, self.size)
        self.start = (
            cell_at(payload["player"], self.size),
            tuple(cell_at(place, self.size) for place in payload["boxes"]),
        )
        self._steps = self.warehouse.steps
        self._next_moves: dict[SokobanState, str | None] = {}

    def play(self, state: SokobanState, moves: Sequence[str]) -> Trial[SokobanState]:
        player, boxes = state
        steps, num_bumps = self._steps, 0
        for move in moves:
            number = _MOVE_NUMBERS[move]
            there = steps[player][number]
            if there in boxes:
                beyond = steps[there][number]
                if beyond == there or beyond in boxes:
                    there = player
                else:
                    boxes = move_boxes(boxes, there, beyond)
            num_bumps += there == player
            player = there
        return Trial(state=(player, boxes), num_faults=num_bumps)

    def distance(self, state: SokobanState) -> float:
        return assign_pushes(self.warehouse, state[1])

    def optimal_distance(self, state: SokobanState) -> float:
        """The moves of a shortest solution; a state without one, or whose search is too long, counts as a dead end."""
        moves = solution(self.warehouse, state)
        return inf if moves is None else len(moves)

    def board_text(self, state: SokobanState) -> str:
        return rows_text(self._cells(state), self.size)

    def _cells(self, state: SokobanState) -> str:
        player, boxes = state
        cells = list(self.warehouse.walls)
        for goal in self.warehouse.goals:
            cells[goal] = "G"
        for box in boxes:
            cells[box] = "*" if cells[box] == "G" else "B"
        cells[player] = "+" if cells[player] == "G" else "A"
        return "".join(cells)

    def board_json(self, state: SokobanState) -> Mapping[str, Any]:
        player, boxes = state
        return {
            "rows": rows_of(self.warehouse.walls, self.size),
            "player": _places([player], self.size)[0],
            "boxes": _places(boxes, self.size),
            "goals": _places(self.warehouse.goals, self.size),
            "max_moves": self.max_moves,
        }

    def report_text(self, state: SokobanState) -> str:
        coordinates = coordinates_text(self.size)
        return "".join(coordinates[cell] for cell in (state[0], *state[1]))

    def picture(self, state: SokobanState, *, color: bool) -> str:
        return paint(rows_of(self._cells(state), self.size), _STYLES, color=color)

    def expert_move(self, state: SokobanState, rng: Random | None) -> str | None:
        """The next move of a shortest solution. One search serves all states on the way."""
        if state not in self._next_moves:
            ahead = state
            for move in solution(self.warehouse, state) or [None]:
                self._next_moves[ahead] = move
                ahead = self.play(ahead, move or "").state
        return self._next_moves[state]

    def random_move(self, state: SokobanState, rng: Random) -> str:
        return MOVES[int(rng.random() * len(MOVES))]

    def random_state(self, rng: Random) -> SokobanState:
        """A state on the way of a shortest solution, with the player moved anywhere within reach."""
        moves = solution(self.warehouse, self.start)
        assert moves, f"no solution from the start {self.start}"
        state = self.play(self.start, moves[: rng.randrange(len(moves))]).state
        return rng.choice(list(walks(self.warehouse, state))), state[1]


class SokobanEnvironment(PuzzleEnvironment[SokobanOptions, SokobanState]):
    """All sokoban puzzles. The board is walls and goals; boxes and player are drawn by playing backwards."""

    Options = SokobanOptions
    game_type = SokobanGame

    def draw(self, options: SokobanOptions, rng: Random) -> dict[str, Any] | None:
        num_cells = options.size * options.size
        walls = "".join(WALL if rng.random() < options.wall_density else FLOOR for _ in range(num_cells))
        free = [cell for cell, mark in enumerate(walls) if mark == FLOOR]
        if len(free) <= options.num_boxes:
            return None
        goals = sorted(rng.sample(free, options.num_boxes))
        return {"rows": rows_of(walls, options.size), "goals": _places(goals, options.size)}

    def puzzle(self, options: SokobanOptions, drawn: Mapping[str, Any], rng: Random) -> dict[str, Any] | None:
        warehouse = _warehouse(drawn, options.size)
        state = _play_backwards(warehouse, options.max_distance, rng)
        moves = solution(warehouse, state, _MAX_GENERATOR_EXPANSIONS) if state else None
        if state is None or moves is None or not options.min_distance <= len(moves) <= options.max_distance:
            return None
        return {
            **drawn,
            "size": options.size,
            "boxes": _places(state[1], options.size),
            "player": _places([state[0]], options.size)[0],
            "max_moves": options.max_moves,
        }

    def move_alphabet(self, options: SokobanOptions) -> str:
        return f"\n{FLOOR}{WALL}A+B*GTP:|>{MARKS}{MOVES}0123456789"


def _play_backwards(warehouse: Warehouse, max_pulls: int, rng: Random) -> SokobanState | None:
    """A state from which the boxes can be pushed to the goals; None if nothing can be pulled."""
    occupied = {*warehouse.goals, *(cell for cell, mark in enumerate(warehouse.walls) if mark == WALL)}
    state = rng.choice([cell for cell in range(len(warehouse.walls)) if cell not in occupied]), warehouse.goals
    for _ in range(rng.randint(1, max_pulls)):
        following = list_pulls(warehouse, state)
        if not following:
            break
        state = rng.choice(following)
    return None if state[1] == warehouse.goals else (rng.choice(list(walks(warehouse, state))), state[1])


def _warehouse(board: Mapping[str, Any], size: int) -> Warehouse:
    goals = tuple(cell_at(place, size) for place in board["goals"])
    return Warehouse("".join(board["rows"]), size, goals)


def _places(cells: Sequence[int], size: int) -> list[list[int]]:
    return [list(divmod(cell, size)) for cell in cells]


@cache
def _grammars(max_moves: int) -> tuple[str, str]:
    """The grammars of lists and of programs. The example pushes once at most, and no start is one move from solved."""
    return (
        f"Answer with at most {max_moves} moves and nothing else. Example: [U, D] tries one step up and then one down.",
        'Its standard input is JSON: {"rows": the rows with # for walls and . elsewhere, "player": [row, column], "boxes" and '
        f'"goals": lists of [row, column], "max_moves": {max_moves}}}, counted from 0. It must print at most {max_moves} '
        'moves. Example: print(\'["U", "D"]\') proposes one step up and then one down.',
    )

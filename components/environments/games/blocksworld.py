"""blocksworld: build the goal's towers by moving one block at a time. A block moves only when nothing stands on it."""

from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from pydantic import Field

from components.environments.games.environment import MARKS, PAD, DistanceOptions, PuzzleEnvironment
from components.environments.games.game import Game, Trial
from components.environments.games.parsing import MoveList
from components.environments.games.towers import (
    BETWEEN,
    BLOCKS,
    TABLE,
    Arrangement,
    arrangement_of,
    fewest_moves,
    find_misplaced,
    good_moves,
    move_block,
    moves_needed,
    random_arrangement,
    towers_of,
    towers_text,
)
from components.environments.shared.pictures import apply_style

_LEGEND = (
    "Towers of blocks, written from bottom to top with . between towers and padded with -: first as they stand, then as they "
    "shall stand; their order on the table does not matter. A move is two characters: a block and what it is put on, another "
    "block or 0 for the table. A block with another one on top can neither be moved nor moved onto from elsewhere; such a "
    "move does nothing."
)
_IN_PLACE = "1;32"


class BlocksworldOptions(DistanceOptions):
    """The options of blocksworld."""

    num_blocks: int = Field(5, ge=3, le=12)
    min_distance: int = Field(3, ge=3)
    """Minimum number of the solver's moves; at least 3, so that neither the example in the instructions nor luck solves."""
    max_distance: int = Field(8, ge=3)
    """Maximum number of the solver's moves."""
    max_moves: int = Field(8, ge=1, le=100)
    """Maximum number of moves in one answer."""


class BlocksworldGame(Game[Arrangement]):
    """The state is what each block stands on."""

    move_width = 2
    report_meaning = "the towers that it would leave (padded with -)"

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self.start = arrangement_of(payload["towers"])
        self.goal = arrangement_of(payload["goal"])
        self.max_moves = payload["max_moves"]
        self.blocks = BLOCKS[: len(self.goal)]
        self.move_list = MoveList(
            move=f"[{self.blocks}][{self.blocks}{TABLE}]",
            expected=f"moves, a block of {self.blocks} and then a block or {TABLE}",
        )
        self.legend = _LEGEND
        self.grammar, self.program_rules = _grammars(self.max_moves)

    def play(self, state: Arrangement, moves: Sequence[str]) -> Trial[Arrangement]:
        num_idle = 0
        for move in moves:
            following = move_block(state, move[0], move[1])
            num_idle += following is None
            state = following or state
        return Trial(state=state, num_faults=num_idle)

    def distance(self, state: Arrangement) -> int:
        return moves_needed(state, self.goal)

    def optimal_distance(self, state: Arrangement) -> int:
        return fewest_moves(state, self.goal)

    def board_text(self, state: Arrangement) -> str:
        return f"{towers_text(state, PAD)}\n{towers_text(self.goal, PAD)}\n"

    def board_json(self, state: Arrangement) -> Mapping[str, Any]:
        towers, goal = ([list(tower) for tower in towers_of(below)] for below in (state, self.goal))
        return {"towers": towers, "goal": goal, "max_moves": self.max_moves}

    def report_text(self, state: Arrangement) -> str:
        return towers_text(state, PAD)

    def picture(self, state: Arrangement, *, color: bool) -> str:
        """The towers side by side; blocks in their final place are coloured, or marked with ' in plain ASCII."""
        wrong, towers = find_misplaced(state, self.goal), towers_of(state)
        height = max(map(len, towers))
        rows = [
            " ".join(_cell(tower[level : level + 1], wrong, color=color) for tower in towers).rstrip()
            for level in reversed(range(height))
        ]
        return "\n".join([*rows, f"goal {BETWEEN.join(towers_of(self.goal))}"])

    def expert_move(self, state: Arrangement, rng: Random | None) -> str | None:
        moves = good_moves(state, self.goal)
        if not moves:
            return None
        return rng.choice(moves) if rng else moves[0]

    def random_move(self, state: Arrangement, rng: Random) -> str:
        """A legal move if there is one; others do nothing and teach little."""
        pairs = [block + onto for block in self.blocks for onto in self.blocks + TABLE]
        return rng.choice([pair for pair in pairs if move_block(state, *pair)] or pairs)

    def random_state(self, rng: Random) -> Arrangement:
        """A random arrangement, or the first state on the solver's way from it that one list can solve."""
        while True:
            unsolved = solver_states(random_arrangement(len(self.blocks), rng), self.goal)[:-1]
            if unsolved:
                return unsolved[max(0, len(unsolved) - self.max_moves)]


class BlocksworldEnvironment(PuzzleEnvironment[BlocksworldOptions, Arrangement]):
    """All blocksworld puzzles. The board is the goal; then the towers at the start are drawn."""

    Options = BlocksworldOptions
    game_type = BlocksworldGame

    def draw(self, options: BlocksworldOptions, rng: Random) -> dict[str, Any] | None:
        return {"goal": towers_of(random_arrangement(options.num_blocks, rng))}

    def puzzle(self, options: BlocksworldOptions, drawn: Mapping[str, Any], rng: Random) -> dict[str, Any] | None:
        start = random_arrangement(options.num_blocks, rng)
        length = len(solver_states(start, arrangement_of(drawn["goal"]))) - 1
        if not options.min_distance <= length <= options.max_distance:
            return None
        return {**drawn, "towers": towers_of(start), "max_moves": options.max_moves}

    def move_alphabet(self, options: BlocksworldOptions) -> str:
        return f"\nTP:|>{BETWEEN}{TABLE}{MARKS}{BLOCKS[: options.num_blocks]}"


def solver_states(below: Arrangement, goal: Arrangement) -> list[Arrangement]:
    """The states from `below` to `goal`, both included, if the solver always takes the first good move."""
    states = [below]
    while moves := good_moves(states[-1], goal):
        following = move_block(states[-1], *moves[0])
        assert following is not None, f"the solver cannot make {moves[0]} in {states[-1]}"
        states.append(following)
    return states


def _cell(block: str, wrong: frozenset[str], *, color: bool) -> str:
    if not block or block in wrong:
        return f"{block or ' '} "
    return apply_style(block, _IN_PLACE) + " " if color else f"{block}'"


@cache
def _grammars(max_moves: int) -> tuple[str, str]:
    """The grammars of lists and of programs. The example makes one move at most, and no start is one move from solved."""
    return (
        f"Answer with at most {max_moves} moves and nothing else. Example: [a0, a0] puts a on the table, twice.",
        'Its standard input is JSON: {"towers": lists of blocks from bottom to top, "goal": the same, "max_moves": '
        f'{max_moves}}}. It must print at most {max_moves} moves. Example: print(\'["a0", "a0"]\') proposes to put a on the '
        "table, twice.",
    )

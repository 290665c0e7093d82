"""Towers of blocks: arrangements, their distance from a goal, and the next good moves.

An arrangement has one character per block, in the order of BLOCKS: what the block stands on, TABLE or another block.
"""

import heapq
from collections.abc import Iterator, Sequence
from functools import lru_cache
from random import Random

BLOCKS = "abcdefghijkl"
TABLE = "0"
BETWEEN = "."
Arrangement = str


def towers_of(below: Arrangement) -> list[str]:
    """The towers from bottom to top, ordered by their lowest block: `"b0a0"` is `["bac", "d"]`."""
    above = {under: block for block, under in zip(BLOCKS, below, strict=False) if under != TABLE}
    towers = []
    for block, under in zip(BLOCKS, below, strict=False):
        if under == TABLE:
            tower = block
            while tower[-1] in above:
                tower += above[tower[-1]]
            towers.append(tower)
    return towers


def arrangement_of(towers: Sequence[str]) -> Arrangement:
    below: dict[str, str] = {}
    for tower in towers:
        below.update(zip(tower, TABLE + tower, strict=False))
    return "".join(below[block] for block in sorted(below))


def towers_text(below: Arrangement, pad: str) -> str:
    """The towers joined by BETWEEN and padded to equal width: `towers_text("b0a0", "-")` is `"bac.d--"`."""
    return BETWEEN.join(towers_of(below)).ljust(2 * len(below) - 1, pad)


def random_arrangement(num_blocks: int, rng: Random) -> Arrangement:
    """The blocks in random order, each put on the table or on the top of a tower."""
    towers: list[str] = []
    for block in rng.sample(BLOCKS[:num_blocks], num_blocks):
        place = rng.randrange(len(towers) + 1)
        if place == len(towers):
            towers.append(block)
        else:
            towers[place] += block
    return arrangement_of(towers)


def move_block(below: Arrangement, block: str, onto: str) -> Arrangement | None:
    """The arrangement after a move; None if the move is illegal or changes nothing."""
    number = BLOCKS.index(block)
    if block in below or (onto != TABLE and onto in below) or onto in (block, below[number]):
        return None
    return below[:number] + onto + below[number + 1 :]


@lru_cache(maxsize=65536)
def find_misplaced(below: Arrangement, goal: Arrangement) -> frozenset[str]:
    """The blocks that are not in their final place, or stand on such a block."""
    wrong = set()
    for tower in towers_of(below):
        in_place = True
        for block in tower:
            number = BLOCKS.index(block)
            in_place = in_place and below[number] == goal[number]
            if not in_place:
                wrong.add(block)
    return frozenset(wrong)


@lru_cache(maxsize=65536)
def moves_needed(below: Arrangement, goal: Arrangement) -> int:
    """A lower bound of the number of moves from `below` to `goal`, 0 exactly if they are equal.

    Each misplaced block moves at least once. One that stands above some block both now and in the goal moves at least twice:
    it has to leave before the blocks below it can be fixed.
    """
    return sum(1 + _moves_twice(block, below, goal) for block in find_misplaced(below, goal))


def _moves_twice(block: str, below: Arrangement, goal: Arrangement) -> bool:
    return bool(_under(block, below) & _under(block, goal))


def _under(block: str, below: Arrangement) -> set[str]:
    """All blocks below `block`."""
    found = set()
    while (block := below[BLOCKS.index(block)]) != TABLE:
        found.add(block)
    return found


def good_moves(below: Arrangement, goal: Arrangement) -> list[str]:
    """The equally good next moves of a solver; none if `below` is the goal.

    First choice: a block to its final place. Then: a block that moves twice anyway to the table. Else: any misplaced block to
    the table. At most twice the minimum number of moves (Gupta and Nau, "On the complexity of blocks-world planning", 1992),
    and nearly always the minimum.
    """
    wrong = find_misplaced(below, goal)
    clear = sorted(block for block in wrong if block not in below)
    ready = {TABLE, *BLOCKS[: len(below)]} - wrong - {*below.replace(TABLE, "")}
    final = [block + onto for block in clear if (onto := goal[BLOCKS.index(block)]) in ready]
    if final:
        return final
    aside = [block for block in clear if below[BLOCKS.index(block)] != TABLE]
    twice = [block for block in aside if _moves_twice(block, below, goal)]
    return [block + TABLE for block in twice or aside]


MAX_EXPANSIONS = 20_000


@lru_cache(maxsize=65536)
def fewest_moves(below: Arrangement, goal: Arrangement) -> int:
    """The number of moves of a shortest solution, by A* with the lower bound `moves_needed`.

    A search of more than `MAX_EXPANSIONS` states ends with the length of the solver's solution instead; puzzles of up to eight
    blocks never need as many.
    """
    cost_of = {below: 0}
    frontier = [(moves_needed(below, goal), 0, below)]
    for _ in range(MAX_EXPANSIONS):
        bound, cost, state = heapq.heappop(frontier)
        if state == goal:
            return cost
        if bound > cost_of[state] + moves_needed(state, goal):
            continue
        for following in _following(state):
            if cost + 1 < cost_of.get(following, cost + 2):
                cost_of[following] = cost + 1
                heapq.heappush(frontier, (cost + 1 + moves_needed(following, goal), cost + 1, following))
    return _num_solver_moves(below, goal)


def _following(below: Arrangement) -> Iterator[Arrangement]:
    blocks = BLOCKS[: len(below)]
    for block in blocks:
        for onto in blocks + TABLE:
            if (following := move_block(below, block, onto)) is not None:
                yield following


def _num_solver_moves(below: Arrangement, goal: Arrangement) -> int:
    count = 0
    while moves := good_moves(below, goal):
        following = move_block(below, *moves[0])
        assert following is not None, f"the solver cannot make {moves[0]} in {below}"
        below, count = following, count + 1
    return count

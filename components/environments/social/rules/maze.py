"""A maze for one or several members: joint moves, rewards, and success weighted by path length.

A member that reaches the goal earns `goal_reward` and plays no more. Until then each step costs `.1 + .01 d`, d the
Manhattan distance to the goal after the move, and whoever has not arrived after `num_steps` pays `timeout` in the last
step instead. With a `race_bonus` the first to arrive share it: members then compete. With `collisions` two members
cannot be in one cell, the start and the goal apart.
"""

from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from components.errors import ConfigurationError
from components.identity import seed_for

Cell = tuple[int, int]
"""Column and row; row 0 is the top."""

MOVES: Mapping[str, Cell] = MappingProxyType(
    {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0), "stay": (0, 0)}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maze:
    """A grid with walls. Everybody starts at the top left; the goal is the bottom right."""

    width: int
    height: int
    walls: frozenset[Cell]

    def __post_init__(self) -> None:
        if self.width < 2 or self.height < 2:
            raise ConfigurationError(f"width {self.width}, height {self.height}: use 2 or more")
        if outside := sorted(cell for cell in self.walls if not self.holds(cell)):
            raise ConfigurationError(f"walls {outside}: outside of {self.width} x {self.height}")
        if self.goal not in distances(self.width, self.height, self.walls):
            raise ConfigurationError("walls: no way leads from the start to the goal; open one")

    @property
    def start(self) -> Cell:
        """The top left cell."""
        return (0, 0)

    @property
    def goal(self) -> Cell:
        """The bottom right cell."""
        return (self.width - 1, self.height - 1)

    def holds(self, cell: Cell) -> bool:
        """Whether the cell lies on the grid."""
        return 0 <= cell[0] < self.width and 0 <= cell[1] < self.height

    def is_free(self, cell: Cell) -> bool:
        """Whether the cell lies on the grid and is no wall."""
        return self.holds(cell) and cell not in self.walls

    @property
    def shortest(self) -> int:
        """The least number of moves from the start to the goal.

        **Example** 8 for the simple maze, 12 and 18 for the others: their walls need no detour.
        """
        return distances(self.width, self.height, self.walls)[self.goal]


def distances(width: int, height: int, walls: Set[Cell]) -> dict[Cell, int]:
    """The least number of moves from the top left to each cell that can be reached, by breadth-first search."""
    start = (0, 0)
    if start in walls:
        return {}
    found, ahead = {start: 0}, deque([start])
    while ahead:
        column, row = ahead.popleft()
        for dx, dy in MOVES.values():
            cell = (column + dx, row + dy)
            if 0 <= cell[0] < width and 0 <= cell[1] < height and cell not in walls and cell not in found:
                found[cell] = found[column, row] + 1
                ahead.append(cell)
    return found


LAYOUTS: Mapping[str, Maze] = MappingProxyType(
    {
        "simple": Maze(width=5, height=5, walls=frozenset({(2, 1), (2, 2), (2, 3)})),
        "medium": Maze(width=7, height=7, walls=frozenset({(2, 2), (2, 3), (3, 2), (4, 4), (4, 5)})),
        "complex": Maze(
            width=10,
            height=10,
            walls=frozenset({(3, y) for y in range(1, 8)} | {(6, y) for y in range(2, 9)}),
        ),
    }
)


def draw_maze(width: int, height: int, *, wall_fraction: float, seed: int) -> Maze:
    """A maze with walls in random places: as many as `wall_fraction` of its cells, less those that would close the way.

    **Example** 10 x 10 at .3: 30 walls or a few less, and always a way.
    """
    if not 0 <= wall_fraction < 1:
        raise ConfigurationError(f"wall_fraction {wall_fraction}: use 0 to less than 1")
    goal = (width - 1, height - 1)
    cells = [(x, y) for y in range(height) for x in range(width) if (x, y) not in ((0, 0), goal)]
    Random(seed_for(seed, "maze", width, height)).shuffle(cells)
    walls: frozenset[Cell] = frozenset()
    for cell in cells[: int(wall_fraction * width * height)]:
        if goal in distances(width, height, walls | {cell}):
            walls |= {cell}
    return Maze(width=width, height=height, walls=walls)


@dataclass(frozen=True, slots=True, kw_only=True)
class MazeGame:
    """The rules of one maze."""

    maze: Maze
    num_members: int = 1
    num_steps: int = 64
    goal_reward: float = 10.0
    timeout: float = -1.0
    race_bonus: float = 0.0
    collisions: bool = False

    def __post_init__(self) -> None:
        if self.num_members < 1 or self.num_steps < self.maze.shortest:
            raise ConfigurationError(
                f"num_members {self.num_members}, num_steps {self.num_steps}: use 1 or more, and at least the"
                f" {self.maze.shortest} steps of the shortest way"
            )

    def start(self) -> "MazeState":
        """The state in which everybody stands at the start."""
        return MazeState(paths_N=((self.maze.start,),) * self.num_members, num_steps=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MazeState:
    """`paths_N` has each member's cells from the start on, one for each step that it played."""

    paths_N: tuple[tuple[Cell, ...], ...]
    num_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MazeOutcome:
    """What one joint step led to. `arrived_N` are those at the goal; the episode is done when all are, or at the time limit."""

    rewards_N: tuple[float, ...]
    state: MazeState
    arrived_N: tuple[bool, ...]
    done: bool


def maze_step(game: MazeGame, state: MazeState, actions_N: Sequence[str]) -> MazeOutcome:
    """The outcome of a joint step. Members at the goal stay there and earn 0; a move into a wall stays, too.

    **Example** simple maze, one member, "right" from the start: position (1, 0), reward -.1 - .01 x 7 = -.17.
    """
    if len(actions_N) != game.num_members or not set(actions_N) <= MOVES.keys():
        raise ConfigurationError(
            f"actions {tuple(actions_N)} of {game.num_members} members: give each one of {tuple(MOVES)}"
        )
    goal, before_N = game.maze.goal, tuple(path[-1] for path in state.paths_N)
    if state.num_steps >= game.num_steps or all(cell == goal for cell in before_N):
        raise ConfigurationError("state: the episode has ended; start another")
    after_N = list_moved_cells(game, before_N, actions_N)
    arrivals = [member for member, cell in enumerate(after_N) if cell == goal and before_N[member] != goal]
    winners = arrivals if goal not in before_N else []
    last = state.num_steps + 1 == game.num_steps
    rewards = []
    for member, (before, cell) in enumerate(zip(before_N, after_N, strict=True)):
        if before == goal:
            rewards.append(0.0)
        elif cell == goal:
            rewards.append(game.goal_reward + (game.race_bonus / len(winners) if member in winners else 0.0))
        else:
            rewards.append(game.timeout if last else -0.1 - 0.01 * manhattan(cell, goal))
    paths_N = tuple(
        path if path[-1] == goal else (*path, cell) for path, cell in zip(state.paths_N, after_N, strict=True)
    )
    arrived_N = tuple(cell == goal for cell in after_N)
    return MazeOutcome(
        rewards_N=tuple(rewards),
        state=MazeState(paths_N=paths_N, num_steps=state.num_steps + 1),
        arrived_N=arrived_N,
        done=last or all(arrived_N),
    )


def list_moved_cells(game: MazeGame, cells_N: Sequence[Cell], actions_N: Sequence[str]) -> tuple[Cell, ...]:
    """Where each member is after the moves.

    With collisions a cell that somebody held before the step is closed to all others, and of two that want one cell the
    first gets it.
    """
    shared = {game.maze.start, game.maze.goal}
    taken: set[Cell] = set()
    after: list[Cell] = []
    for member, (cell, action) in enumerate(zip(cells_N, actions_N, strict=True)):
        dx, dy = MOVES[action]
        wanted = (cell[0] + dx, cell[1] + dy)
        held = {*cells_N[:member], *cells_N[member + 1 :], *taken} - shared if game.collisions else set()
        after.append(wanted if cell != game.maze.goal and game.maze.is_free(wanted) and wanted not in held else cell)
        taken.add(after[-1])
    return tuple(after)


def manhattan(one: Cell, other: Cell) -> int:
    """The number of moves between two cells if there were no walls."""
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def success_by_path_length(game: MazeGame, state: MazeState) -> tuple[float, ...]:
    """SPL of each member, 0 to 1: `shortest / taken` if it arrived, else 0; a step on the spot counts as taken.

    The measure of a suite is the mean over episodes. Source: Anderson et al., "On evaluation of embodied navigation
    agents", arXiv:1807.06757.

    **Example** the simple maze in 10 moves: 8 / 10 = .8.
    """
    return tuple(game.maze.shortest / (len(path) - 1) if path[-1] == game.maze.goal else 0.0 for path in state.paths_N)


def list_known_cells(maze: Maze, paths: Sequence[Sequence[Cell]]) -> dict[Cell, bool]:
    """The cells around all cells of the paths, 3 x 3 each, with whether they are free; outside of the grid is not.

    One member's path is what it knows, all paths are a shared map.
    """
    return {
        (x + dx, y + dy): maze.is_free((x + dx, y + dy))
        for path in paths
        for x, y in path
        for dx in (-1, 0, 1)
        for dy in (-1, 0, 1)
    }


def drawing(game: MazeGame, state: MazeState) -> str:
    """The maze as text, a line a row: `A` a member, `G` the goal, `#` a wall, `.` free."""
    places = {path[-1] for path in state.paths_N}
    marks = {game.maze.goal: "G", **dict.fromkeys(game.maze.walls, "#"), **dict.fromkeys(places, "A")}
    return "\n".join("".join(marks.get((x, y), ".") for x in range(game.maze.width)) for y in range(game.maze.height))

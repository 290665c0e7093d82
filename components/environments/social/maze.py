"""maze: one or several members walk to a goal, together or as a race; its rules are in `rules/maze.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar, Literal

from pydantic import Field

from components.environments.base import JointStep
from components.environments.social.game import WEIGHTS, SocialGame, join_choices, member_names, number, place_of
from components.environments.social.rules.maze import (
    LAYOUTS,
    MOVES,
    Cell,
    Maze,
    MazeGame,
    MazeState,
    draw_maze,
    drawing,
    list_known_cells,
    maze_step,
    success_by_path_length,
)
from components.frozen import Settings


class MazeOptions(Settings):
    """The options of maze."""

    layout: Literal["simple", "medium", "complex", "drawn"] = "medium"
    """One of three fixed mazes (5 x 5, 7 x 7 and 10 x 10 cells), or another one for each problem."""
    width: int = Field(7, ge=2, le=32)
    """Columns of a drawn maze."""
    height: int = Field(7, ge=2, le=32)
    """Rows of a drawn maze."""
    wall_fraction: float = Field(0.3, ge=0.0, lt=1.0)
    """The share of a drawn maze's cells that are walls, or a little less, so that a way is left."""
    num_members: int = Field(2, ge=1, le=16)
    """The players; all begin in one corner."""
    num_steps: int = Field(64, ge=1, le=4096)
    """Joint steps of an episode; `environment.max_turns` must allow as many. Whoever has not arrived then pays 1."""
    view: Literal["around", "known", "all"] = "around"
    """What a member sees: the cells next to it, all that it has been next to, or the whole maze."""
    shared_map: bool = False
    """With the view known: all that any member has been next to."""
    race_bonus: float = Field(0.0, ge=0.0)
    """What those earn more who arrive first, shared by them."""
    collisions: bool = False
    """Whether two members cannot be in one cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Where an episode stands."""

    game: MazeGame
    walked: MazeState
    seed: int
    view: str
    shared_map: bool

    @property
    def num_steps(self) -> int:
        """The steps that were played."""
        return self.walked.num_steps


class MazeEnvironment(SocialGame):
    """Mazes from the top left to the bottom right. `solved`: all have arrived. `team.spl`, of weight 0, is the mean success
    weighted by path length so far; that of an episode is in its last outcome."""

    roles = member_names(2)
    weights: ClassVar[Mapping[str, float]] = {**WEIGHTS, "team.spl": 0.0}
    Options = MazeOptions
    remedy = "a drawn maze of more cells"

    def roles_for(self, options: MazeOptions) -> tuple[str, ...]:
        return member_names(options.num_members)

    def draw(self, options: MazeOptions, rng: Random) -> Mapping[str, Any]:
        drawn = dict(super().draw(options, rng))
        maze = LAYOUTS.get(options.layout) or draw_maze(
            options.width, options.height, wall_fraction=options.wall_fraction, seed=drawn["seed"]
        )
        return {**drawn, "rows": _rows(maze)}

    def deciding(self, problem: Mapping[str, Any]) -> Any:
        """The walls, where they are drawn; else the seed."""
        return problem["rows"] if problem["layout"] == "drawn" else problem["seed"]

    def start(self, problem: Mapping[str, Any]) -> Walk:
        rules = {key: problem[key] for key in ("num_members", "race_bonus", "collisions")}
        maze = _maze(problem["rows"])
        game = MazeGame(maze=maze, num_steps=max(problem["num_steps"], maze.shortest), **rules)
        view, shared_map = problem["view"], problem["shared_map"]
        return Walk(game=game, walked=game.start(), seed=problem["seed"], view=view, shared_map=shared_map)

    def next_role(self, state: Walk) -> tuple[str, ...] | None:
        """Those who have not arrived."""
        goal = state.game.maze.goal
        walking = [member for member, path in enumerate(state.walked.paths_N) if path[-1] != goal]
        return tuple(f"player_{member}" for member in walking) or None

    def choices(self, state: Walk, agent: str) -> tuple[str, ...]:
        return tuple(MOVES)

    def longest_answer(self, options: MazeOptions) -> int:
        return max(map(len, MOVES))

    def after(self, state: Walk, played: Mapping[str, str]) -> JointStep:
        members = member_names(state.game.num_members)
        outcome = maze_step(state.game, state.walked, [played.get(agent, "stay") for agent in members])
        spl_N = success_by_path_length(state.game, outcome.state)
        return JointStep(
            state=replace(state, walked=outcome.state),
            solved=all(outcome.arrived_N),
            done=outcome.done,
            team={"spl": sum(spl_N) / len(spl_N)},
            payoffs=dict(zip(members, outcome.rewards_N, strict=True)),
        )

    def observe(self, state: Walk, agent: str) -> str:
        """The own place, the goal and the others, all as column and row, and the cells that are seen."""
        game, places = state.game, [path[-1] for path in state.walked.paths_N]
        own = place_of(agent)
        others = [f"{x},{y}" for other, (x, y) in enumerate(places) if other != own]
        goal = game.maze.goal
        return "\n".join(
            [
                f"{agent} at {places[own][0]},{places[own][1]}, goal {goal[0]},{goal[1]}, step {state.num_steps + 1} of "
                f"{game.num_steps}",
                *([f"others at {' '.join(others)}"] if others else []),
                self._draw_view(state, own),
                f"{join_choices(tuple(MOVES))}?",
            ]
        )

    def instructions(self, state: Walk, agent: str) -> str:
        game = state.game
        race = f" The first to arrive share {number(game.race_bonus)} more." if game.race_bonus else ""
        crowd = " Two players cannot be in one cell." if game.collisions else ""
        return (
            f"You are {agent}, A in the map. Cells are column,row, and 0,0 is the top left; # is a wall, . is free, G the "
            "goal, ? unknown; other players are not drawn. All players move at once. Arriving at the goal earns "
            f"{number(game.goal_reward)}; until then each step costs 0.1, and 0.01 more for each cell of distance."
            f"{race}{crowd}\nAnswer with one word and nothing else: {join_choices(tuple(MOVES))}."
        )

    def render(self, state: Walk) -> str:
        return drawing(state.game, state.walked)

    def _draw_view(self, state: Walk, own: int) -> str:
        maze, paths_N = state.game.maze, state.walked.paths_N
        here = paths_N[own][-1]
        if state.view == "around":
            known = list_known_cells(maze, [[here]])
            columns, rows = range(here[0] - 1, here[0] + 2), range(here[1] - 1, here[1] + 2)
        else:
            columns, rows = range(maze.width), range(maze.height)
            known = list_known_cells(maze, paths_N if state.shared_map else [paths_N[own]])
            if state.view == "all":
                known = {(x, y): maze.is_free((x, y)) for x in columns for y in rows}

        def mark(cell: Cell) -> str:
            if cell == here:
                return "A"
            return "G" if cell == maze.goal else "?" if cell not in known else "." if known[cell] else "#"

        return "\n".join("".join(mark((x, y)) for x in columns) for y in rows)


def _rows(maze: Maze) -> list[str]:
    return ["".join("#" if (x, y) in maze.walls else "." for x in range(maze.width)) for y in range(maze.height)]


def _maze(rows: list[str]) -> Maze:
    walls = frozenset((x, y) for y, row in enumerate(rows) for x, mark in enumerate(row) if mark == "#")
    return Maze(width=len(rows[0]), height=len(rows), walls=walls)

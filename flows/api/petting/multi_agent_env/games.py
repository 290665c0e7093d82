"""Games on a board: a tool agent proposes moves, a plan agent decides. `env_name` of the configuration chooses one."""

from collections.abc import Mapping
from typing import Any

from flows.api.petting.multi_agent_env.team_env import TeamEnv
from flows.api.petting.run_configs import get_config


class GamesEnv(TeamEnv):
    """Plan-path, Sokoban, Sudoku, blocksworld or eight queens."""

    domain = "games"


class _GameEnv(GamesEnv):
    """One game, whose default configuration is its own."""

    game: str

    def __init__(self, config: Mapping[str, Any] | str | None = None, *, split: str = "train", **settings: Any) -> None:
        own = get_config("games_single_policy", env_name=self.game) if config is None else config
        super().__init__(own, split=split, **settings)


class PlanPathEnv(_GameEnv):
    """Paths through grids."""

    game = "plan_path"


class SokobanEnv(_GameEnv):
    """Boxes pushed onto goals."""

    game = "sokoban"


class SudokuEnv(_GameEnv):
    """Sudoku grids."""

    game = "sudoku"

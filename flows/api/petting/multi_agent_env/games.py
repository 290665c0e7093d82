"""Games on a board: a tool agent proposes moves, a plan agent decides. `env_name` of the configuration chooses one."""

from flows.api.petting.multi_agent_env.team_env import TeamEnv


class GamesEnv(TeamEnv):
    """Plan-path, Sokoban, Sudoku, blocksworld or eight queens."""

    domain = "games"


class PlanPathEnv(GamesEnv):
    """Paths through grids."""

    env_name = "plan_path"


class SokobanEnv(GamesEnv):
    """Boxes pushed onto goals."""

    env_name = "sokoban"


class SudokuEnv(GamesEnv):
    """Sudoku grids."""

    env_name = "sudoku"

"""The environments of the documented API, by domain."""

from flows.api.petting.multi_agent_env.base import Env as Env
from flows.api.petting.multi_agent_env.code import CodeEnv as CodeEnv
from flows.api.petting.multi_agent_env.games import GamesEnv as GamesEnv
from flows.api.petting.multi_agent_env.games import PlanPathEnv as PlanPathEnv
from flows.api.petting.multi_agent_env.games import SokobanEnv as SokobanEnv
from flows.api.petting.multi_agent_env.games import SudokuEnv as SudokuEnv
from flows.api.petting.multi_agent_env.math import MathEnv as MathEnv
from flows.api.petting.multi_agent_env.search import SearchEnv as SearchEnv
from flows.api.petting.multi_agent_env.stateful import StatefulEnv as StatefulEnv

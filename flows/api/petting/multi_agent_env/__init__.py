"""The environments of the documented API, by domain: `code.CodeEnv`, `games.SokobanEnv`; what they share is in `base`."""

from collections.abc import Mapping

from flows.api.petting.configs import DOMAINS
from flows.api.petting.module_paths import add_module
from flows.api.petting.multi_agent_env.base import Env as Env

CLASSES: Mapping[str, tuple[str, str | None, str]] = {
    "CodeEnv": ("code", None, "Programs for hidden tests: a tester writes tests, a coder the program, in the sandbox."),
    "MathEnv": ("math", None, "Mathematics: a tool agent writes a program for the sandbox, a reasoner the answer."),
    "SearchEnv": ("search", None, "Questions of several passages: a searcher asks a local index, a reasoner answers."),
    "StatefulEnv": (
        "stateful",
        None,
        "Blocksworld, eight queens, a shop, a calendar, files, or a game, by `env_name`.",
    ),
    "GamesEnv": ("games", None, "Games on a board, by `env_name`: a tool agent proposes, a plan agent decides."),
    "PlanPathEnv": ("games", "plan_path", "Paths through grids."),
    "SokobanEnv": ("games", "sokoban", "Boxes pushed onto goals."),
    "SudokuEnv": ("games", "sudoku", "Sudoku grids."),
}
"""Class -> its domain, its only environment (None: all of the domain), and what is played."""
_MADE: Mapping[str, type[Env]] = {
    name: type(name, (Env,), {"domain": domain, "env_name": env_name, "__doc__": doc, "__module__": __name__})
    for name, (domain, env_name, doc) in CLASSES.items()
}
for _domain in DOMAINS:
    _own = {name: made for name, made in _MADE.items() if made.domain == _domain}
    add_module(f"{__name__}.{_domain}", f"The environments of {_domain}.", **_own)


def __getattr__(name: str) -> type[Env]:
    """The class of this name."""
    if name in _MADE:
        return _MADE[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

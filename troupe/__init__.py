"""Troupe trains teams of language-model agents with reinforcement learning. This is its public API.

**Example** Your own environment, in `guess.py`: `from troupe import Environment, Step`, a subclass with `roles`, `draw`,
`observe` and `step` (see `Environment`); then `troupe train guess.yaml`, or from Python

    import troupe

    report = troupe.train("guess.yaml")  # or of troupe.load_config("guess.yaml", ["num_steps=40"])
    print(report.evaluations[-1].success_rate)
    print(troupe.load_team("guess").play(0))
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from components.config import RunConfig
    from components.environments.base import JointStep, Step
    from components.environments.environment import Demonstrator, Environment, ToolEnvironment
    from components.environments.program import AgentBox, AgentProgram, ProgramEnvironment
    from components.errors import ConfigurationError, TroupeError
    from components.errors import MalformedAction as MalformedAnswer
    from components.frozen import Frozen as Options
    from components.schema import (
        Candidate,
        Episode,
        EvalReport,
        Execution,
        ExecutionResult,
        IterationReport,
        Node,
        Passage,
        ProgramEnd,
        Query,
    )
    from components.tracking.base import Tracker
    from troupe import testing as testing
    from troupe.running import evaluate, load_config, load_team, train
    from troupe.runs.columns import load_metrics, load_rollouts
    from troupe.runs.summary import TrainingReport
    from troupe.teams.run_team import Team

__all__ = [
    "AgentBox",
    "AgentProgram",
    "Candidate",
    "ConfigurationError",
    "Demonstrator",
    "Environment",
    "Episode",
    "EvalReport",
    "Execution",
    "ExecutionResult",
    "IterationReport",
    "JointStep",
    "MalformedAnswer",
    "Node",
    "Options",
    "Passage",
    "ProgramEnd",
    "ProgramEnvironment",
    "Query",
    "RunConfig",
    "Step",
    "Team",
    "ToolEnvironment",
    "Tracker",
    "TrainingReport",
    "TroupeError",
    "evaluate",
    "load_config",
    "load_metrics",
    "load_rollouts",
    "load_team",
    "train",
]
_PLACES = {
    **dict.fromkeys(("AgentBox", "AgentProgram", "ProgramEnvironment"), "components.environments.program:"),
    "Candidate": "components.schema:Candidate",
    **dict.fromkeys(("Demonstrator", "Environment", "ToolEnvironment"), "components.environments.environment:"),
    **dict.fromkeys(
        ("Episode", "EvalReport", "Execution", "ExecutionResult", "IterationReport", "Passage", "ProgramEnd", "Query"),
        "components.schema:",
    ),
    "MalformedAnswer": "components.errors:MalformedAction",
    "Options": "components.frozen:Frozen",
    "RunConfig": "components.config:RunConfig",
    **dict.fromkeys(("JointStep", "Step"), "components.environments.base:"),
    "Team": "troupe.teams.run_team:Team",
    "TrainingReport": "troupe.runs.summary:TrainingReport",
    **dict.fromkeys(("ConfigurationError", "TroupeError"), "components.errors:"),
    "Node": "components.schema:Node",
    "Tracker": "components.tracking.base:Tracker",
    **dict.fromkeys(("load_metrics", "load_rollouts"), "troupe.runs.columns:"),
    **dict.fromkeys(("evaluate", "load_config", "load_team", "train"), "troupe.running:"),
}
"""Name -> location. A name is imported on first use."""
_PACKAGES = ("components", "tasks", "flows", "infra")


def _check_packages() -> None:
    """Raise ImportError if a file of the user's hides one of Troupe's packages."""
    ours = Path(__file__).resolve().parent.parent
    for name in _PACKAGES:
        spec = find_spec(name)
        if spec is None or spec.origin is None or not Path(spec.origin).resolve().is_relative_to(ours / name):
            found = spec.origin if spec is not None else None
            raise ImportError(f"{found or f'a folder {name}'} hides Troupe's package {name!r}: give it another name")


if not TYPE_CHECKING:

    def __dir__() -> list[str]:
        return sorted([*__all__, "testing"])

    def __getattr__(name: str) -> Any:
        if name == "testing":
            return import_module("troupe.testing")
        if name == "__version__":
            from components.runs.provenance import troupe_version

            return troupe_version()
        if name not in _PLACES:
            raise AttributeError(f"module 'troupe' has no attribute {name!r}")
        _check_packages()
        module, _, found = _PLACES[name].partition(":")
        globals()[name] = value = getattr(import_module(module), found or name)
        return value

"""The section `environment`: what is played, by which rules."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from components.frozen import Settings


class EnvironmentConfig(Settings):
    name: str
    """plan_path, sokoban, sudoku, code, math, search, shop, calendar, file_tree, blocksworld, eight_queens; one of an installed
    package; or your own as module:Name, in the current folder or installed."""
    source: str | None = None
    """The source digest of an environment that is not built in. Filled in at the start, so that a changed file never continues
    from results of the old one."""
    data: str | None = None
    """The digest of the local files that `options` of a built-in environment name. Filled in at the start, as `source` is."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """The environment's own options (sizes, densities); validated by its family."""
    max_turns: int = Field(2, ge=1)
    """Turns after which an episode ends; reaching it is not success. If the environment decides who acts next, every answer is
    a turn."""
    turn_order: tuple[str | tuple[str, ...], ...] | None = None
    """The order of roles in a turn; a role may act more than once: `[drafter, critic, drafter]`. Roles in inner brackets act
    in parallel on the same state: `[[solver_a, solver_b], judge]`. None: the environment's own."""
    answer_format: Literal["strict", "free", "choice"] = "strict"
    """strict: an answer is its grammar and nothing else. free: it may reason first, and its last list, block, line or JSON
    value is read. Thinking in <think> tags is left out in both. choice: tokens are drawn among those that continue one of the
    answers that the environment names, so that none is malformed. Teams of chat models answer freely unless this is given."""

    @field_validator("turn_order", mode="before")
    @classmethod
    def _read_order(cls, value: Any) -> Any:
        if value is None:
            return None
        entries = value if isinstance(value, list | tuple) else ()
        inner = [entry if isinstance(entry, list | tuple) else [entry] for entry in entries]
        if not inner or not all(agents and all(isinstance(agent, str) for agent in agents) for agents in inner):
            raise ValueError("write it as [first, second], or for two that act in parallel as [[first, second], third]")
        return tuple(entry if isinstance(entry, str) else tuple(entry) for entry in entries)

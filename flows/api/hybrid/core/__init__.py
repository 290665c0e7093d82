"""Agent, strategies, history, environment, goals and errors, each imported on first use."""

from typing import Any

from flows.api.hybrid import CORE, find_name

__all__ = [*CORE]


def __getattr__(name: str) -> Any:
    return find_name(name, CORE, __name__)

"""Agent, strategies, history, environment, goals and errors, each imported on first use."""

from flows.api.hybrid import NAMES
from flows.api.hybrid import __getattr__ as __getattr__

__all__ = [*NAMES]

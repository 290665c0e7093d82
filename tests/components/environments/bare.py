"""A family that is no demonstrator."""

from types import SimpleNamespace
from typing import Any

from components.environments.base import EnvironmentFamily


def bare(family: EnvironmentFamily) -> Any:
    """`family` with what `EnvironmentFamily` names, and nothing else."""
    names = [name for name in vars(EnvironmentFamily) if not name.startswith("_")]
    return SimpleNamespace(**{name: getattr(family, name) for name in names})

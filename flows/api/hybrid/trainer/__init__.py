"""The trainer, and the managers of language models, each imported on first use."""

from typing import Any

from flows.api.hybrid import TRAINER, find_name

__all__ = [*TRAINER]


def __getattr__(name: str) -> Any:
    return find_name(name, TRAINER, __name__)

"""Models shared by several generators: one base with an adapter per policy."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from components.models.weights import build_tiny_model


@dataclass(frozen=True, slots=True)
class Base:
    """A module that adapters share. Hold `turn` while computing with it, because one adapter is active at a time."""

    module: Any
    digest: str
    turn: threading.Lock = field(default_factory=threading.Lock)


class BaseModels:
    """The bases of a session, by their folder, whose content never changes.

    **Example** four roles with adapters on one base: four generators, one module, four adapters in it.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[Path, str, torch.dtype], Base] = {}

    def base(self, folder: Path, *, device: str, dtype: torch.dtype) -> Base:
        """The module of `folder` and the digest of its weights as stored. Raises what `build_tiny_model` raises."""
        key = (folder.resolve(), device, dtype)
        if key not in self._held:
            self._held[key] = Base(*build_tiny_model(folder, device=device, dtype=dtype))
        return self._held[key]

"""Modules that several generators share: one base, and in it an adapter for each policy."""

from pathlib import Path
from typing import Any

import torch

from components.generation.weights import built_model


class BaseModels:
    """The bases that a process holds, by the folder they came from. A base's folder never changes.

    **Example** four roles with adapters on one base: four generators, one module, four adapters in it.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[Path, str, torch.dtype], tuple[Any, str]] = {}

    def model(self, folder: Path, *, device: str, dtype: torch.dtype) -> tuple[Any, str]:
        """The module of `folder` and the digest of the weights as they are there. Raises what `built_model` raises."""
        key = (folder.resolve(), device, dtype)
        if key not in self._held:
            self._held[key] = built_model(folder, device=device, dtype=dtype)
        return self._held[key]

"""The collectives that an update needs besides DeepSpeed's own."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among the `size` that run the same update. A single rank sends nothing.

    `control` is a gloo group over CPU tensors on any device, so that waiting for a job occupies no accelerator.
    """

    rank: int = 0
    size: int = 1
    control: Any = None

    @property
    def first(self) -> bool:
        """Whether this is the rank that listens, saves and answers."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over ranks of a CPU tensor."""
        return self._reduce(tensor, dist.ReduceOp.SUM)

    def max(self, tensor: Tensor) -> Tensor:
        """The elementwise maximum over ranks of a CPU tensor."""
        return self._reduce(tensor, dist.ReduceOp.MAX)

    def broadcast(self, text: str | None) -> str | None:
        """Rank 0's `text` on every rank."""
        return self.gather(text)[0]

    def gather(self, text: str | None) -> list[str | None]:
        """Every rank's `text` in the order of ranks, on every rank."""
        if self.size == 1:
            return [text]
        texts: list[str | None] = [None] * self.size
        dist.all_gather_object(texts, text, group=self.control)
        return texts

    def _reduce(self, tensor: Tensor, operation: Any) -> Tensor:
        reduced = tensor.detach().to("cpu", copy=True)
        if self.size > 1:
            dist.all_reduce(reduced, op=operation, group=self.control)
        return reduced


def scalar(value: float) -> Tensor:
    """A float64 tensor without axes."""
    return torch.tensor(value, dtype=torch.float64)

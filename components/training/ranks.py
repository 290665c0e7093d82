"""The ranks of one update, as the few collectives that it needs besides DeepSpeed's own."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among `size` that run the same update. With one rank nothing is sent.

    `control` is a gloo group over CPU tensors whatever the device, so that waiting for a job holds no accelerator.
    """

    rank: int = 0
    size: int = 1
    control: Any = None

    @property
    def first(self) -> bool:
        """Whether this rank speaks for all: it listens, saves and answers."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over ranks of a CPU tensor."""
        return self._reduced(tensor, dist.ReduceOp.SUM)

    def max(self, tensor: Tensor) -> Tensor:
        """The largest over ranks, elementwise, of a CPU tensor."""
        return self._reduced(tensor, dist.ReduceOp.MAX)

    def broadcast(self, text: str | None) -> str | None:
        """Rank 0's `text` on every rank."""
        return self.gathered(text)[0]

    def gathered(self, text: str | None) -> list[str | None]:
        """Every rank's `text` in the order of ranks, on every rank."""
        if self.size == 1:
            return [text]
        texts: list[str | None] = [None] * self.size
        dist.all_gather_object(texts, text, group=self.control)
        return texts

    def _reduced(self, tensor: Tensor, operation: Any) -> Tensor:
        reduced = tensor.detach().to("cpu", copy=True)
        if self.size > 1:
            dist.all_reduce(reduced, op=operation, group=self.control)
        return reduced


def scalar(value: float) -> Tensor:
    """A float64 tensor without axes."""
    return torch.tensor(value, dtype=torch.float64)

"""The key-value cache of a batch, which stores each prompt once for all its candidates."""

from typing import Any

import numpy.typing as npt
import torch

from components.generation.local.batching import Capacity
from components.generation.local.schedule import Moves

Views = tuple[torch.Tensor, ...]
"""One view of the cache per layer."""


class KeyValues:
    """Keys and values: of prompts [layers, prompts, heads, columns, head_dim], and of answers with places instead of prompts.

    Memory for all of `capacity` is allocated with the first prompt. Unfilled values are zero, because a zero weight
    cancels only finite values; scores of unfilled keys are replaced by the mask.
    """

    def __init__(self, num_layers: int, capacity: Capacity, device: torch.device) -> None:
        self._num_layers, self.capacity, self._device = num_layers, capacity, device
        self._prompts: tuple[torch.Tensor, ...] = ()
        self._answers: tuple[torch.Tensor, ...] = ()
        self.cells: tuple[Views, Views] = ((), ())
        """Keys and values of answers as [places * heads * columns, head_dim]."""

    @property
    def num_heads(self) -> int:
        """Key heads per layer; known after the first prompt."""
        return self._prompts[0].shape[2]

    def upload(self, numbers: npt.NDArray[Any]) -> torch.Tensor:
        """`numbers` as a tensor on the cache's device."""
        return torch.from_numpy(numbers).to(self._device)

    def put_prompts(self, layer: int, first: int, keys: torch.Tensor, values: torch.Tensor, *, column: int = 0) -> None:
        """Store new prompts [prompts, heads, columns, head_dim] after the first `first` ones, from a column on."""
        self._take_room(keys, values)
        for store, each in zip(self._prompts, (keys, values), strict=True):
            store[layer, first : first + each.shape[0], :, column : column + each.shape[2]] = each

    def put_block(self, prompt: int, column: int, block: Views) -> None:
        """Store columns [layers, heads, columns, head_dim] of one prompt, in all layers."""
        self._take_room(*(each[:1] for each in block))
        for store, each in zip(self._prompts, block, strict=True):
            store[:, prompt, :, column : column + each.shape[2]] = each

    def copy_block(self, prompt: int, column: int, num_columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The same, as a copy."""
        keys, values = (store[:, prompt, :, column : column + num_columns].clone() for store in self._prompts)
        return keys, values

    def prompt(self, layer: int, prompt: int, num_columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [1, heads, columns, head_dim] of the first columns of one prompt."""
        keys, values = (store[layer, prompt : prompt + 1, :, :num_columns] for store in self._prompts)
        return keys, values

    def prompts(self, num_prompts: int, num_columns: int) -> tuple[Views, Views]:
        """Keys [prompts * heads, head_dim, columns] and values [prompts * heads, columns, head_dim] of the first prompts."""
        return _views(self._prompts, num_prompts, num_columns)

    def answers(self, num_candidates: int, num_columns: int) -> tuple[Views, Views]:
        """The same for the answers in the first places."""
        return _views(self._answers, num_candidates, num_columns)

    def newest(self, num_candidates: int, column: int) -> tuple[Views, Views]:
        """Keys and values [candidates, heads, head_dim] of one column of the first places."""
        keys, values = (store[:, :num_candidates, :, column].unbind() for store in self._answers)
        return keys, values

    def move(self, places: Moves, prompts: Moves, *, answer_columns: int) -> None:
        """Apply moves of the schedule in all layers at once; of answers only the filled columns."""
        moving = ((self._answers, places, answer_columns), (self._prompts, prompts, self.capacity.prompt_columns))
        for stores, (to, origin), columns in moving:
            if len(to):
                new, old = self.upload(to), self.upload(origin)
                for store in stores:
                    store[:, new, :, :columns] = store[:, old, :, :columns]

    def _take_room(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Allocate, the first time, for keys and values of which these are some."""
        if self._prompts:
            return

        def room(held: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
            shape = (self._num_layers, held, keys.shape[1], columns)
            return keys.new_empty(*shape, keys.shape[3]), values.new_zeros(*shape, values.shape[3])

        self._prompts = room(self.capacity.num_prompts, self.capacity.prompt_columns)
        self._answers = room(self.capacity.num_places, self.capacity.answer_columns)
        self.cells = (self._answers[0].flatten(1, 3).unbind(), self._answers[1].flatten(1, 3).unbind())


def _views(stores: tuple[torch.Tensor, ...], held: int, num_columns: int) -> tuple[Views, Views]:
    keys, values = (store[:, :held, :, :num_columns].flatten(1, 2) for store in stores)
    return keys.transpose(2, 3).unbind(), values.unbind()

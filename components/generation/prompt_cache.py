"""A key-value cache whose prompt part is computed once and then extended in place, without growing tensors."""

import torch
from transformers.cache_utils import Cache, DynamicLayer


class PromptLayer(DynamicLayer):  # type: ignore[misc]  # transformers ships no types
    """One layer's keys and values, [rows, heads, columns, head_dim].

    The first `update` holds the prompts. `reserve` lays them out as rows with room to spare; later updates fill that room.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_initialized = False
        self.num_columns = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the newest columns; return all columns held so far."""
        if not self.is_initialized:
            self.keys, self.values, self.is_initialized = key_states, value_states, True
            self.num_columns = key_states.shape[2]
            return key_states, value_states
        end = self.num_columns + key_states.shape[2]
        self.keys[:, :, self.num_columns : end] = key_states
        self.values[:, :, self.num_columns : end] = value_states
        self.num_columns = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def reserve(self, prompt_of_row_R: torch.Tensor, num_columns: int) -> None:
        """Give each of R rows a copy of its prompt's columns, with room for `num_columns` in all."""
        self.keys = _widened(self.keys, prompt_of_row_R, num_columns)
        self.values = _widened(self.values, prompt_of_row_R, num_columns)

    def keep_rows(self, rows: torch.Tensor) -> None:
        """Drop all rows but `rows`."""
        self.keys = self.keys.index_select(0, rows)
        self.values = self.values.index_select(0, rows)

    def get_seq_length(self) -> int:
        """Columns filled so far."""
        return self.num_columns


def _widened(prompts: torch.Tensor, prompt_of_row_R: torch.Tensor, num_columns: int) -> torch.Tensor:
    num_prompts, num_heads, prompt_columns, head_dim = prompts.shape
    wide = prompts.new_empty(len(prompt_of_row_R), num_heads, num_columns, head_dim)
    one_row_each = num_prompts == len(prompt_of_row_R)
    wide[:, :, :prompt_columns] = prompts if one_row_each else prompts[prompt_of_row_R]
    return wide


def prompt_cache(num_layers: int) -> Cache:
    """An empty cache of `num_layers` PromptLayers."""
    return Cache(layers=[PromptLayer() for _ in range(num_layers)])

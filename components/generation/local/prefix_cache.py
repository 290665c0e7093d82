"""What was read of prompts, kept between calls, so that the next prompt of a conversation costs what is new in it.

A prompt is read in blocks of `BLOCK_TOKENS` at fixed positions, the last one padded. The position of a block alone decides the
shape of its forward, and a token's keys and values depend on the tokens before it alone. So a block that is found is equal to
the bit to one that is computed, wherever earlier prompts ended. What was sampled is read again, as part of the next prompt:
token by token it rounds otherwise. Blocks that prompts share: Kwon et al., "PagedAttention", SOSP 2023.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch

BLOCK_TOKENS = 64

Block = tuple[torch.Tensor, torch.Tensor]
"""Keys and values [layers, heads, BLOCK_TOKENS, head_dim]."""


class PrefixCache:
    """Blocks under what they and all before them hold, at most `max_bytes`: those used longest ago go first.

    **Example** after a prompt of 200 tokens, one that begins with 150 of these finds two blocks.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._blocks: OrderedDict[bytes, Block] = OrderedDict()
        self._digest = ""

    @property
    def num_bytes(self) -> int:
        return self._num_bytes

    def use_weights(self, digest: str) -> None:
        """Forget what other weights have read."""
        if digest != self._digest:
            self.clear()
            self._digest = digest

    def clear(self) -> None:
        """Forget all."""
        self._blocks.clear()
        self._num_bytes = 0

    def find(self, prompt: Sequence[int]) -> list[Block]:
        """The blocks that the prompt begins with, but for the one with its last token, whose logits are asked for."""
        keys = name_blocks(prompt)[: (len(prompt) - 1) // BLOCK_TOKENS]
        found = next((number for number, key in enumerate(keys) if key not in self._blocks), len(keys))
        return [self._blocks[key] for key in keys[:found]]

    def keep(self, prompt: Sequence[int], blocks: Sequence[Block]) -> None:
        """Keep the whole blocks of a prompt that was read. What it begins with stays longer than what it ends with."""
        keys = name_blocks(prompt)
        for key, block in zip(reversed(keys), reversed(blocks[: len(keys)]), strict=True):
            if key not in self._blocks:
                self._blocks[key] = block
                self._num_bytes += sum(each.nbytes for each in block)
            self._blocks.move_to_end(key)
        while self._num_bytes > self._max_bytes:
            _, dropped = self._blocks.popitem(last=False)
            self._num_bytes -= sum(each.nbytes for each in dropped)


def name_blocks(prompt: Sequence[int]) -> list[bytes]:
    """A digest for each whole block, of its tokens and of all before them."""
    tokens = np.array(prompt[: len(prompt) // BLOCK_TOKENS * BLOCK_TOKENS], dtype=np.int64)
    names, last = [], b""
    for block in tokens.reshape(-1, BLOCK_TOKENS):
        last = hashlib.sha256(last + block.tobytes()).digest()
        names.append(last)
    return names

"""The screen as a policy sees it: greys at half the width and height, and many of them packed to be stored.

Axes: N games, B rows, H and W rows and columns of a picture.
"""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.errors import ArtifactCorrupt

GREYS_SHAPE = (72, 80)
"""Rows and columns of what is seen."""
_WORD_BYTES = 8


def grey_screens(screens_N_H_W_3: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The greys of screens (N, 72, 80): each the mean of two by two points of three colours, rounded down.

    **Example** two points of (255, 255, 255) and two of (0, 0, 0): 127.
    """
    colours_N_H_W = screens_N_H_W_3[..., 0].astype(np.uint16)
    for colour in (1, 2):
        colours_N_H_W += screens_N_H_W_3[..., colour]
    rows_N_H_W = colours_N_H_W[:, ::2] + colours_N_H_W[:, 1::2]
    greys_N_H_W: NDArray[np.uint8] = ((rows_N_H_W[..., ::2] + rows_N_H_W[..., 1::2]) // 12).astype(np.uint8)
    return greys_N_H_W


def pack_screens(greys_B_H_W: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Screens in as few whole numbers as they compress to, for `unpack_screens`.

    **Example** 2,048 screens of the homebrew cartridge: 11.8 MB, packed a twentieth or less.
    """
    packed = zlib.compress(np.ascontiguousarray(greys_B_H_W).tobytes(), 1)
    return np.frombuffer(packed + bytes(-len(packed) % _WORD_BYTES), np.int64)


def unpack_screens(packed: NDArray[Any], num_screens: int) -> NDArray[np.uint8]:
    """The screens that were packed. Raises ArtifactCorrupt unless there are so many."""
    shape = (num_screens, *GREYS_SHAPE)
    num_bytes = int(np.prod(shape))
    try:
        raw = zlib.decompressobj().decompress(packed.astype(np.int64).tobytes(), num_bytes + 1)
    except zlib.error as error:
        raise ArtifactCorrupt(f"{num_screens} packed screens: {error}") from error
    if len(raw) != num_bytes:
        raise ArtifactCorrupt(f"{num_screens} packed screens: they unpack to {len(raw)} bytes, not {num_bytes}")
    return np.frombuffer(raw, np.uint8).reshape(shape).copy()

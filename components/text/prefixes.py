"""What sequences of tokens begin with in common. In order, a sequence shares most with its neighbours."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_TOKEN = np.dtype(">u4")


def token_order(tokens: Sequence[int]) -> bytes:
    """A key that sorts sequences as their tokens do: big-endian, four bytes a token.

    **Example** (1, 300) comes before (2,), and (1,) before both.
    """
    return np.asarray(tokens, dtype=_TOKEN).tobytes()


def read_tokens(key: bytes) -> npt.NDArray[np.uint32]:
    """The tokens of a key."""
    return np.frombuffer(key, _TOKEN)


def common_length(first: bytes, second: bytes) -> int:
    """The number of tokens that two sequences, given by `token_order`, begin with in common.

    **Example** (5, 6, 7) and (5, 6, 8, 9): 2.
    """
    length = min(len(first), len(second))
    if first[:length] == second[:length]:
        return length // _TOKEN.itemsize
    differ = np.frombuffer(first, np.uint8, length) != np.frombuffer(second, np.uint8, length)
    return int(differ.argmax()) // _TOKEN.itemsize

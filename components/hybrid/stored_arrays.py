"""Named arrays as one frozen value that the artifact codec stores exactly, and as one dictionary again."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from components.errors import ArtifactCorrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArrays:
    """Arrays of numbers and truth values: their names, types and shapes, and all their values in two columns.

    Floats are kept as float64, which holds every float32 and float16; whole numbers and truth values as int64, in which an
    unsigned number of 64 bits keeps its bits. Equal arrays give equal values.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    ints: tuple[int, ...]
    floats: tuple[float, ...]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """These arrays as one value. Raises TypeError for an array of anything but numbers and truth values.

        **Example** {"x": float32 (2, 3), "over": bool (2,)}: 6 floats, 2 ints.
        """
        ints: list[int] = []
        floats: list[float] = []
        for name, array in arrays.items():
            if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
                floats += array.ravel().tolist()
            elif array.dtype.kind in "iub":
                ints += _view_signed(array).ravel().tolist()
            else:
                raise TypeError(f"array {name}: a {array.dtype} cannot be stored exactly")
        return cls(
            names=tuple(arrays),
            types=tuple(array.dtype.str for array in arrays.values()),
            shapes=tuple(array.shape for array in arrays.values()),
            ints=tuple(ints),
            floats=tuple(floats),
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays, bit for bit. Raises ArtifactCorrupt where the columns do not hold what the shapes say."""
        arrays: dict[str, NDArray[Any]] = {}
        ints, floats = np.array(self.ints, np.int64), np.array(self.floats, np.float64)
        num_ints = num_floats = 0
        for name, type_name, shape in zip(self.names, self.types, self.shapes, strict=True):
            dtype, size = np.dtype(type_name), prod(shape)
            if dtype.kind == "f":
                array: NDArray[Any] = floats[num_floats : num_floats + size].astype(dtype)
                num_floats += size
            else:
                array = _view_typed(ints[num_ints : num_ints + size], dtype)
                num_ints += size
            if len(array) != size:
                raise ArtifactCorrupt(f"array {name} of shape {shape}: {len(array)} of its {size} values are there")
            arrays[name] = array.reshape(shape).copy()
        if (num_ints, num_floats) != (len(ints), len(floats)):
            raise ArtifactCorrupt(
                f"{len(ints)} ints and {len(floats)} floats, of which {num_ints} and {num_floats} are used"
            )
        return arrays


def _view_signed(array: NDArray[Any]) -> NDArray[np.int64]:
    contiguous = np.ascontiguousarray(array)
    return contiguous.view(np.int64) if array.dtype == np.uint64 else contiguous.astype(np.int64)


def _view_typed(values: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    return values.view(np.uint64) if dtype == np.uint64 else values.astype(dtype)

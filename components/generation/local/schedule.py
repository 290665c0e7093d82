"""Slot allocation for continuous batching: which candidate has which place, and which prompts are held. Indices only.

M live candidates have places 0 to M - 1, and H held prompts 0 to H - 1. The last one moves to the place of one that
leaves, so there are no gaps. Refilling at every step follows Yu et al., "Orca: a distributed serving system for
transformer-based generative models", OSDI 2022.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from components.generation.local.batching import Capacity, Row

Integers = npt.NDArray[np.int64]
Moves = tuple[Integers, Integers]
"""(to, from): freed places and the places that move there."""
_NO_MOVES: Moves = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Newly admitted rows and candidates, placed after the held prompts and the live candidates."""

    rows: list[int]
    """The rows whose prompts are new."""
    joining: list[tuple[int, int]]
    """(row, number of its candidates) in the order of their places."""


class Schedule:
    """The places of one batch, and the rows that wait for them."""

    def __init__(self, rows: Sequence[Row], capacity: Capacity) -> None:
        self._rows, self._capacity = rows, capacity
        self._num_opened = 0
        self.num_admitted: dict[int, int] = {}
        """The number of admitted candidates, for each held row with waiting ones."""
        self.row_H: Integers = np.empty(0, dtype=np.int64)
        self.live_H: Integers = np.empty(0, dtype=np.int64)
        """The number of live candidates per held prompt."""
        self.candidate_M: Integers = np.empty(0, dtype=np.int64)
        self.prompt_M: Integers = np.empty(0, dtype=np.int64)
        """The held prompt of each live candidate."""
        self.position_M: Integers = np.empty(0, dtype=np.int64)
        """The number of tokens of each live candidate."""

    @property
    def num_live(self) -> int:
        return len(self.candidate_M)

    def admit(self) -> Admission:
        """Fill free places, first from held prompts, then from new ones up to capacity."""
        admission = Admission(rows=[], joining=[])
        for held, row in enumerate(self.row_H.tolist()):
            self._join(held, row, admission)
        while self.num_live < self._capacity.num_places and len(self.row_H) < self._capacity.num_prompts:
            row = self._num_opened
            if row == len(self._rows):
                break
            self._num_opened += 1
            self.num_admitted[row] = 0
            admission.rows.append(row)
            self.row_H, self.live_H = np.append(self.row_H, row), np.append(self.live_H, 0)
            self._join(len(self.row_H) - 1, row, admission)
        return admission

    def leave(self, finished_M: npt.NDArray[np.bool_]) -> tuple[Moves, Moves]:
        """Release finished candidates and prompts without candidates; the moves of candidates and of prompts."""
        self.live_H -= np.bincount(self.prompt_M[finished_M], minlength=len(self.live_H))
        places = _close_gaps(~finished_M)
        self.candidate_M, self.prompt_M, self.position_M = (
            _move(array, places, finished_M) for array in (self.candidate_M, self.prompt_M, self.position_M)
        )
        unused_H = self.live_H == 0
        if self.num_admitted:
            unused_H &= ~np.isin(self.row_H, list(self.num_admitted))
        if not unused_H.any():
            return places, _NO_MOVES
        prompts = _close_gaps(~unused_H)
        self.row_H, self.live_H = (_move(array, prompts, unused_H) for array in (self.row_H, self.live_H))
        number_H = np.arange(len(unused_H))
        number_H[prompts[1]] = prompts[0]
        self.prompt_M = number_H[self.prompt_M]
        return places, prompts

    def slots(self, num_candidates: int) -> tuple[Integers, int]:
        """For each of the first live candidates its index among those of its prompt; and the maximum count per prompt.

        **Example** prompts 0, 1, 0, 0: slots 0, 0, 1, 2, and 3.
        """
        prompt_M = self.prompt_M[:num_candidates]
        count_H = np.bincount(prompt_M, minlength=len(self.row_H))
        first_H = np.cumsum(count_H) - count_H
        slot_M = np.empty_like(prompt_M)
        slot_M[np.argsort(prompt_M, kind="stable")] = np.arange(num_candidates) - np.repeat(first_H, count_H)
        return slot_M, int(count_H.max())

    def _join(self, held: int, row: int, admission: Admission) -> None:
        """Admit waiting candidates of a held row up to capacity."""
        if row not in self.num_admitted:
            return
        begun, candidates = self.num_admitted[row], self._rows[row].candidates
        free = self._capacity.num_places - self.num_live
        allowed = self._capacity.candidates_per_prompt - int(self.live_H[held])
        count = min(len(candidates) - begun, free, allowed)
        if count == 0:
            return
        if begun + count < len(candidates):
            self.num_admitted[row] = begun + count
        else:
            del self.num_admitted[row]
        self.live_H[held] += count
        self.candidate_M = np.append(self.candidate_M, candidates[begun : begun + count])
        self.prompt_M = np.append(self.prompt_M, np.full(count, held))
        self.position_M = np.append(self.position_M, np.zeros(count, dtype=np.int64))
        admission.joining.append((row, count))


def _close_gaps(kept: npt.NDArray[np.bool_]) -> Moves:
    """The moves that fill gaps among the first places with kept ones from the end."""
    num_kept = int(kept.sum())
    return np.flatnonzero(~kept[:num_kept]), num_kept + np.flatnonzero(kept[num_kept:])


def _move(array: Integers, moves: Moves, gone: npt.NDArray[np.bool_]) -> Integers:
    to, origin = moves
    array[to] = array[origin]
    return array[: len(array) - int(gone.sum())]

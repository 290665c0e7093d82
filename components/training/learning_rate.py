"""The learning rate as a pure function of the optimizer step, so that a resumed run needs no scheduler state."""

import math
from typing import Literal


def learning_rate(
    update: int,
    *,
    peak: float,
    num_warmup_updates: int,
    total_updates: int,
    schedule: Literal["constant", "linear", "cosine"],
) -> float:
    """The rate of optimizer step `update`, counted from 0 over the whole run.

    It rises linearly to `peak` over the warm-up; then `linear` and `cosine` fall to 0 at update `total_updates - 1`.

    **Example** peak 1, warm-up 2, total 7, linear: 0.5, 1, 1, 0.75, 0.5, 0.25, 0.
    """
    if update < num_warmup_updates:
        return peak * (update + 1) / num_warmup_updates
    if schedule == "constant":
        return peak
    progress = min((update - num_warmup_updates) / max(total_updates - 1 - num_warmup_updates, 1), 1.0)
    if schedule == "linear":
        return peak * (1.0 - progress)
    return peak * 0.5 * (1.0 + math.cos(math.pi * progress))

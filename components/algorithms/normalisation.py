"""Advantages from the rewards of a group: a baseline is subtracted, and the rest optionally divided by a standard deviation.

Conventions differ between systems and change the size of a step, so that learning rates do not transfer. Ours is the
population's deviation (n in the denominator) plus epsilon 1e-4. verl, SkyRL and Dr. MAS take the sample's deviation (n - 1) and
1e-6, TRL the sample's and 1e-4: their advantages are smaller by sqrt((n - 1) / n), which is .94 for 8 candidates. A group of
one keeps its raw reward in verl and its descendants, and gets 0 here. TRL gives 0 to a missing reward and trains on its answer;
here it has no advantage, and its answer is no row.
"""

import math
from collections.abc import Sequence

from components.config import AlgorithmConfig
from components.metrics import population_std

Group = Sequence[float | None]
"""The rewards of the compared actions; None marks an unknown one."""


def center(rewards_K: Group, *, leave_one_out: bool) -> list[float | None]:
    """Each reward less its baseline: the mean of its group, or with `leave_one_out` the mean of the others.

    The second is n / (n - 1) times the first. Fewer than two known rewards, or equal ones, give exact zeros.

    **Example** (1, 0, None, 0): (2/3, -1/3, None, -1/3), and with `leave_one_out` (1, -1/2, None, -1/2).
    """
    known = [reward for reward in rewards_K if reward is not None]
    if not known or min(known) == max(known):
        return [None if reward is None else 0.0 for reward in rewards_K]
    center = math.fsum(known) / len(known)
    stretch = len(known) / (len(known) - 1) if leave_one_out else 1.0
    return [None if reward is None else (reward - center) * stretch for reward in rewards_K]


def group_advantages(
    rewards_K: Group, *, normalize_std: bool, epsilon: float, leave_one_out: bool = False
) -> tuple[float | None, ...]:
    """The advantages of one group: `(r - baseline) / (std + epsilon)`, or without `normalize_std` the numerator; they sum to 0.

    A missing reward is ignored in baseline and deviation, and has no advantage. The deviation is that of the rewards.

    **Example** rewards (1, 0, 0, None, 1): mean .5, std .5, advantages (1, -1, -1, None, 1) up to epsilon.
    """
    scale = population_std(reward for reward in rewards_K if reward is not None) + epsilon if normalize_std else 1.0
    return _divide(center(rewards_K, leave_one_out=leave_one_out), scale)


def advantages(groups: Sequence[Group], algorithm: AlgorithmConfig) -> list[tuple[float | None, ...]]:
    """The advantages of each group, in order, with the baseline and the deviation of `algorithm`.

    `normalize_over` batch divides by the deviation of all centered rewards of the step (the baseline variant of REINFORCE++,
    arXiv:2501.03262). TRL's scale_rewards "batch" takes the deviation of the raw rewards, which also includes the spread of the
    groups' means: hard and easy problems then shrink each other's steps.
    """
    if algorithm.normalize_std and algorithm.normalize_over == "batch":
        centered_G_K = [center(group, leave_one_out=algorithm.leave_one_out) for group in groups]
        scale = population_std(v for group in centered_G_K for v in group if v is not None) + algorithm.epsilon
        return [_divide(group, scale) for group in centered_G_K]
    return [
        group_advantages(
            group,
            normalize_std=algorithm.normalize_std,
            epsilon=algorithm.epsilon,
            leave_one_out=algorithm.leave_one_out,
        )
        for group in groups
    ]


def _divide(values_K: Group, scale: float) -> tuple[float | None, ...]:
    return tuple(None if value is None else value / scale for value in values_K)

"""Partitioning: groups over the optimizer steps of an epoch, and the groups of a step over the ranks."""

import random
from collections.abc import Sequence
from itertools import pairwise, zip_longest

from components.identity import seed_for
from components.schema import TrainGroup


def minibatches_of(
    groups: Sequence[TrainGroup], *, num_minibatches: int, seed_parts: tuple[int | str, ...], seed: int
) -> list[list[int]]:
    """The indices of `groups` in minibatches. Groups with a learning signal are spread evenly, and so are those without.

    Groups without a signal do not move the others: these are in the minibatches that they would have without them.
    """

    def spread(indices: Sequence[int], *more: str) -> list[list[int]]:
        parts = minibatches(len(indices), num_minibatches=num_minibatches, seed=seed, seed_parts=(*seed_parts, *more))
        return [[indices[place] for place in part] for part in parts]

    silent = [index for index, group in enumerate(groups) if not any(group.advantages_K)]
    telling = [index for index, group in enumerate(groups) if any(group.advantages_K)]
    none: list[int] = []
    return [[*a, *b] for a, b in zip_longest(spread(telling), spread(silent, "silent"), fillvalue=none)]


def minibatches(
    num_groups: int, *, num_minibatches: int, seed_parts: tuple[int | str, ...], seed: int
) -> list[list[int]]:
    """A permutation of the group indices in `num_minibatches` parts whose sizes differ by at most one; no part is empty.

    **Example** 5 groups in 2 minibatches: for example [[3, 0, 4], [1, 2]].
    """
    order = list(range(num_groups))
    random.Random(seed_for(seed, "minibatches", *seed_parts)).shuffle(order)
    num_parts = min(num_minibatches, num_groups)
    bounds = [part * num_groups // num_parts for part in range(num_parts + 1)] if num_parts else [0]
    return [order[start:end] for start, end in pairwise(bounds)]


def balance_costs(costs: Sequence[int], num_ranks: int) -> list[list[int]]:
    """The indices of `costs` by rank: largest first, each to the rank with the least so far (R. Graham, 1969).

    A rank may get none. **Example** costs (5, 3, 3, 2) over 2 ranks: [[0, 3], [1, 2]].
    """
    loads = [0] * num_ranks
    parts: list[list[int]] = [[] for _ in range(num_ranks)]
    for index in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        rank = loads.index(min(loads))
        loads[rank] += costs[index]
        parts[rank].append(index)
    return parts

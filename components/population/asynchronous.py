"""Asynchronous members: their weights reach the games in turn, and what older weights played counts less.

Staleness is the number of a member's updates between the weights that play and those that learn. A member's weights reach the
games every `every` steps, so that it never exceeds `every - 1`, and engines load fewer weights a step. What is learned from a
row is lowered by `(1 + staleness) ** -exponent` (FedAsync, arXiv:1903.03934).
"""

from collections.abc import Mapping
from dataclasses import replace

from components.schema import TrainBatch


def find_played_step(place: int, step: int, *, every: int) -> int:
    """The step before whose update member number `place` was as it plays in `step`.

    **Example** every 3, member 1: in the steps 2 to 4 it plays as before the update of step 2, then as before that of step 5.
    """
    return max(0, step - (step + place) % every)


def staleness_weight(staleness: int, exponent: float) -> float:
    """The weight, above 0 and at most 1, of what weights of that many updates ago played.

    **Example** exponent .5: 1 for the current weights, .707 for those of one update ago, .577 for two.
    """
    assert staleness >= 0, f"staleness {staleness}: nobody plays by weights that do not exist yet"
    return float((1 + staleness) ** -exponent)


def batch_weight(batch: TrainBatch, exponent: float) -> float:
    """The staleness weight of a batch; 1 where the version that played it is unknown."""
    return 1.0 if batch.version is None else staleness_weight(batch.step - batch.version.step, exponent)


def ages(batches: Mapping[str, TrainBatch]) -> dict[str, int]:
    """The staleness of each member's batch."""
    return {
        member: 0 if batch.version is None else batch.step - batch.version.step for member, batch in batches.items()
    }


def discount_stale_batch(batch: TrainBatch, exponent: float) -> TrainBatch:
    """A batch whose advantages are weighed by the staleness of the weights that played it.

    Rows with moves are credited with returns, of which a critic makes advantages within the update: they stay, and the update
    weighs what the critic made.

    **Example** played by version 4 in step 5, exponent .5: an advantage of 1 becomes .707.
    """
    weight = batch_weight(batch, exponent)
    aged = (
        group
        if group.moves_K
        else replace(group, advantages_K=tuple(weight * advantage for advantage in group.advantages_K))
        for group in batch.groups
    )
    return batch if weight == 1.0 else replace(batch, groups=tuple(aged))

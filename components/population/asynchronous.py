"""Asynchronous members: their weights reach the games in turn, and what older weights played counts less.

Staleness is the number of a member's updates between the weights that play and those that learn. A member's weights reach the
games every `every` steps, so that it never exceeds `every - 1`, and engines load fewer weights a step. What is learned from a
row is lowered by `(1 + staleness) ** -exponent` (FedAsync, arXiv:1903.03934).

Besides, selective updates: the best `ceil(share N)` members by average raw return learn, and nobody starves. A member that was
not updated for more than `max_rounds_waiting` rounds is updated too, and each other one with probability `exploration`. The
records are a value: JSON, folded round by round, equal to the bit after a resume.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, inf
from random import Random
from typing import Literal

from components.identity import seed_for
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


Reason = Literal["best", "starved", "explored"]
_DECAY = 0.9
"""Of the average return, with each round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What selection knows of a member. `average_return` is over raw returns, None before the first one."""

    average_return: float | None = None
    num_updates: int = 0
    rounds_waiting: int = 0

    def after_return(self, raw_return: float) -> "Record":
        """The record after a round's mean raw return: `.9 average + .1 return`; the first one is taken as it is.

        **Example** averages 1 after a return of 0: .9.
        """
        known = raw_return if self.average_return is None else self.average_return
        return replace(self, average_return=_DECAY * known + (1 - _DECAY) * raw_return)

    def after_round(self, updated: bool) -> "Record":
        """The record after a round in which the member was updated or waited."""
        if updated:
            return replace(self, num_updates=self.num_updates + 1, rounds_waiting=0)
        return replace(self, rounds_waiting=self.rounds_waiting + 1)


def select_members(
    records: Mapping[str, Record],
    *,
    seed: int,
    round_number: int,
    share: float = 0.5,
    exploration: float = 0.1,
    max_rounds_waiting: int = 3,
) -> dict[str, Reason]:
    """The members to update, by name, each with its reason.

    Of equal returns the one with fewer updates is better, then the first by name; one without a return is the best, so
    that it gets one. With one member, that member. With share 0.5, no exploration and N members of fixed order, the
    worst is still updated every `max_rounds_waiting + 2` rounds: it waits that bound, and one more.

    **Example** returns a .9, b .5, c .7, nothing drawn: a and c are best; in the fifth round b, which has waited 4, is
    starved.
    """

    def rank(name: str) -> tuple[float, int, str]:
        average = records[name].average_return
        return (-inf if average is None else -average, records[name].num_updates, name)

    ordered = sorted(records, key=rank)
    best = set(ordered[: ceil(share * len(records))])
    reasons: dict[str, Reason] = {}
    for name in sorted(records):
        draw = Random(seed_for(seed, "selection", round_number, name)).random()
        if name in best:
            reasons[name] = "best"
        elif records[name].rounds_waiting > max_rounds_waiting:
            reasons[name] = "starved"
        elif draw < exploration:
            reasons[name] = "explored"
    return reasons

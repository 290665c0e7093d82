"""Selective updates: the members with the best average raw return learn, and nobody starves.

The best `ceil(share N)` are updated. A member that was not updated for more than `max_rounds_waiting` rounds is updated
too, and each other one with probability `exploration`, drawn from the seed, the round and its name. The records are a
value: JSON, folded round by round, equal to the bit after a resume.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, inf
from random import Random
from typing import Literal

from components.identity import seed_for

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

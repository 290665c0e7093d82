"""Selective updates: the members with the best average raw return learn, and nobody starves.

The best `ceil(share N)` are updated. A member that was not updated for more than `max_rounds_waiting` rounds is updated
too, and each other one with probability `exploration`, drawn from the seed, the round and its name. The records are a
value: JSON, folded round by round, equal to the bit after a resume.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, isfinite
from random import Random
from typing import Literal

from components.config.bounds import check_share
from components.errors import ConfigurationError
from components.identity import seed_for

Reason = Literal["best", "starved", "explored"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What selection knows of a member. `average_return` is over raw returns, None before the first one."""

    average_return: float | None = None
    num_updates: int = 0
    rounds_waiting: int = 0

    def after_return(self, raw_return: float, decay: float = 0.9) -> "Record":
        """The record after a round's mean raw return: `decay average + (1 - decay) return`; the first one is taken as it is.

        **Example** averages 1 after a return of 0: .9.
        """
        check_share("decay", decay)
        if not isfinite(raw_return):
            raise ConfigurationError(f"raw_return {raw_return}: leave the round out")
        known = raw_return if self.average_return is None else self.average_return
        return replace(self, average_return=decay * known + (1 - decay) * raw_return)

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
    check_share("share", share)
    check_share("exploration", exploration)
    if not records or share == 0:
        raise ConfigurationError(f"share {share} of {len(records)} members: use a share above 0 and one member or more")
    if max_rounds_waiting < 0:
        raise ConfigurationError(f"max_rounds_waiting {max_rounds_waiting}: use 0 or more")
    ordered = sorted(records, key=lambda name: (-_rank_value(records[name]), records[name].num_updates, name))
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


def _rank_value(record: Record) -> float:
    return float("inf") if record.average_return is None else record.average_return

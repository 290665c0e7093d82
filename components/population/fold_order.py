"""The order in which run state is folded: that of the problems, however results arrive.

Sums of floating-point numbers depend on their order; a state that is folded in a fixed one is equal to the bit after a
resume.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from components.errors import ConfigurationError


class Ordered(Protocol):
    """What has a place in a run."""

    @property
    def order(self) -> int:
        """The place among all of a run, counted over its steps."""
        ...


Item = TypeVar("Item", bound=Ordered)


def in_order(items: Sequence[Item]) -> list[Item]:
    """The items by `order`. Raises ConfigurationError for two of one place, whose order would be that of arrival.

    **Example** places (2, 0, 1): 0, 1, 2.
    """
    ordered = sorted(items, key=lambda item: item.order)
    for one, other in pairwise(ordered):
        if one.order == other.order:
            raise ConfigurationError(f"order {one.order}: two results of one place; number them over the whole run")
    return ordered

"""Environments whose rewards depend on how many turns an episode has."""

from typing import Protocol, Self, runtime_checkable

from components.turn_order import TurnOrder


@runtime_checkable
class EpisodeLengthAware(Protocol):
    """Options that take the length of an episode from the run's configuration."""

    def ending_after(self, max_turns: int, turn_order: TurnOrder | None) -> Self:
        """These options for episodes of `max_turns` turns in this order; None: the environment's own."""

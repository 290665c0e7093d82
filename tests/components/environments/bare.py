"""A family whose expert is gone."""

from random import Random
from typing import NoReturn

from components.environments.family import Family
from components.environments.play import Position


class Bare(Family):
    """A family without an expert: whoever asks for one fails."""

    @property
    def has_expert(self) -> bool:
        return False

    def expert_action(self, position: Position, agent: str) -> NoReturn:
        raise AssertionError("a family without an expert was asked for its answer")

    def noisy_expert_action(self, position: Position, agent: str, *, noise: float, rng: Random) -> NoReturn:
        raise AssertionError("a family without an expert was asked for its answer")


def bare(family: Family) -> Bare:
    """`family` without its expert."""
    return Bare(family.name, family.environment, family.answer_format, is_custom=family.rules.is_custom)

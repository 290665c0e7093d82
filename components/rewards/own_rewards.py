"""Reward functions of one's own: each values the candidates of a node, and knows the whole recorded episode.

The sampler does not ask them: which candidate is handed on is decided by what answers did. So another function needs no other
rollouts, and it may look at what came later.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from components.config import RewardConfig
from components.errors import ConfigurationError
from components.own_code import own_function, place_of, told_in_one_line
from components.rewards.base import Rubric
from components.schema import Episode, Node

RewardFunction = Callable[[Episode, Node], Sequence[float]]
"""From an episode and one of its nodes to a value for each of the node's candidates, in their order."""
TAKES = ("episode", "node")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnReward:
    """One component: a function of the user's and its weight. It depends on its arguments alone, and changes neither.

    Outcomes, rewards and success in the episode are those that the reward stage has found itself; a candidate's `reward` is
    what the environment's components came to, without any own function and before length is punished.

    **Example** `def brevity(episode, node): return [-len(each.text) / 10 for each in node.candidates]`, and for a bonus to
    every node of an episode that ends well `return [episode.success] * len(node.candidates)`.
    """

    component: str
    name: str
    function: RewardFunction
    weight: float

    def values(self, episode: Episode) -> tuple[tuple[float, ...], ...]:
        """What each candidate of `episode` is valued (N, K). Raises ConfigurationError with the function's file and line."""
        return tuple(self._values_K(episode, node) for node in episode.nodes)

    def _values_K(self, episode: Episode, node: Node) -> tuple[float, ...]:
        what = f"rewards.functions {self.name!r}"
        with told_in_one_line(what):
            found = self.function(episode, node)
        if fault := _fault(found, len(node.candidates)):
            raise ConfigurationError(f"{what}: {place_of(self.function)}: {node.group}: {fault}")
        return tuple(float(value) for value in found)


def own_rewards(config: RewardConfig, rubric: Rubric) -> tuple[OwnReward, ...]:
    """The components of `config.functions`, in their order. Raises ConfigurationError where own code cannot be used."""
    return tuple(
        OwnReward(
            component=component,
            name=name,
            function=own_function("rewards.functions", name, takes=TAKES, source=config.sources.get(name)),
            weight=rubric.weights[component],
        )
        for component, name in config.own_components.items()
    )


def _fault(found: Any, num_candidates: int) -> str | None:
    """What is wrong with what own code returned; None where it is a finite number for each candidate."""
    if not hasattr(found, "__len__") or isinstance(found, str | bytes | Mapping):
        return f"returned {type(found).__name__}; return a list with a number for each of node.candidates"
    if len(found) != num_candidates:
        return f"returned {len(found)} values; return one for each of the {num_candidates} candidates"
    for k, value in enumerate(found):
        if not isinstance(value, Real):
            return f"returned {type(value).__name__} for candidate {k}; return a number"
        if not math.isfinite(value):
            return f"returned {value} for candidate {k}; return a finite number"
    return None

"""AT-GRPO's tree: at each (problem, turn, agent) K candidates from one selected state, continued from one of them.

Source: "Stronger Together" (arXiv:2510.11062), algorithm 1. The candidates of a node saw identical prompt tokens, each was
stepped on a snapshot of the one selected state, and the next agent of the same turn sees the chosen action. Agents who act
side by side are agents who do not see it: what they are shown is older than the state in which they are stepped.
"""

from collections.abc import Sequence

from components.config import RolloutConfig
from components.rollout.rules import Rules, Start
from components.rollout.shards import NumberedProblem
from components.turn_order import TurnOrder


def tree_starts(problems: Sequence[NumberedProblem]) -> tuple[Start, ...]:
    """One tree a problem."""
    return tuple(Start(problem=each.problem, episode=each.occurrence) for each in problems)


def tree_rules(settings: RolloutConfig, *, turn_order: TurnOrder, max_turns: int, seed: int, step: int) -> Rules:
    """All agents act, `group_size` candidates a node."""
    return Rules(
        turn_order=turn_order,
        max_turns=max_turns,
        group_size=settings.group_size,
        temperature=settings.temperature,
        seed=seed,
        purpose=("rollout", step),
        random_handoff_probability=settings.random_handoff_probability,
    )

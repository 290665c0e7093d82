"""The baselines: K whole episodes a problem, one candidate a node. Plain GRPO on a team, or on its last agent alone."""

from collections.abc import Sequence

from components.config import RolloutConfig
from components.rollout.rules import Rules, Start
from components.rollout.shards import NumberedProblem
from components.turn_order import TurnOrder


def independent_starts(problems: Sequence[NumberedProblem], group_size: int) -> tuple[Start, ...]:
    """`group_size` episodes a problem, numbered on from the episodes of an equal problem before it in the step.

    **Example** group_size 2, problems a, b, a: episodes a0 a1, b0 b1, a2 a3.
    """
    return tuple(
        Start(problem=each.problem, episode=each.occurrence * group_size + k)
        for each in problems
        for k in range(group_size)
    )


def independent_rules(settings: RolloutConfig, *, turn_order: TurnOrder, max_turns: int, seed: int, step: int) -> Rules:
    """One candidate a node."""
    return Rules(
        turn_order=turn_order,
        max_turns=max_turns,
        group_size=1,
        temperature=settings.temperature,
        seed=seed,
        purpose=("rollout", step),
    )

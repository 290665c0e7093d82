"""The sampling modes as episodes and rules of play.

tree: AT-GRPO's (arXiv 2510.11062, algorithm 1). At each (problem, turn, agent) K candidates from one selected state, continued
from one of them. The candidates of a node saw identical prompt tokens, each was stepped on a snapshot of the selected state,
and the next agent of the same turn sees the chosen action. Agents who act side by side do not see it: what they are shown is
older than the state in which they are stepped.

independent, single: the baselines. K whole episodes a problem, one candidate a node: plain GRPO on a team, or on its last agent
alone.
"""

from collections.abc import Sequence

from components.config import RolloutConfig
from components.rollout.rules import Rules, Start
from components.rollout.shards import NumberedProblem
from components.turn_order import TurnOrder


def num_episodes(settings: RolloutConfig) -> int:
    """How many episodes one problem has."""
    return 1 if settings.mode == "tree" else settings.group_size


def starts(problems: Sequence[NumberedProblem], settings: RolloutConfig) -> tuple[Start, ...]:
    """The episodes of each problem, numbered on from those of an equal problem before it in the step.

    **Example** independent, group_size 2, problems a, b, a: episodes a0 a1, b0 b1, a2 a3. As trees: a0, b0, a1.
    """
    count = num_episodes(settings)
    return tuple(
        Start(problem=each.problem, episode=each.occurrence * count + k) for each in problems for k in range(count)
    )


def rollout_rules(settings: RolloutConfig, *, turn_order: TurnOrder, max_turns: int, seed: int, step: int) -> Rules:
    """`group_size` candidates a node in a tree, else one."""
    return Rules(
        turn_order=turn_order,
        max_turns=max_turns,
        group_size=settings.group_size if settings.mode == "tree" else 1,
        temperature=settings.temperature,
        seed=seed,
        purpose=("rollout", step),
        random_handoff_probability=settings.random_handoff_probability,
    )

"""The rules of play: who acts, for how long, the candidates of a node with their seeds, and which one is handed on.

tree: AT-GRPO (arXiv 2510.11062, algorithm 1). At each (problem, turn, agent), K candidates are sampled from one selected state
and scored on snapshots of it; play continues from one of them. They share their prompt tokens, and the next agent of the turn
sees the chosen action. Agents side by side do not see each other's: their prompts are older than the state that they act on.

independent, single: the baselines. K whole episodes per problem, one candidate per node: plain GRPO on a team, or on its last
agent alone.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from components.config import RolloutConfig
from components.identity import GroupKey, seed_for
from components.rollout.shards import NumberedProblem
from components.schema import Problem
from components.turn_order import TurnOrder, in_phases


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One episode to play. Equal problems of one step have different episode numbers."""

    problem: Problem
    episode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All settings of play except the environment, the engines and the rubric.

    `purpose` separates the seeds of unrelated play: ("rollout", step) or ("evaluate", suite). `temperature` 0 is greedy.
    """

    turn_order: TurnOrder
    max_turns: int
    group_size: int
    temperature: float
    seed: int
    purpose: tuple[str | int, ...]
    random_handoff_probability: float = 0.0

    def seeds(self, group: GroupKey) -> tuple[int, ...]:
        """One seed per candidate of `group`."""
        node = (*self.purpose, *group.seed_parts)
        return tuple(seed_for(self.seed, *node, candidate) for candidate in range(self.group_size))

    def choose(self, group: GroupKey, rewards: Sequence[float], *, is_last: bool) -> tuple[int, bool]:
        """The index in `rewards` of the candidate to hand on, and whether it was drawn at random.

        `rewards` are those of the scorable candidates. The best is chosen, ties to the lowest index; with
        `random_handoff_probability` a random one, except if no agent acts after it (`is_last`): that action is the team's.

        **Example** rewards (.1, 1.3, 1.3) give (1, False).
        """
        assert 0 < len(rewards) <= self.group_size, f"{group}: {len(rewards)} rewards of {self.group_size} candidates"
        if len(rewards) > 1 and self.random_handoff_probability > 0 and not is_last:
            rng = random.Random(seed_for(self.seed, "handoff", *self.purpose, *group.seed_parts))
            if rng.random() < self.random_handoff_probability:
                return rng.randrange(len(rewards)), True
        return max(range(len(rewards)), key=rewards.__getitem__), False


def playing_order(mode: str, turn_order: TurnOrder, *, roles: tuple[str, ...]) -> TurnOrder:
    """`turn_order`, or in mode "single" only its last agent (the last of `roles` if the team branches), without proposals."""
    if mode != "single":
        return turn_order
    return (in_phases(turn_order)[-1] if turn_order else roles)[-1:]


def num_episodes(settings: RolloutConfig) -> int:
    """Number of episodes per problem."""
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
    """The rules of a training step: `group_size` candidates per node in a tree, else one."""
    return Rules(
        turn_order=turn_order,
        max_turns=max_turns,
        group_size=settings.group_size if settings.mode == "tree" else 1,
        temperature=settings.temperature,
        seed=seed,
        purpose=("rollout", step),
        random_handoff_probability=settings.random_handoff_probability,
    )

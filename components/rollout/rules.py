"""The rules of play: who acts, for how long, the candidates of a node with their seeds, and which one is handed on.

tree: AT-GRPO (arXiv 2510.11062, algorithm 1). At each (problem, turn, agent), K candidates are sampled from one selected state
and scored on snapshots of it; play continues from one of them. They share their prompt tokens, and the next agent of the turn
sees the chosen action. Agents side by side do not see each other's: their prompts are older than the state that they act on.

nested: C3 (contextual counterfactual credit). Single candidates play the selected branch to its end, as in plain play, so that
its success rate is an unbiased estimate of the team's. Then one of the turns that it reached, drawn by seed, is played anew:
all candidates of each agent go on, each to the end of the episode by single candidates. The branch's own answers are none of
them, because those of short episodes are drawn more often: an answer that ends the episode leaves no later turn to draw.

independent, single: the baselines. K whole episodes per problem, one candidate per node: plain GRPO on a team, or on its last
agent alone.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from components.config import RolloutConfig
from components.errors import ConfigurationError
from components.identity import GroupKey, seed_for
from components.rollout.shards import NumberedProblem
from components.schema import Node, Problem, TeamCredit
from components.turn_order import TurnOrder, in_phases


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One episode to play. Equal problems of one step have different episode numbers."""

    problem: Problem
    episode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRules:
    """All settings of play except the environment, the engines and the rubric.

    `purpose` separates the seeds of unrelated play: ("rollout", step) or ("evaluate", suite). `temperature` 0 is greedy.
    `branching` are the candidates of each agent of the expanded turn; empty outside mode nested. `measures_value`: outcomes
    hold a solver's value.
    """

    turn_order: TurnOrder
    max_turns: int
    group_size: int
    temperature: float
    seed: int
    purpose: tuple[str | int, ...]
    random_handoff_probability: float = 0.0
    team_credit: TeamCredit = "node"
    branching: tuple[int, ...] = ()
    measures_value: bool = False

    def seeds(self, group: GroupKey, num_candidates: int | None = None) -> tuple[int, ...]:
        """One seed per candidate of `group`; None: `group_size` candidates."""
        node = (*self.purpose, *group.seed_parts)
        count = self.group_size if num_candidates is None else num_candidates
        return tuple(seed_for(self.seed, *node, candidate) for candidate in range(count))

    def expanded_turn(self, start: Start, num_turns: int) -> int:
        """The turn to play anew with all its candidates, of an episode that reached `num_turns`; each is equally likely.

        Each turn has a draw of its own and the highest wins, so that a turn drawn of many is also drawn of fewer.
        """
        episode = (*self.purpose, start.problem.problem_id, start.episode)
        return max(range(num_turns), key=lambda turn: seed_for(self.seed, "expanded turn", *episode, turn))

    def choose(self, group: GroupKey, rewards: Sequence[float], *, is_last: bool) -> tuple[int, bool]:
        """The index in `rewards` of the candidate to hand on, and whether it was drawn at random.

        `rewards` are those of the scorable candidates. The best is chosen, ties to the lowest index; with
        `random_handoff_probability` a random one, except if no agent acts after it (`is_last`): that action is the team's. In
        mode nested it is the first.

        **Example** rewards (.1, 1.3, 1.3) give (1, False).
        """
        most = max(self.branching, default=self.group_size)
        assert 0 < len(rewards) <= most, f"{group}: {len(rewards)} rewards of {most} candidates"
        if self.branching:
            return 0, False
        if len(rewards) > 1 and self.random_handoff_probability > 0 and not is_last:
            rng = random.Random(seed_for(self.seed, "handoff", *self.purpose, *group.seed_parts))
            if rng.random() < self.random_handoff_probability:
                return rng.randrange(len(rewards)), True
        return max(range(len(rewards)), key=rewards.__getitem__), False

    def begins_line(self, node: Node, candidate: int) -> bool:
        """Whether another line goes on from a candidate: in an expanded turn from each that the line of its node does not
        continue, in a tree with credit from each on the selected branch."""
        if self.branching:
            return candidate != node.chosen
        return self.team_credit != "node" and node.parent is None

    def trains_on(self, num_candidates: int, *, on_path: bool) -> bool:
        """Whether the candidates of a node are compared: single ones are on the selected branch alone, outside mode nested."""
        return num_candidates > 1 or (on_path and not self.branching)


def playing_order(mode: str, turn_order: TurnOrder, *, roles: tuple[str, ...]) -> TurnOrder:
    """`turn_order`, or in mode "single" only its last agent (the last of `roles` if the team branches), without proposals."""
    if mode != "single":
        return turn_order
    return (in_phases(turn_order)[-1] if turn_order else roles)[-1:]


def num_episodes(settings: RolloutConfig) -> int:
    """Number of episodes per problem."""
    return 1 if settings.mode in ("tree", "nested") else settings.group_size


def branching_factors(settings: RolloutConfig, turn_order: TurnOrder) -> tuple[int, ...]:
    """The candidates of each agent of an expanded turn. Raises ConfigurationError if they do not fit the turn order.

    **Example** group_size 8: [2, 4] for two agents, [8] for one, [2, 2, 2] for three.
    """
    num_agents = sum(map(len, in_phases(turn_order)))
    if not turn_order:
        raise ConfigurationError(
            "rollout.mode nested expands a turn of a fixed order, and this environment decides who acts next (next_role): "
            "use mode tree with rewards.team_credit episode_end"
        )
    if settings.branching is None:
        last = settings.group_size // 2 ** (num_agents - 1)
        if last < 2:
            raise ConfigurationError(
                f"rollout.group_size {settings.group_size} with mode nested: {num_agents} agents with 2 candidates each end "
                f"in {2**num_agents} episodes; use at least that, or set rollout.branching"
            )
        return (2,) * (num_agents - 1) + (last,)
    if len(settings.branching) != num_agents:
        raise ConfigurationError(
            f"rollout.branching {list(settings.branching)}: a turn has {num_agents} actions; give one number for each"
        )
    return settings.branching


def episode_starts(problems: Sequence[NumberedProblem], settings: RolloutConfig) -> tuple[Start, ...]:
    """The episodes of each problem, numbered on from those of an equal problem before it in the step.

    **Example** independent, group_size 2, problems a, b, a: episodes a0 a1, b0 b1, a2 a3. As trees: a0, b0, a1.
    """
    count = num_episodes(settings)
    return tuple(
        Start(problem=each.problem, episode=each.occurrence * count + k) for each in problems for k in range(count)
    )


def rollout_rules(
    settings: RolloutConfig,
    *,
    turn_order: TurnOrder,
    max_turns: int,
    seed: int,
    step: int,
    team_credit: TeamCredit = "node",
    measures_value: bool = False,
) -> SamplingRules:
    """The rules of a training step: `group_size` candidates per node in a tree, else one."""
    return SamplingRules(
        turn_order=turn_order,
        max_turns=max_turns,
        group_size=settings.group_size if settings.mode == "tree" else 1,
        temperature=settings.temperature,
        seed=seed,
        purpose=("rollout", step),
        random_handoff_probability=settings.random_handoff_probability,
        team_credit=team_credit,
        branching=branching_factors(settings, turn_order) if settings.mode == "nested" else (),
        measures_value=measures_value,
    )

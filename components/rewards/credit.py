"""Where the team term of a candidate is taken from: its own outcome, or the ends of the lines of play below it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from components import metrics
from components.config import RunConfig
from components.rewards.base import Rubric
from components.schema import ActionOutcome, Episode, TeamCredit

CreditRule = TeamCredit | Literal["leaves"]
"""A rule of `rewards.team_credit`; leaves: the mean over all ends below a candidate, in mode nested."""
Outcomes = Sequence[Sequence[ActionOutcome | None]]
"""Axes N, K; None for a candidate that cannot be scored."""


def credit_rule(config: RunConfig) -> CreditRule:
    """The rule of a run."""
    return "leaves" if config.rollout.mode == "nested" else config.rewards.team_credit


def read_recorded_outcomes(episode: Episode) -> Outcomes:
    """The outcomes as recorded."""
    return [
        [None if c.outcome.unscorable is not None else c.outcome for c in node.candidates] for node in episode.nodes
    ]


def credit_rewards(
    episode: Episode, outcomes_N_K: Outcomes, rubric: Rubric, rule: CreditRule
) -> list[tuple[float | None, ...]]:
    """The reward of each candidate (N, K): its own local term, and the team term at the ends of the lines below it.

    None for a candidate that cannot be scored or below which no line reached its end, and for an answer that is not compared.
    The team components of episode_end and leaves count from the episode's start. The value of leaves is the mean over the next
    agent's candidates of theirs, so that each counts as often as it would be played; a failed one is left out.

    **Example** leaves, two candidates with four ends each, of which 3 and 1 are solved, with team.solved of weight 1: .75 and
    .25.
    """
    if rule == "node":
        team, lines = rubric, None
    else:
        team = rubric if rule == "turn_end" else replace(rubric, from_start=True)
        lines = _Lines(episode, outcomes_N_K, team)
        if rule in ("turn_end", "episode_end"):
            lines.check_continued(rule)

    def reward(n: int, k: int) -> float | None:
        own = outcomes_N_K[n][k]
        if own is None or not episode.nodes[n].is_trained_on:
            return None
        value = team.team(own) if lines is None else lines.value(n, k)
        return None if value is None else rubric.team_weight * value + rubric.local(own)

    return [tuple(reward(n, k) for k in range(len(node.candidates))) for n, node in enumerate(episode.nodes)]


class _Lines:
    """The lines of play below the candidates of an episode, valued by the team components of their last outcomes.

    The selected branch is none of them: in a tree it goes on from the best candidate.
    """

    def __init__(self, episode: Episode, outcomes_N_K: Outcomes, rubric: Rubric) -> None:
        self._episode, self._outcomes_N_K, self._rubric = episode, outcomes_N_K, rubric
        self._child = {
            node.parent: n for n, node in enumerate(episode.nodes) if node.parent is not None and not node.is_beside
        }
        self._failed = {cut.parent for cut in episode.cuts or ()}

    def check_continued(self, rule: CreditRule) -> None:
        """Assert that each choice that the selected branch goes on from was continued too: else its own outcome would be taken
        for its end."""
        path = [n for n, node in enumerate(self._episode.nodes) if node.parent is None and not node.is_beside]
        for n, following in pairwise(path):
            node, later = self._episode.nodes[n], self._episode.nodes[following]
            outcome, chosen = self._outcomes_N_K[n][node.chosen], (n, node.chosen)
            if outcome is None or outcome.done:
                return
            if rule == "episode_end" or node.group.turn == later.group.turn:
                assert chosen in self._child or chosen in self._failed, (
                    f"{node.group} candidate {node.chosen} has no continuation: collected without rewards.team_credit {rule}"
                )

    def value(self, n: int, k: int) -> float | None:
        """The value of candidate `k` of node `n`; None if no line below it reached its end."""
        outcome = self._outcomes_N_K[n][k]
        if outcome is None or (n, k) in self._failed:
            return None
        child = self._child.get((n, k))
        if outcome.done or child is None:
            return self._rubric.team(outcome)
        values = [self.value(child, j) for j in range(len(self._outcomes_N_K[child]))]
        known = [value for value in values if value is not None]
        return metrics.mean(known) if known else None

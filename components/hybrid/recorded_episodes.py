"""What episodes of training were, read from their recorded decisions."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import fmean

from components.hybrid.arbitration import Actor
from components.hybrid.decision_history import Decision
from components.hybrid.decision_log import CREDITED_STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedEpisode:
    """What an episode of training earned, its steps, whether it reached its goal, and the language model's share."""

    reward: float
    length: int
    succeeded: bool
    llm_usage: float
    num_switches: int
    decisions: tuple[Decision, ...]


def read_recorded_episodes(decisions: Sequence[Decision], goals: Sequence[bool]) -> list[PlayedEpisode]:
    """The episodes of these decisions, in their order, with whether each has reached its goal."""
    episodes = [tuple(each) for _, each in groupby(decisions, key=lambda each: each.episode_id)]
    return [read_episode(*pair) for pair in zip(episodes, goals, strict=True)]


def read_episode(decisions: tuple[Decision, ...], succeeded: bool) -> PlayedEpisode:
    """A decision is credited with the rewards of so many steps: those of every so manieth are all of them."""
    by_llm = [each.source == Actor.LLM for each in decisions]
    return PlayedEpisode(
        reward=sum(each.outcome_reward for each in decisions[::CREDITED_STEPS]),
        length=len(decisions),
        succeeded=succeeded,
        llm_usage=fmean(by_llm),
        num_switches=sum(one.strategy != other.strategy for one, other in pairwise(decisions)),
        decisions=tuple(replace(each, timestamp=time.time()) for each in decisions),
    )

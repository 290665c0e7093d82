"""A trained player as its run has stored it: its weights, and what it played while it learned and in an evaluation."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import fmean, pstdev
from typing import Any

from numpy.typing import NDArray

from components.artifacts.payloads import get
from components.config.hybrid import LEARNER_POLICY
from components.errors import ArtifactMissing
from components.evaluation.suite_play import SuitePlay
from components.hybrid.arbitration import Actor
from components.hybrid.decision_history import Decision
from components.hybrid.decision_log import CREDITED_STEPS
from components.methods.base import method_for
from components.methods.hybrid.decision_histories import find_experience
from components.methods.hybrid.learner_checkpoints import read_learner
from components.runs.history import read_history
from components.runs.run import Run
from components.runs.steps import checkpoints_before, first_unfinished_step
from components.schema import IterationReport
from components.session.session import Session
from components.session.stores import open_store


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


def read_weights(run: Run, step: int) -> dict[str, NDArray[Any]]:
    """The learner's arrays after so many steps of a run. Raises ArtifactCorrupt and ArtifactMissing."""
    with Session(run) as session:
        return read_learner(session, checkpoints_before(session.store, run, step)[LEARNER_POLICY])


def read_episodes(run: Run, step: int) -> list[PlayedEpisode]:
    """The episodes that ended in a finished step, in their order. Raises ArtifactMissing where they were removed."""
    from components.hybrid.experience import Experience

    store = open_store(run.config.store)
    experience = get(store, find_experience(store, run, step), Experience)
    return read_recorded_episodes(experience.decisions, experience.goals_from_start)


class PlayedRun:
    """What a run has played so far: its episodes, without their decisions, and the metrics of its steps."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.episodes: list[PlayedEpisode] = []
        self.metrics: list[Mapping[str, float]] = []
        """Those of each finished step."""

    @property
    def num_steps(self) -> int:
        """The number of finished steps."""
        return len(self.metrics)

    @property
    def checkpoint(self) -> str:
        """The newest checkpoint. **Example** "hybrid-1f2e3d4c@12"."""
        return f"{self.run.run_id}@{self.num_steps}"

    @property
    def stage(self) -> int:
        """The number of the curriculum's stage, from 0; 0 where there is none."""
        return int(self.metrics[-1].get("curriculum/stage", 0)) if self.metrics else 0

    @property
    def num_advances(self) -> int:
        """How many stages were passed."""
        return int(sum(each.get("curriculum/num_advances", 0) for each in self.metrics))

    def read_stored(self, limit: int | None = None) -> None:
        """Count the steps below `limit` that are stored and not counted yet. Episodes that `troupe gc` has removed are left
        out."""
        store = open_store(self.run.config.store)
        finished = first_unfinished_step(store, self.run)
        last = finished if limit is None else min(finished, limit)
        for step in range(self.num_steps, last):
            with suppress(ArtifactMissing):
                self._keep(read_episodes(self.run, step))
        steps = read_history(store, self.run, last).steps
        self.metrics += [each.summary.metrics for each in steps[self.num_steps :]]

    def add_step(self, report: IterationReport) -> Iterator[PlayedEpisode]:
        """Count the next step; its episodes, each with its decisions, when it was just counted."""
        self.metrics.append(report.metrics)
        for episode in read_episodes(self.run, report.step):
            self._keep([episode])
            yield episode

    def _keep(self, episodes: Iterable[PlayedEpisode]) -> None:
        self.episodes += [replace(each, decisions=()) for each in episodes]


def describe_play(run: Run, play: SuitePlay) -> dict[str, float]:
    """Means of the episodes of an evaluation, and the deviation of their rewards, which no report has.

    **Example** {"avg_reward": 27.1, "std_reward": 0.4, "avg_length": 600.0, "avg_llm_usage": 0.5}.
    """
    metrics = method_for(run.config).evaluation.list_metrics(play)
    rewards = [reward for rewards_K in play.rewards_P_K for reward in rewards_K]
    return {
        "avg_reward": fmean(rewards),
        "std_reward": pstdev(rewards),
        "avg_length": metrics["episode_length"],
        "avg_llm_usage": metrics["llm_share"],
    }

"""The reports of `troupe play` and `troupe evaluate`."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from components.evaluation.answered_play import Ended
from components.evaluation.statistics import wilson_interval
from components.frozen import Frozen
from components.metrics import mean


class SuccessReport(Frozen):
    """The success rate of `agent` over `n` episodes, its 95% Wilson interval, and the mean reward of the final actions."""

    agent: str
    success_rate: float
    n: int
    interval: tuple[float, float]
    mean_reward: float

    @property
    def sentence(self) -> str:
        """**Example** "71.0% of 200 solved, 95% interval 64.4% to 76.8%, mean reward 0.912"."""
        low, high = self.interval
        return (
            f"{self.success_rate:.1%} of {self.n} solved, 95% interval {low:.1%} to {high:.1%}, "
            f"mean reward {self.mean_reward:.3f}"
        )


class EvaluationReport(SuccessReport):
    """Success on a suite. `temperatures` are those of agents with their own; None: 1 for all under sample.

    `keep_rate` is how often the last agent keeps a proposal that solves, `repair_rate` how often it repairs one that does not;
    None without such a case, and for scripted teams. `problems_P` are the problems' ids, and `solved_P` says which were solved;
    both are left out of documents.
    """

    suite: str
    sampling: str
    temperatures: Mapping[str, float] | None = None
    keep_rate: float | None = None
    repair_rate: float | None = None
    problems_P: tuple[str, ...] = Field(exclude=True)
    solved_P: tuple[bool, ...] = Field(exclude=True)

    @property
    def drawn(self) -> str:
        """**Example** "sample, judge at temperature 0.7"."""
        own = (f"{role} at temperature {value:g}" for role, value in sorted((self.temperatures or {}).items()))
        return ", ".join((self.sampling, *own))


class PlayReport(SuccessReport):
    """Success in an environment, with its default reward weights."""

    env: str


def counted(episodes: Sequence[Ended]) -> dict[str, Any]:
    """The numbers of a `SuccessReport` over these episodes; the rate is 0 for none."""
    return {
        "success_rate": mean(float(ended.success) for ended in episodes),
        "n": len(episodes),
        "interval": wilson_interval(sum(ended.success for ended in episodes), len(episodes)),
        "mean_reward": mean(ended.reward for ended in episodes),
    }

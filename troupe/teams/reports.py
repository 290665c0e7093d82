"""What `troupe play` and `troupe evaluate` report."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from components.evaluation.answered_play import Ended
from components.evaluation.pass_at_k import pass_at_k
from components.frozen import Frozen
from components.mathematics.intervals import wilson_interval
from components.metrics import mean
from components.schema import EvalReport


class PlayReport(Frozen):
    """The success rate of `agent` over `n` episodes, its 95% Wilson interval, and the mean reward of the final actions, or of
    whole episodes where one agent is paid at each step, with the environment's default reward weights."""

    env: str
    agent: str
    success_rate: float
    n: int
    interval: tuple[float, float]
    mean_reward: float


def success_sentence(report: PlayReport | EvalReport, payoffs: Mapping[str, float] | None = None) -> str:
    """**Example** "71.0% of 200 solved, 95% interval 64.4% to 76.8%, mean reward 0.912"; "..., 4 samples each" with several.

    Where `payoffs` has several players, what an episode pays each of them stands in place of the mean reward.
    """
    if report.n == 0:
        return "no episode was played to its end"
    low, high = report.interval
    earned = f"mean reward {report.mean_reward:.3f}"
    if payoffs is not None and len(payoffs) > 1:
        earned = f"an episode pays {', '.join(f'{agent} {payoff:.3f}' for agent, payoff in payoffs.items())}"
    several = isinstance(report, EvalReport) and report.num_samples > 1
    samples = f", {report.num_samples} samples each" if isinstance(report, EvalReport) and several else ""
    return f"{report.success_rate:.1%} of {report.n} solved{samples}, 95% interval {low:.1%} to {high:.1%}, {earned}"


def describe_sampling(report: EvalReport) -> str:
    """**Example** "sample, judge at temperature 0.7"."""
    own = (f"{role} at temperature {value:g}" for role, value in sorted((report.temperatures or {}).items()))
    return ", ".join((report.sampling, *own))


def evaluation_document(report: EvalReport) -> dict[str, Any]:
    """The report as plain JSON for programs, without what became of each problem; with pass@k if there are several samples."""
    document = {name: value for name, value in asdict(report).items() if name not in ("num_solved_P", "payoffs_P")}
    passes = {str(k): asdict(pass_at_k(report, k)) for k in _powers_of_two(report.num_samples)}
    return document | ({"pass_at": passes} if report.num_samples > 1 else {})


def _powers_of_two(most: int) -> list[int]:
    """**Example** 6: [1, 2, 4, 6]."""
    return sorted({*(2**power for power in range(most.bit_length()) if 2**power <= most), most})


def count_successes(episodes: Sequence[Ended]) -> dict[str, Any]:
    """The numbers of a `SuccessReport` over these episodes; the rate is 0 for none."""
    return {
        "success_rate": mean(float(ended.success) for ended in episodes),
        "n": len(episodes),
        "interval": wilson_interval(sum(ended.success for ended in episodes), len(episodes)),
        "mean_reward": mean(ended.earned for ended in episodes),
    }


def mean_payoffs(episodes: Sequence[Ended]) -> dict[str, float]:
    """What an episode pays each player, in a game of payoffs."""
    agents = dict.fromkeys(agent for ended in episodes for agent in ended.payoffs)
    return {agent: mean(ended.payoffs.get(agent, 0.0) for ended in episodes) for agent in agents}

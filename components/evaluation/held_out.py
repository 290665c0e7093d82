"""Held-out play without a tree, one candidate per node, and its report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from time import monotonic
from typing import Literal

from components import metrics
from components.environments.base import NO_TOOLS, Tools
from components.environments.family import Family
from components.evaluation.statistics import rate_interval
from components.evaluation.suite_play import SuitePlay, join_plays, suite_play
from components.rewards.base import Rubric
from components.rollout.failure_budget import check_failures
from components.rollout.play import ProblemProgress, block_progress, play
from components.rollout.router import Router
from components.rollout.rules import SamplingRules, Start
from components.rollout.statistics import usage_metrics
from components.schema import EvalReport, Problem
from components.turn_order import TurnOrder, in_phases

Sampling = Literal["sample", "greedy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalPlan:
    """The plan of an evaluation. `turn_order` is that of all agents of the environment, or of the last one alone.

    Candidate seeds depend on the split and the problem but not on the step, so that policies of different steps are compared
    under the same draws.
    """

    split: str
    """The split of the suite: test, train or train_check."""
    sampling: Sampling
    problems: tuple[Problem, ...]
    problems_per_block: int
    turn_order: TurnOrder
    max_turns: int
    seed: int
    num_samples: int = 1
    """Episodes of each problem."""
    max_failed_fraction: float = 0.0

    @property
    def blocks(self) -> tuple[tuple[Problem, ...], ...]:
        """The problems that are played together."""
        size = self.problems_per_block
        return tuple(self.problems[at : at + size] for at in range(0, len(self.problems), size))

    @property
    def rules(self) -> SamplingRules:
        """How they are played."""
        order, turns = self.turn_order, self.max_turns
        return eval_rules(order, max_turns=turns, sampling=self.sampling, split=self.split, seed=self.seed)

    @property
    def last_agent(self) -> str | None:
        """The agent that acts last in a turn; None where the team branches."""
        return in_phases(self.turn_order)[-1][-1] if self.turn_order else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSetting:
    """In what, by whom and for what reward a plan is played."""

    family: Family
    router: Router
    rubric: Rubric
    tools: Tools = NO_TOOLS


def success_rate(plan: EvalPlan, setting: EvalSetting) -> float:
    """The share of episodes that succeed."""
    play = join_plays([play_block(plan, block, setting) for block in plan.blocks])
    return metrics.mean(solved for solved_K in play.solved_P_K for solved in solved_K)


def play_block(
    plan: EvalPlan, block: Sequence[Problem], setting: EvalSetting, progress: ProblemProgress | None = None
) -> SuitePlay:
    """Play the problems of one block together.

    `progress(done, total)` is called as they are played. Raises TooManyFailedEpisodes; within the budget a failed episode
    counts as unsuccessful.
    """
    starts = [Start(problem=problem, episode=k) for problem in block for k in range(plan.num_samples)]
    began_at_seconds = monotonic()
    with block_progress(progress, 0, len(block), len(block)):
        episodes = play(
            starts,
            plan.rules,
            family=setting.family,
            router=setting.router,
            rubric=setting.rubric,
            tools=setting.tools,
        )
    check_failures(episodes, num_planned=len(episodes), max_failed_fraction=plan.max_failed_fraction)
    if progress is not None:
        progress(len(block), len(block))
    return suite_play(
        episodes,
        num_samples=plan.num_samples,
        last_agent=plan.last_agent,
        usage=setting.router.take_usage(),
        seconds=monotonic() - began_at_seconds,
    )


def temperature_of(sampling: Sampling) -> float:
    return 1.0 if sampling == "sample" else 0.0


def eval_rules(turn_order: TurnOrder, *, max_turns: int, sampling: Sampling, split: str, seed: int) -> SamplingRules:
    """One candidate per node, at temperature 1 or 0, with the seeds of `split`."""
    return SamplingRules(
        turn_order=turn_order,
        max_turns=max_turns,
        group_size=1,
        temperature=temperature_of(sampling),
        seed=seed,
        purpose=("evaluate", split),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportHeader:
    """Of whom and of what an evaluation is: the fields of its report that play does not give."""

    agent: str
    suite: str
    suite_digest: str
    step: int
    sampling: Literal["sample", "greedy", "scripted"]
    seed: int
    temperatures: dict[str, float] | None = None


def report_from(heading: ReportHeader, play: SuitePlay, further_metrics: Mapping[str, float]) -> EvalReport:
    """The report of a whole suite; `further_metrics` are those beside success and reward, as `list_answer_metrics`.

    **Example** 4 samples of each of 50 problems: `n` is 50, `success_rate` the mean over 200 episodes, and `interval` that of
    50 rates (`components.evaluation.statistics.rate_interval`); with one sample it is Wilson's.
    """
    num_samples = len(play.solved_P_K[0])
    rates_P = [fmean(solved_K) for solved_K in play.solved_P_K]
    mean_reward = metrics.mean(reward for rewards_K in play.rewards_P_K for reward in rewards_K)
    rates = {
        "keep_rate": play.num_kept / play.num_solving if play.num_solving else None,
        "repair_rate": play.num_repaired / play.num_not_solving if play.num_not_solving else None,
    }
    success = metrics.mean(float(solved) for solved_K in play.solved_P_K for solved in solved_K)
    values = {"success_rate": success, "mean_reward": mean_reward, **rates, **further_metrics}
    return EvalReport(
        agent=heading.agent,
        suite=heading.suite,
        suite_digest=heading.suite_digest,
        step=heading.step,
        sampling=heading.sampling,
        seed=heading.seed,
        num_samples=num_samples,
        n=len(rates_P),
        num_successes=sum(map(sum, play.solved_P_K)),
        success_rate=success,
        interval=rate_interval(rates_P, num_samples=num_samples),
        mean_reward=mean_reward,
        metrics={metrics.evaluation(heading.sampling, name): v for name, v in values.items() if v is not None},
        temperatures=heading.temperatures,
        num_solved_P=tuple(map(sum, play.solved_P_K)),
        payoffs_P={agent: tuple(map(fmean, earned_P_K)) for agent, earned_P_K in play.payoffs_P_K.items()} or None,
        **rates,
    )


def list_answer_metrics(play: SuitePlay) -> dict[str, float]:
    """Each agent's solving and malformed answers, success by turn, tokens and seconds."""
    episodes = [
        (solved, turns)
        for solved_K, turns_K in zip(play.solved_P_K, play.turns_P_K, strict=True)
        for solved, turns in zip(solved_K, turns_K, strict=True)
    ]
    most_turns = max(turns for _, turns in episodes)
    by_turn = {
        f"solved_by_turn/{turn}": metrics.mean(float(solved and turns <= turn) for solved, turns in episodes)
        for turn in range(1, most_turns + 1)
    }
    return {
        "num_failed_episodes": float(play.num_failed),
        "num_generated_tokens": float(play.num_tokens),
        "mean_nodes": play.num_nodes / len(episodes),
        "seconds": play.seconds,
        **(by_turn if most_turns > 1 else {}),
        **{f"{agent}/solve_rate": made.num_solving / made.num_answers for agent, made in play.agents.items()},
        **{f"{agent}/malformed_rate": made.num_malformed / made.num_answers for agent, made in play.agents.items()},
        **{f"{agent}/mean_tokens": made.num_tokens / made.num_answers for agent, made in play.agents.items()},
        **{f"{agent}/payoff": fmean(map(fmean, earned_P_K)) for agent, earned_P_K in play.payoffs_P_K.items()},
        **usage_metrics(play.usage),
    }

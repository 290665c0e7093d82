"""Held-out play without a tree, one candidate per node, and its report."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from components import metrics
from components.environments.base import NO_TOOLS, Tools
from components.environments.family import Family
from components.evaluation.statistics import wilson_interval
from components.rewards.base import Rubric
from components.rollout.failure_budget import check_failures
from components.rollout.play import ProblemProgress, block_progress, play
from components.rollout.router import Router
from components.rollout.rules import Rules, Start
from components.rollout.statistics import keep_and_repair, usage_metrics
from components.schema import ActionOutcome, ApiUsage, Episode, EvalReport, Problem
from components.turn_order import TurnOrder, in_phases

Sampling = Literal["sample", "greedy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalPlan:
    """The plan of an evaluation. `turn_order` is that of all agents of the environment, or of the last one alone.

    Candidate seeds depend on the suite and the problem but not on the step, so that policies of different steps are compared
    under the same draws.
    """

    suite: str
    step: int
    sampling: Sampling
    problems: tuple[Problem, ...]
    problems_per_block: int
    turn_order: TurnOrder
    max_turns: int
    seed: int
    max_failed_fraction: float = 0.0


def evaluate(
    plan: EvalPlan,
    *,
    family: Family,
    router: Router,
    rubric: Rubric,
    tools: Tools = NO_TOOLS,
    progress: ProblemProgress | None = None,
) -> EvalReport:
    """The report of one sampling: temperature 1 or the agents' own, or greedy.

    `progress(done, total)` is called as blocks are played. Raises TooManyFailedEpisodes; within the budget a failed episode
    counts as unsuccessful.
    """
    episodes: list[Episode] = []
    rules = eval_rules(
        plan.turn_order, max_turns=plan.max_turns, sampling=plan.sampling, suite=plan.suite, seed=plan.seed
    )
    for at in range(0, len(plan.problems), plan.problems_per_block):
        block = plan.problems[at : at + plan.problems_per_block]
        starts = [Start(problem=problem, episode=0) for problem in block]
        with block_progress(progress, len(episodes), len(block), len(plan.problems)):
            episodes += play(starts, rules, family=family, router=router, rubric=rubric, tools=tools)
        check_failures(episodes, num_planned=len(plan.problems), max_failed_fraction=plan.max_failed_fraction)
        if progress is not None:
            progress(len(episodes), len(plan.problems))
    own = router.own_temperatures(rules.temperature)
    return replace(_report(plan, episodes, router.take_usage()), temperatures=own or None)


def temperature_of(sampling: Sampling) -> float:
    return 1.0 if sampling == "sample" else 0.0


def eval_rules(turn_order: TurnOrder, *, max_turns: int, sampling: Sampling, suite: str, seed: int) -> Rules:
    """One candidate per node, at temperature 1 or 0, with the seeds of `suite`."""
    return Rules(
        turn_order=turn_order,
        max_turns=max_turns,
        group_size=1,
        temperature=temperature_of(sampling),
        seed=seed,
        purpose=("evaluate", suite),
    )


def _report(plan: EvalPlan, episodes: list[Episode], usage: Mapping[str, ApiUsage]) -> EvalReport:
    """The report, its numbers also under their metric names, with each agent's solving and malformed answers."""
    num_successes, num_episodes = sum(episode.success for episode in episodes), len(episodes)
    handed = keep_and_repair(episodes, last_agent=in_phases(plan.turn_order)[-1][-1] if plan.turn_order else None)
    mean_reward = metrics.mean(_outcome_reward(episode) for episode in episodes)
    answered: dict[str, list[ActionOutcome]] = {}
    for episode in episodes:
        for node in episode.path:
            answered.setdefault(node.group.agent, []).append(node.candidates[0].outcome)
    values: dict[str, float | None] = {
        "success_rate": num_successes / num_episodes,
        "mean_reward": mean_reward,
        "keep_rate": handed.keep_rate,
        "repair_rate": handed.repair_rate,
        "num_failed_episodes": float(sum(episode.error is not None for episode in episodes)),
        "num_generated_tokens": float(sum(episode.num_generated_tokens for episode in episodes)),
        "mean_nodes": metrics.mean(len(episode.path) for episode in episodes),
        **{f"{agent}/solve_rate": metrics.mean(each.solves for each in made) for agent, made in answered.items()},
        **{f"{agent}/malformed_rate": metrics.mean(map(_is_malformed, made)) for agent, made in answered.items()},
        **usage_metrics(usage),
    }
    return EvalReport(
        suite=plan.suite,
        step=plan.step,
        sampling=plan.sampling,
        n=num_episodes,
        num_successes=num_successes,
        success_rate=num_successes / num_episodes,
        interval=wilson_interval(num_successes, num_episodes),
        mean_reward=mean_reward,
        keep_rate=handed.keep_rate,
        repair_rate=handed.repair_rate,
        metrics={metrics.evaluation(plan.sampling, name): v for name, v in values.items() if v is not None},
        solved_P=tuple(episode.success for episode in episodes),
    )


def _is_malformed(outcome: ActionOutcome) -> bool:
    return outcome.error is not None


def _outcome_reward(episode: Episode) -> float:
    """The reward of the final action; 0 without one."""
    return 0.0 if episode.final is None else episode.nodes[episode.final].candidates[0].reward

"""Scripted teams: the expert, random and idle players, and their play of a suite."""

from random import Random
from time import monotonic

from components.environments.base import Tools
from components.environments.family import Family, require_expert
from components.evaluation.answered_play import Answer, play_answers
from components.evaluation.held_out import EvalPlan
from components.evaluation.suite_play import SuitePlay, group_payoffs
from components.identity import seed_for
from components.rewards.base import Rubric
from components.rollout.play import ProblemProgress

SCRIPTED = ("expert", "random", "noop")


def make_scripted_answer(script: str, family: Family, seed: int) -> Answer:
    """The answers of the expert, random or idle player in one episode. Raises ConfigurationError if there is no expert."""
    rng = Random(seed)
    if script == "noop":
        return lambda played, node: ""
    if script == "random":
        return lambda played, node: family.random_action(played.position, node.agent, rng)
    expert = require_expert(family)
    return lambda played, node: expert.expert_action(played.position, node.agent)


def play_scripted(
    script: str,
    plan: EvalPlan,
    *,
    family: Family,
    rubric: Rubric,
    tools: Tools,
    progress: ProblemProgress,
) -> SuitePlay:
    """The play of the problems of `plan` by a script in every role. It samples nothing: `plan.sampling` is not read."""
    began_at_seconds = monotonic()
    ended = play_answers(
        [problem for problem in plan.problems for _ in range(plan.num_samples)],
        [
            make_scripted_answer(script, family, seed_for(plan.seed, "play", plan.split, problem.problem_id, k))
            for problem in plan.problems
            for k in range(plan.num_samples)
        ],
        family=family,
        tools=tools,
        rubric=rubric,
        turn_order=plan.turn_order,
        max_turns=plan.max_turns,
    )
    progress(len(plan.problems), len(plan.problems))
    finished = [each for each in ended if each is not None]
    assert len(finished) == len(ended), f"{script} left {len(ended) - len(finished)} of {len(ended)} episodes"
    size = plan.num_samples
    blocks = [finished[at : at + size] for at in range(0, len(finished), size)]
    return SuitePlay(
        problems_P=tuple(problem.problem_id for problem in plan.problems),
        solved_P_K=tuple(tuple(each.success for each in block) for block in blocks),
        rewards_P_K=tuple(tuple(each.reward for each in block) for block in blocks),
        turns_P_K=tuple(tuple(each.num_turns for each in block) for block in blocks),
        num_nodes=sum(each.num_answers for each in finished),
        payoffs_P_K=group_payoffs([each.payoffs for each in finished], size),
        seconds=monotonic() - began_at_seconds,
    )

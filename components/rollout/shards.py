"""The problems of a step, and their division into shards."""

from collections import Counter
from dataclasses import dataclass

from components.config import RunConfig
from components.environments.family import Family
from components.frozen import Frozen
from components.schema import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedProblem:
    """A problem of a step. `occurrence` counts equal problems before it in the step (almost always 0)."""

    problem: Problem
    occurrence: int


def problem_indices(step: int, num_problems: int, shard: int, num_shards: int) -> range:
    """The train-split indices of one shard: fresh ones for each step, divided evenly in order.

    **Example** step 2 of 10 problems in 3 shards: the step has 20..29, its shards 20..22, 23..25 and 26..29.
    """
    assert 0 <= shard < num_shards <= num_problems, f"shard {shard} of {num_shards} over {num_problems} problems"
    first = step * num_problems
    return range(first + shard * num_problems // num_shards, first + (shard + 1) * num_problems // num_shards)


def shard_problems(
    config: RunConfig, family: Family, options: Frozen, *, step: int, shard: int
) -> tuple[NumberedProblem, ...]:
    """The problems of one shard. Earlier ones of the step are made too, to count equal ones."""
    settings = config.rollout
    indices = problem_indices(step, settings.num_problems, shard, settings.num_shards)
    seen: Counter[str] = Counter()
    numbered = []
    for index in range(step * settings.num_problems, indices.stop):
        problem = family.problem(options, split="train", index=index, seed=config.seed)
        if index in indices:
            numbered.append(NumberedProblem(problem=problem, occurrence=seen[problem.problem_id]))
        seen[problem.problem_id] += 1
    return tuple(numbered)

"""Dynamic sampling: problems that teach nothing are replaced by fresh ones while the shard is played (DAPO, arXiv 2503.14476,
section 3.2).

DAPO keeps drawing until its batch is full, and verl's run dies when that takes too long. Here a shard replaces at most
`rollout.max_refills` times and then trains with what it has: a problem still without signal stays, and is counted. Which
problem comes next depends on the step, the place and how often it was replaced, never on blocks, shards or what was
interrupted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from components.artifacts.refs import Frozen
from components.config import RunConfig
from components.environments.base import EnvironmentFamily
from components.rollout.shards import NumberedProblem, problem_indices
from components.schema import Episode, Refills

FIRST_REFILL = 2_000_000_000
"""Train-split indices from here on are for refills: no step and no suite reaches them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refilling:
    """Where a shard gets fresh problems, and how it tells that one teaches nothing.

    `fresh(number, place)` is the problem that replaces the one at `place` of the shard for the `number`-th time, from 1 on.
    """

    fresh: Callable[[int, int], NumberedProblem]
    has_signal: Callable[[Sequence[Episode]], bool]


def fresh_problems(
    config: RunConfig, family: EnvironmentFamily, options: Frozen, *, step: int, shard: int
) -> Callable[[int, int], NumberedProblem]:
    """The `fresh` of one shard: a problem for every place of every step and every time that it is replaced.

    Its occurrence is beyond those of the step's first problems and that of no other refill, so that its episodes have numbers
    of their own even where a small dataset draws an equal problem twice.

    **Example** 32 problems a step in 2 shards, max_refills 3: what replaces the third problem of shard 1 in step 5 the second
    time is at place 18 of the step, index FIRST_REFILL + (5 * 3 + 1) * 32 + 18, occurrence 2 * 32 + 18.
    """
    settings = config.rollout
    first = problem_indices(step, settings.num_problems, shard, settings.num_shards).start % settings.num_problems

    def fresh(number: int, place: int) -> NumberedProblem:
        assert 1 <= number <= settings.max_refills, f"refill {number} of {settings.max_refills}"
        at = first + place
        index = FIRST_REFILL + (step * settings.max_refills + number - 1) * settings.num_problems + at
        problem = family.problem(options, split="train", index=index, seed=config.seed)
        return NumberedProblem(problem=problem, occurrence=number * settings.num_problems + at)

    return fresh


def replaced(old: Refills, episodes: Sequence[Episode]) -> Refills:
    """`old` and one more problem, whose `episodes` are replaced."""
    candidates = [candidate for episode in episodes for turn in episode.nodes for candidate in turn.candidates]
    return Refills(
        num_problems=old.num_problems + 1,
        num_silent=old.num_silent,
        num_episodes=old.num_episodes + len(episodes),
        num_failed_episodes=old.num_failed_episodes + sum(episode.error is not None for episode in episodes),
        num_successes=old.num_successes + sum(episode.success for episode in episodes),
        num_candidates=old.num_candidates + len(candidates),
        num_generated_tokens=old.num_generated_tokens + sum(len(candidate.tokens) for candidate in candidates),
    )

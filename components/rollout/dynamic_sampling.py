"""Dynamic sampling: problems without a learning signal are replaced by fresh ones (DAPO, arXiv 2503.14476, section 3.2).

DAPO samples until its batch is full, which may never happen. Here a problem is replaced at most `rollout.max_resamples` times;
if it still has no signal, it stays and is counted. A replacement depends only on the step, the place and the number of
replacements before it, not on blocks, shards or interruptions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from components.config import RunConfig
from components.environments.family import Family
from components.frozen import Frozen
from components.rollout.shards import NumberedProblem, problem_indices
from components.schema import Episode, Refills

FIRST_REFILL = 2_000_000_000
"""The first train-split index for refills, out of reach of steps and suites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refilling:
    """The source of fresh problems, and the test whether a problem's episodes have a learning signal.

    `fresh(number, place)` is the `number`-th replacement (from 1) of the problem at `place` of the shard.
    """

    fresh: Callable[[int, int], NumberedProblem]
    has_signal: Callable[[Sequence[Episode]], bool]


def fresh_problems(
    config: RunConfig, family: Family, options: Frozen, *, step: int, shard: int
) -> Callable[[int, int], NumberedProblem]:
    """`Refilling.fresh` of one shard. Every replacement has an occurrence of its own, so that episode numbers stay unique even
    if a small dataset gives an equal problem twice.

    **Example** 32 problems per step in 2 shards, max_resamples 3: the second replacement of the third problem of shard 1 in
    step 5 is at place 18 of the step, index FIRST_REFILL + (5 * 3 + 1) * 32 + 18, occurrence 2 * 32 + 18.
    """
    settings = config.rollout
    first = problem_indices(step, settings.num_problems, shard, settings.num_shards).start % settings.num_problems

    def fresh(number: int, place: int) -> NumberedProblem:
        assert 1 <= number <= settings.max_resamples, f"refill {number} of {settings.max_resamples}"
        at = first + place
        index = FIRST_REFILL + (step * settings.max_resamples + number - 1) * settings.num_problems + at
        problem = family.problem(options, split="train", index=index, seed=config.seed)
        return NumberedProblem(problem=problem, occurrence=number * settings.num_problems + at)

    return fresh


def refills_of(replaced: Sequence[Sequence[Episode]], *, num_silent: int) -> Refills:
    """The counts of replaced problems, from the episodes of each."""
    episodes = [episode for each in replaced for episode in each]
    return Refills(
        num_problems=len(replaced),
        num_silent=num_silent,
        num_episodes=len(episodes),
        num_failed_episodes=sum(episode.error is not None for episode in episodes),
        num_successes=sum(episode.success for episode in episodes),
        num_candidates=sum(len(node.candidates) for episode in episodes for node in episode.nodes),
        num_generated_tokens=sum(episode.num_generated_tokens for episode in episodes),
    )

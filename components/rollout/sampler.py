"""One shard of a step, played block by block, whichever way the configuration samples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from components.config import RolloutConfig
from components.environments.base import EnvironmentFamily
from components.rewards.base import Rubric
from components.rollout.failures import check_failures
from components.rollout.independent import independent_rules, independent_starts
from components.rollout.journal import Journal
from components.rollout.play import play
from components.rollout.router import Router
from components.rollout.rules import Rules, Start
from components.rollout.shards import NumberedProblem
from components.rollout.tree import tree_rules, tree_starts
from components.schema import Episode, RolloutShard

Progress = Callable[[int, int], None]
"""Told after each block: problems done, problems in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlan:
    """What a shard plays. Equal plans with equal weights give equal shards."""

    step: int
    shard: int
    seed: int
    max_turns: int
    settings: RolloutConfig
    problems: tuple[NumberedProblem, ...]


def collect_shard(
    plan: ShardPlan,
    *,
    family: EnvironmentFamily,
    router: Router,
    rubric: Rubric,
    journal: Journal | None = None,
    progress: Progress | None = None,
) -> RolloutShard:
    """The shard's finished episodes. Blocks that the journal holds are read instead of played.

    A shard of one block is not journalled: there is nothing in it to resume in the middle.

    Raises TooManyFailedEpisodes as soon as more episodes failed than the whole shard may hold; the block that went over is
    not journalled, so that a later attempt plays it again.
    """
    rules = _rules(plan, family.roles)
    playing = {router.policy_of(role) for role in rules.roles}
    recorded = journal if len(plan.problems) > plan.settings.problems_per_block else None

    def played(block: Sequence[NumberedProblem]) -> tuple[Episode, ...]:
        return play(_starts(plan, block), rules, family=family, router=router, rubric=rubric)

    return RolloutShard(
        step=plan.step,
        shard=plan.shard,
        policy_versions={policy: version for policy, version in router.versions.items() if policy in playing},
        episodes=_block_by_block(plan, played, recorded, progress),
    )


def _block_by_block(
    plan: ShardPlan,
    play_block: Callable[[Sequence[NumberedProblem]], tuple[Episode, ...]],
    journal: Journal | None,
    progress: Progress | None,
) -> tuple[Episode, ...]:
    problems, size = plan.problems, plan.settings.problems_per_block
    num_planned = len(_starts(plan, problems))
    episodes: tuple[Episode, ...] = ()

    def within_budget(block: Sequence[NumberedProblem], before: tuple[Episode, ...]) -> tuple[Episode, ...]:
        fresh = play_block(block)
        allowed = plan.settings.max_failed_fraction
        check_failures((*before, *fresh), num_planned=num_planned, max_failed_fraction=allowed)
        return fresh

    for index, first in enumerate(range(0, len(problems), size)):
        play_next = partial(within_budget, problems[first : first + size], episodes)
        episodes += journal.block(index, play_next) if journal is not None else play_next()
        if progress is not None:
            progress(min(first + size, len(problems)), len(problems))
    return episodes


def _rules(plan: ShardPlan, roles: tuple[str, ...]) -> Rules:
    make = tree_rules if plan.settings.mode == "tree" else independent_rules
    return make(plan.settings, roles=roles, max_turns=plan.max_turns, seed=plan.seed, step=plan.step)


def _starts(plan: ShardPlan, problems: Sequence[NumberedProblem]) -> tuple[Start, ...]:
    if plan.settings.mode == "tree":
        return tree_starts(problems)
    return independent_starts(problems, plan.settings.group_size)

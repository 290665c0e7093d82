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
    num_planned = len(_starts(plan, plan.problems))
    size = plan.settings.problems_per_block
    blocks = [plan.problems[at : at + size] for at in range(0, len(plan.problems), size)]
    episodes: list[Episode] = []

    def played(block: Sequence[NumberedProblem]) -> tuple[Episode, ...]:
        fresh = play(_starts(plan, block), rules, family=family, router=router, rubric=rubric)
        check_failures(
            [*episodes, *fresh], num_planned=num_planned, max_failed_fraction=plan.settings.max_failed_fraction
        )
        return fresh

    num_done = 0
    for index, block in enumerate(blocks):
        if journal is None or len(blocks) == 1:
            episodes += played(block)
        else:
            episodes += journal.block(index, partial(played, block))
        num_done += len(block)
        if progress is not None:
            progress(num_done, len(plan.problems))
    playing = {router.policy_of(role) for role in rules.roles}
    return RolloutShard(
        step=plan.step,
        shard=plan.shard,
        policy_versions={policy: version for policy, version in router.versions.items() if policy in playing},
        episodes=tuple(episodes),
    )


def _rules(plan: ShardPlan, roles: tuple[str, ...]) -> Rules:
    make = tree_rules if plan.settings.mode == "tree" else independent_rules
    return make(plan.settings, roles=roles, max_turns=plan.max_turns, seed=plan.seed, step=plan.step)


def _starts(plan: ShardPlan, problems: Sequence[NumberedProblem]) -> tuple[Start, ...]:
    if plan.settings.mode == "tree":
        return tree_starts(problems)
    return independent_starts(problems, plan.settings.group_size)

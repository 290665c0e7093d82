"""One shard of a step, played block by block, whichever way the configuration samples."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from components.config import RolloutConfig
from components.environments.base import NO_TOOLS, EnvironmentFamily, RecordingTools
from components.rewards.base import Rubric
from components.rollout.failures import check_failures
from components.rollout.independent import independent_rules, independent_starts
from components.rollout.journal import FinishedBlock, Journal
from components.rollout.play import play
from components.rollout.router import Router
from components.rollout.rules import Rules, Start
from components.rollout.shards import NumberedProblem
from components.rollout.tree import tree_rules, tree_starts
from components.schema import ExecutionResult, Passage, RolloutShard, ToolRecord

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
    tools: RecordingTools = NO_TOOLS,
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

    def played(block: Sequence[NumberedProblem]) -> FinishedBlock:
        episodes = play(_starts(plan, block), rules, family=family, router=router, rubric=rubric, tools=tools)
        return FinishedBlock(episodes=episodes, tools=tools.take_record())

    blocks = _block_by_block(plan, played, recorded, progress)
    return RolloutShard(
        step=plan.step,
        shard=plan.shard,
        policy_versions={policy: version for policy, version in router.versions.items() if policy in playing},
        episodes=tuple(episode for block in blocks for episode in block.episodes),
        tools=_joined(block.tools for block in blocks),
    )


def _block_by_block(
    plan: ShardPlan,
    play_block: Callable[[Sequence[NumberedProblem]], FinishedBlock],
    journal: Journal | None,
    progress: Progress | None,
) -> list[FinishedBlock]:
    problems, size = plan.problems, plan.settings.problems_per_block
    num_planned = len(_starts(plan, problems))
    blocks: list[FinishedBlock] = []

    def within_budget(block: Sequence[NumberedProblem]) -> FinishedBlock:
        fresh = play_block(block)
        episodes = [episode for each in (*blocks, fresh) for episode in each.episodes]
        check_failures(episodes, num_planned=num_planned, max_failed_fraction=plan.settings.max_failed_fraction)
        return fresh

    for index, first in enumerate(range(0, len(problems), size)):
        play_next = partial(within_budget, problems[first : first + size])
        blocks.append(journal.block(index, play_next) if journal is not None else play_next())
        if progress is not None:
            progress(min(first + size, len(problems)), len(problems))
    return blocks


def _joined(records: Iterable[ToolRecord]) -> ToolRecord:
    """All answers of a shard; two blocks that asked the same were told the same, or the first one stands."""
    executions: dict[str, ExecutionResult] = {}
    passages: dict[str, tuple[Passage, ...]] = {}
    for record in records:
        executions = {**record.executions, **executions}
        passages = {**record.passages, **passages}
    return ToolRecord(executions=executions, passages=passages)


def _rules(plan: ShardPlan, roles: tuple[str, ...]) -> Rules:
    make = tree_rules if plan.settings.mode == "tree" else independent_rules
    return make(plan.settings, roles=roles, max_turns=plan.max_turns, seed=plan.seed, step=plan.step)


def _starts(plan: ShardPlan, problems: Sequence[NumberedProblem]) -> tuple[Start, ...]:
    if plan.settings.mode == "tree":
        return tree_starts(problems)
    return independent_starts(problems, plan.settings.group_size)

"""Play of one shard of a step, block by block."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from components.config import RolloutConfig
from components.environments.base import NO_TOOLS, RecordingTools
from components.environments.family import Family
from components.rewards.base import Rubric
from components.rollout.dynamic_sampling import Refilling, refills_of
from components.rollout.failure_budget import check_failures
from components.rollout.journal import FinishedBlock, Journal
from components.rollout.play import ProblemProgress, block_progress, play
from components.rollout.router import Router
from components.rollout.rules import episode_starts, num_episodes, playing_order, rollout_rules
from components.rollout.shards import NumberedProblem
from components.rollout.statistics import total_usage
from components.schema import Episode, ExecutionResult, Passage, Refills, RolloutShard, TeamCredit, ToolRecord
from components.turn_order import TurnOrder, agents_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlan:
    """The inputs of a shard. Equal plans with equal weights give equal shards. `turn_order` None: the roles in order.
    `measures_value`: outcomes hold a solver's value. `max_unscorable_fraction`: of episodes that the sandbox ended; None: they
    count as other failed ones."""

    step: int
    shard: int
    seed: int
    max_turns: int
    settings: RolloutConfig
    problems: tuple[NumberedProblem, ...]
    turn_order: TurnOrder | None = None
    team_credit: TeamCredit = "node"
    measures_value: bool = False
    max_unscorable_fraction: float | None = None


def collect_shard(
    plan: ShardPlan,
    *,
    family: Family,
    router: Router,
    rubric: Rubric,
    tools: RecordingTools = NO_TOOLS,
    refilling: Refilling | None = None,
    journal: Journal | None = None,
    progress: ProblemProgress | None = None,
) -> RolloutShard:
    """The shard's finished episodes, in the order of its problems. Blocks in the journal are read instead of played.

    With `rollout.max_resamples`, problems without a signal are replaced by those of `refilling`, in further blocks. A shard of
    one block is not journalled: it cannot be resumed in the middle.

    Raises TooManyFailedEpisodes as soon as the failure budget of all planned episodes is exceeded; the block that exceeds it
    is not journalled, so that a later attempt plays it again.
    """
    settings = plan.settings
    given = family.roles if plan.turn_order is None else plan.turn_order
    order = playing_order(settings.mode, given, roles=family.roles)
    rules = rollout_rules(
        settings,
        turn_order=order,
        max_turns=plan.max_turns,
        seed=plan.seed,
        step=plan.step,
        team_credit=plan.team_credit,
        measures_value=plan.measures_value,
    )
    playing = {router.policy_of(role) for role in agents_of(order, family.roles)}
    is_long = len(plan.problems) > settings.problems_per_block or settings.max_resamples > 0

    def play_block(block: Sequence[NumberedProblem]) -> FinishedBlock:
        episodes = play(
            episode_starts(block, settings), rules, family=family, router=router, rubric=rubric, tools=tools
        )
        return FinishedBlock(episodes=episodes, tools=tools.take_record(), api_usage=router.take_usage())

    blocks = _Blocks(plan, play_block, journal if is_long else None, progress)
    episodes_P = blocks.play(plan.problems)
    refills = None
    if settings.max_resamples:
        assert refilling is not None, "rollout.max_resamples needs `refilling`"
        episodes_P, refills = _refill(episodes_P, blocks, refilling, settings.max_resamples)
    return RolloutShard(
        step=plan.step,
        shard=plan.shard,
        policy_versions={policy: version for policy, version in router.versions.items() if policy in playing},
        episodes=tuple(episode for episodes in episodes_P for episode in episodes),
        tools=_join(block.tools for block in blocks.finished),
        api_usage=total_usage(block.api_usage for block in blocks.finished),
        refills=refills,
    )


def _refill(
    episodes_P: list[tuple[Episode, ...]], blocks: "_Blocks", refilling: Refilling, max_resamples: int
) -> tuple[list[tuple[Episode, ...]], Refills]:
    """The episodes of each problem after silent problems were replaced up to `max_resamples` times."""
    episodes_P, replaced = list(episodes_P), list[tuple[Episode, ...]]()
    silent = [place for place, episodes in enumerate(episodes_P) if not refilling.has_signal(episodes)]
    for number in range(1, max_resamples + 1):
        if not silent:
            break
        fresh = blocks.play([refilling.fresh(number, place) for place in silent])
        replaced += [episodes_P[place] for place in silent]
        for place, episodes in zip(silent, fresh, strict=True):
            episodes_P[place] = episodes
        silent = [place for place in silent if not refilling.has_signal(episodes_P[place])]
    return episodes_P, refills_of(replaced, num_silent=len(silent))


class _Blocks:
    """The blocks of a shard, played or read one after another."""

    def __init__(
        self,
        plan: ShardPlan,
        play_block: Callable[[Sequence[NumberedProblem]], FinishedBlock],
        journal: Journal | None,
        progress: ProblemProgress | None,
    ) -> None:
        self.finished: list[FinishedBlock] = []
        self._plan = plan
        self._play_block = play_block
        self._journal = journal
        self._progress = progress
        self._num_played = 0
        self._num_problems = 0

    def play(self, problems: Sequence[NumberedProblem]) -> list[tuple[Episode, ...]]:
        """The episodes of each problem, played in blocks of the configured size."""
        size, settings = self._plan.settings.problems_per_block, self._plan.settings
        self._num_problems += len(problems)
        first_block = len(self.finished)
        for first in range(0, len(problems), size):
            block = problems[first : first + size]
            play_next = partial(self._within_budget, block)
            index = len(self.finished)
            self.finished.append(self._journal.block(index, play_next) if self._journal is not None else play_next())
            self._num_played += len(block)
            if self._progress is not None:
                self._progress(self._num_played, self._num_problems)
        episodes = [episode for block in self.finished[first_block:] for episode in block.episodes]
        each = num_episodes(settings)
        assert len(episodes) == each * len(problems), f"{len(episodes)} episodes of {len(problems)} problems"
        return [tuple(episodes[at : at + each]) for at in range(0, len(episodes), each)]

    def _within_budget(self, block: Sequence[NumberedProblem]) -> FinishedBlock:
        with block_progress(self._progress, self._num_played, len(block), self._num_problems):
            fresh = self._play_block(block)
        check_failures(
            [episode for each in (*self.finished, fresh) for episode in each.episodes],
            num_planned=self._num_problems * num_episodes(self._plan.settings),
            max_failed_fraction=self._plan.settings.max_failed_fraction,
            max_unscorable_fraction=self._plan.max_unscorable_fraction,
        )
        return fresh


def _join(records: Iterable[ToolRecord]) -> ToolRecord:
    """All answers of a shard; if blocks differ in an answer, the first one counts."""
    executions: dict[str, ExecutionResult] = {}
    passages: dict[str, tuple[Passage, ...]] = {}
    for record in records:
        executions = {**record.executions, **executions}
        passages = {**record.passages, **passages}
    return ToolRecord(executions=executions, passages=passages)

"""Metrics of a step's episodes. Pure functions of recorded values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from components import metrics
from components.schema import ApiUsage, Candidate, Episode, Node, Refills, RolloutShard, ScoredShard


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalFollowUp:
    """How the last agent's scorable candidates treated the proposals before them."""

    num_kept: int
    num_solving: int
    num_repaired: int
    num_not_solving: int

    @property
    def keep_rate(self) -> float | None:
        """The fraction of answers to a solving proposal that solve too; None without such a proposal."""
        return self.num_kept / self.num_solving if self.num_solving else None

    @property
    def repair_rate(self) -> float | None:
        """The fraction of answers to a proposal that does not solve which do; None without such a proposal."""
        return self.num_repaired / self.num_not_solving if self.num_not_solving else None


def keep_and_repair(episodes: Sequence[Episode], *, last_agent: str | None) -> ProposalFollowUp:
    """Counts over the nodes of `last_agent` that follow others' nodes of the same turn. Proposals side by side count as solving
    if one of them solves.

    **Example** a proposal that solves, answered by 8 candidates of which 7 solve: 7 of 8 kept.
    """
    answers: dict[bool, list[bool]] = {True: [], False: []}
    for episode in episodes:
        for before, acting in pairwise(_phases(episode)):
            if before[0].group.turn != acting[0].group.turn:
                continue
            proposal_solves = any(node.candidates[node.chosen].outcome.solves for node in before)
            for node in acting:
                if node.group.agent == last_agent:
                    answers[proposal_solves] += [candidate.outcome.solves for candidate in _scorable(node.candidates)]
    return ProposalFollowUp(
        num_kept=sum(answers[True]),
        num_solving=len(answers[True]),
        num_repaired=sum(answers[False]),
        num_not_solving=len(answers[False]),
    )


def _phases(episode: Episode) -> list[list[Node]]:
    """The nodes of the selected branch by phase."""
    found: list[list[Node]] = []
    for node in episode.path:
        if node.parallel_index == 0:
            found.append([])
        found[-1].append(node)
    return found


def _scorable(candidates: Iterable[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.outcome.unscorable is None]


def last_agent_of(episodes: Sequence[Episode]) -> str | None:
    """The agent with the latest position within a turn in any episode; None in a team of one."""
    latest, last_agent = 0, None
    for episode in episodes:
        position, turn = 0, -1
        for nodes in _phases(episode):
            node = nodes[-1]
            position = position + 1 if node.group.turn == turn else 0
            turn = node.group.turn
            if position > latest:
                latest, last_agent = position, node.group.agent
    return last_agent


def step_metrics(shards: Sequence[RolloutShard], scored: Sequence[ScoredShard]) -> dict[str, float]:
    """All metrics of a step's rollouts and rewards. Keep and repair rates are absent if the case did not occur."""
    episodes = [episode for shard in shards for episode in shard.episodes]
    return {
        **episode_metrics(episodes),
        metrics.NUM_EXECUTIONS: float(sum(len(shard.tools.executions) for shard in shards)),
        **usage_metrics(total_usage(shard.api_usage for shard in shards)),
        **refill_metrics([shard.refills for shard in shards if shard.refills is not None], episodes),
        **reward_metrics(shards, scored),
    }


def total_usage(usages: Iterable[Mapping[str, ApiUsage]]) -> dict[str, ApiUsage]:
    """The sum of usages, by policy."""
    total: dict[str, ApiUsage] = {}
    for usage in usages:
        for policy, used in usage.items():
            total[policy] = total.get(policy, ApiUsage()) + used
    return total


def usage_metrics(usage: Mapping[str, ApiUsage]) -> dict[str, float]:
    """A metric for each count of each policy's usage, for example "api/helper/num_requests"."""
    return {
        metrics.api(policy, name): float(value)
        for policy, used in usage.items()
        for name, value in asdict(used).items()
    }


def refill_metrics(refills: Sequence[Refills], episodes: Sequence[Episode]) -> dict[str, float]:
    """The metrics of refills, and those of `episode_metrics` that must include replaced episodes; empty without refills.

    Generated tokens are a budget, so those of replaced episodes count. Success is over all played episodes: the kept ones alone
    would be biased towards one half, because always or never solved problems are replaced.

    **Example** 8 kept episodes with 4 successes and 4 replaced ones without any: success rate 1/3.
    """
    if not refills:
        return {}
    num_played = len(episodes) + sum(each.num_episodes for each in refills)
    kept = episode_metrics(episodes)
    return {
        metrics.NUM_REFILLED_PROBLEMS: float(sum(each.num_problems for each in refills)),
        metrics.NUM_SILENT_PROBLEMS: float(sum(each.num_silent for each in refills)),
        metrics.NUM_EPISODES: float(num_played),
        metrics.NUM_FAILED_EPISODES: kept[metrics.NUM_FAILED_EPISODES] + sum(e.num_failed_episodes for e in refills),
        metrics.NUM_CANDIDATES: kept[metrics.NUM_CANDIDATES] + sum(each.num_candidates for each in refills),
        metrics.NUM_GENERATED_TOKENS: kept[metrics.NUM_GENERATED_TOKENS] + sum(e.num_generated_tokens for e in refills),
        metrics.SUCCESS_RATE: (
            (sum(episode.success for episode in episodes) + sum(each.num_successes for each in refills)) / num_played
            if num_played
            else 0.0
        ),
    }


def episode_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Counts, success, keep and repair rates, and statistics of each agent's candidates.

    `rollout/num_candidates` and `rollout/num_generated_tokens` count all that was sampled, chosen or not, continuations
    included: compare sampling modes at an equal count. Success, keep and repair are those of selected branches; statistics of
    agents are over all candidates but continuations. `rollout/num_cut_lines` is given where candidates were continued.
    """
    handed = keep_and_repair(episodes, last_agent=last_agent_of(episodes))
    rates = {metrics.KEEP_RATE: handed.keep_rate, metrics.REPAIR_RATE: handed.repair_rate}
    by_agent: dict[str, list[Candidate]] = {}
    for episode in episodes:
        for node in episode.nodes:
            if not node.is_continuation:
                by_agent.setdefault(node.group.agent, []).extend(node.candidates)
    values = {
        metrics.NUM_EPISODES: float(len(episodes)),
        metrics.NUM_FAILED_EPISODES: float(sum(episode.error is not None for episode in episodes)),
        metrics.NUM_CANDIDATES: float(sum(len(node.candidates) for episode in episodes for node in episode.nodes)),
        metrics.NUM_GENERATED_TOKENS: float(sum(episode.num_generated_tokens for episode in episodes)),
        metrics.SUCCESS_RATE: metrics.mean(episode.success for episode in episodes),
        **{name: rate for name, rate in rates.items() if rate is not None},
        **_cut_lines(episodes),
    }
    for agent, candidates in by_agent.items():
        if known := _scorable(candidates):
            values[metrics.solve_rate(agent)] = metrics.mean(c.outcome.solves for c in known)
            values[metrics.name_malformed_rate(agent)] = metrics.mean(c.outcome.error is not None for c in known)
        values[metrics.completion_length(agent)] = metrics.mean(len(c.tokens) for c in candidates)
    return values


def _cut_lines(episodes: Sequence[Episode]) -> dict[str, float]:
    if all(node.parent is None for episode in episodes for node in episode.nodes):
        return {}
    return {metrics.NUM_CUT_LINES: float(sum(len(episode.cuts or ()) for episode in episodes))}


def reward_metrics(shards: Sequence[RolloutShard], scored: Sequence[ScoredShard]) -> dict[str, float]:
    """Mean reward of each agent's compared candidates, mean standard deviation in its groups, and the unscorable fraction."""
    groups: dict[str, list[list[float]]] = {}
    unscorable: list[bool] = []
    for shard, scores in zip(shards, scored, strict=True):
        for episode, rewards_N_K in zip(shard.episodes, scores.rewards_E_N_K, strict=True):
            for node, rewards_K in zip(episode.nodes, rewards_N_K, strict=True):
                if not node.is_trained_on:
                    continue
                groups.setdefault(node.group.agent, []).append([r for r in rewards_K if r is not None])
                unscorable += [reward is None for reward in rewards_K]
    values = {metrics.UNSCORABLE_FRACTION: metrics.mean(unscorable)}
    if (counts := [scores.num_overlong for scores in scored if scores.num_overlong is not None]) and unscorable:
        values[metrics.OVERLONG_FRACTION] = sum(counts) / len(unscorable)
    for agent, rewards_G_K in groups.items():
        values[metrics.reward_mean(agent)] = metrics.mean(r for rewards_K in rewards_G_K for r in rewards_K)
        values[metrics.reward_std(agent)] = metrics.mean(
            metrics.population_std(rewards_K) for rewards_K in rewards_G_K if rewards_K
        )
    return values | own_reward_metrics(shards, scored)


def own_reward_metrics(shards: Sequence[RolloutShard], scored: Sequence[ScoredShard]) -> dict[str, float]:
    """The mean of each user-defined reward component over each agent's candidates."""
    found: dict[str, list[float]] = {}
    for shard, scores in zip(shards, scored, strict=True):
        for component, values_E_N_K in (scores.own_E_N_K or {}).items():
            for episode, values_N_K in zip(shard.episodes, values_E_N_K, strict=True):
                for node, values_K in zip(episode.nodes, values_N_K, strict=True):
                    found.setdefault(metrics.own_reward(node.group.agent, component), []).extend(values_K)
    return {name: metrics.mean(values) for name, values in found.items()}

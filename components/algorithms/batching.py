"""The rollouts and rewards of a step as one training batch per policy."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from components import metrics
from components.algorithms.grouping import Advantages
from components.algorithms.registry import find_estimator
from components.algorithms.role_returns import team_returns
from components.config import AlgorithmConfig, CreditedConfig
from components.schema import (
    Candidate,
    Episode,
    Node,
    PolicyVersion,
    RolloutShard,
    ScoredShard,
    TrainBatch,
    TrainGroup,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """One node: those of its candidates that are compared, and their advantages."""

    node: Node
    candidates: tuple[Candidate, ...]
    advantages_K: tuple[float, ...]
    move: tuple[int, int] | None
    """Its episode, counted within the step, and its move in it."""
    episode: int

    @property
    def has_signal(self) -> bool:
        return any(advantage != 0.0 for advantage in self.advantages_K)


def train_batches(
    shards: Sequence[RolloutShard],
    scored: Sequence[ScoredShard],
    *,
    algorithm: AlgorithmConfig,
    policies: Iterable[str],
    with_silent_groups: bool = False,
    moves_E_N: Sequence[Sequence[int]] | None = None,
    shares_returns: bool = False,
    names_episodes: bool = False,
) -> tuple[dict[str, TrainBatch], dict[str, float]]:
    """A batch, possibly empty, for each of `policies`, and the step's advantage metrics.

    Rows go to the policy that played their agent; rows of other policies only count in the metrics. A candidate without an
    advantage is no row, and a node without rows no group. Groups whose advantages are all 0 are counted, and left out unless
    `with_silent_groups`. `moves_E_N` are the moves of the nodes of each episode, for advantages of whole returns; with
    `shares_returns` the rewards become what the team earns from each action on. With `names_episodes` each answer is given its
    episode. The order is that of shards, episodes and nodes. Rows stay in the groups in which they were sampled, and groups of
    one agent with equal prompts, temperatures and choices are merged to share the prompt in training.
    """
    step, episodes, rewards_E_N_K = _join(shards, scored)
    if isinstance(algorithm, CreditedConfig) and shares_returns:
        assert moves_E_N is not None, f"advantage {algorithm.advantage} without the moves of its episodes"
        rewards_E_N_K = team_returns(episodes, rewards_E_N_K, moves_E_N, algorithm.discount)
    advantages_E_N_K = find_estimator(algorithm.advantage, source=algorithm.source)(episodes, rewards_E_N_K, algorithm)
    compared = list(_nodes(episodes, advantages_E_N_K, moves_E_N if algorithm.has_critic else None))
    batches = {
        policy: _batch(
            policy,
            step,
            [each for each in compared if each.node.policy == policy],
            _version(policy, shards),
            with_silent_groups=with_silent_groups,
            names_episodes=names_episodes,
        )
        for policy in policies
    }
    return batches, _metrics(compared)


def _join(
    shards: Sequence[RolloutShard], scored: Sequence[ScoredShard]
) -> tuple[int, list[Episode], list[tuple[tuple[float | None, ...], ...]]]:
    """The step, its episodes in the order of the shards, and their rewards."""
    named = [(shard.step, shard.shard) for shard in shards]
    assert named == [(score.step, score.shard) for score in scored], f"rewards of other shards than {named}"
    assert len({step for step, _ in named}) == 1, f"shards of one step are needed, these are {named}"
    pairs = sorted(zip(shards, scored, strict=True), key=lambda pair: pair[0].shard)
    episodes = [episode for shard, _ in pairs for episode in shard.episodes]
    rewards_E_N_K = [rewards_N_K for _, score in pairs for rewards_N_K in score.rewards_E_N_K]
    assert len(episodes) == len(rewards_E_N_K), f"{len(episodes)} episodes, rewards of {len(rewards_E_N_K)}"
    return named[0][0], episodes, rewards_E_N_K


def _nodes(
    episodes: Sequence[Episode], advantages_E_N_K: Advantages, moves_E_N: Sequence[Sequence[int]] | None
) -> Iterator[_Compared]:
    """The nodes with at least one advantage."""
    for e, (episode, advantages_N_K) in enumerate(zip(episodes, advantages_E_N_K, strict=True)):
        for n, (node, advantages_K) in enumerate(zip(episode.nodes, advantages_N_K, strict=True)):
            assert len(node.candidates) == len(advantages_K), f"{node.group}: {len(advantages_K)} advantages"
            rows = [(c, a) for c, a in zip(node.candidates, advantages_K, strict=True) if a is not None]
            if rows:
                candidates, known_K = zip(*rows, strict=True)
                move = None if moves_E_N is None else (e, moves_E_N[e][n])
                yield _Compared(node=node, candidates=candidates, advantages_K=known_K, move=move, episode=e)


def _version(policy: str, shards: Sequence[RolloutShard]) -> PolicyVersion | None:
    """The version of `policy` that played; None if it did not."""
    versions = {shard.policy_versions[policy] for shard in shards if policy in shard.policy_versions}
    assert len(versions) <= 1, f"policy {policy} played a step in several versions: {versions}"
    return next(iter(versions), None)


def _batch(
    policy: str,
    step: int,
    mine: Sequence[_Compared],
    version: PolicyVersion | None,
    *,
    with_silent_groups: bool,
    names_episodes: bool,
) -> TrainBatch:
    silent = [each for each in mine if not each.has_signal]
    of = [] if with_silent_groups else [(candidate, each.episode) for each in silent for candidate in each.candidates]
    left_out = [candidate for candidate, _ in of]
    return TrainBatch(
        policy=policy,
        step=step,
        groups=join_by_prompt(
            _train_group(each, names_episodes) for each in mine if each.has_signal or with_silent_groups
        ),
        num_groups_without_signal=len(silent),
        lengths_without_signal=tuple(len(candidate.tokens) for candidate in left_out),
        truncated_without_signal=tuple(candidate.finish_reason == "length" for candidate in left_out),
        episodes_without_signal=tuple(episode for _, episode in of) if names_episodes else None,
        metrics=_metrics(mine),
        version=version,
        agents=tuple(sorted({each.node.group.agent for each in mine})),
    )


def _train_group(compared: _Compared, names_episodes: bool) -> TrainGroup:
    return TrainGroup(
        group=compared.node.group,
        prompt_tokens=compared.node.prompt_tokens,
        completions_K_T=tuple(candidate.tokens for candidate in compared.candidates),
        sampler_logprobs_K_T=tuple(candidate.sampler_logprobs for candidate in compared.candidates),
        advantages_K=compared.advantages_K,
        truncated_K=tuple(candidate.finish_reason == "length" for candidate in compared.candidates),
        temperature=compared.node.temperature,
        choices=compared.node.choices,
        moves_K=() if compared.move is None else (compared.move,) * len(compared.candidates),
        episodes_K=(compared.episode,) * len(compared.candidates) if names_episodes else None,
    )


def join_by_prompt(groups: Iterable[TrainGroup]) -> tuple[TrainGroup, ...]:
    """The groups, merged by agent, prompt, temperature and choices in the place and under the key of the first."""
    sharing: dict[Any, list[TrainGroup]] = {}
    for group in groups:
        sharing.setdefault((group.group.agent, group.prompt_tokens, group.temperature, group.choices), []).append(group)
    return tuple(same[0] if len(same) == 1 else _join_group(same) for same in sharing.values())


def _join_group(same: Sequence[TrainGroup]) -> TrainGroup:
    fields = ["completions_K_T", "sampler_logprobs_K_T", "advantages_K", "truncated_K", "moves_K"]
    fields += ["episodes_K"] if same[0].episodes_K is not None else []
    joined: dict[str, Any] = {name: tuple(chain(*(getattr(group, name) for group in same))) for name in fields}
    return replace(same[0], **joined)


def _metrics(compared: Sequence[_Compared]) -> dict[str, float]:
    """The number of groups, and the fraction without signal, in total and by agent."""
    total = Counter(each.node.group.agent for each in compared)
    silent = Counter(each.node.group.agent for each in compared if not each.has_signal)
    values = {
        metrics.NUM_GROUPS: float(total.total()),
        metrics.ZERO_GROUP_FRACTION: silent.total() / total.total() if total else 0.0,
    }
    return values | {metrics.zero_group_fraction(agent): silent[agent] / total[agent] for agent in total}

"""The reward stage, the authority on rewards: it replays recorded actions and trusts no recorded reward."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field, replace

from components.environments.base import NO_TOOLS, EnvironmentFamily, MultiAgentEnv, ToolCall, Tools, applied
from components.errors import TooManyUnscorable
from components.identity import GroupKey, seed_for
from components.rewards.base import Rubric
from components.rewards.overlong import Overlong
from components.rewards.own_rewards import OwnReward
from components.schema import ActionOutcome, Episode, Node, RolloutShard, ScoredShard
from components.turn_order import TurnOrder, phases

Rewards = tuple[tuple[tuple[float | None, ...], ...], ...]
"""Axes E, N, K."""
Progress = Callable[[int, int], None]
"""Called with the number of replayed nodes of the longest episode, and their total."""


def score_shard(
    shard: RolloutShard,
    *,
    family: EnvironmentFamily,
    rubric: Rubric,
    tools: Tools = NO_TOOLS,
    overlong: Overlong | None = None,
    own: Sequence[OwnReward] = (),
    shuffle_seed: int | None = None,
    max_unscorable_fraction: float = 0.0,
    turn_order: TurnOrder | None = None,
    progress: Progress | None = None,
) -> ScoredShard:
    """The rewards of every candidate, by `rubric`, from outcomes recomputed in fresh environments.

    A new rubric costs a replay, but no generation, and no execution either: `tools` answers from the shard's record. `overlong`
    penalises long answers, `own` components are added. With `shuffle_seed` the rewards are permuted over all candidates of the
    shard, as a control experiment in which nothing can be learned.

    A candidate has no reward (None) if the sandbox failed, or if its programs behaved differently when run again. Raises
    TooManyUnscorable if these are more than `max_unscorable_fraction` of the shard, and AssertionError naming the group if an
    outcome differs without tools, because environments are deterministic, or if other agents acted than `turn_order` says
    (None accepts the record). Components that the recorded outcome lacks are not compared.
    """
    replays = [_Replay(episode, family, rubric, tools, overlong, turn_order) for episode in shard.episodes]
    num_nodes = max((len(episode.nodes) for episode in shard.episodes), default=0)
    for position in range(num_nodes):
        reached = [replay for replay in replays if position < len(replay.episode.nodes)]
        tools.prepare([call for replay in reached for call in replay.calls(position)])
        for replay in reached:
            replay.score(position)
        if progress is not None:
            progress(position + 1, num_nodes)
    own_C_E = {each.component: tuple(replay.add(each) for replay in replays) for each in own}
    rewards_E_N_K: Rewards = tuple(tuple(replay.rewards_N_K) for replay in replays)
    check_unscorable(rewards_E_N_K, max_fraction=max_unscorable_fraction)
    if shuffle_seed is not None:
        rewards_E_N_K = shuffled(rewards_E_N_K, seed=seed_for(shuffle_seed, "shuffle", shard.step, shard.shard))
    num_overlong = None if overlong is None else sum(replay.num_overlong for replay in replays)
    return ScoredShard(
        step=shard.step,
        shard=shard.shard,
        rewards_E_N_K=rewards_E_N_K,
        num_overlong=num_overlong,
        own_E_N_K=own_C_E or None,
    )


def check_unscorable(rewards_E_N_K: Rewards, *, max_fraction: float) -> None:
    """Raise TooManyUnscorable if more than `max_fraction` of the candidates have no reward: the 26th of 512 at .05."""
    flags = [reward is None for rewards_N_K in rewards_E_N_K for rewards_K in rewards_N_K for reward in rewards_K]
    if sum(flags) > max_fraction * len(flags):
        raise TooManyUnscorable(
            f"{sum(flags)} of {len(flags)} candidates could not be scored, rewards.max_failed_fraction allows {max_fraction}: "
            "the sandbox failed at their programs; `troupe sandbox status` says how it is"
        )


def shuffled(rewards_E_N_K: Rewards, *, seed: int) -> Rewards:
    """The same rewards in the same shape, randomly permuted."""
    values = [reward for rewards_N_K in rewards_E_N_K for rewards_K in rewards_N_K for reward in rewards_K]
    random.Random(seed).shuffle(values)
    drawn = iter(values)
    return tuple(
        tuple(tuple(next(drawn) for _ in rewards_K) for rewards_K in rewards_N_K) for rewards_N_K in rewards_E_N_K
    )


@dataclass
class _Replay:
    """One episode played again, node by node."""

    episode: Episode
    family: InitVar[EnvironmentFamily]
    rubric: Rubric
    tools: Tools
    overlong: Overlong | None
    turn_order: InitVar[TurnOrder | None]
    rewards_N_K: list[tuple[float | None, ...]] = field(default_factory=list)
    num_overlong: int = 0

    def __post_init__(self, family: EnvironmentFamily, turn_order: TurnOrder | None) -> None:
        self._env = family.build(self.episode.problem, self.tools) if self.episode.nodes else None
        self._has_ended = self._has_diverged = self._success = False
        self._nodes: list[Node] = []
        self._phases = None if self._env is None or turn_order is None else phases(self._env, turn_order)

    @property
    def _environment(self) -> MultiAgentEnv:
        assert self._env is not None, f"{self.episode.problem.problem_id} has no node to replay"
        return self._env

    def calls(self, position: int) -> list[ToolCall]:
        """The tool calls of replaying the next node."""
        node = self.episode.nodes[position]
        texts = dict.fromkeys(candidate.text for candidate in node.candidates)
        return [call for text in texts for call in self._environment.calls(node.group.agent, text)]

    def score(self, position: int) -> None:
        """Append the rewards of the next node, and go to the state after the chosen candidate.

        After one that ends the episode the state before it stays, for the agents that act in parallel.
        """
        node, env = self.episode.nodes[position], self._environment
        if node.lane == 0:
            self._check_path(position)
        before = env.snapshot()
        after = {}
        for text in dict.fromkeys(candidate.text for candidate in node.candidates):
            env.restore(before)
            after[text] = applied(env, node.group.agent, text), env.snapshot()
        outcomes_K = [after[candidate.text][0] for candidate in node.candidates]
        self.rewards_N_K.append(tuple(self._reward(node, index, outcome) for index, outcome in enumerate(outcomes_K)))
        replayed_K = tuple(
            replace(candidate, outcome=outcome, reward=self.rubric.reward(outcome))
            for candidate, outcome in zip(node.candidates, outcomes_K, strict=True)
        )
        self._nodes.append(replace(node, candidates=replayed_K))
        chosen = node.candidates[node.chosen]
        self._has_diverged |= not _repeats(after[chosen.text][0], chosen.outcome)
        env.restore(before if self._has_ended else after[chosen.text][1])
        self._success = self._success if self._has_ended else env.success
        if env.done:
            self._has_ended = True
            env.restore(before)

    def add(self, own: OwnReward) -> tuple[tuple[float, ...], ...]:
        """Add a component to the rewards of all nodes, after their scoring, and return its values (N, K)."""
        success = self._success and self.episode.error is None
        values_N_K = own.values(replace(self.episode, nodes=tuple(self._nodes), success=success))
        self.rewards_N_K = [
            tuple(
                None if reward is None else _finite(reward + own.weight * value, node.group)
                for reward, value in zip(rewards_K, values_K, strict=True)
            )
            for node, rewards_K, values_K in zip(self.episode.nodes, self.rewards_N_K, values_N_K, strict=True)
        ]
        return values_N_K

    def _check_path(self, position: int) -> None:
        """Assert that the agents of the phase at `position` are those of the turn order in this state.

        After a divergent answer of a tool the state may differ, so the record is accepted.
        """
        if self._phases is None or self._has_diverged:
            return
        phase = None if self._has_ended else next(self._phases, None)
        asked = phase.groups(self.episode.problem.problem_id, self.episode.episode) if phase is not None else ()
        rest = self.episode.nodes[position:]
        acted = tuple(node.group for node in rest[: len(asked)])
        is_whole = len(acted) == len(asked) > 0 or self.episode.error is not None
        follows = is_whole and acted == asked[: len(acted)]
        assert follows, (
            f"{rest[0].group} was recorded where {list(map(str, asked))} are next, not {list(map(str, acted))}"
        )

    def _reward(self, node: Node, index: int, replayed: ActionOutcome) -> float | None:
        recorded = node.candidates[index].outcome
        if replayed.unscorable is not None:
            return None
        if recorded.unscorable is None and not _repeats(replayed, recorded):
            assert self.tools is not NO_TOOLS, (
                f"{node.group} candidate {index}: replay gives {replayed}, recorded is {recorded}"
            )
            return None
        lost = 0.0
        if self.overlong is not None:
            lost = self.overlong.punishment(node.group.agent, len(node.candidates[index].tokens))
            self.num_overlong += lost > 0.0
        return _finite(self.rubric.reward(replayed) - lost, node.group)


def _repeats(replayed: ActionOutcome, recorded: ActionOutcome) -> bool:
    """Whether the replay agrees with the record in all components that the record has."""
    team = {name: value for name, value in replayed.team.items() if name in recorded.team}
    local = {name: value for name, value in replayed.local.items() if name in recorded.local}
    return replace(replayed, team=team, local=local) == recorded


def _finite(reward: float, group: GroupKey) -> float:
    assert math.isfinite(reward), f"{group}: reward {reward}"
    return reward

"""The reward stage: the authority on rewards. It plays recorded actions again and trusts no recorded reward."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from components.environments.base import NO_TOOLS, EnvironmentFamily, MultiAgentEnv, ToolCall, Tools, applied
from components.errors import TooManyUnscorable
from components.identity import GroupKey, seed_for
from components.rewards.base import Rubric
from components.rewards.overlong import Overlong
from components.rewards.own_rewards import OwnReward
from components.schema import ActionOutcome, Candidate, Episode, Node, RolloutShard, ScoredShard
from components.turn_order import TurnOrder, phases

Rewards = tuple[tuple[tuple[float | None, ...], ...], ...]
"""Axes E, N, K."""
Progress = Callable[[int, int], None]
"""Told after each position: nodes replayed of the longest episode, and how many it has."""


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

    Rollouts are not touched, so another rubric costs a replay and no generation. `tools` answers from the shard's own record,
    so it costs no execution either. `overlong` takes from what long answers earned, `own` components are added. With
    `shuffle_seed` the rewards are permuted over all candidates of the shard: the control experiment in which nothing can be
    learned.

    A candidate at which the sandbox failed has no reward (None), and so has one whose programs, run once more, did something
    else. Raises TooManyUnscorable when that is more than `max_unscorable_fraction` of the shard, and AssertionError naming the
    group when an outcome differs although no tool was asked: environments are deterministic, so the record or the environment
    is wrong and its rewards mean nothing. A component that the environment did not report then is no difference. The same holds
    where others acted than `turn_order` says; None believes the record.
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
    """Raise TooManyUnscorable when more than `max_fraction` of the candidates have no reward.

    **Example** 512 candidates and .05: 25 may stay without a reward, the 26th raises.
    """
    flags = [reward is None for rewards_N_K in rewards_E_N_K for rewards_K in rewards_N_K for reward in rewards_K]
    if sum(flags) > max_fraction * len(flags):
        raise TooManyUnscorable(
            f"{sum(flags)} of {len(flags)} candidates could not be scored, rewards.max_failed_fraction allows {max_fraction}: "
            "the sandbox failed at their programs; `troupe sandbox status` says how it is"
        )


def shuffled(rewards_E_N_K: Rewards, *, seed: int) -> Rewards:
    """The same rewards in the same shape, each in a random place.

    **Example** (((1, 0), (0, 0)),) may become (((0, 0), (1, 0)),).
    """
    values = [reward for rewards_N_K in rewards_E_N_K for rewards_K in rewards_N_K for reward in rewards_K]
    random.Random(seed).shuffle(values)
    drawn = iter(values)
    return tuple(
        tuple(tuple(next(drawn) for _ in rewards_K) for rewards_K in rewards_N_K) for rewards_N_K in rewards_E_N_K
    )


class _Replay:
    """One episode played again, node by node."""

    def __init__(
        self,
        episode: Episode,
        family: EnvironmentFamily,
        rubric: Rubric,
        tools: Tools,
        overlong: Overlong | None,
        turn_order: TurnOrder | None,
    ) -> None:
        self.episode = episode
        self.rewards_N_K: list[tuple[float | None, ...]] = []
        self.num_overlong = 0
        self._overlong = overlong
        self._rubric = rubric
        self._has_tools = tools is not NO_TOOLS
        self._env = family.build(episode.problem, tools) if episode.nodes else None
        self._has_ended = self._has_diverged = self._success = False
        self._nodes: list[Node] = []
        self._phases = None if self._env is None or turn_order is None else phases(self._env, turn_order)

    @property
    def _environment(self) -> MultiAgentEnv:
        assert self._env is not None, f"{self.episode.problem.problem_id} has no node to replay"
        return self._env

    def calls(self, position: int) -> list[ToolCall]:
        """What replaying the next node will ask of the tools."""
        node = self.episode.nodes[position]
        texts = dict.fromkeys(candidate.text for candidate in node.candidates)
        return [call for text in texts for call in self._environment.calls(node.group.agent, text)]

    def score(self, position: int) -> None:
        """Append the rewards of the next node, and go to the state after the chosen candidate.

        One that ends the episode leaves the environment as it met it, for the agents side by side with it.
        """
        node, env = self.episode.nodes[position], self._environment
        if node.lane == 0:
            self._check_path(position)
        before = env.snapshot()
        after = {}
        for text in dict.fromkeys(candidate.text for candidate in node.candidates):
            env.restore(before)
            after[text] = applied(env, node.group.agent, text), env.snapshot()
        self.rewards_N_K.append(
            tuple(
                self._reward(node, index, after[candidate.text][0]) for index, candidate in enumerate(node.candidates)
            )
        )
        candidates = tuple(self._replayed(candidate, after[candidate.text][0]) for candidate in node.candidates)
        self._nodes.append(replace(node, candidates=candidates))
        chosen = node.candidates[node.chosen]
        self._has_diverged |= not _repeats(after[chosen.text][0], chosen.outcome)
        env.restore(before if self._has_ended else after[chosen.text][1])
        self._success = self._success if self._has_ended else env.success
        if env.done:
            self._has_ended = True
            env.restore(before)

    def add(self, own: OwnReward) -> tuple[tuple[float, ...], ...]:
        """Add a component to the rewards of all nodes, which have been scored, and return its values (N, K)."""
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

    def _replayed(self, candidate: Candidate, outcome: ActionOutcome) -> Candidate:
        """A recorded candidate with what the replay has found."""
        return replace(candidate, outcome=outcome, reward=self._rubric.reward(outcome))

    def _check_path(self, position: int) -> None:
        """The agents of the phase that begins at `position` are those that the turn order gives in this state.

        Where a tool answered otherwise than recorded the state may be another one; then what was recorded is replayed.
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
            assert self._has_tools, f"{node.group} candidate {index}: replay gives {replayed}, recorded is {recorded}"
            return None
        return _finite(self._rubric.reward(replayed) - self._punishment(node, index), node.group)

    def _punishment(self, node: Node, index: int) -> float:
        if self._overlong is None:
            return 0.0
        lost = self._overlong.punishment(node.group.agent, len(node.candidates[index].tokens))
        self.num_overlong += lost > 0.0
        return lost


def _repeats(replayed: ActionOutcome, recorded: ActionOutcome) -> bool:
    """Whether the replay found what was recorded. It may find components that the environment did not report then."""
    team = {name: value for name, value in replayed.team.items() if name in recorded.team}
    local = {name: value for name, value in replayed.local.items() if name in recorded.local}
    return replace(replayed, team=team, local=local) == recorded


def _finite(reward: float, group: GroupKey) -> float:
    assert math.isfinite(reward), f"{group}: reward {reward}"
    return reward

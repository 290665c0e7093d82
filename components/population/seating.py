"""Who plays which agent in each shard of a step: members in their own seats or in turn, and past selves beside a learner.

A shard is a match: one seating for all its problems. Seats are swapped over shards and steps, and past selves are drawn by the
state before the step and the seed, so that a resumed step seats the same players.
"""

from collections.abc import Mapping

from components.config import OpponentConfig, PopulationMethod
from components.config.population import Hierarchical
from components.population.opponents import (
    Opponent,
    OpponentPool,
    draw_opponent,
    opponent_shares,
    payoff_outside,
)
from components.population.payoffs import PayoffMatrix

Seating = dict[str, str]
"""Agent -> a member, or a past self as `member@step`."""


def past_self(member: str, step: int) -> str:
    """The name of a member as it was before `step`. **Example** `first@10`."""
    return f"{member}@{step}"


def member_and_step(player: str) -> tuple[str, int | None]:
    """The member that a player is or was, and the step of a past self. **Example** `first@10`: ("first", 10)."""
    member, is_past, step = player.rpartition("@")
    return (member, int(step)) if is_past else (player, None)


def step_seatings(
    homes: Mapping[str, str],
    pools: Mapping[str, OpponentPool],
    payoffs: PayoffMatrix,
    *,
    method: PopulationMethod,
    step: int,
    num_shards: int,
    seed: int,
) -> tuple[Seating, ...]:
    """The seating of each shard. `homes` are the members of the agents in their own seats, `pools` the past selves by member.

    In the first shards, `opponents.share` of all, one agent is played by a member that is, and the others by past selves of
    those who would play them. Without any past self yet, by these themselves. These games are numbered over all steps, so that
    each member learns in every N-th of them, and under `rotates_seats` as each agent once in N * N.

    **Example** two members, share .5 of 4 shards: in shards 0 and 1 first meets a past second, and second a past first.
    """
    agents = list(homes)
    num_past = 0 if method.opponents is None else round(method.opponents.share * num_shards)
    seatings = []
    for shard in range(num_shards):
        meets_past = method.opponents is not None and shard < num_past
        rounds, seat = divmod(step * num_past + shard, len(agents)) if meets_past else (shard + step, 0)
        shift = rounds if method.rotates_seats else 0
        seating = {agent: homes[agents[(a + shift) % len(agents)]] for a, agent in enumerate(agents)}
        if method.opponents is not None and meets_past:
            learner = agents[seat]
            seating = _against_past_selves(seating, learner, pools, payoffs, method.opponents, (seed, step, shard))
        seatings.append(seating)
    return tuple(seatings)


def homes_in_step(
    homes: Mapping[str, str], average_returns: Mapping[str, float], method: PopulationMethod, step: int
) -> dict[str, str]:
    """The members of the agents in their own seats during `step`, from those before it.

    Every `leader_term` steps the member with the highest average return changes seats with the leading agent's; of equals the
    first.

    **Example** first leads with .2, third has .5: third leads, and first plays third's agent.
    """
    mode = method.training_mode
    if not isinstance(mode, Hierarchical) or mode.leader_term is None or step == 0 or step % mode.leader_term:
        return dict(homes)
    leader, agents = mode.leader or next(iter(homes)), list(homes)
    best = max(agents, key=lambda agent: (average_returns.get(homes[agent], 0.0), -agents.index(agent)))
    return {**homes, leader: homes[best], best: homes[leader]}


def range_warning(payoffs: PayoffMatrix, config: OpponentConfig) -> str | None:
    """What to say of payoffs outside of the configured range, which draw opponents as its bounds do; None: all lie inside."""
    if (found := payoff_outside(payoffs, config)) is None:
        return None
    player, opponent, mean = found
    return (
        f"method.opponents: {player} earns {mean:.3g} a game beside {opponent}, outside of lowest_payoff "
        f"{config.lowest_payoff:g} to highest_payoff {config.highest_payoff:g}; draws of opponents take it for the bound. Give "
        "the next run the range of the game"
    )


def _against_past_selves(
    seating: Seating,
    learner: str,
    pools: Mapping[str, OpponentPool],
    payoffs: PayoffMatrix,
    config: OpponentConfig,
    draw: tuple[int, int, int],
) -> Seating:
    seed, *parts = draw

    def opponent(agent: str, member: str) -> str:
        pool = pools.get(member)
        if agent == learner or pool is None or not pool.opponents:
            return member
        shares = opponent_shares(pool, payoffs, seating[learner], config)
        return draw_opponent(shares, seed, *parts, agent)

    return {agent: opponent(agent, member) for agent, member in seating.items()}


def pools_after(
    pools: Mapping[str, OpponentPool], versions: Mapping[str, tuple[int, str]], *, config: OpponentConfig, step: int
) -> dict[str, OpponentPool]:
    """The pools after `step`: every `config.every` steps each member's version of that step is added, if it is a new one.

    `versions` are (step, weights digest) by trained member.
    """
    after = dict(pools)
    if step % config.every:
        return after
    for member, (at, digest) in versions.items():
        pool = after.get(member, OpponentPool(capacity=config.capacity))
        if pool.opponents and pool.opponents[-1].step == at:
            continue  # it has not learned since
        after[member] = pool.with_opponent(Opponent(name=past_self(member, at), step=at, checkpoint=digest))
    return after

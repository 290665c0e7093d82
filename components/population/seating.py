"""Who plays which agent in each shard of a step: members in their own seats or in turn, and past selves beside a learner.

A shard is a match: one seating for all its problems. Seats are swapped over shards and steps, and past selves are drawn by the
state before the step and the seed, so that a resumed step seats the same players.

Who of a pool of frozen past selves is played is decided by prioritised fictitious self-play (PFSP; Vinyals et al.,
"Grandmaster level in StarCraft II", Nature 575, 2019, methods): with a probability proportional to a function of the
learner's chance x against it, which is its mean payoff scaled to 0..1, so that graded payoffs have no need of wins:

    hard      (1 - x) ** power    those it loses to; nothing is spent on those it always beats
    variance  x (1 - x)           those of its own strength
    even      1                   all alike: fictitious self-play

Draws depend on the seed and the parts that the caller names, never on the order in which games end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from random import Random

from components.config import OpponentConfig, PopulationMethod
from components.config.population import Hierarchical
from components.identity import seed_for
from components.population.payoffs import PayoffMatrix

PRIOR_GAMES = 2.0
"""So many games of equals stand before those that were played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opponent:
    """A frozen policy: the digest of its checkpoint, and the step at which it was taken."""

    name: str
    step: int
    checkpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpponentPool:
    """Opponents from the oldest to the youngest, at most `capacity`."""

    opponents: tuple[Opponent, ...] = ()
    capacity: int = 16

    def with_opponent(self, opponent: Opponent) -> "OpponentPool":
        """The pool with one more, which must be younger than all others.

        A full pool drops its second oldest: the start stays, as the one opponent to whom all steps compare.

        **Example** capacity 3 after steps 0, 10, 20, 30: steps 0, 20, 30.
        """
        assert all(opponent.step > each.step for each in self.opponents), f"{opponent} is not the youngest"
        kept = self.opponents
        if len(kept) == self.capacity:
            kept = (kept[0], *kept[2:])
        return OpponentPool(opponents=(*kept, opponent), capacity=self.capacity)


def learner_chance(payoffs: PayoffMatrix, learner: str, opponent: str, config: OpponentConfig) -> float:
    """The learner's chance x, 0 to 1: its scaled mean payoff in played seats, drawn to 1/2 by PRIOR_GAMES even games.

    **Example** payoffs -1..1, 6 games of mean 1: (6 x 1 + 2 x .5) / 8 = .875; unplayed: .5.
    """
    mean = payoffs.compute_played_mean(learner, opponent)
    if mean is None:
        return 0.5
    num, lowest, highest = payoffs.num_games(learner, opponent), config.lowest_payoff, config.highest_payoff
    scaled = (min(max(mean, lowest), highest) - lowest) / (highest - lowest)
    return (num * scaled + PRIOR_GAMES * 0.5) / (num + PRIOR_GAMES)


def _weight(chance: float, config: OpponentConfig) -> float:
    """The unnormalised weight of an opponent against whom the learner has this chance.

    **Example** chance .8: hard .04, variance .16, even 1.
    """
    if config.priority == "hard":
        return float((1 - chance) ** config.power)
    return chance * (1 - chance) if config.priority == "variance" else 1.0


def payoff_outside(payoffs: PayoffMatrix, config: OpponentConfig) -> tuple[str, str, float] | None:
    """Two players and the first mean payoff found outside of the range, which the former earns; None: all lie inside."""
    for row in (payoffs.first, payoffs.second):
        for player, opponents in row.items():
            for opponent in opponents:
                mean = payoffs.compute_played_mean(player, opponent)
                if mean is not None and not config.lowest_payoff <= mean <= config.highest_payoff:
                    return player, opponent, mean
    return None


def opponent_shares(
    pool: OpponentPool, payoffs: PayoffMatrix, learner: str, config: OpponentConfig
) -> dict[str, float]:
    """The probability of each opponent of the pool, oldest first; they add to 1.

    Prior games keep every weight above 0, so that nobody is forgotten for good.

    **Example** hard, chances .8 and .4: weights .04 and .36, shares .1 and .9.
    """
    weights = {
        each.name: _weight(learner_chance(payoffs, learner, each.name, config), config) for each in pool.opponents
    }
    total = fsum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def draw_opponent(shares: Mapping[str, float], seed: int, *parts: str | int) -> str:
    """The name of one opponent, drawn by its share; equal seeds and parts draw the same one.

    **Example** `draw_opponent(shares, 0, step, problem)`.
    """
    point, below = Random(seed_for(seed, "opponent", *parts)).random(), 0.0
    for name, share in shares.items():
        below += share
        if point < below:
            return name
    return next(name for name in reversed(list(shares)) if shares[name])  # the shares add to a little less than 1


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


def find_homes(
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

"""What the agents of a population learn from: their returns, mixed by the training mode, less what their role earns on average.

The state of a run is folded episode by episode in the order of the problems, so that a resumed run is equal to the bit. Raw
returns decide payoffs, leaders, correlation and selection; mixed ones only what is learned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from components.config import PopulationConfig
from components.metrics import agent_return, mixed_return
from components.population.baselines import RoleBaselines
from components.population.compliance import Bonuses, compliance_bonuses
from components.population.move_rewards import Move
from components.population.opponents import OpponentPool
from components.population.payoffs import PayoffMatrix, games_by_pair
from components.population.return_correlation import ReturnCorrelation
from components.population.selective import Record
from components.population.training_modes import Floats, discounted_returns, mode_matrix

Credits = list[tuple[tuple[float | None, ...], ...]]
"""Axes E, N, K: what each action is credited with; None for one that is not trained on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationState:
    """What a population run knows beside its weights, after `num_steps` steps.

    `baselines` are by agent and turn, `average_returns` the raw ones of an episode by agent. `records` are the members' own,
    for selection and federation; `num_samples` counts the episodes that they played.
    """

    num_steps: int = 0
    num_episodes: int = 0
    baselines: RoleBaselines = field(default_factory=RoleBaselines)
    correlation: ReturnCorrelation = field(default_factory=ReturnCorrelation)
    average_returns: Mapping[str, float] = field(default_factory=dict)
    records: Mapping[str, Record] = field(default_factory=dict)
    num_samples: Mapping[str, int] = field(default_factory=dict)
    pools: Mapping[str, OpponentPool] = field(default_factory=dict)
    """Past selves by member."""
    payoffs: PayoffMatrix = field(default_factory=PayoffMatrix)
    """By pair of players that sat in one game."""
    homes: Mapping[str, str] = field(default_factory=dict)
    """The members of the agents in their own seats; empty: those of the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One episode as moves. `num_actions_N` are the candidates of its nodes in order, `members_A` who played each agent."""

    moves: tuple[Move, ...]
    num_actions_N: tuple[int, ...]
    members_A: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CreditedStep:
    """The credits of a step's episodes, the state after it, the matrix that mixed its returns, and metrics."""

    credits_E_N_K: Credits
    state: PopulationState
    matrix_A_A: Floats
    metrics: Mapping[str, float]


def credited_step(
    state: PopulationState,
    episodes: Sequence[Played],
    *,
    agents: Sequence[str],
    config: PopulationConfig,
    subtracts_baseline: bool,
) -> CreditedStep:
    """The step's actions credited with mixed returns, under the state before it, and the state after it.

    An action of a whole episode is credited with what its agent earns from that move on, one of compared candidates with what
    the candidate earned at once. With `subtracts_baseline` the agent's average in that turn is subtracted, as it was before the
    episode (role-conditioned advantage, SPIRAL, arXiv 2506.24119).

    A follower's bonus for following is added after the mixing, and is in no raw return.

    **Example** ann and bob earn (1, 0); cooperative at strength .6 credits them with (.7, .3).
    """
    leader, matrix = leader_of(agents, config), mixing_matrix(state, agents, config)
    state = replace(state, baselines=replace(state.baselines, decay=config.baseline_decay))
    credits: Credits = []
    raw_E_A, followed = [], []
    for episode in episodes:
        bonuses = None if leader is None else _bonuses(episode, agents, leader, config.compliance_bonus)
        found, raw_A, state = _credited(
            state, episode, agents, matrix, bonuses, config, subtracts_baseline=subtracts_baseline
        )
        credits.append(found)
        if raw_A is not None:
            raw_E_A.append(raw_A)
            followed += [] if leader is None else _followed(episode, agents, leader)
    return CreditedStep(
        credits_E_N_K=credits,
        state=replace(state, num_steps=state.num_steps + 1),
        matrix_A_A=matrix,
        metrics=_metrics(agents, raw_E_A, matrix, state, None if leader is None else followed) if raw_E_A else {},
    )


def leader_of(agents: Sequence[str], config: PopulationConfig) -> str | None:
    """The agent that leads; None in modes without one."""
    return (config.leader or agents[0]) if config.training_mode == "hierarchical" else None


def mixing_matrix(state: PopulationState, agents: Sequence[str], config: PopulationConfig) -> Floats:
    """The matrix [A, A] by which the training mode mixes returns in the step after `state`.

    **Example** two agents, cooperative at strength .6: ((.7, .3), (.3, .7)).
    """
    leader = leader_of(agents, config)
    return mode_matrix(
        config.training_mode,
        len(agents),
        cooperation_strength=config.cooperation_strength,
        competition_intensity=config.competition_intensity,
        team_size=config.team_size,
        correlation=state.correlation.value,
        leader=0 if leader is None else agents.index(leader),
    )


def _bonuses(episode: Played, agents: Sequence[str], leader: str, bonus: float) -> Bonuses:
    return compliance_bonuses(episode.moves, leader=agents.index(leader), num_agents=len(agents), bonus=bonus)


def _followed(episode: Played, agents: Sequence[str], leader: str) -> list[float]:
    """1 for each answer of a follower that was the leader's, else 0."""
    ones, place = _bonuses(episode, agents, leader, 1.0), agents.index(leader)
    return [
        of_move[move.chosen][a]
        for of_move, move in zip(ones, episode.moves, strict=True)
        for _, a in move.nodes
        if a != place
    ]


def _metrics(
    agents: Sequence[str],
    raw_E_A: Sequence[tuple[float, ...]],
    matrix: Floats,
    state: PopulationState,
    followed: Sequence[float] | None,
) -> dict[str, float]:
    metrics = {agent_return(agent): _mean([raw[a] for raw in raw_E_A]) for a, agent in enumerate(agents)}
    metrics |= {
        mixed_return(agent): _mean([float(matrix[a] @ raw) for raw in raw_E_A]) for a, agent in enumerate(agents)
    }
    metrics |= {
        "population/correlation": state.correlation.value,
        "population/own_share": float(matrix.diagonal().mean()),
    }
    if followed is not None:
        metrics["population/compliance"] = _mean(followed)
    return metrics


def _credited(
    state: PopulationState,
    episode: Played,
    agents: Sequence[str],
    matrix: Floats,
    bonuses: Bonuses | None,
    config: PopulationConfig,
    *,
    subtracts_baseline: bool,
) -> tuple[tuple[tuple[float | None, ...], ...], tuple[float, ...] | None, PopulationState]:
    """The credits of an episode's actions, its raw returns by agent, and the state after it. None: it has no return."""
    found: list[list[float | None]] = [[None] * count for count in episode.num_actions_N]
    rewards_M_A = [move.chosen_rewards_A for move in episode.moves]
    known = [rewards for rewards in rewards_M_A if rewards is not None]
    if not known or len(known) < len(rewards_M_A):
        return _frozen(found), None, state
    mixed_M_A = discounted_returns(known, config.discount) @ matrix.T
    if bonuses is not None:
        earned = [of_move[move.chosen] for of_move, move in zip(bonuses, episode.moves, strict=True)]
        mixed_M_A = mixed_M_A + discounted_returns(earned, config.discount)
    first: dict[tuple[str, int], float] = {}
    for m, move in enumerate(episode.moves):
        for n, a in move.nodes:
            if len(move.rewards_K_A) == 1:
                value = float(mixed_M_A[m, a])
                first.setdefault((agents[a], move.turn), value)
                baseline = state.baselines.value(f"turn {move.turn}", agents[a]) if subtracts_baseline else 0.0
                found[n][0] = value - baseline
                continue
            for k, rewards_A in enumerate(move.rewards_K_A):
                followed = 0.0 if bonuses is None else bonuses[m][k][a]
                found[n][k] = None if rewards_A is None else float(matrix[a] @ rewards_A) + followed
    raw_A = tuple(float(sum(rewards[a] for rewards in known)) for a in range(len(agents)))
    return _frozen(found), raw_A, _folded(state, episode, agents, raw_A, first)


def _folded(
    state: PopulationState,
    episode: Played,
    agents: Sequence[str],
    raw_A: Sequence[float],
    earned: Mapping[tuple[str, int], float],
) -> PopulationState:
    """The state after an episode."""
    baselines = state.baselines
    for (agent, turn), value in earned.items():
        baselines = baselines.after(f"turn {turn}", agent, value)
    averages = dict(state.average_returns)
    records, num_samples = dict(state.records), dict(state.num_samples)
    for agent, member, raw in zip(agents, episode.members_A, raw_A, strict=True):
        averages[agent] = raw if agent not in averages else 0.9 * averages[agent] + 0.1 * raw
        records[member] = records.get(member, Record()).after_return(raw)
        num_samples[member] = num_samples.get(member, 0) + 1
    return replace(
        state,
        payoffs=state.payoffs.after(games_by_pair(episode.members_A, raw_A, order=state.num_episodes)),
        num_episodes=state.num_episodes + 1,
        baselines=baselines,
        correlation=state.correlation.after(raw_A),
        average_returns=averages,
        records=records,
        num_samples=num_samples,
    )


def _frozen(found: Sequence[Sequence[float | None]]) -> tuple[tuple[float | None, ...], ...]:
    return tuple(tuple(each) for each in found)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0

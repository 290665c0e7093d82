"""What the agents of a population learn from: their returns, mixed by the training mode, less what their role earns on average.

The state of a run is folded episode by episode in the order of the problems, so that a resumed run is equal to the bit. Raw
returns decide payoffs, leaders, correlation and selection; mixed ones only what is learned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import fsum, isfinite, sqrt

from components.config import AlgorithmConfig, CreditedConfig, PopulationMethod, RoleBaseline
from components.config.population import Hierarchical
from components.errors import ConfigurationError
from components.mathematics.returns import discount_returns
from components.metrics import agent_return, name_mixed_return
from components.population.interaction_graph import InteractionGraph, make_played_episode
from components.population.move_rewards import Move
from components.population.payoffs import PayoffMatrix, games_by_pair
from components.population.seating import OpponentPool
from components.population.selective import Record
from components.population.training_modes import Floats, make_mode_matrix

Credits = list[tuple[tuple[float | None, ...], ...]]
"""Axes E, N, K: what each action is credited with; None for one that is not trained on."""
Bonuses = tuple[tuple[tuple[float, ...], ...], ...]
"""Axes M, K, A: what each agent earns by following, by move and candidate."""
DECAY = 0.9
WINDOW = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleBaselines:
    """SPIRAL's exponential average of returns for each game and role (RAE, arXiv:2506.24119): a first mover's edge is no skill.

    As in the authors' code, the baseline is the average from before the episode, which the action cannot have changed, so that
    `A = R - b` is unbiased. `values` is game -> role -> average return; a role that was never played has 0, as in the paper.
    """

    decay: float = 0.95
    values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def value(self, game: str, role: str) -> float:
        """The baseline of a role of a game."""
        return self.values.get(game, {}).get(role, 0.0)

    def after(self, game: str, role: str, earned: float) -> "RoleBaselines":
        """The baselines after a return: `b = decay b + (1 - decay) R`. Raises ConfigurationError for NaN and infinity.

        **Example** decay .95, b 0 after a return of 1: .05.
        """
        if not isfinite(earned):
            raise ConfigurationError(f"earned {earned} of {game}/{role}: leave it out")
        moved = self.decay * self.value(game, role) + (1 - self.decay) * earned
        roles = {**self.values.get(game, {}), role: moved}
        return RoleBaselines(decay=self.decay, values={**self.values, game: roles})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnCorrelation:
    """Whether members' returns rise together, by which the mixed mode shares out cooperation and competition: an exponential
    average of the mean correlation of all pairs over the last episodes.

    `value` is rho, -1 to 1. `returns_E_N` are the raw returns of the last episodes, oldest first.
    """

    value: float = 0.0
    returns_E_N: tuple[tuple[float, ...], ...] = ()

    def after(self, returns_N: Sequence[float]) -> "ReturnCorrelation":
        """The state after one more episode: `rho = .9 rho + .1 mean correlation` over the last 32 episodes.

        **Example** returns (0, 0) and then (1, 1): the pair correlates by 1, and rho is .1.
        """
        if self.returns_E_N and len(self.returns_E_N[0]) != len(returns_N):
            raise ConfigurationError(
                f"{len(returns_N)} returns after episodes of {len(self.returns_E_N[0])} members: use one order"
            )
        if not all(map(isfinite, returns_N)):
            raise ConfigurationError(f"returns {tuple(returns_N)}: not finite; leave the episode out")
        window = (*self.returns_E_N, tuple(map(float, returns_N)))[-WINDOW:]
        return ReturnCorrelation(value=DECAY * self.value + (1 - DECAY) * mean_correlation(window), returns_E_N=window)


def mean_correlation(returns_E_N: Sequence[Sequence[float]]) -> float:
    """The mean of Pearson's correlation over all pairs of members, -1 to 1; 0 for a pair of which one never changes.

    **Example** episodes (0, 0, 1), (1, 1, 0): pairs 1, -1, -1, mean -1/3. It is never below -1/(N-1).
    """
    if not returns_E_N:
        return 0.0
    series_N_E = list(zip(*returns_E_N, strict=True))
    pairs = [correlation(one, other) for one, other in combinations(series_N_E, 2)]
    return fsum(pairs) / len(pairs) if pairs else 0.0


def correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Pearson's correlation, -1 to 1; 0 where one of both never changes, or has less than two values.

    **Example** (1, 2, 3) with (2, 4, 6) is 1; (1, 2, 1) with (5, 5, 5) is 0.
    """
    if len(one) < 2 or min(one) == max(one) or min(other) == max(other):
        return 0.0
    mean_one, mean_other = fsum(one) / len(one), fsum(other) / len(other)
    ones = [value - mean_one for value in one]
    others = [value - mean_other for value in other]
    spread = sqrt(fsum(x * x for x in ones)) * sqrt(fsum(y * y for y in others))
    return max(-1.0, min(1.0, fsum(x * y for x, y in zip(ones, others, strict=True)) / spread)) if spread else 0.0


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
    interactions: InteractionGraph = field(default_factory=InteractionGraph)
    """Of the episodes alone: what weights members took over is known only after the step."""
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


def credit_step(
    state: PopulationState,
    episodes: Sequence[Played],
    *,
    agents: Sequence[str],
    method: PopulationMethod,
    algorithm: AlgorithmConfig,
) -> CreditedStep:
    """The step's actions credited with mixed returns, under the state before it, and the state after it.

    An action of a whole episode is credited with what its agent earns from that move on, one of compared candidates with what
    the candidate earned at once. For role_baseline the agent's average in that turn is subtracted, as it was before the
    episode (role-conditioned advantage, SPIRAL, arXiv 2506.24119).

    A follower's bonus for following is added after the mixing, and is in no raw return.

    **Example** ann and bob earn (1, 0); cooperative at strength .6 credits them with (.7, .3).
    """
    leader, matrix = leading_agent(agents, method), mixing_matrix(state, agents, method)
    bonus = method.training_mode.compliance_bonus if isinstance(method.training_mode, Hierarchical) else 0.0
    if isinstance(algorithm, RoleBaseline):
        state = replace(state, baselines=replace(state.baselines, decay=algorithm.baseline_decay))
    credits: Credits = []
    raw_E_A, followed, met = [], [], []
    for episode in episodes:
        bonuses = None if leader is None else _bonuses(episode, agents, leader, bonus)
        found, raw_A, state = _credit(state, episode, agents, matrix, bonuses, algorithm)
        credits.append(found)
        if raw_A is not None:
            raw_E_A.append(raw_A)
            met.append(make_played_episode(episode.moves, agents, episode.members_A, raw_A, order=state.num_episodes))
            followed += [] if leader is None else _mark_followed(episode, agents, leader)
    return CreditedStep(
        credits_E_N_K=credits,
        state=replace(state, num_steps=state.num_steps + 1, interactions=state.interactions.after_episodes(met)),
        matrix_A_A=matrix,
        metrics=_metrics(agents, raw_E_A, matrix, state, None if leader is None else followed) if raw_E_A else {},
    )


def leading_agent(agents: Sequence[str], method: PopulationMethod) -> str | None:
    """The agent that leads; None in modes without one."""
    mode = method.training_mode
    return (mode.leader or agents[0]) if isinstance(mode, Hierarchical) else None


def mixing_matrix(state: PopulationState, agents: Sequence[str], method: PopulationMethod) -> Floats:
    """The matrix [A, A] by which the training mode mixes returns in the step after `state`.

    **Example** two agents, cooperative at strength .6: ((.7, .3), (.3, .7)).
    """
    leader = leading_agent(agents, method)
    return make_mode_matrix(
        method.training_mode,
        len(agents),
        correlation=state.correlation.value,
        leader=0 if leader is None else agents.index(leader),
    )


def _bonuses(episode: Played, agents: Sequence[str], leader: str, bonus: float) -> Bonuses:
    return compliance_bonuses(episode.moves, leader=agents.index(leader), num_agents=len(agents), bonus=bonus)


def _mark_followed(episode: Played, agents: Sequence[str], leader: str) -> list[float]:
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
        name_mixed_return(agent): _mean([float(matrix[a] @ raw) for raw in raw_E_A]) for a, agent in enumerate(agents)
    }
    metrics |= {
        "population/correlation": state.correlation.value,
        "population/own_share": float(matrix.diagonal().mean()),
    }
    if followed is not None:
        metrics["population/compliance"] = _mean(followed)
    return metrics


def _credit(
    state: PopulationState,
    episode: Played,
    agents: Sequence[str],
    matrix: Floats,
    bonuses: Bonuses | None,
    algorithm: AlgorithmConfig,
) -> tuple[tuple[tuple[float | None, ...], ...], tuple[float, ...] | None, PopulationState]:
    """The credits of an episode's actions, its raw returns by agent, and the state after it. None: it has no return."""
    found: list[list[float | None]] = [[None] * count for count in episode.num_actions_N]
    rewards_M_A = [move.chosen_rewards_A for move in episode.moves]
    known = [rewards for rewards in rewards_M_A if rewards is not None]
    if not known or len(known) < len(rewards_M_A):
        return _frozen(found), None, state
    discount = algorithm.discount if isinstance(algorithm, CreditedConfig) else 1.0
    mixed_M_A = discount_returns(known, discount) @ matrix.T
    if bonuses is not None:
        earned = [of_move[move.chosen] for of_move, move in zip(bonuses, episode.moves, strict=True)]
        mixed_M_A = mixed_M_A + discount_returns(earned, discount)
    first: dict[tuple[str, int], float] = {}
    for m, move in enumerate(episode.moves):
        for n, a in move.nodes:
            if len(move.rewards_K_A) == 1:
                value = float(mixed_M_A[m, a])
                first.setdefault((agents[a], move.turn), value)
                baseline = (
                    state.baselines.value(f"turn {move.turn}", agents[a]) if algorithm.has_baseline_state else 0.0
                )
                found[n][0] = value - baseline
                continue
            for k, rewards_A in enumerate(move.rewards_K_A):
                followed = 0.0 if bonuses is None else bonuses[m][k][a]
                found[n][k] = None if rewards_A is None else float(matrix[a] @ rewards_A) + followed
    raw_A = tuple(float(sum(rewards[a] for rewards in known)) for a in range(len(agents)))
    return _frozen(found), raw_A, _fold(state, episode, agents, raw_A, first)


def _fold(
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


def compliance_bonuses(moves: Sequence[Move], *, leader: int, num_agents: int, bonus: float) -> Bonuses:
    """`bonus` for each follower that gives the leader's last answer, 0 for all others; `leader` is its place.

    A follower that acts before the leader ever has, has nothing to follow.

    **Example** ann leads, both act at once and say C: one move with bonuses (0, .1).
    """
    said: str | None = None
    bonuses = []
    for move in moves:
        acting = [a for _, a in move.nodes]
        of_candidates = [dict(zip(acting, answers, strict=True)) for answers in move.answers_K_M]
        bonuses.append(tuple(_of_candidate(answers, leader, said, num_agents, bonus) for answers in of_candidates))
        if leader in acting:
            said = of_candidates[move.chosen][leader]
    return tuple(bonuses)


def _of_candidate(
    answers: dict[int, str], leader: int, said: str | None, num_agents: int, bonus: float
) -> tuple[float, ...]:
    directive = answers.get(leader, said)
    return tuple(
        bonus if a != leader and directive is not None and answers.get(a) == directive else 0.0
        for a in range(num_agents)
    )

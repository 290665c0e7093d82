"""A population's step between its rewards and its updates: credits, the run's state, and who learns."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from components.artifacts.payloads import get, put
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import PopulationMethod, RunConfig
from components.config.population import Asynchronous, Selective
from components.evaluation.comparison import PayoffDifference
from components.population.asynchronous import find_played_step
from components.population.credit import CreditedStep, Played, PopulationState, credit_step
from components.population.move_rewards import Move, move_numbers, moves_of
from components.population.seating import Seating, find_homes, past_self, pools_after, range_warning, step_seatings
from components.population.selective import select_members
from components.rollout.statistics import reward_metrics
from components.runs.run import MixedStep
from components.runs.step_records import step_manifests
from components.runs.steps import checkpoints_before
from components.schema import Episode, PolicyVersion, RolloutShard, ScoredShard
from components.session.scenario import Scenario
from components.session.session import Session

_log = logging.getLogger(__name__)
MIX_RETURNS = "mix_returns"
"""The stage whose result holds the state."""


def state_before(session: Session, step: int) -> ArtifactRef | None:
    """The population's state before `step`, which the run has reached; None at the beginning."""
    if step == 0:
        return None
    manifests = step_manifests(session.store, session.run, step - 1, session.manifests)
    found = [each for each in manifests if each.stage == MIX_RETURNS]
    assert len(found) == 1, f"step {step - 1} of {session.run.run_id} has {len(found)} results of {MIX_RETURNS}"
    return MixedStep.model_validate(found[0].output).state


def population_config(config: RunConfig) -> PopulationMethod:
    """The method of a population's run."""
    assert isinstance(config.method, PopulationMethod), "this run has no population"
    return config.method


def credit_shards(
    session: Session, rollouts: list[ArtifactRef], scored: list[ArtifactRef], state: ArtifactRef | None
) -> tuple[list[ScoredShard], CreditedStep]:
    """The step's shards with credits in place of rewards, and all that crediting gave, the metrics of raw rewards included."""
    config = session.config
    shards = [session.kept.get(ref, RolloutShard) for ref in rollouts]
    scores = [session.kept.get(ref, ScoredShard) for ref in scored]
    agents = tuple(config.agents)

    def read_played(episode: Episode, rewards_N_K: tuple[tuple[float | None, ...], ...]) -> Played:
        moves = read_played_moves(session.scenario, episode, rewards_N_K)
        members = {node.group.agent: node.policy for node in episode.nodes}
        return Played(
            moves=() if episode.error is not None else moves,
            num_actions_N=tuple(len(node.candidates) for node in episode.nodes),
            members_A=tuple(members.get(agent, config.agents[agent].policy) for agent in agents),
        )

    episodes = [
        read_played(episode, rewards)
        for shard, score in zip(shards, scores, strict=True)
        for episode, rewards in zip(shard.episodes, score.rewards_E_N_K, strict=True)
    ]
    before = PopulationState() if state is None else get(session.store, state, PopulationState)
    credited = credit_step(
        before,
        episodes,
        agents=agents,
        method=population_config(config),
        algorithm=config.algorithm,
    )
    homes = _homes(session, shards[0].step, before)
    credited = replace(credited, state=replace(credited.state, homes=homes))
    credited = replace(credited, metrics={**reward_metrics(shards, scores), **credited.metrics})
    each = iter(credited.credits_E_N_K)
    return [
        ScoredShard(step=score.step, shard=score.shard, rewards_E_N_K=tuple(next(each) for _ in score.rewards_E_N_K))
        for score in scores
    ], credited


def read_played_moves(
    scenario: Scenario, episode: Episode, rewards_N_K: Sequence[Sequence[float | None]]
) -> tuple[Move, ...]:
    """The moves of an episode by the rules of its game, with what each agent earned at each, in the order of the agents."""
    return moves_of(
        episode,
        rewards_N_K,
        agents=tuple(scenario.config.agents),
        acts_together=scenario.family.rules.acts_together,
        payoff_weight=scenario.training_rubric.weights.get("local.payoff", 1.0),
    )


def moves_of_step(session: Session, shards: list[RolloutShard]) -> list[tuple[int, ...]]:
    """The move of each node of the step's episodes, in the order of the shards."""
    together = session.scenario.family.rules.acts_together
    shards = sorted(shards, key=lambda shard: shard.shard)
    return [move_numbers(episode, acts_together=together) for shard in shards for episode in shard.episodes]


def seatings(session: Session, step: int, state: ArtifactRef | None) -> tuple[Seating, ...]:
    """Who plays which agent in each shard of a step, by the state before it."""
    config = session.config
    known = PopulationState() if state is None else get(session.store, state, PopulationState)
    _warn_of_range(session, known)
    return step_seatings(
        _homes(session, step, known),
        known.pools,
        known.payoffs,
        method=population_config(config),
        step=step,
        num_shards=config.rollout.num_shards,
        seed=config.seed,
    )


def _warn_of_range(session: Session, state: PopulationState) -> None:
    opponents, topic = population_config(session.config).opponents, "method.opponents"
    if opponents is None or topic in session.warned:
        return
    if (warning := range_warning(state.payoffs, opponents)) is not None:
        session.warned.add(topic)
        _log.warning("%s", warning)


def _homes(session: Session, step: int, state: PopulationState) -> dict[str, str]:
    config = session.config
    homes = state.homes or {agent: settings.policy for agent, settings in config.agents.items()}
    averages = {member: record.average_return or 0.0 for member, record in state.records.items()}
    return find_homes(homes, averages, population_config(config), step)


def choose_played_checkpoints(
    session: Session, step: int, checkpoints: Mapping[str, CheckpointRef]
) -> dict[str, CheckpointRef]:
    """The checkpoints that members play by in a step: under asynchronous updates with `every` older ones, in turn."""
    found, updates = dict(checkpoints), asynchronous_updates(session.config)
    if updates is None:
        return found
    members = sorted(name for name, policy in session.config.policies.items() if policy.trained)
    for place, member in enumerate(members):
        if (at := find_played_step(place, step, every=updates.every)) < step:
            found[member] = checkpoints_before(session.store, session.run, at)[member]
    return found


def asynchronous_updates(config: RunConfig) -> Asynchronous | None:
    """The section of a run whose members may play by older weights; None of any other."""
    if not config.method.learns_from_credits:
        return None
    updates = population_config(config).weight_updates
    return updates if isinstance(updates, Asynchronous) and updates.every > 1 else None


def seat_versions(
    session: Session, seating: Seating, state: ArtifactRef | None, versions: Mapping[str, PolicyVersion]
) -> dict[str, PolicyVersion]:
    """The versions of all members, and of the past selves in a seating."""
    found = dict(versions)
    if any(player not in found for player in seating.values()):
        assert state is not None, f"{seating} names past selves before the first step"
        pools = get(session.store, state, PopulationState).pools
        known = {each.name: each for pool in pools.values() for each in pool.opponents}
        for player in sorted(set(seating.values()) - set(found)):
            past = known[player]
            found[player] = PolicyVersion(policy=player, step=past.step, weights_digest=past.checkpoint)
    return found


def put_mixed_step(
    session: Session, step: int, rollouts: list[ArtifactRef], shards: list[ScoredShard], credited: CreditedStep
) -> MixedStep:
    """The step's result, its payloads stored."""
    learning, state = _learning(session, step, credited.state)
    state = _with_past_selves(session, step, rollouts, state)
    metrics = dict(credited.metrics)
    if len(learning) < len(_list_trained(session)):
        metrics |= {f"population/{member}/learns": float(member in learning) for member in _list_trained(session)}
    return MixedStep(
        credited=[session.kept.put(shard) for shard in shards],
        state=put(session.store, state),
        learning=learning,
        metrics=metrics,
        needed_steps=_list_needed_steps(session, rollouts, state, learning),
    )


def _list_needed_steps(
    session: Session, rollouts: list[ArtifactRef], state: PopulationState, learning: list[str]
) -> tuple[int, ...]:
    """The steps before which members must be known after this one."""
    shards = [session.kept.get(ref, RolloutShard) for ref in rollouts]
    lags = asynchronous_updates(session.config) is not None
    played = {
        version.step
        for shard in shards
        for member, version in shard.policy_versions.items()
        if member in _list_trained(session) and (lags or member not in learning)
    }
    past = {each.step for pool in state.pools.values() for each in pool.opponents}
    return tuple(sorted((played | past) - {0}))


def _with_past_selves(
    session: Session, step: int, rollouts: list[ArtifactRef], state: PopulationState
) -> PopulationState:
    opponents, trained = population_config(session.config).opponents, _list_trained(session)
    if opponents is None:
        return state
    versions = {}
    for ref in rollouts:
        for member, version in session.kept.get(ref, RolloutShard).policy_versions.items():
            if member in trained:
                versions[member] = (version.step, version.weights_digest)
    return replace(state, pools=pools_after(state.pools, versions, config=opponents, step=step))


def _learning(session: Session, step: int, state: PopulationState) -> tuple[list[str], PopulationState]:
    """The members that learn in this step, and the state in which that is recorded."""
    config, trained = session.config, _list_trained(session)
    settings = population_config(config).weight_updates
    if not isinstance(settings, Selective):
        return trained, state
    records = {member: state.records[member] for member in trained if member in state.records}
    chosen = select_members(
        records,
        seed=config.seed,
        round_number=step,
        share=settings.best_share,
        exploration=settings.exploration,
        max_rounds_waiting=settings.max_rounds_waiting,
    )
    after = {member: record.after_round(member in chosen) for member, record in records.items()}
    return sorted(chosen), replace(state, records={**state.records, **after})


def _list_trained(session: Session) -> list[str]:
    return [policy for policy, settings in session.config.policies.items() if settings.trained]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartGains:
    """What each trained agent earns an episode more than at the start, all others being as at the start: by problem, paired."""

    gains: tuple[PayoffDifference, ...]
    num_problems: int

    @property
    def metrics(self) -> dict[str, float]:
        """**Example** {"against_starts/ann/gain": 1.36, ".../gain_low": .33, ".../gain_high": 2.39}."""
        return {
            f"against_starts/{gain.agent}/{name}": value
            for gain in self.gains
            for name, value in (
                ("gain", gain.difference),
                ("gain_low", gain.interval[0]),
                ("gain_high", gain.interval[1]),
            )
        }


def gain_sentence(gain: PayoffDifference) -> str:
    """**Example** "ann earns +1.36 more than at the start against its partners' start (+0.33 to +2.39)"."""
    low, high = gain.interval
    more = f"{-gain.difference:.2f} less" if gain.difference < 0 else f"{gain.difference:+.2f} more"
    return f"{gain.agent} earns {more} than at the start against its partners' start ({low:+.2f} to {high:+.2f})"


def list_trained_agents(config: RunConfig) -> list[str]:
    """The agents whose policies are trained."""
    return [agent for agent, settings in config.agents.items() if config.policies[settings.policy].trained]


def seating_at_start(config: RunConfig, learned: str | None = None) -> Seating:
    """All trained agents as they were at the start, and `learned` as it is now."""
    trained = set(list_trained_agents(config)) - {learned}
    return {
        agent: past_self(settings.policy, 0) if agent in trained else settings.policy
        for agent, settings in config.agents.items()
    }


def versions_of_seating(
    seating: Seating, starts: Mapping[str, PolicyVersion], versions: Mapping[str, PolicyVersion]
) -> dict[str, PolicyVersion]:
    """The version of each player of a seating: `starts` are the members' at the start, `versions` those of now."""
    at_start = {past_self(member, 0): version for member, version in starts.items()}
    return {
        player: versions[player]
        if player in versions
        else PolicyVersion(policy=player, step=0, weights_digest=at_start[player].weights_digest)
        for player in dict.fromkeys(seating.values())
    }

"""How a step of each method goes, stage by stage, and the stages of its pipeline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.config.hybrid import LEARNER_POLICY
from components.methods.hybrid.play import list_learned_parts
from components.methods.hybrid.settings import hybrid_config
from components.methods.population.credits import state_before
from components.runs.pipeline import Pipeline
from components.runs.run import PolicyUpdate, StepBatches
from components.schema import EvalReport
from components.session.session import Session
from flows.evaluations import evaluate_checkpoints, evaluate_player, evaluate_population
from flows.shards import collect_all, collect_matches, prefetch_rollouts, sampling_checkpoints, score_all
from flows.updates import prepare_next, update_policies
from tasks.collect_experience import collect_experience
from tasks.collect_rollouts import collect_rollouts
from tasks.compute_advantages import compute_advantages
from tasks.compute_rewards import compute_rewards
from tasks.coordinate_weights import coordinate_weights
from tasks.draw_interactions import draw_interactions
from tasks.evaluate_policy import evaluate_policy, name_versions
from tasks.mix_returns import mix_returns
from tasks.picture_episode import picture_episode
from tasks.play_against_starts import play_against_starts
from tasks.play_suite import play_suite
from tasks.publish_checkpoint import publish_checkpoint
from tasks.record_decisions import record_decisions
from tasks.refresh_weights import refresh_weights
from tasks.update_learner import update_learner
from tasks.update_policy import update_policy
from tasks.warm_start import warm_start

Checkpoints = dict[str, CheckpointRef]
Updates = dict[str, PolicyUpdate]


def team_step(session: Session, step: int, checkpoints: Checkpoints) -> tuple[StepBatches, Updates]:
    """The team plays, its actions are rewarded and compared, and its policies learn."""
    rollouts = collect_all(session, step, sampling_checkpoints(session, step, checkpoints))
    scored = score_all(session, step, rollouts)
    batches = compute_advantages(session, step, rollouts, scored)
    with prefetch_rollouts(session, step, checkpoints):
        prepare_next(session, step, checkpoints)
        updates = update_policies(session, step, checkpoints, batches)
    return batches, updates


def population_step(session: Session, step: int, checkpoints: Checkpoints) -> tuple[StepBatches, Updates]:
    """The members meet, their returns are mixed, those who learn do, and their weights are coordinated."""
    state = state_before(session, step)
    rollouts = collect_matches(session, step, checkpoints, state)
    scored = score_all(session, step, rollouts)
    mixed = mix_returns(session, step, rollouts, scored, state)
    batches = compute_advantages(session, step, rollouts, mixed.credited)
    prepare_next(session, step, checkpoints)
    updates = update_policies(session, step, checkpoints, batches.of_policies(mixed.learning))
    updates = coordinate_weights(session, step, checkpoints, updates, mixed.state)
    return batches.with_metrics(mixed.metrics), updates


def hybrid_step(session: Session, step: int, checkpoints: Checkpoints) -> tuple[StepBatches, Updates]:
    """The games are played, the learner and a language model that learns take a step, and decisions are recorded."""
    played = collect_experience(session, step, checkpoints[LEARNER_POLICY], name_versions(session.config, checkpoints))
    prepare_next(session, step, checkpoints)
    updates = {
        policy: update_learner(session, step, policy, checkpoints[policy], learned)
        for policy, learned in list_learned_parts(session.config, played).items()
    }
    if hybrid_config(session.config).has_history:
        record_decisions(session, step)
    return StepBatches(batches={}, metrics=played.metrics), updates


@dataclass(frozen=True, slots=True)
class Steps:
    """The stages of a method's steps, one step of it, and how its checkpoints are evaluated."""

    pipeline: Pipeline
    run: Callable[[Session, int, Checkpoints], tuple[StepBatches, Updates]]
    evaluate: Callable[[Session, int, Checkpoints], list[EvalReport]]


def steps_for(config: RunConfig) -> Steps:
    """The steps of a configuration's method."""
    return STEPS[config.method.type]


_PLAY = (warm_start.stage, refresh_weights.stage, collect_rollouts.stage, compute_rewards.stage)
_EVALUATE = (publish_checkpoint.stage, play_suite.stage, evaluate_policy.stage)
TEAM_PIPELINE = Pipeline((*_PLAY, compute_advantages.stage, update_policy.stage, *_EVALUATE))
POPULATION_PIPELINE = Pipeline(
    (
        *(*_PLAY, mix_returns.stage, compute_advantages.stage, update_policy.stage, coordinate_weights.stage),
        *(*_EVALUATE, play_against_starts.stage, draw_interactions.stage),
    )
)
HYBRID_PIPELINE = Pipeline(
    (
        *(warm_start.stage, refresh_weights.stage, collect_experience.stage, update_learner.stage),
        *(record_decisions.stage, *_EVALUATE, picture_episode.stage),
    )
)
STEPS: Mapping[str, Steps] = {
    "team": Steps(TEAM_PIPELINE, team_step, evaluate_checkpoints),
    "population": Steps(POPULATION_PIPELINE, population_step, evaluate_population),
    "hybrid": Steps(HYBRID_PIPELINE, hybrid_step, evaluate_player),
}

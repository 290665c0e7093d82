"""How a step of each method goes, stage by stage, and the stages of its pipeline."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.futures import PrefectFuture, as_completed

from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.config.hybrid import LEARNER_POLICY
from components.evaluation.held_out import Sampling
from components.evaluation.suite_play import SuitePlay
from components.methods.hybrid.play import list_learned_parts
from components.methods.hybrid.settings import hybrid_config
from components.methods.population.credits import gain_sentence, state_before
from components.reporting import progress
from components.runs.lineages import view_command
from components.runs.pipeline import Pipeline
from components.runs.run import PolicyUpdate, Run, StepBatches
from components.runs.steps import checkpoints_before, finish_step, last_step
from components.schema import EvalReport, IterationReport
from components.session.session import Session
from components.session.step_snapshot import list_own_stages, prefetch_snapshot, snapshot_of
from components.session.training_session import iteration_page, report_iteration
from flows.prefect_runtime.iteration_runs import create_next_run, in_background
from flows.run_pages import artifact_key
from flows.shards import (
    are_apart,
    collect_all,
    collect_matches,
    play_in_flow,
    prefetch_rollouts,
    sampling_checkpoints,
    score_all,
)
from tasks.collect_experience import collect_experience
from tasks.collect_rollouts import collect_rollouts
from tasks.compute_advantages import compute_advantages
from tasks.compute_rewards import compute_rewards
from tasks.coordinate_weights import coordinate_weights
from tasks.draw_interactions import draw_interactions
from tasks.evaluate_policy import evaluate_policy, find_models, missing_calls, name_versions, play_own_suite
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

_log = logging.getLogger(__name__)


def evaluate_checkpoints(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> list[EvalReport]:
    """One report per configured way of sampling; engines are loaded only if something is to be played."""
    samplings, models = session.config.evaluation.sampling, find_models(session.config, checkpoints)
    if calls := missing_calls(session, step, samplings, checkpoints):
        refresh_weights(session, step, models)
        if are_apart(session.config.resources):
            play_in_flow(session, calls, title=f"{session.run.run_id}/evaluation-{step:06d}", progress=lambda *_: None)
    reports = [evaluate_policy(session, step, sampling, checkpoints) for sampling in samplings]
    for report in reports:
        progress.report("evaluated", step, 1, 1, report=report)
    return reports


def play_finished_step(run: Run, step: int, sampling: Sampling) -> SuitePlay:
    """The play of a stored run's own suite after so many steps. Blocks that somebody has played are read."""
    with Session(run) as session:
        return play_own_suite(session, sampling, checkpoints_before(session.store, run, step))


def evaluate_population(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> list[EvalReport]:
    """The members' evaluations; at the end of the run also who did what to whom."""
    reports = evaluate_checkpoints(session, step, checkpoints)
    if 0 < step == last_step(session.store, session.run) and (state := state_before(session, step)) is not None:
        meet_starts(session, step, checkpoints)
        draw_interactions(session, step, state)
    return reports


def meet_starts(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> None:
    """Play each trained agent against its partners' start, as its first way of sampling draws, and tell what it gained."""
    config = session.config
    if not config.evaluation.sampling:
        return
    if not config.generation.serves_past_selves:
        _log.warning(
            "generation.engine %s serves no past selves: nobody plays its partners' start", config.generation.engine
        )
        return
    versions = name_versions(config, checkpoints)
    starts = name_versions(config, checkpoints_before(session.store, session.run, 0))
    told = play_against_starts(session, step, config.evaluation.preferred_sampling, versions, starts)
    progress.report("gains", step, 1, 1, lines=[gain_sentence(gain) for gain in told.gains])


def evaluate_player(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> list[EvalReport]:
    """The player's evaluations; on an emulator, also a picture of an episode of each."""
    reports = evaluate_checkpoints(session, step, checkpoints)
    if session.config.method.makes_pictures and session.config.tracking.episode_pictures:
        versions = name_versions(session.config, checkpoints)
        for sampling in session.config.evaluation.sampling:
            picture_episode(session, step, sampling, checkpoints[LEARNER_POLICY], versions)
    return reports


def prepare_next(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> None:
    """Create the flow run of the next step, and look at what is stored of it, in the background."""
    if step + 1 >= session.run.config.num_steps:
        return
    create_next_run(session, step + 1, dict(checkpoints))
    if session.config.rollout.overlap == "none":
        prefetch_snapshot(session, step + 1)


def update_policies(
    session: Session, step: int, checkpoints: dict[str, CheckpointRef], batches: StepBatches
) -> dict[str, PolicyUpdate]:
    """The updates of all trained policies, up to `resources.max_updates_at_once` in parallel.

    Each is committed separately; none is used for rollouts before all are.
    """
    calls = {policy: (session, step, policy, checkpoints[policy], ref) for policy, ref in batches.batches.items()}
    # Workers belong to this process and never start on another node.
    at_once = session.config.resources.max_updates_at_once if session.config.resources.runner == "thread" else 1
    if at_once == 1:
        return {policy: update_policy(*call) for policy, call in calls.items()}
    task, futures = update_policy.for_threads(), {}
    under_way: list[PrefectFuture[PolicyUpdate]] = []
    for policy, call in calls.items():
        if len(under_way) == at_once:
            ended = next(as_completed(under_way))
            ended.result()  # no update starts after a failure
            under_way.remove(ended)
        futures[policy] = task.submit(*call)
        under_way.append(futures[policy])
    return {policy: future.result() for policy, future in futures.items()}


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


@flow(name="training-iteration", flow_run_name="{session.run.run_id}/step-{step:06d}", validate_parameters=False)
def training_iteration(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> dict[str, CheckpointRef]:
    """From the checkpoints of a step to those of the next. A finished step returns its recorded checkpoints."""
    snapshot = snapshot_of(session, step)
    if snapshot.finished is not None:
        return snapshot.finished
    with snapshot.use_here():
        batches, updates = steps_for(session.config).run(session, step, checkpoints)
        report = publish_checkpoint(session, step, batches, updates)
        after = checkpoints | {policy: update.checkpoint for policy, update in updates.items()}
        after = end_step(session, step, after, report)
    session.forget_manifests(step)
    return after


def end_step(
    session: Session, step: int, checkpoints: dict[str, CheckpointRef], report: IterationReport
) -> dict[str, CheckpointRef]:
    """The checkpoints after a step, recorded as finished and told to the terminal, to Prefect's page and to the caller."""
    report_iteration(session, report)
    in_background(partial(create_step_page, session, report))
    stages = list_own_stages(session, step)
    after = finish_step(session.store, session.run, step, checkpoints, report, stages)
    if session.on_step is not None:
        session.store.flush()
        session.on_step(report)
    return after


def create_step_page(session: Session, report: IterationReport) -> None:
    """Create the Prefect page of a finished step."""
    view = view_command(session.store, report.run_id, step=report.step)
    page = iteration_page(report, run_url=session.tracker.run_url(report.run_id), view=view)
    key = artifact_key("iteration", report.run_id)
    create_markdown_artifact(key=key, markdown=page, description=f"{report.run_id}, step {report.step}")

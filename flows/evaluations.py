"""How the checkpoints of a run are evaluated, by its method."""

import logging

from components.artifacts.refs import CheckpointRef
from components.config.hybrid import LEARNER_POLICY
from components.evaluation.held_out import Sampling
from components.evaluation.suite_play import SuitePlay
from components.methods.population.credits import gain_sentence, state_before
from components.reporting import progress
from components.runs.run import Run
from components.runs.steps import checkpoints_before, last_step
from components.schema import EvalReport
from components.session.session import Session
from flows.shards import are_apart, play_in_flow
from tasks.draw_interactions import draw_interactions
from tasks.evaluate_policy import evaluate_policy, find_models, missing_calls, name_versions, play_own_suite
from tasks.picture_episode import picture_episode
from tasks.play_against_starts import play_against_starts
from tasks.refresh_weights import refresh_weights

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

"""How the checkpoints of a run are evaluated, by its method."""

import logging

from components.artifacts.refs import CheckpointRef
from components.config.hybrid import REFLEXES
from components.evaluation.held_out import Sampling
from components.methods.population.against_starts import gain_sentence
from components.methods.population.credits import state_before
from components.reporting import progress
from components.runs.steps import checkpoints_before, last_step
from components.schema import EvalReport, PolicyVersion
from components.session.session import Session
from flows.suite_blocks import are_apart, play_in_flow
from tasks.draw_interactions import draw_interactions
from tasks.evaluate_games import evaluate_games
from tasks.evaluate_policy import evaluate_policy, missing_calls, name_versions, needs_weights
from tasks.picture_episode import picture_episode
from tasks.play_against_starts import play_against_starts
from tasks.refresh_weights import refresh_weights

_log = logging.getLogger(__name__)


def evaluate_team(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> list[EvalReport]:
    """One report per configured way of sampling; engines are loaded only if one is missing."""
    versions, samplings = name_versions(session.config, checkpoints), session.config.evaluation.sampling
    if needs_weights(session, step, samplings, versions):
        versions = refresh_weights(session, step, checkpoints)
        if are_apart(session.config.resources):
            calls = missing_calls(session, step, samplings, versions)
            play_in_flow(session, calls, title=f"{session.run.run_id}/evaluation-{step:06d}", progress=lambda *_: None)
    reports = [evaluate_policy(session, step, sampling, versions) for sampling in samplings]
    for report in reports:
        progress.report("evaluated", step, 1, 1, report=report)
    return reports


def evaluate_population(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> list[EvalReport]:
    """The members' evaluations; at the end of the run also who did what to whom."""
    reports = evaluate_team(session, step, checkpoints)
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
    sampling: Sampling = "sample" if "sample" in config.evaluation.sampling else config.evaluation.sampling[0]
    told = play_against_starts(session, step, sampling, versions, starts)
    progress.report("gains", step, 1, 1, lines=[gain_sentence(gain) for gain in told.gains])


def model_versions(session: Session, checkpoints: dict[str, CheckpointRef]) -> dict[str, PolicyVersion]:
    """The versions of the language models."""
    return name_versions(session.config, {name: each for name, each in checkpoints.items() if name != REFLEXES})


def evaluate_player(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> list[EvalReport]:
    """One report per configured way of sampling; on an emulator, also a picture of an episode of each."""
    versions = model_versions(session, checkpoints)
    samplings = session.config.evaluation.sampling
    reports = [evaluate_games(session, step, each, checkpoints[REFLEXES], versions) for each in samplings]
    for report in reports:
        progress.report("evaluated", step, 1, 1, report=report)
    if session.config.method.makes_pictures and session.config.tracking.episode_pictures:
        for sampling in samplings:
            picture_episode(session, step, sampling, checkpoints[REFLEXES], versions)
    return reports

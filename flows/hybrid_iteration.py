"""One step of hybrid training, stage by stage."""

from prefect import flow

from components import progress
from components.artifacts.refs import CheckpointRef
from components.config.hybrid import REFLEXES, is_on_emulator, tuned_model
from components.runs.run import StepBatches
from components.schema import EvalReport, PolicyVersion
from components.session.hybrid_settings import hybrid_config
from components.session.session import Session
from components.session.step_snapshot import prefetch_snapshot, snapshot_of
from flows.prefect_runtime.iteration_runs import create_next_run
from flows.training_iteration import end_step
from tasks.collect_experience import collect_experience
from tasks.evaluate_games import evaluate_games
from tasks.evaluate_policy import named_versions
from tasks.picture_episode import picture_episode
from tasks.publish_checkpoint import publish_checkpoint
from tasks.record_decisions import record_decisions
from tasks.update_learner import update_learner


@flow(name="hybrid-iteration", flow_run_name="{session.run.run_id}/step-{step:06d}", validate_parameters=False)
def hybrid_iteration(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> dict[str, CheckpointRef]:
    """From the learner of a step to that of the next. A finished step returns its recorded checkpoints."""
    run = session.run
    look = snapshot_of(session, step)
    if look.finished is not None:
        return look.finished
    with look.used():
        learner = checkpoints[REFLEXES]
        played = collect_experience(session, step, learner, model_versions(session, checkpoints))
        if step + 1 < run.config.num_steps:
            create_next_run(session, step + 1, dict(checkpoints))
            prefetch_snapshot(session, step + 1)
        updates = {REFLEXES: update_learner(session, step, REFLEXES, learner, played.experience)}
        if played.advice is not None:
            model = tuned_model(run.config)
            assert model is not None, "only a model that learns leaves advice"
            updates[model] = update_learner(session, step, model, checkpoints[model], played.advice)
        report = publish_checkpoint(session, step, StepBatches(batches={}, metrics=played.metrics), updates)
        if hybrid_config(run.config).has_history:
            record_decisions(session, step)
        left = end_step(
            session, step, checkpoints | {policy: each.checkpoint for policy, each in updates.items()}, report
        )
    session.forget_manifests(step)
    return left


def model_versions(session: Session, checkpoints: dict[str, CheckpointRef]) -> dict[str, PolicyVersion]:
    """The versions of the language models."""
    return named_versions(session.config, {name: each for name, each in checkpoints.items() if name != REFLEXES})


def evaluate_player(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> list[EvalReport]:
    """One report per configured way of sampling; on an emulator, also a picture of an episode of each."""
    versions = model_versions(session, checkpoints)
    samplings = session.config.evaluation.sampling
    reports = [evaluate_games(session, step, each, checkpoints[REFLEXES], versions) for each in samplings]
    for report in reports:
        progress.report("evaluated", step, 1, 1, report=report)
    if is_on_emulator(session.config) and session.config.tracking.episode_pictures:
        for sampling in samplings:
            picture_episode(session, step, sampling, checkpoints[REFLEXES], versions)
    return reports

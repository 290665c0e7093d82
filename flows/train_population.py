"""Trains a population of models from the first step to the last; the same call again resumes."""

import logging
from typing import TYPE_CHECKING, Annotated, Any, Literal

from prefect import flow
from pydantic import Field

from components import progress
from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.evaluation.held_out import Sampling
from components.runs.pipeline import Pipeline
from components.runs.steps import checkpoints_before, last_step
from components.schema import EvalReport
from components.session.against_starts import gain_sentence
from components.session.population import state_before
from components.session.session import Session
from components.session.step_snapshot import prefetch_snapshot, snapshot_of
from flows.prefect_runtime.interruptible_flow import interruptible_flow
from flows.prefect_runtime.iteration_runs import create_next_run
from flows.shards import collect_matches, score_all
from flows.starts import Order
from flows.train import BELOW_THE_SHORT_FIELDS, Loop, evaluate_checkpoints, restart_of_flow_run, run_name, trained
from flows.training_iteration import end_step, update_policies
from tasks.collect_rollouts import collect_rollouts
from tasks.compute_advantages import compute_advantages
from tasks.compute_rewards import compute_rewards
from tasks.coordinate_weights import coordinate_weights
from tasks.draw_interactions import draw_interactions
from tasks.evaluate_policy import evaluate_policy, named_versions
from tasks.mix_returns import mix_returns
from tasks.play_against_starts import play_against_starts
from tasks.play_suite import play_suite
from tasks.publish_checkpoint import publish_checkpoint
from tasks.refresh_weights import refresh_weights
from tasks.update_policy import update_policy
from tasks.warm_start import warm_start

_log = logging.getLogger(__name__)


@flow(name="population-iteration", flow_run_name="{session.run.run_id}/step-{step:06d}", validate_parameters=False)
def population_iteration(
    session: Session, step: int, checkpoints: dict[str, CheckpointRef]
) -> dict[str, CheckpointRef]:
    """From the members' checkpoints of a step to those of the next. A finished step returns its recorded checkpoints."""
    run = session.run
    look = snapshot_of(session, step)
    if look.finished is not None:
        return look.finished
    with look.used():
        state = state_before(session, step)
        rollouts = collect_matches(session, step, checkpoints, state)
        scored = score_all(session, step, rollouts)
        mixed = mix_returns(session, step, rollouts, scored, state)
        batches = compute_advantages(session, step, rollouts, mixed.credited)
        batches = batches.model_copy(update={"metrics": {**batches.metrics, **mixed.metrics}})
        if step + 1 < run.config.num_steps:
            create_next_run(session, step + 1, dict(checkpoints))
            prefetch_snapshot(session, step + 1)
        learning = {member: batch for member, batch in batches.batches.items() if member in mixed.learning}
        updates = update_policies(session, step, checkpoints, batches.model_copy(update={"batches": learning}))
        updates = coordinate_weights(session, step, checkpoints, updates, mixed.state)
        report = publish_checkpoint(session, step, batches, updates)
        left = end_step(
            session, step, checkpoints | {policy: update.checkpoint for policy, update in updates.items()}, report
        )
    session.forget_manifests(step)
    return left


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
    if config.generation.engine != "transformers":
        _log.warning(
            "generation.engine %s serves no past selves: nobody plays its partners' start", config.generation.engine
        )
        return
    versions = named_versions(config, checkpoints)
    starts = named_versions(config, checkpoints_before(session.store, session.run, 0))
    sampling: Sampling = "sample" if "sample" in config.evaluation.sampling else config.evaluation.sampling[0]
    told = play_against_starts(session, step, sampling, versions, starts)
    progress.report("gains", step, 1, 1, lines=[gain_sentence(gain) for gain in told.gains])


PIPELINE = Pipeline(
    (
        warm_start.stage,
        refresh_weights.stage,
        collect_rollouts.stage,
        compute_rewards.stage,
        mix_returns.stage,
        compute_advantages.stage,
        update_policy.stage,
        coordinate_weights.stage,
        publish_checkpoint.stage,
        play_suite.stage,
        evaluate_policy.stage,
        play_against_starts.stage,
        draw_interactions.stage,
    )
)
POPULATION = Loop(PIPELINE, population_iteration, section="population", evaluate=evaluate_population)
if TYPE_CHECKING:
    Stage = str
else:
    Stage = Literal[PIPELINE.restartable]  # the form offers the names


@interruptible_flow(name="train-population", flow_run_name=run_name)
def train_population(
    config: RunConfig = BELOW_THE_SHORT_FIELDS,
    run_id: str | None = None,
    num_steps: Annotated[int | None, Field(ge=0)] = None,
    overrides: list[str] | None = None,
    from_stage: Stage | None = None,
    step: Annotated[int | None, Field(ge=0)] = None,
) -> dict[str, Any]:
    """Train a population under a run's name and return a summary. The same parameters again continue the run: results of
    earlier calls are read, not computed again.

    Args:
        config: The whole configuration, with the section `population`; `overrides` change single values of it. A restart takes
            only the store from it, and the rest from the run.
        run_id: The name of the run. A run of this name is continued. Empty: the name of the preset.
        num_steps: The number of training steps, those already done included. Empty: that of the configuration.
        overrides: Lines like `seed=1` or `population.training_mode=competitive`, as after `--set`.
        from_stage: Restart the run at this stage of `step`, as `troupe resume RUN --from-stage S --step N`. Nothing is deleted.
        step: The step of the restart, counted from 0; together with `from_stage`.
    """
    order = Order(run_id, num_steps, tuple(overrides or ()), restart_of_flow_run(from_stage, step))
    return trained(POPULATION, config, order)

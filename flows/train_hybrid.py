"""Trains an RL policy that shares a game with a language model; the same call again resumes."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from components.config import RunConfig
from components.runs.pipeline import Pipeline
from flows.hybrid_iteration import evaluate_player, hybrid_iteration
from flows.prefect_runtime.interruptible_flow import interruptible_flow
from flows.starts import Order
from flows.train import BELOW_THE_SHORT_FIELDS, Loop, restart_of_flow_run, run_name, trained
from tasks.collect_experience import collect_experience
from tasks.evaluate_games import evaluate_games
from tasks.picture_episode import picture_episode
from tasks.publish_checkpoint import publish_checkpoint
from tasks.record_decisions import record_decisions
from tasks.update_learner import update_learner
from tasks.warm_start import warm_start

PIPELINE = Pipeline(
    (
        warm_start.stage,
        collect_experience.stage,
        update_learner.stage,
        publish_checkpoint.stage,
        record_decisions.stage,
        evaluate_games.stage,
        picture_episode.stage,
    )
)
HYBRID = Loop(PIPELINE, hybrid_iteration, section="hybrid", evaluate=evaluate_player)
if TYPE_CHECKING:
    Stage = str
else:
    Stage = Literal[PIPELINE.restartable]  # the form offers the names


@interruptible_flow(name="train-hybrid", flow_run_name=run_name)
def train_hybrid(
    config: RunConfig = BELOW_THE_SHORT_FIELDS,
    run_id: str | None = None,
    num_steps: Annotated[int | None, Field(ge=0)] = None,
    overrides: list[str] | None = None,
    from_stage: Stage | None = None,
    step: Annotated[int | None, Field(ge=0)] = None,
) -> dict[str, Any]:
    """Train a hybrid player under a run's name and return a summary. The same parameters again continue the run: results of
    earlier calls are read, not computed again.

    Args:
        config: The whole configuration, with the section `hybrid`; `overrides` change single values of it. A restart takes
            only the store from it, and the rest from the run.
        run_id: The name of the run. A run of this name is continued. Empty: the name of the preset.
        num_steps: The number of training steps, those already done included. Empty: that of the configuration.
        overrides: Lines like `seed=1` or `hybrid.num_games=16`, as after `--set`.
        from_stage: Restart the run at this stage of `step`, as `troupe resume RUN --from-stage S --step N`. Nothing is deleted.
        step: The step of the restart, counted from 0; together with `from_stage`.
    """
    order = Order(run_id, num_steps, tuple(overrides or ()), restart_of_flow_run(from_stage, step))
    return trained(HYBRID, config, order)

"""A stage is one file, and one line of a flow: everything else follows."""

from pathlib import Path

import pytest

from components.artifacts.payloads import put
from components.artifacts.refs import ArtifactRef
from components.errors import ConfigurationError
from components.runs.lineages import read_lineages
from components.runs.pipeline import Pipeline
from components.runs.provenance import provenance
from components.runs.restarts import Restart, record_restart
from components.runs.step_records import stage_of, step_manifests
from components.schema import Problem
from components.session.session import Session
from components.session.training_session import stage_seconds
from flows.steps import TEAM_PIPELINE as PIPELINE
from tasks.stage import stage
from tests.tasks.stored_runs import reread, store_run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect")]


@stage("coordinate_weights", version=7, reads=("training",), needs=("update_policy",), timeout_seconds=60)
def coordinate_weights(session: Session, step: int) -> ArtifactRef:
    """A stage of a flow that does not exist yet."""
    return put(session.store, Problem(problem_id=str(step), environment="none", payload={}))


WIDER = Pipeline((*PIPELINE.stages[:-3], coordinate_weights.stage, *PIPELINE.stages[-3:]))


def test_order_versions_restarts_and_records_follow(tmp_path: Path) -> None:
    run = store_run(tmp_path, "r", num_finished=2)
    with Session(run) as session:
        coordinate_weights(session, 1)
        assert coordinate_weights(session, 1, return_state=True).name == "Cached"
        store = session.store
        manifests = step_manifests(store, run, 1)
        assert [stage_of(f"{each.key}/manifest.json") for each in manifests].count("coordinate_weights") == 1
        assert "time/coordinate_weights_seconds" in stage_seconds(manifests)
        assert provenance(WIDER).stage_versions == {**PIPELINE.versions, "coordinate_weights": 7}
        with pytest.raises(
            ConfigurationError, match=r"stages are collect_rollouts, .*, update_policy, publish_checkpoint"
        ):
            record_restart(store, run, Restart(step=1, stage="coordinate_weights"), PIPELINE)
        assert record_restart(store, run, Restart(step=1, stage="coordinate_weights"), WIDER) == 1
        (lineage,) = read_lineages(store, "r")
        assert lineage.repeats == ("coordinate_weights", "publish_checkpoint", "play_suite", "evaluate_policy")
        left = [each.stage for each in step_manifests(store, reread(store, "r", run.config), 1)]
        assert "update_policy" in left
        assert "coordinate_weights" not in left

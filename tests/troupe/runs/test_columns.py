"""Metrics and rollouts of a run as columns."""

from pathlib import Path

import pytest

from components.artifacts.format import ensure_format
from components.artifacts.local import LocalArtifactStore
from components.errors import ConfigurationError
from tests.committed_runs import make_ended_run
from tests.exported_runs import PROMPTS, export_run
from troupe.runs.columns import load_metrics, load_rollouts


def test_the_metrics_of_all_steps_are_columns(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)
    ensure_format(store)
    make_ended_run(store, "r", num_steps=3)
    columns = load_metrics("r", store=tmp_path.as_uri())
    assert columns["step"] == [0, 1, 2]
    assert columns["rollout/success_rate"] == [0.0, 0.001, 0.002]
    assert columns["time/update_policy_seconds"] == [0.25] * 3
    with pytest.raises(ConfigurationError, match="run 'q' is not in"):
        load_metrics("q", store=tmp_path.as_uri())


def test_the_rollouts_of_a_step_are_columns_with_texts(tmp_path: Path) -> None:
    made = export_run(tmp_path)
    ensure_format(made.store)
    columns = load_rollouts("team", step=1, store=made.store.uri)
    assert len({len(column) for column in columns.values()}) == 1
    assert dict(zip(columns["agent"], columns["prompt"], strict=True)) == PROMPTS
    with pytest.raises(ConfigurationError, match="--step 7"):
        load_rollouts("team", step=7, store=made.store.uri)


def test_they_make_data_frames(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    made = export_run(tmp_path)
    ensure_format(made.store)
    frame = pandas.DataFrame(load_rollouts("team", store=made.store.uri))
    assert set(frame["agent"]) == set(PROMPTS)

"""The table of `troupe rollouts`, as pandas and datasets open it."""

import json
from pathlib import Path

import pandas
import pytest
from datasets import Dataset
from typer.testing import CliRunner

from components.artifacts.local import LocalArtifactStore
from components.errors import ConfigurationError
from tests.committed_runs import start_run
from tests.exported_runs import PROMPTS, export_run
from tests.recorded_rollouts import candidate, commit_rollouts, episode, node, shard
from troupe.cli import app
from troupe.viewing.table import write_rollouts


def test_each_candidate_is_a_row(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    nodes = (
        node(candidate("bad"), candidate("good", solves=True), chosen=1),
        node(candidate("", error="empty"), parent=(0, 0), agent="plan_agent", is_trained_on=False),
    )
    commit_rollouts(store, start_run(store, "r"), shard(0, 0, episode(*nodes)), rewards=[((0.0, 1.0), (None,))])
    file = tmp_path / "rollouts.parquet"
    report = write_rollouts(store, "r", file)
    rows = pandas.read_parquet(file)
    assert (report["step"], report["num_rows"], len(rows)) == (0, 3, 3)
    assert list(rows["answer"]) == ["bad", "good", ""]
    assert list(rows["is_taken"]) == [False, True, False]
    assert list(rows["parent_candidate"].isna()) == [True, True, False]
    assert list(rows["reward"].fillna(-1)) == [0.0, 1.0, -1.0]
    assert rows["advantage"][1] == pytest.approx(1.0, abs=1e-3)
    assert list(rows["malformed"].isna()) == [True, True, False]
    assert list(rows["answer_tokens"][1]) == [2, 3, 4, 5]
    assert list(rows["sampler_logprobs"][1]) == [-0.5] * 4
    loaded = Dataset.from_parquet(str(file), cache_dir=str(tmp_path / "cache"))
    assert loaded["answer"][:] == ["bad", "good", ""]
    assert str(loaded.features["episode_error"].dtype) == "string", "a column of nulls has its type"


def test_prompts_are_texts(tmp_path: Path) -> None:
    made = export_run(tmp_path)
    file = tmp_path / "rollouts.parquet"
    ended = CliRunner().invoke(
        app, ["rollouts", "team", "--step", "1", "--to", str(file), "--store", made.store.uri, "--json"]
    )
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["num_rows"] == 4
    rows = pandas.read_parquet(file)
    assert dict(zip(rows["agent"], rows["prompt"], strict=True)) == PROMPTS


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    commit_rollouts(store, start_run(store, "r"), shard(0, 0, episode(node(candidate()))))
    with pytest.raises(ConfigurationError, match=r"--to .*name a file in a folder that exists"):
        write_rollouts(store, "r", tmp_path / "no" / "rollouts.parquet")

"""What is told of each step from Python."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from components.artifacts.local import LocalArtifactStore
from components.runs.run import RunAddress
from components.runs.steps import read_finished_step
from components.schema import IterationReport
from flows.presets import preset_config
from troupe.training import in_process

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect"), pytest.mark.timeout(300)]


class Enough(Exception):
    """The user's own."""


def test_each_step_is_told_once_it_is_durable_and_an_exception_ends_the_training_after_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(in_process, "join_local_services", lambda: None)
    monkeypatch.setattr(in_process, "is_without_services", lambda: False)
    monkeypatch.setattr(in_process, "require_prefect", lambda: None)
    local = ["store.kind=local", f"store.root={tmp_path / 'store'}", "tracking.kind=none"]
    quick = [
        *("warm_start.max_steps=1", "warm_start.min_success=0", "warm_start.num_check_problems=2"),
        *("evaluation.num_problems=2", "rollout={num_problems: 1, problems_per_block: 1, num_shards: 1}"),
    ]
    config = preset_config("tiny", [*local, *quick, "num_steps=3"])
    told: list[int] = []

    def on_step(report: IterationReport) -> None:
        stored = read_finished_step(LocalArtifactStore(tmp_path / "store"), RunAddress(run_id="told"), report.step)
        assert stored is not None, "it is told before it is durable"
        assert {policy: ref.weights_digest for policy, ref in stored.items()} == report.checkpoint_digest
        told.append(report.step)
        if told == [0, 1]:
            raise Enough

    console = Console(file=io.StringIO())
    with pytest.raises(Enough):
        in_process.run_training(config, "told", console=console, on_step=on_step)
    assert told == [0, 1]
    in_process.run_training(config, "told", console=console, on_step=on_step)
    assert told == [0, 1, 2], "finished steps are not told again"

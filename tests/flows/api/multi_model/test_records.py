"""What the records of a run say of its members: who learned, by digests; failed episodes keep their numbers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.population.interaction_graph import PlayedEpisode
from components.runs.history import ShownCheckpoint, StepView
from flows.api.multi_model import MultiModelConfig, create_multi_model_coop_compete_env
from flows.api.multi_model.records import RunRecords, cooperation_rate
from flows.api.multi_model.training import population_config


def step(number: int, **digests: str) -> StepView:
    shown = {
        name: ShownCheckpoint(weights_digest=each, optimizer_digest="o", folder="f") for name, each in digests.items()
    }
    return StepView(step=number, checkpoints=shown)


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRecords:
    config = MultiModelConfig(num_models=2, model_types=["tiny"], update_frequency=2, max_episodes=4)
    played: Any = [
        PlayedEpisode(
            order=1, raw_returns={"model_0_tiny": 2.0, "model_1_tiny": 1.0}, actions_T=[{"model_0_tiny": "cooperate"}]
        )
    ]
    made = RunRecords(
        tmp_path,
        "r",
        population_config(config, create_multi_model_coop_compete_env(2)),
    )
    monkeypatch.setattr(made, "read_episodes", {0: [None, *played], 1: [*played, *played]}.__getitem__)
    assert (made.steps, made.num_episodes) == ((), 0), "it has not begun"
    made.steps = (step(0, model_0_tiny="b", model_1_tiny="y"), step(1, model_0_tiny="b", model_1_tiny="z"))
    stored: Any = {
        name: SimpleNamespace(weights_digest=digest) for name, digest in (("model_0_tiny", "a"), ("model_1_tiny", "y"))
    }
    monkeypatch.setattr(made, "_checkpoints", lambda num_steps: stored)
    return made


def test_who_learned_is_who_has_other_weights(records: RunRecords) -> None:
    assert [records.find_changed_members(number) for number in (0, 1)] == [["model_0_tiny"], ["model_1_tiny"]]
    assert records.curves()["weight_update_counts"] == [1, 1]
    assert [each["update_count"] for each in records.describe_models().values()] == [1, 1]


def test_a_failed_episode_keeps_its_number_and_counts_for_nobody(records: RunRecords) -> None:
    assert records.read_episodes(0)[0] is None
    assert (len(records.episodes(0)), len(records.episodes(1))) == (1, 2)
    assert records.curves()["total_rewards"] == [3.0, 3.0]
    assert cooperation_rate(records.episodes(0)) == 1.0

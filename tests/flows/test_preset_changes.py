"""What a run changes of its preset."""

from pathlib import Path

import pytest

from flows.own_files import with_sources
from flows.presets import list_changes_from_preset, preset_config


def test_what_was_set_is_found_and_nothing_else() -> None:
    assert list_changes_from_preset(with_sources(preset_config("tiny"))) == {}
    config = with_sources(preset_config("tiny", ["rollout.group_size=8", "seed=3", "tracking.kind=none"]))
    assert list_changes_from_preset(config) == {"rollout.group_size": "8", "seed": "3"}


def test_a_configuration_of_no_preset_changes_none() -> None:
    assert list_changes_from_preset(preset_config("tiny").model_copy(update={"preset": "mine"})) == {}


def test_presets_that_cannot_be_read_are_told_and_end_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = preset_config("tiny")
    (tmp_path / "prefect.yaml").write_text("deployments: [")
    monkeypatch.chdir(tmp_path)
    assert list_changes_from_preset(config) == {}
    assert "prefect.yaml:1" in caplog.text

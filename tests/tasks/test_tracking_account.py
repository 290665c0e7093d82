"""Whose credentials MLflow's client sends where."""

import os

import pytest

from flows.presets import preset_config
from tasks.trackers import tracker_of

ACCOUNT = {"MLFLOW_TRACKING_USERNAME": "troupe", "MLFLOW_TRACKING_PASSWORD": "local"}


@pytest.mark.parametrize(
    ("named", "url", "kept"),
    [
        ("http://127.0.0.1:5000", None, True),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000", True),
        ("http://127.0.0.1:5000", "https://lab.example", False),
        (None, "https://lab.example", True),
    ],
)
def test_credentials_go_to_the_server_that_was_named_with_them(
    monkeypatch: pytest.MonkeyPatch, named: str | None, url: str | None, kept: bool
) -> None:
    for name, value in ACCOUNT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", named) if named else monkeypatch.delenv("MLFLOW_TRACKING_URI", False)
    overrides = ["tracking.kind=mlflow", *([f"tracking.url={url}"] if url else [])]
    tracker_of(preset_config("tiny", overrides).tracking)
    assert {name: os.environ[name] for name in ACCOUNT if name in os.environ} == (ACCOUNT if kept else {})

"""A tracker of one's own."""

from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.errors import ConfigurationError
from components.session.trackers import tracker_of, tracking_url
from components.tracking.base import Tracker
from components.tracking.outbox import Outbox
from flows.presets import preset_config
from tests.components.tracking.reports import iteration

SOURCE = """
class Base:
    def __init__(self, tracking):
        self.experiment, self.told = tracking.experiment, []
        if tracking.traces_per_step == 7:
            raise OSError("no lines left")

    def __getattr__(self, name):
        raise AttributeError(name)

class Lines(Base):
    def check(self): pass
    def open_run(self, run_id, params, tags, problems=()): self.told.append(params["seed"])
    def publish_iteration(self, report, *, timestamp_ms): self.told.append(report.step)
    def publish_evaluation(self, run_id, report, *, model, timestamp_ms): pass
    def publish_checkpoint(self, run_id, checkpoint): pass
    def publish_traces(self, run_id, traces, *, timestamp_ms): pass
    def publish_file(self, run_id, name, content): pass
    def mark_files(self, run_id, checkpoint, *, are_there): pass
    def finish_run(self, run_id, *, succeeded, has_news=True): self.told.append(succeeded)
    def remove_run(self, run_id): return []
    def run_url(self, run_id): return None

class Half(Base):
    def check(self): pass
    def open_run(self, run_id, params, tags, problems=()): pass
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line_tracker.py").write_text(SOURCE)


def own(name: str, *overrides: str) -> Tracker:
    return tracker_of(preset_config("tiny", [f"tracking.kind=line_tracker:{name}", *overrides]).tracking)


def test_an_own_tracker_is_made_with_the_section_and_is_told_everything(tmp_path: Path) -> None:
    tracker = own("Lines")
    outbox = Outbox(LocalArtifactStore(tmp_path / "store"), "r", params={"seed": "3"})
    outbox.post_iteration(iteration("r", 4))
    assert outbox.finish(tracker, succeeded=True).error is None
    assert (tracker.told, tracker.experiment) == (["3", 4, True], "troupe/plan_path")  # type: ignore[attr-defined]


def test_an_own_tracker_has_no_page_of_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    for kind, url in (("mlflow", "http://127.0.0.1:5000"), ("line_tracker:Lines", None), ("none", None)):
        assert tracking_url(preset_config("tiny", [f"tracking.kind={kind}"]).tracking) == url


@pytest.mark.parametrize(
    ("name", "overrides", "told"),
    [
        ("Half", (), r"tracking\.kind 'line_tracker:Half': has no publish_iteration, .*run_url; write the methods of"),
        ("Full", (), r"tracking\.kind 'line_tracker:Full': .*line_tracker\.py has no 'Full'"),
        ("Lines", ("tracking.traces_per_step=7",), r"tracking\.kind .*line_tracker\.py:6: OSError: no lines left"),
    ],
)
def test_what_is_no_tracker_is_the_users_mistake(name: str, overrides: tuple[str, ...], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        own(name, *overrides)


def test_another_kind_is_refused_and_none_decides_results() -> None:
    with pytest.raises(ConfigurationError, match=r"use mlflow, none, or a tracker of your own as module:Class"):
        preset_config("tiny", ["tracking.kind=wandb"])
    plain, own_kind = preset_config("tiny"), preset_config("tiny", ["tracking.kind=line_tracker:Lines"])
    assert plain.result_fields() == own_kind.result_fields()

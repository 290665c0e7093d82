"""The beginning and the end of a run's session: what is done, with what, in which order, and whatever goes wrong."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import TeamMethod
from components.machine import outages
from components.session import training_session
from components.session.engines import Engines
from components.session.publishing import Publishing
from components.session.session import Session
from components.session.toolbox import Toolbox
from components.session.trainers import Trainers
from tests.components.tracking.memory import InMemoryTracker
from tests.components.tracking.reports import evaluation
from tests.recorded_calls import Call, RecordedCalls, call, fails

PIPELINE: Any = SimpleNamespace(roles="the roles")
ASKED: Any = SimpleNamespace(run_id="asked")
FOUND: Any = SimpleNamespace(run_id="found")
"""The run as the store has it."""


class Stage:
    """A session of stand-ins, and what its block does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.calls = calls = RecordedCalls()
        self.was_interrupted: bool | None = None
        """When the publishing was closed."""
        self.store = calls.object(LocalArtifactStore, "store")
        self.publishing = calls.object(Publishing, "publishing", close=self._look)
        self.session: Any = SimpleNamespace(
            run=ASKED,
            started_ms=5,
            config="the configuration",
            store=self.store,
            trainers=calls.object(Trainers, "trainers"),
            toolbox=calls.object(Toolbox, "toolbox", image_digest=lambda: "image"),
            close_store=calls.object(Session, "session").close_store,
            publishing=self.publishing,
        )
        self.replace("validate_start", FOUND)
        self.replace("resume_warnings", ["another works", "other libraries"])
        self.replace("surplus_line", ["too many steps"])
        self.replace("ensure_format")
        self.replace("begin_session", "the record")
        self.replace("end_session")

    def replace(self, name: str, answer: Any = None) -> None:
        self.calls.replace(self._monkeypatch, training_session, name, answer)

    def _look(self, *, succeeded: bool) -> None:
        self.was_interrupted = outages.is_interrupted()

    def play(self, error: BaseException | None = None) -> None:
        with training_session.training_session(self.session, PIPELINE):
            self.calls.append(call("the work"))
            if error is not None:
                raise error

    @property
    def beginning(self) -> list[Call]:
        arguments = {"store": self.store, "run_id": "asked", "config": "the configuration", "pipeline": PIPELINE}
        on_found = {"store": self.store, "run": FOUND}
        return [
            ("validate_start", arguments),
            ("resume_warnings", on_found),
            ("surplus_line", on_found),
            call("ensure_format", store=self.store),
            call("toolbox.image_digest"),
            call("begin_session", **on_found, pipeline=PIPELINE, sandbox_image="image"),
            call("trainers.warm_up"),
        ]

    def ending(self, *, succeeded: bool, error: BaseException | None = None) -> list[Call]:
        return [
            call("trainers.close"),
            call("toolbox.close"),
            call("session.close_store"),
            call("publishing.close", succeeded=succeeded),
            call("end_session", store=self.store, run_id="found", start="the record", error=error),
        ]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    yield Stage(monkeypatch)
    with outages.interruptible():  # forgets an interruption
        pass


WORK: Call = call("the work")


def test_a_session_begins_works_flushes_and_ends_in_order(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    outages.interrupt()  # of an earlier run in this process
    with caplog.at_level(logging.INFO, logger=training_session.__name__):
        stage.play()
    assert stage.session.run is FOUND
    assert stage.session.roles == "the roles"
    assert caplog.messages == ["another works", "other libraries", "too many steps"]
    assert stage.calls == [*stage.beginning, WORK, call("store.flush"), *stage.ending(succeeded=True)]
    assert stage.was_interrupted is False


def test_an_error_of_the_work_is_recorded_and_raised(stage: Stage) -> None:
    error = ValueError("wrong")
    with pytest.raises(ValueError, match="wrong"):
        stage.play(error)
    assert stage.calls == [*stage.beginning, WORK, *stage.ending(succeeded=False, error=error)]
    assert stage.was_interrupted is False


def test_an_interruption_is_no_success_and_no_error_of_the_run(stage: Stage) -> None:
    with pytest.raises(KeyboardInterrupt):
        stage.play(KeyboardInterrupt())
    assert stage.calls == [*stage.beginning, WORK, *stage.ending(succeeded=False)]
    assert stage.was_interrupted is True


def test_what_cannot_be_stored_is_an_error_of_the_run(stage: Stage) -> None:
    error = OSError("full")
    stage.session.store = stage.store = stage.calls.object(LocalArtifactStore, "store", flush=fails(error))
    with pytest.raises(OSError, match="full"):
        stage.play()
    assert stage.calls == [*stage.beginning, WORK, call("store.flush"), *stage.ending(succeeded=False, error=error)]


def test_workers_that_do_not_start_are_an_error_of_a_run_that_publishes_nothing(stage: Stage) -> None:
    error = RuntimeError("no worker")
    stage.session.trainers = stage.calls.object(Trainers, "trainers", warm_up=fails(error))
    stage.session.publishing = None
    with pytest.raises(RuntimeError, match="no worker"):
        stage.play()
    ending = [call for call in stage.ending(succeeded=False, error=error) if call[0] != "publishing.close"]
    assert stage.calls == [*stage.beginning, *ending]


def test_a_run_that_may_not_start_leaves_no_trace(stage: Stage) -> None:
    stage.replace("validate_start", fails(ValueError("drift")))
    with pytest.raises(ValueError, match="drift"):
        stage.play()
    assert stage.calls == stage.beginning[:1]
    assert stage.session.run is ASKED


def test_a_frozen_run_publishes_into_the_store_behind_the_writing_thread(stage: Stage) -> None:
    stage.replace("freeze_config")
    stage.replace("Publishing", stage.publishing)
    stage.session.publishing, stage.session.tracker = None, "the tracker"
    stage.session.store = SimpleNamespace(durable="the durable store")
    stage.session.scenario = "the scenario"
    stage.replace("record_initial_checkpoints", {"team": "the first"})
    stage.replace("tracing_of", "the tracing")
    training_session.freeze_run(stage.session, PIPELINE, {"seed": "17"})
    frozen = {"store": stage.session.store, "run_id": "asked", "config": "the configuration", "pipeline": PIPELINE}
    given = {"first": {"team": "the first"}, "tracing": "the tracing", "changed": {"seed": "17"}, "started_ms": 5}
    publishing = {"run": ASKED, "pipeline": PIPELINE, "store": "the durable store", "tracker": "the tracker", **given}
    about = {"store": "the durable store", "scenario": "the scenario", "toolbox": stage.session.toolbox}
    assert stage.calls == [
        ("freeze_config", frozen),
        call("record_initial_checkpoints", store=stage.session.store, run=ASKED, pipeline=PIPELINE),
        call("tracing_of", run=ASKED, **about),
        ("Publishing", publishing),
    ]
    assert stage.session.publishing is stage.publishing


def test_the_result_of_a_run_is_plain_and_complete(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.replace("store_option", " --store there")
    stage.session.config = SimpleNamespace(method=TeamMethod())
    monkeypatch.setattr(training_session, "monotonic", lambda: 107.5)
    folder = ArtifactRef(kind="folder", key="folders/f", sha256="00ff", num_bytes=1)
    checkpoints = {
        name: CheckpointRef(policy=name, step=3, folder=folder, weights_digest=f"w-{name}", optimizer_digest="o")
        for name in ("a", "b")
    }
    stage.session.published = SimpleNamespace(outbox=SimpleNamespace(num_pending=23, refusal="a name"))
    stage.session.tracker = stage.calls.object(InMemoryTracker, "tracker", run_url="the page")
    stage.session.engines = stage.calls.object(Engines, "engines", api_usage={"api": {"cost": 0.5}})
    evaluations = [evaluation(5), replace(evaluation(6), num_solved_P=(1, 0))]
    found = training_session.summary(stage.session, checkpoints, evaluations, num_steps=9, began_at_seconds=100.0)
    reports = found.pop("evaluations")
    assert found == {
        "run_id": "asked",
        "store_option": " --store there",
        "graph_command": None,
        "num_steps": 9,
        "checkpoint_digest": {"a": "w-a", "b": "w-b"},
        "seconds": 7.5,
        "num_unpublished": 23,
        "refusal": "a name",
        "run_url": "the page",
        "api_usage": {"api": {"cost": 0.5}},
    }
    asked = [call("store_option", store=stage.store), call("tracker.run_url", run_id="asked")]
    assert stage.calls == [*asked, call("engines.api_usage")]
    assert [(each["step"], each["interval"], each["num_solved_P"]) for each in reports] == [
        (5, [0.598, 0.858], [1] * 30 + [0] * 10),
        (6, [0.598, 0.858], [1, 0]),
    ]
    assert (reports[0]["suite"], reports[0]["num_successes"]) == ("plan_path/test", 30)

"""Faults of MLflow: races, hanging, refusing, dying."""

import json
import os
import signal
import socket
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.errors import ConfigurationError, PermanentError, TrackingUnavailable
from components.schema import IterationReport
from components.tracking.base import PROCESS_TAG, STARTED_TAG, VIEW_TAG
from components.tracking.drain import OutboxDrain
from components.tracking.mlflow import MlflowTracker
from components.tracking.outbox import Outbox
from components.tracking.pages import LIST_VIEW, list_url
from infra.services.lifecycle import mark_of
from infra.services.loopback import basic
from infra.services.process import find_marked, read_record
from infra.services.secrets import USER, password_file
from infra.services.stack import down, up
from tests.components.tracking.conftest import EXPERIMENT, MlflowReader
from tests.components.tracking.reports import evaluation, iteration


def tracker_at(url: str) -> MlflowTracker:
    return MlflowTracker(url, EXPERIMENT, register_models=True)


def test_creators_that_race_end_with_one_run(mlflow: MlflowReader, mlflow_url: str) -> None:
    barrier = threading.Barrier(4)

    def work(step: int) -> None:
        tracker = tracker_at(mlflow_url)
        barrier.wait()
        tracker.open_run("raced", {"seed": "0"}, {})
        tracker.publish_iteration(iteration("raced", step), timestamp_ms=1_000 + step)

    threads = [threading.Thread(target=work, args=(step,)) for step in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tracker_at(mlflow_url).open_run("raced", {"seed": "0"}, {})
    assert mlflow.history("raced", "reward/plan_agent/mean") == [(0, 2.0), (1, 3.0), (2, 4.0), (3, 5.0)]


def test_the_older_twin_wins_and_inherits_what_the_younger_was_told(mlflow: MlflowReader, mlflow_url: str) -> None:
    younger = tracker_at(mlflow_url)
    younger.publish_iteration(iteration("twins", 0), timestamp_ms=1)
    experiment = mlflow.client.get_experiment_by_name(EXPERIMENT).experiment_id
    older = mlflow.client.create_run(experiment, start_time=1, tags={"troupe.run_id": "twins"})
    tracker_at(mlflow_url).open_run("twins", {}, {})
    assert mlflow.run("twins").info.run_id == older.info.run_id
    younger.publish_iteration(iteration("twins", 1), timestamp_ms=2)
    assert mlflow.history("twins", "reward/plan_agent/mean") == [(0, 2.0), (1, 3.0)]


def test_a_run_that_brings_nothing_new_ends_when_it_ended(mlflow: MlflowReader, mlflow_url: str) -> None:
    tracker = tracker_at(mlflow_url)
    tracker.publish_iteration(iteration("ended", 0), timestamp_ms=1)
    tracker.finish_run("ended", succeeded=True)
    mlflow.client.update_run(mlflow.run("ended").info.run_id, status="FINISHED")
    ended = mlflow.run("ended").info.end_time
    time.sleep(0.01)
    again = tracker_at(mlflow_url)
    again.open_run("ended", {}, {})
    again.finish_run("ended", succeeded=True, has_news=False)
    assert (mlflow.run("ended").info.end_time, mlflow.status("ended")) == (ended, "FINISHED")
    again.finish_run("ended", succeeded=True, has_news=True)
    assert mlflow.run("ended").info.end_time > ended


def test_an_evaluation_is_a_table_a_problem_set_and_the_first_chart(mlflow: MlflowReader, mlflow_url: str) -> None:
    tracker = tracker_at(mlflow_url)
    tracker.open_run("tables", {}, {"changed.seed": "7", STARTED_TAG: "1000"})
    for _ in range(2):
        tracker.publish_evaluation("tables", evaluation(4), model="tables", timestamp_ms=1)
    run = mlflow.run("tables")
    path = mlflow.client.list_artifacts(run.info.run_id, "evaluations")[0].path
    assert path == "evaluations/000004-plan_path-test-greedy.json"
    table = json.loads(Path(mlflow.client.download_artifacts(run.info.run_id, path)).read_text())
    assert (table["columns"], len(table["data"])) == (["problem", "solved"], 40)
    assert sum(solved for _, solved in table["data"]) == 30
    assert mlflow.problems("tables") == [("plan_path/test", "5f0c00aa11bb", "evaluation")]
    experiment = mlflow.client.get_experiment_by_name(EXPERIMENT)
    assert experiment.tags["mlflow.experiment.primaryMetric.name"] == "eval/greedy_success_rate"
    shown = json.loads(experiment.tags[f"mlflow.sharedViewState.{LIST_VIEW}"])["selectedColumns"]
    assert {"metrics.`eval/greedy_success_rate`", "tags.`changed.seed`"} <= set(shown)
    assert run.info.start_time == 1000, "its duration includes what came before the tracker heard of it"
    page, _, query = (list_url(tracker.run_url("tables") or "")).partition("?")
    assert page.endswith(f"/#/experiments/{experiment.experiment_id}/runs")
    assert query.endswith(f"viewStateShareKey={LIST_VIEW}")


def test_a_changed_parameter_is_kept_as_a_tag(mlflow: MlflowReader, mlflow_url: str) -> None:
    for steps in ("10", "20"):
        tracker_at(mlflow_url).open_run("longer", {"num_steps": steps}, {})
    run = mlflow.run("longer")
    assert (run.data.params["num_steps"], run.data.tags["troupe.changed.num_steps"]) == ("10", "20")


def test_a_new_run_says_how_to_see_its_episodes_and_keeps_what_users_write_there(
    mlflow: MlflowReader, mlflow_url: str
) -> None:
    for written in ("", "mine"):
        tracker = MlflowTracker(mlflow_url, EXPERIMENT, register_models=False)
        tracker.open_run("noted", {}, {VIEW_TAG: "troupe view noted"})
        tags = mlflow.run("noted").data.tags
        assert (tags[VIEW_TAG], "`troupe view noted`" in tags["mlflow.note.content"]) == (
            "troupe view noted",
            not written,
        )
        mlflow.client.set_tag(mlflow.run("noted").info.run_id, "mlflow.note.content", "mine")


def test_the_page_of_a_run_is_known_once_it_was_reached(mlflow: MlflowReader, mlflow_url: str) -> None:
    tracker = tracker_at(mlflow_url)
    assert tracker.run_url("paged") is None
    tracker.open_run("paged", {}, {})
    info = mlflow.run("paged").info
    url = f"{mlflow_url}/#/experiments/{info.experiment_id}/runs/{info.run_id}?workflowType=machine_learning"
    assert tracker.run_url("paged") == url
    owner = basic(f"{USER}:{os.environ['MLFLOW_TRACKING_PASSWORD']}")
    with urllib.request.urlopen(urllib.request.Request(url, headers=owner)) as page:
        assert page.status == 200


def test_a_name_that_mlflow_does_not_allow_is_refused_for_good(mlflow_url: str) -> None:
    report = IterationReport(
        run_id="refused", step=0, metrics={"a=b": 1.0}, timings={}, checkpoint_digest={}, optimizer_digest={}
    )
    with pytest.raises(PermanentError, match="a=b"):
        tracker_at(mlflow_url).publish_iteration(report, timestamp_ms=1)


def test_an_address_that_is_no_server_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"tracking\.url 'sqlite:///x'"):
        MlflowTracker("sqlite:///x", EXPERIMENT, register_models=True)


def test_a_server_that_is_away_costs_no_time() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        tracker = tracker_at(f"http://127.0.0.1:{unused.getsockname()[1]}")
        _ = tracker.server.client
        start = time.monotonic()
        with pytest.raises(TrackingUnavailable, match="troupe up"):
            tracker.check()
        with pytest.raises(TrackingUnavailable, match="troupe up"):
            tracker.publish_iteration(iteration("away", 0), timestamp_ms=1)
        assert time.monotonic() - start < 1.0


def test_a_server_that_hangs_costs_one_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tracker = tracker_at(f"http://127.0.0.1:{silent.getsockname()[1]}")
        _ = tracker.server.client
        start = time.monotonic()
        with pytest.raises(TrackingUnavailable):
            tracker.open_run("hanging", {}, {})
        assert 2.5 < time.monotonic() - start < 5.0


def kill_server(home: Path) -> None:
    """kill -9 of the server and all its processes."""
    record = read_record(home, "mlflow")
    assert record is not None
    os.kill(record.pid, signal.SIGKILL)
    for orphan in list(find_marked(mark_of(home, "mlflow"))):
        orphan.kill()


@pytest.mark.slow
def test_a_server_killed_while_it_is_written_holds_each_point_once_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, num_steps = tmp_path / "home", 60
    outbox = Outbox(LocalArtifactStore(tmp_path / "store"), "killed")
    state = up(home, only=["mlflow"])
    assert state.mlflow is not None
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", USER)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", password_file(home).read_text())
    drain = OutboxDrain(outbox, tracker_at(state.mlflow.url), retry_seconds=0.1)
    try:
        for step in range(num_steps):
            outbox.post_iteration(iteration("killed", step))
        drain.poke()
        deadline = time.monotonic() + 60
        while outbox.num_pending > num_steps - 10 and time.monotonic() < deadline:
            time.sleep(0.005)
        kill_server(home)
        away = drain.flush(0.5)
        assert 0 < away.num_pending <= num_steps - 10
        assert "does not answer" in str(away.error)
        restarted = up(home, only=["mlflow"])
        assert restarted.mlflow == state.mlflow
        back = drain.close(30.0, succeeded=True)
        assert (back.num_pending, back.error) == (0, None)
        read = MlflowReader(state.mlflow.url)
        assert read.history("killed", "reward/plan_agent/mean") == [(step, 2.0 + step) for step in range(num_steps)]
        assert read.history("killed", "time/update_policy_seconds") == [(step, 0.5) for step in range(num_steps)]
        assert read.status("killed") == "FINISHED"
    finally:
        drain.close(0.0)
        down(home)


@pytest.mark.parametrize("code", [401, 403])
def test_an_address_that_lets_nobody_in_is_the_users_mistake(code: int) -> None:
    class Closed(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Closed) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ConfigurationError, match=rf"tracking\.url .*answers {code}.*MLFLOW_TRACKING_USERNAME"):
            tracker_at(f"http://127.0.0.1:{server.server_address[1]}").check()
        server.shutdown()


@pytest.mark.parametrize("url", ["http://127.0.0.1:port", "http://[", "http://a b"])
def test_an_address_that_cannot_be_is_the_users_mistake(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"tracking\.url"):
        tracker_at(url).check()


def test_a_server_that_is_away_is_no_mistake() -> None:
    with pytest.raises(TrackingUnavailable, match="troupe up"):
        tracker_at("http://127.0.0.1:9").check()


def test_a_run_whose_process_is_gone_is_killed_once_and_never_made(mlflow: MlflowReader, mlflow_url: str) -> None:
    tracker_at(mlflow_url).open_run("gone", {}, {PROCESS_TAG: "first"})
    assert tracker_at(mlflow_url).mark_killed("gone", process="first") is True
    assert mlflow.status("gone") == "KILLED"
    assert tracker_at(mlflow_url).mark_killed("gone", process="first") is False
    assert tracker_at(mlflow_url).mark_killed("never", process="first") is False
    assert mlflow.runs("never") == []
    tracker_at(mlflow_url).open_run(
        "gone", {}, {PROCESS_TAG: "second"}
    )  # on another host, which no record here tells of
    assert tracker_at(mlflow_url).mark_killed("gone", process="first") is False
    assert mlflow.status("gone") == "RUNNING"

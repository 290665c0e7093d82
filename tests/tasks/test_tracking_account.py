"""Whose credentials MLflow's client sends where."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from components.errors import TrackingUnavailable
from components.session.trackers import tracker_of
from components.tracking.base import Tracker
from flows.presets import preset_config

ACCOUNT = {
    "MLFLOW_TRACKING_USERNAME": "troupe",
    "MLFLOW_TRACKING_PASSWORD": "local",
    "MLFLOW_TRACKING_TOKEN": "secret",
}
NUM_REQUESTS = 5


@contextmanager
def failing_server() -> Iterator[tuple[str, list[str | None]]]:
    """A server that answers every request with 500, and the Authorization headers that it was sent."""
    sent: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(self.headers.get("Authorization"))
            self.send_response(500)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", sent
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def tracker_at(url: str | None) -> Tracker:
    overrides = ["tracking.kind=mlflow", *([f"tracking.url={url}"] if url else [])]
    return tracker_of(preset_config("tiny", overrides).tracking)


def ask(tracker: Tracker, barrier: threading.Barrier | None = None) -> None:
    for _ in range(NUM_REQUESTS):
        if barrier:
            barrier.wait(60)
        with pytest.raises(TrackingUnavailable):
            tracker.open_run("r", {}, {})


@pytest.mark.parametrize(
    ("names_a_server", "url_of_it", "kept"),
    [(True, None, True), (True, "{}", True), (True, "{}/", True), (True, "another", False), (False, "{}", True)],
)
def test_credentials_go_to_the_server_that_was_named_with_them(
    monkeypatch: pytest.MonkeyPatch, names_a_server: bool, url_of_it: str | None, kept: bool
) -> None:
    with failing_server() as (url, sent), failing_server() as (other, sent_to_other):
        for name, value in ACCOUNT.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url) if names_a_server else monkeypatch.delenv(
            "MLFLOW_TRACKING_URI", False
        )
        configured = other if url_of_it == "another" else url_of_it and url_of_it.format(url)
        ask(tracker_at(configured))
        assert {name: os.environ[name] for name in ACCOUNT} == ACCOUNT
    assert [header is not None for header in sent or sent_to_other] == [kept] * NUM_REQUESTS


def test_two_sessions_of_a_process_each_send_what_their_server_is_owed(monkeypatch: pytest.MonkeyPatch) -> None:
    with failing_server() as (url, sent), failing_server() as (other, sent_to_other):
        for name, value in ACCOUNT.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        trackers = [tracker_at(None), tracker_at(other)]
        barrier = threading.Barrier(len(trackers))
        threads = [threading.Thread(target=ask, args=(tracker, barrier)) for tracker in trackers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {name: os.environ[name] for name in ACCOUNT} == ACCOUNT
    assert len(sent) == len(sent_to_other) == NUM_REQUESTS
    assert None not in sent
    assert set(sent_to_other) == {None}

"""What is wrong with a start is one line, told before Prefect hears of a run."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from components.config import RunConfig
from components.errors import ConfigurationError
from tests.tasks.stored_runs import config_in, store_run
from tests.troupe.cli.test_cli import troupe
from tests.waits import lines_without_waits
from troupe.training.in_process import place_store


class AnsweringPrefect:
    """A server that is healthy and remembers what it was asked."""

    def __init__(self) -> None:
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"true")

            do_POST = do_GET

            def log_message(self, *_: object) -> None: ...

        self.asked = asked
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/api"


@pytest.fixture
def prefect_server() -> Iterator[AnsweringPrefect]:
    answering = AnsweringPrefect()
    thread = threading.Thread(target=answering.server.serve_forever, daemon=True)
    thread.start()
    yield answering
    answering.server.shutdown()
    answering.server.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["train", "tiny", "--run-id", "r", "--set", "seed=5"],
            "exists with another configuration; seed: 0 -> 5. Continue it",
        ),
        (
            ["train", "tiny", "--run-id", "other", "--set", "policies.team.base=/no/model"],
            "policies.team.base '/no/model': neither a model folder nor a hub model that can be reached",
        ),
        (
            ["resume", "r", "--from-stage", "update_policy", "--step", "2"],
            "the result of compute_advantages in step 2 is needed",
        ),
    ],
)
def test_what_cannot_start_is_one_line_and_no_flow_run(
    arguments: list[str], line: str, prefect_server: AnsweringPrefect, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    store_run(root, "r")
    for batch in root.glob("runs/r/steps/000002/compute_advantages-v*/*/*/manifest.json"):
        for payload in root.glob("payloads/*/*"):
            if payload.name in batch.read_text():
                payload.unlink()
    before = sorted(path for path in root.rglob("*") if path.is_file())
    overrides = ["--set", "tracking.kind=none"] if arguments[0] == "train" else []
    ended = troupe(
        *arguments, *overrides, "--store", root.as_uri(),
        home=tmp_path, PREFECT_API_URL=prefect_server.url, HF_HUB_OFFLINE="1",
    )  # fmt: skip
    assert ended.returncode == 2, ended.stderr
    (told,) = lines_without_waits(ended.stderr)
    assert told.startswith("troupe: ")
    assert line in told
    assert {path.rpartition("/")[2] for path in prefect_server.asked} <= {"health"}
    assert sorted(path for path in root.rglob("*") if path.is_file()) == before


def test_a_store_is_named_once(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    assert place_store(config, None, ["store.prefix=x"]) == config
    moved: RunConfig = place_store(config, "s3://models/team", ["seed=1"])
    assert (moved.store.kind, moved.store.bucket, moved.store.prefix) == ("s3", "models", "team")
    assert moved.result_fields() == config.result_fields()
    for override in ("store.kind=local", "store={kind: local, root: /x}"):
        with pytest.raises(ConfigurationError, match=r"--set store.* and --store s3://models .* both name a store"):
            place_store(config, "s3://models", [override])


def test_a_folder_with_spaces_and_signs_is_found_by_its_address(tmp_path: Path) -> None:
    root = tmp_path / "my runs #1, 100%"
    assert place_store(config_in(tmp_path), root.as_uri(), []).store.root == str(root)

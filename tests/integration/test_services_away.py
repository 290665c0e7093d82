"""A run outlives its services: S3 that answers 503 or is gone, MLflow that is away for a whole iteration."""

import json
import threading
import time
import urllib.parse
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.s3 import S3ArtifactStore
from infra.services.environment import StackStatus
from infra.services.loopback import basic
from infra.services.secrets import USER, password_file
from tests.components.artifacts.faulty_proxy import FaultyProxy, faulty_proxy
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
AWAY_SECONDS = 30.0


def port_of(url: str) -> int:
    return int(urllib.parse.urlparse(url).port or 0)


def await_request(proxy: FaultyProxy, part: str, timeout_seconds: float = 120.0) -> None:
    """Return when a request whose path holds `part` has come."""
    deadline = time.monotonic() + timeout_seconds
    while not any(part in path for _, path in list(proxy.requests)):
        assert time.monotonic() < deadline, f"nobody asked for {part}"
        time.sleep(0.02)


@pytest.mark.parametrize("fault", ["answer_503", pytest.param("refuse", marks=pytest.mark.long)])
def test_s3_away_for_half_a_minute(
    fault: Any,
    services: StackStatus,
    trainings: Trainings,
    uninterrupted: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    client_environment: dict[str, str],
) -> None:
    assert services.s3 is not None
    run_id, prefix = f"cloud-{fault.replace('_', '-')}", f"away/{fault}"
    with faulty_proxy(port_of(services.s3.endpoint)) as proxy:
        overrides = (
            "store.kind=s3", f"store.bucket={services.s3.bucket}", f"store.prefix={prefix}",
            f"store.endpoint_url={proxy.endpoint_url}",
        )  # fmt: skip
        pid = trainings.start(order(tmp_path, run_id, overrides=overrides))
        await_request(proxy, "/steps/000000/compute_rewards")
        proxy.fault = lambda method, path: fault
        threading.Timer(AWAY_SECONDS, lambda: setattr(proxy, "fault", lambda method, path: None)).start()
        assert trainings.wait(pid).code == 0, trainings.log()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, client_environment[name])
    store = S3ArtifactStore(services.s3.bucket, prefix=prefix, endpoint_url=services.s3.endpoint)
    assert outcome(store, run_id) == uninterrupted


def test_mlflow_away_for_a_whole_iteration(services: StackStatus, trainings: Trainings, tmp_path: Path) -> None:
    assert services.mlflow is not None
    with faulty_proxy(port_of(services.mlflow.url)) as proxy:
        overrides = ("tracking.kind=mlflow", "num_steps=4")
        through_proxy = {"MLFLOW_TRACKING_URI": proxy.endpoint_url}
        pid = trainings.start(order(tmp_path, "untracked", overrides=overrides, environment=through_proxy))
        first = tmp_path / "store" / "runs" / "untracked" / "iterations" / "000000-l0.json"
        while not first.exists():
            time.sleep(0.02)
        proxy.fault = lambda method, path: "refuse"
        third = first.with_name("000002-l0.json")
        while not third.exists():
            time.sleep(0.02)
        proxy.fault = lambda method, path: None
        assert trainings.wait(pid).code == 0, trainings.log()
    summary = json.loads((tmp_path / "untracked.json").read_text())
    assert summary["num_unpublished"] == 0
    for metric in ("rollout/success_rate", "train/team/loss", "signal/zero_group_frac"):
        history = metric_history(services, "untracked", metric)
        assert sorted(point["step"] for point in history) == [0, 1, 2, 3], metric


def metric_history(services: StackStatus, run_id: str, metric: str) -> list[dict[str, Any]]:
    """All points of one metric of the only MLflow run of `run_id`, through the server's REST API."""
    call = partial(mlflow_answer, services)
    experiment = call("experiments/get-by-name?experiment_name=troupe/plan_path")["experiment"]
    query = {"experiment_ids": [experiment["experiment_id"]], "filter": f"tags.`troupe.run_id` = '{run_id}'"}
    (run,) = call("runs/search", query)["runs"]
    quoted = urllib.parse.urlencode({"run_id": run["info"]["run_id"], "metric_key": metric})
    points = call(f"metrics/get-history?{quoted}")["metrics"]
    return [{**point, "step": int(point["step"])} for point in points]


def mlflow_answer(services: StackStatus, route: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """What MLflow's REST API answers its owner."""
    assert services.mlflow is not None
    url, credentials = (
        f"{services.mlflow.url}/api/2.0/mlflow/{route}",
        f"{USER}:{password_file(services.home).read_text()}",
    )
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **basic(credentials)}
    request = urllib.request.Request(url, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return dict(json.loads(answer.read()))

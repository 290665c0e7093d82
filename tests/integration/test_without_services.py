"""A run that begins without services, is killed, continues, and continues with services: equal to one that nobody disturbs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from infra.services.environment import service_environment
from infra.services.stack import down, status

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
QUICK = (
    *("warm_start.max_steps=40", "warm_start.min_success=0", "warm_start.num_check_problems=8"),
    *("evaluation.num_problems=8", "rollout={num_problems: 2, problems_per_block: 1, num_shards: 1}"),
)


def command(home: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    """The command as a person gives it who has set nothing but a home."""
    call = [sys.executable, "-P", "-c", "from troupe.cli import main; main()", *words]
    return call, {**service_environment({}), "TROUPE_HOME": str(home), "COLUMNS": "120"}


def run_command(home: Path, *words: str) -> str:
    call, env = command(home, *words)
    done = subprocess.run(call, cwd=home, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def training(run_id: str, num_steps: int) -> list[str]:
    settings = [word for each in QUICK for word in ("--set", each)]
    return ["train", "tiny", "--run-id", run_id, "--steps", str(num_steps), *settings]


def kill_in_mid_run(home: Path, run_id: str) -> None:
    """Start the training, and kill it with SIGKILL once its first update has begun. Its Prefect server ends with it."""
    call, env = command(home, *training(run_id, 30))
    with subprocess.Popen(call, cwd=home, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 600
        while not any(home.glob(f"store/runs/{run_id}/steps/000000/update_policy*/**/*.json")):
            assert time.monotonic() < deadline, "no update has begun"
            assert process.poll() is None, "it ended by itself"
            time.sleep(0.05)
        servers = [each for each in psutil.Process(process.pid).children() if "serve" in each.cmdline()]
        os.kill(process.pid, signal.SIGKILL)
    assert len(servers) == 1
    assert psutil.wait_procs(servers, timeout=120)[1] == []


def test_two_homes_train_at_once_without_services_and_end_in_equal_weights(tmp_path: Path) -> None:
    homes = [tmp_path / user for user in ("ann", "bob")]
    for home in homes:
        home.mkdir()
    with ThreadPoolExecutor(len(homes)) as executor:
        for home, said in zip(
            homes, executor.map(lambda each: run_command(each, *training("r", 1)), homes), strict=True
        ):
            assert (
                f"no services are up: the run is stored in {home / 'store'}, with a Prefect server of its own" in said
            )
    digests = [json.loads(run_command(home, "show", "r", "--json"))["steps"][-1]["checkpoint_digest"] for home in homes]
    assert digests[0] == digests[1]


def test_a_run_begins_alone_is_killed_continues_and_continues_with_services(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    try:
        kill_in_mid_run(home, "r")
        alone = run_command(home, *training("r", 4))
        assert f"no services are up: the run is stored in {home / 'store'}, with a Prefect server of its own" in alone
        assert "warm start  read from the store" in alone
        waiting = re.search(r"(\d+) reports wait for MLflow; after `troupe up` `troupe resume r --store file://", alone)
        assert waiting, alone
        run_command(home, *training("whole", 6))
        run_command(home, "up")
        served = run_command(home, *training("r", 6))
        assert f"this run began without services and is stored in {home / 'store'}" in served
        assert "reports wait" not in served
        shown = {run: json.loads(run_command(home, "show", run, "--json")) for run in ("r", "whole")}
        digests = [document["steps"][-1]["checkpoint_digest"] for document in shown.values()]
        assert digests[0] == digests[1]
        outbox = {path.name for path in (home / "store" / "runs" / "r" / "outbox").iterdir()}
        posted = {name.removesuffix(".json") for name in outbox if name.endswith(".json")}
        assert posted == {name.removesuffix(".published") for name in outbox if name.endswith(".published")}
        assert status(home).mlflow is not None
        assert "is whole" in run_command(home, "verify", "r")
    finally:
        down(home)

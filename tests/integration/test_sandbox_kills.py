"""A reward stage whose driver, box or daemon is killed in the middle ends where an undisturbed one ends, and leaves nothing."""

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from docker.errors import NotFound

from components.artifacts.local import LocalArtifactStore
from components.sandbox.daemon import running_daemon
from components.sandbox.docker_api import DockerApi
from components.sandbox.inventory import census
from infra.services.environment import StackStatus
from tests.components.sandbox.leftovers import clean_leftovers
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings, await_no_workers, kill, tree
from tests.processes import read_name

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("bwrap"), reason="apt-get install bubblewrap, as root"),
]
NEEDS_DOCKERD = pytest.mark.skipif(not shutil.which("dockerd"), reason="apt-get install docker.io, as root")
SMALL = (
    "num_steps=1",
    "policies.team.tiny={hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64}",
    "warm_start={min_success: 0.0, max_success: 1.0, max_steps: 30, check_every: 30, num_check_problems: 4}",
    "rollout={num_problems: 8, group_size: 8, problems_per_block: 8}",
    "evaluation={num_problems: 4, problems_per_block: 4, sampling: [greedy]}",
    # Every program of the rollout runs once more in the reward stage, so there is a middle to be killed in.
    "rewards.reuse_executions=false",
    "rewards.deadline_seconds=60",
    "sandbox.num_boxes=2",
)


def make_order(root: Path, run_id: str, backend: str, **more: Any) -> dict[str, Any]:
    return order(root, run_id, overrides=(*SMALL, f"sandbox.backend={backend}"), preset="math-tiny", **more)


@pytest.fixture(scope="module")
def undisturbed(trainings: Trainings, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("undisturbed")
    assert trainings.run(make_order(root, "whole", "bubblewrap")).code == 0, trainings.log()
    return outcome(LocalArtifactStore(root / "store"), "whole")


def boxes_of(pid: int, backend: str, home: Path) -> list[psutil.Process]:
    """The processes whose end is the end of a box of the training `pid`."""
    if backend == "bubblewrap":
        return [each for each in tree(pid) if read_name(each) == "bwrap"]
    daemon = running_daemon(home / "sandbox")
    assert daemon is not None
    found = []
    with DockerApi(daemon.host) as api, api.call("boxes to kill") as docker:
        for container in docker.containers():
            # One that is just being replaced is no box any more.
            with suppress(psutil.NoSuchProcess, NotFound):
                found.append(psutil.Process(docker.inspect_container(container["Id"])["State"]["Pid"]))
    return found


def daemon_of(home: Path) -> list[psutil.Process]:
    """The private daemon."""
    daemons = [each for each in psutil.process_iter(["name", "cmdline"]) if each.info["name"] == "dockerd"]
    return [each for each in daemons if any(str(home) in word for word in each.info["cmdline"] or ())]


@pytest.mark.parametrize(
    ("backend", "victim"),
    [
        ("bubblewrap", "driver"),
        pytest.param("bubblewrap", "box", marks=pytest.mark.long),
        pytest.param("docker", "driver", marks=[NEEDS_DOCKERD, pytest.mark.long]),
        pytest.param("docker", "box", marks=[NEEDS_DOCKERD, pytest.mark.long]),
        pytest.param("docker", "daemon", marks=NEEDS_DOCKERD),
    ],
)
def test_killed_in_the_middle_of_a_reward_stage(
    backend: str, victim: str, trainings: Trainings, undisturbed: dict[str, Any], services: StackStatus, tmp_path: Path
) -> None:
    rollouts = {"part": "/steps/000000/collect_rollouts-v*/0/", "moment": "committed"}
    assert trainings.run(make_order(tmp_path, "cut", backend, stop=rollouts)).stopped, trainings.log()
    await_no_workers("cut")
    started = time.monotonic()
    pid = trainings.start(make_order(tmp_path, "cut", backend, stop_at_program=10))
    trainings.await_stop(pid)
    home = services.home
    if victim == "driver":
        kill(tree(pid))
        assert trainings.wait(pid).code == -signal.SIGKILL
        await_no_workers("cut")
        assert trainings.run(make_order(tmp_path, "cut", backend)).code == 0, trainings.log()
    else:
        victims = daemon_of(home) if victim == "daemon" else boxes_of(pid, backend, home)
        assert victims, f"no {victim} of {backend} to kill"
        kill(victims)
        os.kill(pid, signal.SIGCONT)
        assert trainings.wait(pid).code == 0, trainings.log()
    assert time.monotonic() - started < 120.0
    assert outcome(LocalArtifactStore(tmp_path / "store"), "cut") == undisturbed
    state = home / "sandbox"
    assert clean_leftovers(state) == 0, "the run cleaned up after its predecessor"
    found = census(running_daemon(state))
    assert (found.containers, found.leftovers) == (0, 0)

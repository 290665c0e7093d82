"""Trainings that lose hosts, links, packets, S3, Ray's head and their own driver end where an undisturbed one does."""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from tests.hosts.conftest import DETECTION_SECONDS, HEAD, Hosts, open_s3
from tests.hosts.test_hosts import NOTHING, TWO_MODELS, read_json

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
NUM_STEPS, MOST_STEPS = 2, 4
LEASE_SECONDS = 20.0
RETRY_SECONDS = 6.0
"""Between a stage's first failure and its second attempt."""
NUMBERS = {"w1": 11, "w2": 12, "w3": 13}
SETTINGS = (
    f"{TWO_MODELS} --set tracking.kind=none --set training.num_ranks=2 "
    "--set warm_start.max_steps=2 --set warm_start.check_every=2 --set evaluation.num_problems=2"
)
ON_RAY = f"--set resources.runner=ray --set resources.placement.ranks=spread --set resources.ray_address={HEAD}:6379"
SHORT_LEASE = (
    f"from components.cluster import ranks; ranks.LEASE_SECONDS = {LEASE_SECONDS}; from troupe.cli import main; main()"
)
UPDATE, SHARD = "ray::Rank.update", "ray::collect-rollouts"
"""How Ray titles the processes of a host in an update, and while it plays a shard."""


class Stage(NamedTuple):
    """A committed stage: which attempt it took, when that began, and when it was committed."""

    attempt: int
    began: float
    committed: float
    digests: tuple[str, ...]


class Training:
    """A run that is under way on the cluster, its driver on the head."""

    def __init__(self, hosts: Hosts, run_id: str, *, num_steps: int = NUM_STEPS, command: str = "train tiny") -> None:
        self.run_id, self._hosts = run_id, hosts
        self.began = time.time()
        target = f"--run-id {run_id} --steps {num_steps} {SETTINGS} {ON_RAY}" if command != "resume" else run_id
        self.process = hosts.start(
            "head", f'exec python -c "{SHORT_LEASE}" {command} {target} > /tmp/{run_id}.log 2>&1 # driver'
        )

    def wait_for(self, title: str, *, names: tuple[str, ...] = (*NUMBERS,)) -> str:
        """The first of these hosts that is found with such a process."""
        deadline = time.monotonic() + 900
        while time.monotonic() < deadline:
            for name in names:
                if any(line.startswith(title) for line in self._hosts.processes(name).values()):
                    return name
            assert self.process.poll() is None, self.log()
            time.sleep(0.02)
        raise AssertionError(f"no {title}: {self.log()}")

    def kill_driver(self) -> None:
        """Kill the driver without a word."""
        for pid, line in self._hosts.processes("head").items():
            if self.run_id in line and line.startswith("python"):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(30)

    def log(self) -> str:
        return self._hosts.file("head", f"/tmp/{self.run_id}.log").read_text()[-4000:]

    def end(self, seconds: float = 600) -> float:
        """Wait until it has ended well; its seconds."""
        assert self.process.wait(seconds) == 0, self.log()
        return time.time() - self.began


def read_stages(run_id: str) -> dict[tuple[str, ...], Stage]:
    """What is committed of a run, by step, stage and part."""
    s3 = open_s3()
    found = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket="troupe", Prefix=f"runs/{run_id}/steps/"):
        for item in page.get("Contents", ()):
            if not item["Key"].endswith("/manifest.json"):
                continue
            manifest = json.load(s3.get_object(Bucket="troupe", Key=item["Key"])["Body"])
            part = tuple(item["Key"].split("/")[3:6])
            assert part not in found, f"{part} is committed twice"
            committed = datetime.fromisoformat(manifest["finished_at"]).timestamp()
            found[part] = Stage(manifest["attempt"], committed - manifest["seconds"], committed, read_digests(manifest))
    return found


def read_digests(manifest: dict[str, Any]) -> tuple[str, ...]:
    """The checkpoint that an update has committed, or the payload of another stage."""
    output = manifest["output"]
    if isinstance(output, dict) and "checkpoint" in output:
        checkpoint = output["checkpoint"]
        return checkpoint["weights_digest"], checkpoint["optimizer_digest"]
    return ()


def read_requests(hosts: Hosts) -> list[list[str]]:
    """Client, method, path and status of each request to S3."""
    return [line.split() for line in hosts.file("s3", "/tmp/requests").read_text().splitlines()]


def train_undisturbed(hosts: Hosts, num_steps: int) -> dict[tuple[str, ...], Stage]:
    """The stages of a run of one host, which goes on from where it is."""
    done = hosts.run("head", f"troupe train tiny --run-id undisturbed --steps {num_steps} {SETTINGS}")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return read_stages("undisturbed")


@pytest.fixture(scope="module")
def undisturbed(hosts: Hosts) -> dict[tuple[str, ...], Stage]:
    """The stages of a run of one host."""
    return train_undisturbed(hosts, NUM_STEPS)


@pytest.fixture
def spare(hosts: Hosts) -> None:
    """A third host, which stays."""
    if "w3" not in hosts.numbers:
        hosts.join("w3", NUMBERS["w3"])


def check_end(
    hosts: Hosts, run_id: str, undisturbed: dict[tuple[str, ...], Stage], *, num_steps: int = NUM_STEPS
) -> Any:
    """The run's stages, which are those of the undisturbed one, each written once; and nothing of the run is left."""
    stages = read_stages(run_id)
    wanted = {part: stage.digests for part, stage in undisturbed.items() if int(part[0]) < num_steps}
    assert {part: stage.digests for part, stage in stages.items() if int(part[0]) < num_steps} == wanted
    assert sum(bool(digests) for digests in wanted.values()) == 2 * num_steps
    written = Counter(
        path
        for _, method, path, status in read_requests(hosts)
        if method == "PUT" and f"/{run_id}/" in path and path.endswith("/manifest.json") and status == "200"
    )
    assert len(written) == len(stages)
    assert set(written.values()) == {1}
    verified = hosts.run("head", f"troupe verify {run_id}")
    assert verified.returncode == 0, verified.stdout
    check_nothing_left(hosts)
    return stages


def check_nothing_left(hosts: Hosts) -> None:
    """No process of a run lives on any host, and Ray has all that it had."""
    deadline = time.monotonic() + 3 * LEASE_SECONDS
    while left := list_left(hosts):
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
    assert read_json(hosts, "python -m tests.hosts.left_program") == NOTHING


def list_left(hosts: Hosts) -> list[str]:
    """Processes that only a run has."""
    marks = ("ray::Rank", "ray::collect", "ray::compute", "ray::play", "components.training", "troupe.cli import main")
    lines = [line for name in ("head", *hosts.numbers) for line in hosts.processes(name).values()]
    return [line for line in lines if any(mark in line for mark in marks)]


def check_time_lost(name: str, stages: dict[tuple[str, ...], Stage], fault_at: float, seconds: float) -> None:
    """The run went on within `seconds` after the fault, and no later stage let it wait for longer."""
    after = sorted((stage.began, stage.committed, part) for part, stage in stages.items() if stage.committed > fault_at)
    assert after, "the fault hit no stage"
    began, committed, part = after[0]
    print(
        f"{name}: {'/'.join(part)} began again {began - fault_at:.1f} s after the fault, "
        f"committed after {committed - fault_at:.1f} s"
    )
    assert began - fault_at <= seconds
    pauses = [later[0] - earlier[1] for earlier, later in pairwise(after)]
    assert max(pauses) <= seconds, after


@contextmanager
def heal(hosts: Hosts, name: str) -> Iterator[None]:
    """Afterwards the host is a new one."""
    try:
        yield
    finally:
        if hosts.is_up(name):
            hosts.cut_power(name)
        hosts.join(name, NUMBERS[name])


@pytest.mark.long
def test_a_power_cut_with_lost_packets_and_an_s3_that_is_away(
    hosts: Hosts, undisturbed: dict[tuple[str, ...], Stage]
) -> None:
    """All in one run: every twentieth packet of one host is lost, the other one is cut off in an update while S3 answers 503
    for a while, and a new host joins."""
    hosts.lose_packets("w1", 0.05)
    try:
        training = Training(hosts, "power-loss-s3")
        training.wait_for(UPDATE, names=("w2",))
        away = hosts.file("s3", "/tmp/away")
        hosts.cut_power("w2")
        fault_at = time.time()
        away.touch()
        try:
            hosts.join("w2", NUMBERS["w2"])
        finally:
            away.unlink()
        joined_after = time.time() - fault_at
        training.end()
    finally:
        hosts.lose_packets("w1", 0)
    stages = check_end(hosts, training.run_id, undisturbed)
    check_time_lost("power, loss, S3 503", stages, fault_at, max(DETECTION_SECONDS, joined_after) + RETRY_SECONDS)
    fetched = Counter(
        (client, path)
        for client, method, path, status in read_requests(hosts)
        if method == "GET" and "/folders/" in path and status in ("200", "206") and client == f"10.77.0.{NUMBERS['w1']}"
    )
    assert fetched, "w1 fetched checkpoints"
    assert set(fetched.values()) == {1}, "each file once, for all processes of the host"


@pytest.mark.long
@pytest.mark.parametrize(("name", "title"), [("power-update", UPDATE), ("power-shard", SHARD)])
def test_a_power_cut_moves_what_was_there_to_a_spare_host(
    hosts: Hosts, spare: None, undisturbed: dict[tuple[str, ...], Stage], name: str, title: str
) -> None:
    training = Training(hosts, name)
    host = training.wait_for(title)
    with heal(hosts, host):
        hosts.cut_power(host)
        fault_at = time.time()
        training.end()
        check_time_lost(name, check_end(hosts, name, undisturbed), fault_at, DETECTION_SECONDS + RETRY_SECONDS)


@pytest.mark.long
def test_a_link_that_is_down_for_longer_than_ray_waits(
    hosts: Hosts, spare: None, undisturbed: dict[tuple[str, ...], Stage]
) -> None:
    """What is left on the host that was cut off ends with its lease."""
    training = Training(hosts, "link")
    host = training.wait_for(UPDATE)
    with heal(hosts, host):
        hosts.set_link(host, "down")
        fault_at = time.time()
        time.sleep(2 * DETECTION_SECONDS)
        hosts.set_link(host, "up")
        training.end()
        check_time_lost("link", check_end(hosts, "link", undisturbed), fault_at, DETECTION_SECONDS + RETRY_SECONDS)


@pytest.mark.long
def test_a_frozen_host(hosts: Hosts, spare: None, undisturbed: dict[tuple[str, ...], Stage]) -> None:
    training = Training(hosts, "freeze")
    host = training.wait_for(UPDATE)
    with heal(hosts, host):
        hosts.signal_all(host, signal.SIGSTOP)
        fault_at = time.time()
        time.sleep(60)
        hosts.signal_all(host, signal.SIGCONT)
        training.end()
        check_time_lost("freeze", check_end(hosts, "freeze", undisturbed), fault_at, DETECTION_SECONDS + RETRY_SECONDS)


@pytest.mark.long
def test_lost_packets(hosts: Hosts, undisturbed: dict[tuple[str, ...], Stage]) -> None:
    took = {}
    for share in (0, 0.05):
        name = f"loss-{share}"
        hosts.lose_packets("w1", share)
        try:
            took[share] = Training(hosts, name).end()
        finally:
            hosts.lose_packets("w1", 0)
        check_end(hosts, name, undisturbed)
    print(f"loss: {took[0]:.1f} s without, {took[0.05]:.1f} s with 5% of packets lost")


@pytest.mark.long
@pytest.mark.parametrize("title", [UPDATE, SHARD])
def test_s3_answers_503_for_a_while(hosts: Hosts, undisturbed: dict[tuple[str, ...], Stage], title: str) -> None:
    name = f"s3-{title.split('.')[-1].split(':')[-1]}"
    training = Training(hosts, name)
    training.wait_for(title)
    away = hosts.file("s3", "/tmp/away")
    away.touch()
    time.sleep(20)
    away.unlink()
    back_at = time.time()
    training.end()
    stages = check_end(hosts, name, undisturbed)
    first = min(stage.committed for stage in stages.values() if stage.committed > back_at - 20)
    print(f"{name}: a stage was committed {first - back_at:.1f} s after S3 was back")


@pytest.mark.long
def test_a_lost_head_ends_the_run_and_resume_continues_it(
    hosts: Hosts, undisturbed: dict[tuple[str, ...], Stage]
) -> None:
    training = Training(hosts, "head")
    training.wait_for(UPDATE)
    hosts.end_ray("head")
    fault_at = time.time()
    assert training.process.wait(300) != 0, training.log()
    print(f"head: the driver ended {time.time() - fault_at:.1f} s after it: {training.log()[-300:]}")
    deadline = time.monotonic() + 3 * LEASE_SECONDS
    while left := list_left(hosts):
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
    for name in hosts.numbers:
        hosts.end_ray(name)
    hosts.begin_head()
    for name, number in hosts.numbers.items():
        hosts.join(name, number)
    Training(hosts, "head", command="resume").end()
    check_end(hosts, "head", undisturbed)


@pytest.mark.long
@pytest.mark.parametrize("num_kills", [3, 20])
def test_a_driver_killed_at_random(hosts: Hosts, num_kills: int) -> None:
    name, num_steps, draw = f"driver-{num_kills}", NUM_STEPS if num_kills == 3 else MOST_STEPS, random.Random(num_kills)
    killed = 0
    for _ in range(num_kills):
        training = Training(hosts, name, num_steps=num_steps)
        try:
            training.process.wait(draw.uniform(3, 40))
            break
        except subprocess.TimeoutExpired:
            training.kill_driver()
            killed += 1
    Training(hosts, name, num_steps=num_steps).end()
    print(f"driver: killed {killed} times")
    check_end(hosts, name, train_undisturbed(hosts, num_steps), num_steps=num_steps)

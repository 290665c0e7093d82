"""Ranks, shards and whole trainings on hosts that share nothing but S3."""

import json
import os
import signal
import sys
import time
from typing import Any

import pytest

from tests.hosts.conftest import HEAD, Hosts
from tests.integration.vllm_servers import needs_vllm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

NOTHING = {"used": {}, "groups": [], "actors": []}


def read_json(hosts: Hosts, command: str) -> Any:
    """The last line of a command on the head, as JSON."""
    done = hosts.run("head", command)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "stage", [pytest.param(stage, marks=[] if stage == 2 else pytest.mark.long) for stage in range(4)]
)
def test_ranks_on_two_hosts_end_where_two_of_one_host_do(hosts: Hosts, stage: int) -> None:
    """The hosts are swapped with each step: what a step leaves, the next one has from S3 alone."""
    found = read_json(hosts, f"python -m tests.hosts.ranks_program {stage} 2")
    assert found["hosts"] == found["here"]
    assert found["places"] == [["w1", "w2"], ["w2", "w1"]]


def test_each_rank_has_a_device_of_its_own_on_its_model_s_host(hosts: Hosts) -> None:
    found = read_json(hosts, "python -m tests.hosts.devices_program")
    for ranks in found:
        assert len({host for host, _ in ranks}) == 1, "packed"
    assert len({(host, device) for ranks in found for host, device in ranks}) == 4
    assert all(device.isdigit() for ranks in found for _, device in ranks)


def test_what_a_dead_driver_left_ends_with_its_lease(hosts: Hosts) -> None:
    found = read_json(hosts, "python -m tests.hosts.devices_program 8")
    assert found == {"code": -9, "in_use": [4, 0]}


def test_down_removes_what_a_dead_driver_left(hosts: Hosts) -> None:
    died = hosts.run("head", "exec python -m tests.hosts.devices_program 300", env={"DIES": "1"})
    assert died.returncode in (-9, 137), died.stderr
    down = f"troupe down --ray {HEAD}:6379"
    removed = hosts.run("head", down)
    assert removed.returncode == 0, removed.stderr
    assert all(f"devices/trainer/{model}" in removed.stdout for model in ("plan", "tool"))
    assert read_json(hosts, "python -m tests.hosts.left_program") == NOTHING
    assert "nothing of Troupe" in hosts.run("head", down).stdout


TWO_MODELS = (
    "--set 'policies={tool: {base: tiny}, plan: {base: tiny}}' "
    "--set 'agents={tool_agent: {policy: tool}, plan_agent: {policy: plan}}'"
)
PRESETS = {"tiny": f"{TWO_MODELS} --set environment.name=own_path:OwnPath", "plan-path-l3": "", "population-tiny": ""}
OWN_CODE = """
from pathlib import Path

from components.environments.games.plan_path import PlanPathEnvironment
from components.environments.shared.custom_rows import json_lines

assert [*json_lines(Path("/tmp/own/rows.jsonl"), "rows")], "named by its place on the driver's host"

class OwnPath(PlanPathEnvironment): ...
"""


@pytest.mark.parametrize(
    "preset", [pytest.param(name, marks=[] if name == "tiny" else pytest.mark.long) for name in PRESETS]
)
def test_a_training_on_a_cluster_is_that_of_one_host(hosts: Hosts, preset: str) -> None:
    """Each policy's ranks and the shards are on hosts that see no folder of the driver, its own code included."""
    hosts.write("head", "/tmp/own/own_path.py", OWN_CODE)
    hosts.write("head", "/tmp/own/rows.jsonl", "{}\n")
    common = f"{PRESETS[preset]} --set tracking.kind=none --set training.num_ranks=2 --set evaluation.every=0"
    found = {}
    for runner in ("thread", "ray"):
        run_id = f"{preset}-{runner}"
        places = "--set resources.runner=ray --set resources.placement.ranks=spread" if runner == "ray" else ""
        train = (
            f"cd /tmp/own; RAY_ADDRESS={HEAD}:6379 troupe train {preset} --run-id {run_id} --steps 2 {common} {places}"
        )
        done = hosts.run("head", train, seconds=900)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        shown = read_json(hosts, f"troupe show {run_id} --json | tr -d '\\n'")
        found[runner] = [step["checkpoint_digest"] for step in shown["steps"]]
        verified = hosts.run("head", f"troupe verify {run_id}")
        assert verified.returncode == 0, verified.stdout
    assert found["ray"] == found["thread"]
    assert len(found["ray"]) == 2
    assert hosts.run("w1", "ls /tmp/troupe-copies-*/*").stdout, "w1 fetched what it needed"
    assert "ssh" not in hosts.run("head", "ps -ef").stdout


def test_engines_are_on_both_hosts_and_a_lost_one_is_started_anew(hosts: Hosts) -> None:
    """A driver that comes back takes them over; nothing of them is left."""
    for name in ("w1", "w2"):
        hosts.write(name, "/tmp/vllm/bin/python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        hosts.run(name, "chmod +x /tmp/vllm/bin/python; mkdir -p /tmp/vllm/lib/python3.11/site-packages/vllm")
    found = read_json(hosts, "python -m tests.hosts.engines_program")
    assert found == {"num_nodes": 2, "num_kept": 1, "is_asked": True, "is_taken_over": True}
    wait_for_no_server(hosts)


def wait_for_no_server(hosts: Hosts) -> None:
    deadline = time.monotonic() + 60
    while left := [line for name in ("w1", "w2") for line in hosts.processes(name).values() if "vllm" in line]:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


SERVED = (
    "--set generation.engine=vllm --set generation.vllm.kv_cache_gib=0.2 --set generation.vllm.max_requests_at_once=16 "
    "--set 'policies={team: {base: tiny, tiny: {hidden_size: 96, num_heads: 3}}}' --set evaluation.every=0"
)


@pytest.mark.long
@needs_vllm
def test_a_run_outlives_its_vllm_server(hosts: Hosts) -> None:
    """The server fetches what it serves; nothing of it is left when the run has ended."""
    train = f"troupe train tiny --run-id served --steps 3 {SERVED} --set resources.runner=ray --set tracking.kind=none"
    training = hosts.start("head", f"RAY_ADDRESS={HEAD}:6379 {train} > /tmp/served.log 2>&1")
    log = hosts.file("head", "/tmp/served.log")
    servers: list[tuple[str, int]] = []
    is_killed = False
    while training.poll() is None:
        for name in ("w1", "w2"):
            for pid, line in hosts.processes(name).items():
                is_server = "vllm.entrypoints" in line and (name, pid) not in servers
                servers += [(name, pid)] if is_server else []
        if not is_killed and log.exists() and "(1 of 3)" in log.read_text():
            os.kill(servers[0][1], signal.SIGKILL)
            is_killed = True
        time.sleep(0.2)
    assert training.returncode == 0, log.read_text()[-4000:]
    assert len(servers) == 2, "one was lost, and one was started for it"
    wait_for_no_server(hosts)
    assert hosts.run("head", "troupe verify served").returncode == 0
    assert read_json(hosts, "python -m tests.hosts.left_program") == NOTHING


def test_an_address_that_other_hosts_do_not_reach_is_refused_before_the_start(hosts: Hosts) -> None:
    train = "RAY_ADDRESS=10.77.0.10:6379 troupe train tiny --run-id deaf --set resources.runner=ray --set tracking.kind=none"
    here = hosts.run("head", train, env={"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}, seconds=300)
    assert here.returncode != 0
    assert "127.0.0.1:9" in here.stderr

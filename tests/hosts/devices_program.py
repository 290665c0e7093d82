"""On the head: the devices that Ray gives to the ranks of two models, where it believes that each host has four GPUs.

    python -m tests.hosts.devices_program [LEASE_SECONDS]

With a lease the driver dies once all are placed, and another one waits until the devices are free again.
"""

import json
import os
import signal
import subprocess
import sys
import time

import ray

from components.cluster import ranks
from components.cluster.ranks import ClusterTrainer
from components.runs.run import Run
from flows.presets import preset_config

MODELS = [
    "policies={tool: {base: tiny}, plan: {base: tiny}}",
    "agents={tool_agent: {policy: tool}, plan_agent: {policy: plan}}",
]


def place(lease_seconds: float | None) -> None:
    ray.init(address="auto", log_to_driver=False, namespace="troupe")
    ranks.LEASE_SECONDS = lease_seconds or ranks.LEASE_SECONDS
    settings = ["training.device=cuda", "training.num_ranks=2", "resources.runner=ray", "tracking.kind=none"]
    run = Run(run_id="devices", config=preset_config("tiny", [*MODELS, *settings]))
    trainers = [ClusterTrainer(run, name, name) for name in ("plan", "tool")]
    found = []
    for trainer in trainers:
        trainer._group = trainer._place()
        found.append(trainer.describe_ranks())
    print(json.dumps(found), flush=True)
    if lease_seconds:
        os.kill(os.getpid(), signal.SIGKILL)
    for trainer in trainers:
        trainer.close()


def wait_until_free(command: list[str], lease_seconds: float) -> None:
    """The devices in use while a driver is dead for a second, and after the lease."""
    died = subprocess.run(command, env={**os.environ, "DIES": "1"}, capture_output=True, text=True, check=False)
    ray.init(address="auto", log_to_driver=False, namespace="troupe")
    seen = [8 - ray.available_resources().get("GPU", 0)]
    deadline = time.monotonic() + 10 * lease_seconds
    while seen[-1] and time.monotonic() < deadline:
        time.sleep(0.5)
        seen.append(8 - ray.available_resources().get("GPU", 0))
    print(json.dumps({"code": died.returncode, "in_use": [seen[0], seen[-1]]}))


if __name__ == "__main__":
    if len(sys.argv) == 1 or "DIES" in os.environ:
        place(float(sys.argv[1]) if len(sys.argv) > 1 else None)
    else:
        wait_until_free([sys.executable, "-m", "tests.hosts.devices_program", sys.argv[1]], float(sys.argv[1]))

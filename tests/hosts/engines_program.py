"""On the head: two replicas of an engine, one of which is lost, and a driver that comes back. Prints what it saw as JSON.

The server is an imitation: who starts it, where, how often and until when is what counts here.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import ray

from components.cluster import engines
from components.cluster.engines import start_engines
from components.generation.vllm.cluster_servers import NAMESPACE, find_servers, list_actors
from components.generation.vllm.engine import VllmGenerator
from components.methods.first_checkpoints import initial_policies
from components.runs.run import Run
from components.session.session import Session
from flows.presets import preset_config

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (
    *("resources.runner=ray", "resources.placement.replicas=2", "tracking.kind=none", "store.kind=s3"),
    *(
        "warm_start.max_steps=0",
        "generation.engine=vllm",
        "policies={team: {base: tiny, tiny: {hidden_size: 96, num_heads: 3}}}",
    ),
)


def read_urls() -> set[str]:
    return {server.url for server in find_servers("engines", "team")}


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, read_urls()
        time.sleep(0.2)


def main() -> None:
    around = {"TROUPE_VLLM_ENVIRONMENT": "/tmp/vllm", "PYTHONPATH": f"{ROOT}:{Path(__file__).with_name('imitation')}"}
    ray.init(address="auto", namespace=NAMESPACE, log_to_driver=False, runtime_env={"env_vars": around})
    engines._RENEW_SECONDS, engines._AGAIN_SECONDS = 1.0, 0.0
    with Session(Run(run_id="engines", config=preset_config("tiny", SETTINGS))) as session:
        checkpoints = initial_policies(session)
        driver = start_engines(session.run, checkpoints)
        before, nodes = read_urls(), {server.node for server in find_servers("engines", "team")}
        generator = session.engines.of("team")
        assert isinstance(generator, VllmGenerator)
        generator.check()
        ray.kill(ray.get_actor("engines/engine/team/0", NAMESPACE))
        wait_until(lambda: len(read_urls()) == 2 and read_urls() != before)
        generator.check()
        after = read_urls()
        driver._ending.set()  # its driver is gone
        driver._keeping.join()
        back = start_engines(session.run, checkpoints)
        seen = {
            "num_nodes": len(nodes),
            "num_kept": len(before & after),
            "is_asked": {*generator.replicas.up} == after,
            "is_taken_over": read_urls() == after,
        }
        back.close()
        wait_until(lambda: not list_actors("engines/"))
    ray.shutdown()  # it prints what it saw, too
    print(json.dumps(seen))


if __name__ == "__main__":
    main()

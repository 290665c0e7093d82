"""Shards on a Ray cluster of two nodes give what they give in this process."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import ROOT, Trainings

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""

SMALL = ("num_steps=2", "evaluation.sampling=[sample]")
"""Each task on the cluster takes seconds."""

VISITOR = """
import json, os, socket, sys
import ray
from flows.runners import hosts_without
address, there = sys.argv[1:]
ray.init(address, log_to_driver=False)
here = socket.gethostname()
job = bytes.fromhex(ray.get_runtime_context().get_job_id())
told = {"job": int.from_bytes(job, "little"), "own": hosts_without(there + "-not")}
socket.gethostname = lambda: "another-host"  # so that both nodes are on other hosts than this process
told |= {"seeing": hosts_without(there), "blind": hosts_without(there + "-not")}
print(json.dumps(told | {"here": here}))
"""


@pytest.fixture(scope="module")
def ray_address(client_environment: dict[str, str]) -> Iterator[str]:
    """A cluster of two nodes with one processor each, whose workers reach the test's services."""
    pytest.importorskip("prefect_ray", reason="needs `pip install 'troupe[ray]'`")
    env = {**client_environment, "PYTHONPATH": str(ROOT), "RAY_DISABLE_IMPORT_WARNING": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER], cwd=ROOT, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as cluster:  # fmt: skip
        assert cluster.stdin is not None
        assert cluster.stdout is not None
        address = next(line.strip() for line in cluster.stdout if ":" in line and " " not in line.strip())
        yield address
        cluster.stdin.close()
        try:
            cluster.wait(timeout=60)
        except subprocess.TimeoutExpired:
            cluster.kill()
            raise


def visit(address: str, there: Path) -> dict[str, Any]:
    """What one more connection to the cluster finds. Connections are numbered: each is a job of the cluster."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", VISITOR, address, str(there)], env=env, check=True, text=True, capture_output=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


EVALUATION = """
import json, os, sys
from pathlib import Path
from components.config import StoreConfig
from components.runs.stored_runs import read_run
from components.session.stores import open_store
from flows.evaluate import evaluate
from flows.suites import suite_to_play
root, told, *overrides = sys.argv[1:]
store = StoreConfig(kind="local", root=root)
wanted = suite_to_play(None, read_run(open_store(store), "cluster").config, num_problems=30).suite
report = evaluate("cluster@1", wanted, "sample", 1, 3, overrides, store)
Path(told).write_text(json.dumps([report, os.getpid()]))
"""


def evaluate(store: Path, overrides: tuple[str, ...], env: dict[str, str]) -> tuple[dict[str, Any], set[bool]]:
    """The report of the flow `evaluate`, without times, and whether its blocks were played in the process of the flow."""
    attempts = "runs/_shared/steps/000000/play_suite-v*/sample/*/attempts/*"
    before, told = set(store.glob(attempts)), store.with_suffix(".report")
    command = [sys.executable, "-c", EVALUATION, str(store), str(told), *overrides]
    done = subprocess.run(command, cwd=ROOT, env={**env, "PYTHONPATH": str(ROOT)}, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    report, pid = json.loads(told.read_text())
    report["metrics"] = {name: value for name, value in report["metrics"].items() if not name.endswith("/seconds")}
    played = [json.loads(each.read_text())["pid"] == pid for each in set(store.glob(attempts)) - before]
    assert len(played) == 2, "30 problems in blocks of 20"
    return report, set(played)


def test_a_cluster_gives_what_threads_give(
    ray_address: str,
    trainings: Trainings,
    client_environment: dict[str, str],
    tmp_path: Path,
) -> None:
    threads = tmp_path / "threads"
    threads.mkdir()
    assert trainings.run(order(threads, "threads", overrides=SMALL)).code == 0, trainings.log()
    overrides = (
        *SMALL,
        "resources.runner=ray",
        f"resources.ray_address={ray_address}",
        "resources.max_shards_at_once=2",
    )
    before = visit(ray_address, tmp_path)
    assert trainings.run(order(tmp_path, "cluster", overrides=overrides)).code == 0, trainings.log()
    after = visit(ray_address, tmp_path)
    assert after["job"] - before["job"] == 2, "a run of several steps connects to the cluster once"
    assert (after["own"], after["seeing"], after["blind"]) == ([], [], [after["here"]])
    assert outcome(LocalArtifactStore(tmp_path / "store"), "cluster") == outcome(
        LocalArtifactStore(threads / "store"), "threads"
    )
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    apart, on_cluster = evaluate(tmp_path / "store", (), client_environment)
    here, in_flow = evaluate(tmp_path / "copy", ("resources.runner=thread",), client_environment)
    assert apart == here
    assert (on_cluster, in_flow) == ({False}, {True}), (
        "the run's configuration places blocks of problems as it does shards"
    )


AGENT = """
import json, os, pathlib, urllib.request
number = json.loads(pathlib.Path("problem.json").read_text())["n"]
def ask(text):
    body = json.dumps({"model": "agent", "messages": [{"role": "user", "content": text}]}).encode()
    head = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    asked = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, head)
    return json.load(urllib.request.urlopen(asked))["choices"][0]["message"]["content"]
print(ask(f"{number}: {ask(str(number))}"))
"""
AGENT_CONFIG = """
num_steps: 1
environment:
  name: agent
  max_turns: 2
  options: {problems: {path: problems.jsonl}, command: [python3, agent.py], files: [agent.py], check: check.py}
agents: {agent: {policy: one, max_new_tokens: 6}}
policies:
  one: {base: tiny, tiny: {hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64}, adapter: {rank: 4}}
warm_start: {max_steps: 0}
rollout: {mode: independent, num_problems: 4, group_size: 2, num_shards: 2}
algorithm: {advantage: grpo}
evaluation: {every: 0}
tracking: {kind: none}
"""


def test_a_program_of_the_current_folder_plays_on_the_hosts_of_a_cluster(
    ray_address: str, trainings: Trainings, tmp_path: Path
) -> None:
    """Its files travel, though no module is named; the cluster was started elsewhere."""
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "agent.yaml").write_text(AGENT_CONFIG)
    (tmp_path / "check.py").write_text("import json, sys\nprint(len({*json.load(sys.stdin)['output']}) / 100)")
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps({"n": n * 7919 % 1000}) + "\n" for n in range(30)))
    found = []
    for name, places in (
        ("threads", ()),
        ("cluster", ("resources.runner=ray", f"resources.ray_address={ray_address}", "resources.max_shards_at_once=2")),
    ):
        root = tmp_path.parent / f"{tmp_path.name}-{name}"
        changes = [f"store={{kind: local, root: {root}}}", *places]
        words = [word for each in changes for word in ("--set", each)]
        done = trainings.command(tmp_path, "train", "agent.yaml", "--run-id", "run", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        found.append(outcome(LocalArtifactStore(root), "run"))
    assert found[0] == found[1]

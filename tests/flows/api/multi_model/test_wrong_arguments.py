"""What an outsider types slightly wrong is a ValueError that names it; what is unusual and right is taken."""

import asyncio
from typing import Any

import numpy
import pytest

from components.port_leases import lease_port
from flows.api import multi_model
from flows.api.multi_model.scheduler import TaskDefinition

api: Any = multi_model
"""Wrong types are the point here."""
ONE = {1: api.LoRAConfig(lora_id=1, rank=2)}
ROWS = [(1, -0.69, 0.8), (0, -0.69, 0.2)]


def node() -> Any:
    manager = api.SharedLLMManager(api.LLMConfig(model_name="tiny", device="cpu"))
    manager.register_node("planner")
    return manager


def adapters() -> Any:
    return api.create_lora_manager(ONE, base_model="tiny", device="cpu")


def scheduler() -> Any:
    return api.create_unified_scheduler(18201, 1)


def ran(task: Any) -> Any:
    return asyncio.run(scheduler().execute_task(task))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: api.create_qwen3_manager("tiny", tempature=1.0), "did you mean 'temperature'"),
        (lambda: api.create_qwen3_manager("tiny", max_cost=1.0), "max_cost 1.0: only an API"),
        (lambda: api.create_openai_manager("m", "k", apikey="secret"), "^(?!.*secret)apikey: .* settings: api_base"),
        (
            lambda: api.create_openai_manager("m", "k", api_base="localhost:1"),
            "api_base 'localhost:1': must be an http",
        ),
        (lambda: api.create_openai_manager("m", "k", max_cost=1.0), "max_cost needs input_price"),
        (lambda: api.create_claude_manager("m", "k", backend="openai_api"), "backend: create_claude_manager takes no"),
        (lambda: api.SharedLLMManager("tiny"), "config 'tiny': give a LLMConfig"),
        (
            lambda: api.SharedLLMManager().generate_for_node("x", "A"),
            "node_id 'x': is not registered; call register_node",
        ),
        (lambda: node().generate_for_node("plan", "A"), "did you mean 'planner'"),
        (lambda: node().generate_for_node("planner", None), "prompt None"),
        (lambda: node().generate_for_node("planner", "A", max_tokens=5), "did you mean 'max_new_tokens'"),
        (lambda: node().register_node(1), "node_id 1"),
        (lambda: node().register_node("a", "fast"), "settings 'fast'"),
        (lambda: node().register_node("a", {"temperature": "hot"}), "temperature 'hot'"),
        (lambda: node().register_node("a", {"stop": [5]}), "stop 5"),
        (lambda: node().update_shared_parameters([1]), r"gradients \[1\]"),
        (lambda: api.create_lora_manager([1]), r"configs \[1\]: give a dict"),
        (lambda: api.create_lora_manager({"1": ONE[1]}), r"configs\['1'\].lora_id 1"),
        (lambda: api.create_lora_manager(ONE, "robin"), "strategy 'robin': use one of round_robin"),
        (lambda: api.create_lora_manager(ONE, base="tiny"), "did you mean 'base_model'"),
        (lambda: api.create_lora_manager(ONE, device="gpu"), "device 'gpu'"),
        (lambda: adapters().process_request("A", max_tokens=5), "did you mean 'max_new_tokens'"),
        (lambda: adapters().process_request(None), "prompt None"),
        (lambda: adapters().process_request("A", priority="high"), "priority 'high': use one of TaskPriority.CRITICAL"),
        (lambda: adapters().process_request("A", lora_id="1"), "lora_id '1': use a whole number"),
        (lambda: adapters().record_reward(1, "good"), "reward 'good'"),
        (lambda: api.create_distributed_lora_scheduler(18201, 1, ranks=3), "did you mean 'rank'"),
        (lambda: api.create_distributed_lora_scheduler(18201, 1, configs=ONE, rank=3), "rank: each of configs"),
        (lambda: api.create_distributed_lora_scheduler("8001", 1), "base_port '8001'"),
        (lambda: api.create_distributed_lora_scheduler(18201, 1).submit_rl_update(1, float("nan"), {}), "reward nan"),
        (lambda: api.create_distributed_lora_scheduler(18201, 1).rollback(4, 1), "lora_id 4: use one of 1"),
        (lambda: api.create_competitive_scheduler(-1, 1), "base_port -1: use a whole number of 1024 to 65535"),
        (lambda: api.create_competitive_scheduler("8001", 1), "base_port '8001'"),
        (lambda: api.create_cooperative_scheduler(70000, 2), "base_port 70000"),
        (lambda: api.create_cooperative_scheduler(18201, 1, mangaer=None), "did you mean 'manager'"),
        (lambda: api.create_unified_scheduler(18201, 1.5), "num_gpus 1.5"),
        (lambda: api.create_unified_scheduler(18201, 1, gpu_mem=5), "did you mean 'gpu_memory_mib'"),
        (lambda: scheduler().get_model_url("q"), "model_id 'q': no model is registered; call register_model"),
        (lambda: scheduler().register_model("a", "0"), "gpu_id '0'"),
        (lambda: scheduler().register_model("a", 0, "boss"), "role 'boss': use one of generalist"),
        (lambda: scheduler().register_model("a", 0, capabilities={"x": 2}), r"capabilities\['x'\] 2"),
        (lambda: scheduler().register_model("a", 0, manager="x"), "manager 'x': give a SharedLLMManager"),
        (lambda: scheduler().register_model("a", 0, memory_mib=-5), "memory_mib -5"),
        (lambda: ran("hello"), "task 'hello': give a TaskDefinition"),
        (lambda: TaskDefinition(prompt="x", settings={"max_tokens": 5}), "did you mean 'max_new_tokens'"),
        (lambda: api.run_benchmark(2.5, 5), "runs 2.5: use a whole number"),
        (lambda: api.run_benchmark("2", 5), "runs '2'"),
        (lambda: api.run_benchmark(2, 2.5), "episodes 2.5"),
        (lambda: api.run_benchmark(1, 1, "0.6"), "coop_level '0.6'"),
        (lambda: api.run_benchmark(1, 1, seed="x"), "seed 'x'"),
        (lambda: api.run_benchmark(1, 1, horizon=0), "horizon 0"),
        (lambda: api.run_benchmark(1, 1, report_path=5), "report_path 5"),
        (lambda: api.CoopCompeteEnv("a"), "cooperation_level 'a'"),
        (lambda: api.CoopCompeteEnv().step("cooperate", 1), "action 'cooperate'"),
        (lambda: api.SimplePG("x"), "lr 'x'"),
        (lambda: api.SimplePG().update([ROWS[0], (1, -0.69)]), r"trajectories\[1\] \(1, -0.69\): give action, logprob"),
        (lambda: api.SimplePG().update([(1, -0.69, "x")]), r"trajectories\[0\] reward 'x'"),
        (lambda: api.SimplePG().update(None), "trajectories None"),
        (lambda: api.OurMethodPolicy().update([(2, -0.69, 1.0)], api.CoopCompeteEnv()), "action 2"),
        (lambda: api.OurMethodPolicy().update(ROWS), "env None: give the CoopCompeteEnv"),
    ],
)
def test_what_is_slightly_wrong_is_named(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()


def test_a_scheduler_that_cannot_be_filled_keeps_no_port() -> None:
    with pytest.raises(ValueError, match="no port of 65535"):
        api.create_cooperative_scheduler(65535, 2)
    lease_port(65535, num_tries=1).release()


def test_rows_of_numpy_learn_as_plain_ones() -> None:
    plain, other = api.SimplePG(), api.SimplePG(1 / 2)
    plain.update(ROWS)
    other.update([list(numpy.float64(row)) for row in ROWS])
    assert plain.theta == other.theta != 0
    aware = api.OurMethodPolicy()
    aware.update(ROWS, api.CoopCompeteEnv())
    assert aware.theta == plain.theta, "of an opponent nothing is known yet"

"""The devices of workers on this machine, read from their own environments; no GPU is needed for that."""

import os
from pathlib import Path

import psutil
import pytest

from components.config import RunConfig, TrainingConfig
from components.generation.vllm import launch
from components.generation.vllm.addresses import vllm_generation
from components.generation.vllm.launch import ServedModel
from components.machine.child_environment import filter_environment
from components.placement.inventory import parse_inventory
from components.placement.plan import plan
from components.training.trainer import DeepSpeedTrainer
from flows.presets import preset_config
from infra.services import vllm_stack
from infra.services.vllm_server import VllmService

ON_GPUS = ["generation.engine=vllm", "generation.device=cuda", "training.device=cuda"]
TWO_MODELS = [
    "policies={tool: {base: tiny}, plan: {base: tiny}}",
    "agents={tool_agent: {policy: tool}, plan_agent: {policy: plan}}",
]


def read_devices(config: RunConfig, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """CUDA_VISIBLE_DEVICES of each server's launch and of each rank's process, on eight devices."""
    monkeypatch.setattr(launch, "vllm_python", lambda: Path("/python"))
    here = plan(config, parse_inventory("8x80"))
    found = []
    for index, engine in enumerate(each for group in here.group_starts() for each in group):
        model = vllm_stack._place(config, here, ServedModel(name=engine.model, folder=folder), engine)
        found.append(VllmService(index, model, vllm_generation(config)).launch(folder, {"vllm": index + 1}, {}).env)
    trainers = []
    on_cpu = TrainingConfig(num_ranks=config.training.num_ranks)
    zero = Path(__file__).resolve().parents[2] / "infra" / "deepspeed" / "zero0.json"
    for model in sorted({worker.model for worker in here.workers if worker.kind == "rank"}):
        devices = [device.name for rank in here.select("rank", model) for device in here.list_devices(rank)]
        environment = filter_environment(os.environ)
        trainers.append(
            DeepSpeedTrainer(on_cpu, deepspeed_config=zero, run_label="tests", environment=environment, devices=devices)
        )
    try:
        for trainer in trainers:
            trainer.start()
            assert trainer._processes is not None
            found += [_read_environment(rank.pid) for rank in trainer._processes.ranks]
    finally:
        for trainer in trainers:
            trainer.close()
    return [environment["CUDA_VISIBLE_DEVICES"] for environment in found]


def _read_environment(pid: int) -> dict[str, str]:
    """Of a process, once `env` has become the worker."""
    process = psutil.Process(pid)
    while "RANK" not in process.environ():
        assert process.status() != psutil.STATUS_ZOMBIE
    return dict(process.environ())


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["resources.placement.replicas=4", "training.num_ranks=4"], ["0", "1", "2", "3", "4", "5", "6", "7"]),
        (
            [*TWO_MODELS, "resources.placement.replicas=2", "training.num_ranks=2"],
            ["0", "1", "2", "3", "4", "5", "6", "7"],
        ),
        (["resources.placement={replicas: 2, share: turns}", "training.num_ranks=2"], ["0", "1", "0", "1"]),
        (["generation.vllm.tensor_parallel_size=2", "resources.placement.replicas=2"], ["0,1", "2,3", "4"]),
    ],
    ids=["L1 4+4", "L3 2x(2+2)", "turns", "two devices a server"],
)
def test_servers_and_ranks_see_the_devices_of_the_plan_alone(
    overrides: list[str], expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "9")
    assert read_devices(preset_config("tiny", [*ON_GPUS, *overrides]), tmp_path, monkeypatch) == expected

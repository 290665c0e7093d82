"""Every deployment of prefect.yaml names code that exists and parameters that hold."""

import importlib
from typing import Any

import pytest
import yaml

from components.config import parse_config
from components.session.scenario import scenario_of
from flows.preflight.checks import check_environment
from flows.presets import PREFECT_YAML, TRAIN_ENTRYPOINT, preset_config, preset_values

DEPLOYMENTS: list[dict[str, Any]] = yaml.safe_load(PREFECT_YAML.read_text())["deployments"]
PRESETS = (
    *("plan-path", "plan-path-l2", "plan-path-l3", "plan-path-ray", "plan-path-6x6", "sokoban", "sudoku", "tiny"),
    *("code-tiny", "code-smollm", "math-tiny", "math-smollm", "search-tiny", "search-smollm"),
    *("stateful-blocksworld", "stateful-eight-queens", "stateful-shop", "stateful-calendar", "stateful-file-tree"),
    *("plan-path-qwen", "code-qwen", "math-qwen", "search-qwen", "stateful-shop-qwen"),
)


def name_of(deployment: dict[str, Any]) -> str:
    return str(deployment["name"])


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=name_of)
def test_each_entrypoint_is_a_flow_that_takes_the_parameters(deployment: dict[str, Any]) -> None:
    module, name = deployment["entrypoint"].rsplit(".", 1)
    flow = getattr(importlib.import_module(module), name)
    assert flow.validate_parameters(deployment["parameters"])


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=name_of)
def test_each_deployment_runs_on_the_local_worker_and_checks_its_parameters(deployment: dict[str, Any]) -> None:
    assert deployment["work_pool"]["name"] == "troupe"
    assert deployment["enforce_parameter_schema"] is True
    assert deployment["description"]


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_is_a_configuration_of_its_own_name_whose_environment_exists(name: str) -> None:
    config = preset_config(name)
    assert config.preset == name
    check_environment(scenario_of(config))


def test_presets_are_the_training_deployments() -> None:
    assert set(preset_values()) == set(PRESETS)
    assert all(d["entrypoint"] == TRAIN_ENTRYPOINT for d in DEPLOYMENTS)


def test_a_preset_survives_its_own_json() -> None:
    config = preset_config("plan-path")
    assert parse_config(config.model_dump(mode="json")) == config

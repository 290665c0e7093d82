"""Every deployment of prefect.yaml names code that exists and parameters that hold."""

import importlib
from typing import Any

import pytest
import yaml

from components.config import parse_config
from components.evaluation.suites import Suite
from components.methods.hybrid.settings import check_hybrid
from components.session.scenario import scenario_of
from flows.preflight.checks import check_environment
from flows.presets import PREFECT_YAML, TRAINING_ENTRYPOINTS, preset_config, preset_values

DEPLOYMENTS: list[dict[str, Any]] = yaml.safe_load(PREFECT_YAML.read_text())["deployments"]
PRESETS = (
    "agent-plan-path",
    *("plan-path", "plan-path-l2", "plan-path-l3", "plan-path-ray", "plan-path-6x6", "sokoban", "sudoku", "tiny"),
    *("code-tiny", "code-smollm", "math-tiny", "math-smollm", "search-tiny", "search-smollm"),
    *("stateful-blocksworld", "stateful-eight-queens", "stateful-shop", "stateful-calendar", "stateful-file-tree"),
    *("population-tiny", "population-kuhn", "population-trading", "hybrid-homebrew", "hybrid-tiny", "hybrid-crystal"),
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
    if config.method.writes_answers:
        check_environment(scenario_of(config))
    else:
        check_hybrid(scenario_of(config))


def test_presets_are_the_training_deployments() -> None:
    assert set(preset_values()) == set(PRESETS)
    assert {d["name"] for d in DEPLOYMENTS if d["entrypoint"] in TRAINING_ENTRYPOINTS} == set(PRESETS)


def test_suites_play_what_the_runs_of_their_name_have_played() -> None:
    suites = {each["name"]: each for each in DEPLOYMENTS if each["entrypoint"] == "flows.evaluate.evaluate"}
    (nightly,) = (each for each in DEPLOYMENTS if each["entrypoint"].startswith("flows.nightly"))
    for name, deployment in suites.items():
        suite = Suite.model_validate(deployment["parameters"]["suite"])
        assert deployment["parameters"]["subject"] == name
        assert suite == scenario_of(preset_config(name)).suite
    nights = {each["name"]: each for each in nightly["parameters"]["suites"]}
    assert {name: each["suite"] for name, each in nights.items()} == {
        name: each["parameters"]["suite"] for name, each in suites.items()
    }
    assert all(set(each["presets"]) <= set(PRESETS) for each in nights.values())


def test_a_preset_survives_its_own_json() -> None:
    config = preset_config("plan-path")
    assert parse_config(config.model_dump(mode="json")) == config


def test_the_version_of_prefect_is_the_one_that_is_locked() -> None:
    lock = (PREFECT_YAML.resolve().parent / "requirements" / "troupe.txt").read_text()
    assert f"\nprefect=={yaml.safe_load(PREFECT_YAML.read_text())['prefect-version']} " in lock

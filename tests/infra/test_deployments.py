"""What `troupe up` deploys from a folder."""

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.errors import ConfigurationError
from flows.presets import TRAIN_ENTRYPOINT, preset_values
from infra.deployments import write_deployments

OWN = """
pull:
  - prefect.deployments.steps.set_working_directory: {directory: /mine}
deployments:
  - {name: report, entrypoint: mine.report, work_pool: {name: elsewhere}}
  - name: tiny
    entrypoint: flows.train.train
    work_pool: {name: troupe, job_variables: {stream_output: false}}
    parameters: {config: {preset: tiny, num_steps: 7}}
  - {name: bare, entrypoint: flows.train.train, parameters: {config: {preset: bare}}}
  - {name: far, entrypoint: flows.train.train, work_pool: {name: cluster}, parameters: {config: {preset: far}}}
"""


def written(home: Path) -> dict[str, dict[str, Any]]:
    """Name -> training deployment of the file, as Prefect reads it."""
    return {each["name"]: each for each in all_written(home) if each["entrypoint"] == TRAIN_ENTRYPOINT}


def all_written(home: Path) -> list[dict[str, Any]]:
    return yaml.safe_load(write_deployments(home).read_text())["deployments"]  # type: ignore[no-any-return]


def test_suites_and_nights_are_deployed_too_and_those_of_the_folder_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entrypoint = "flows.nightly_evaluation.nightly_evaluation"
    own = {"name": "nightly", "entrypoint": entrypoint, "parameters": {"suites": []}, "schedules": []}
    written = {"pull": ["p"], "deployments": [own, {"name": "x", "entrypoint": "mine.f"}]}
    (tmp_path / "prefect.yaml").write_text(yaml.safe_dump(written))
    monkeypatch.chdir(tmp_path)
    found = {(each["entrypoint"], each["name"]): each for each in all_written(tmp_path / "home")}
    night, tiny = found[entrypoint, "nightly"], found["flows.evaluate.evaluate", "tiny"]
    assert (night["schedules"], night["pull"], night["parameters"]) == ([], ["p"], {"suites": []})
    assert "pull" not in tiny
    assert tiny["parameters"]["subject"] == "tiny"
    assert shlex.split(tiny["work_pool"]["job_variables"]["command"])[-1] == "prefect.engine"
    assert ("flows.collect_garbage.collect_garbage", "nightly") in found
    assert not any(name == "x" for _, name in found)


def test_troupes_own_presets_run_from_the_current_folder_without_it_on_the_module_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = written(tmp_path / "home")
    assert set(found) == set(preset_values())
    for deployment in found.values():
        assert deployment["work_pool"]["name"] == "troupe"
        executable, *options = shlex.split(deployment["work_pool"]["job_variables"]["command"])
        assert (executable, options) == (
            sys.executable,
            ["-P", "-m", "infra.services.prefect_server", "run", "prefect.engine"],
        )
        assert "pull" not in deployment, "Prefect fills in the folder in which it deploys"
    assert {name: each["parameters"]["config"] for name, each in found.items()} == preset_values()


def test_a_folders_own_training_deployments_come_first_and_others_are_left_to_their_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prefect.yaml").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    found = written(tmp_path / "home")
    assert set(found) == {"bare", *preset_values()}, "`report` and `far` are not ours to deploy"
    assert found["bare"]["work_pool"]["name"] == "troupe"
    assert found["tiny"]["parameters"]["config"]["num_steps"] == 7
    assert found["tiny"]["pull"] == yaml.safe_load(OWN)["pull"]
    assert found["tiny"]["work_pool"]["job_variables"].keys() == {"command", "stream_output"}
    assert "pull" not in found["plan-path"]


def test_a_slip_in_the_folders_file_is_told_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prefect.yaml").write_text("deployments:\n  - {name: tiny\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"prefect\.yaml:3:1"):
        write_deployments(tmp_path / "home")

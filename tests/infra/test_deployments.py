"""What `troupe up` deploys from a folder."""

import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.errors import ConfigurationError
from flows.presets import PREFECT_YAML, preset_values
from infra.automations import RESUMED_FLOWS
from infra.deployments import deployment_title, local_deployments, write_deployments

OWN = """
pull:
  - prefect.deployments.steps.set_working_directory: {directory: /mine}
deployments:
  - {name: report, entrypoint: mine.report, work_pool: {name: elsewhere}}
  - {name: bare, entrypoint: mine.report}
  - {name: here, entrypoint: mine.report, work_pool: {name: troupe}, schedules: [{cron: "0 1 * * *"}]}
  - name: tiny
    entrypoint: flows.train.train
    work_pool: {name: troupe, job_variables: {stream_output: false}}
    parameters: {config: {preset: tiny, num_steps: 7}}
  - {name: bare, entrypoint: flows.train.train, parameters: {config: {preset: bare}}}
  - {name: far, entrypoint: flows.train.train, work_pool: {name: cluster}, parameters: {config: {preset: far}}}
  - name: tiny
    entrypoint: flows.evaluate.evaluate
    parameters: {subject: tiny, suite: {environment: {name: math, options: {test_source: {path: sums.jsonl}}}}}
  - name: nightly
    entrypoint: flows.nightly_evaluation.nightly_evaluation
    schedules: [{cron: "0 5 * * *", slug: every-night}]
    parameters: {suites: [{name: x, suite: {environment: {name: math, options: {test_source: {path: sums.jsonl}}}}}]}
"""


def found() -> dict[str, dict[str, Any]]:
    """Title -> deployment."""
    return {deployment_title(each): each for each in local_deployments()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_troupes_own_run_from_the_current_folder_without_it_on_the_module_path() -> None:
    deployments = found()
    trainings = ("train/", "train-population/", "train-hybrid/")
    presets = {title.partition("/")[2]: each for title, each in deployments.items() if title.startswith(trainings)}
    assert {name: each["parameters"]["config"] for name, each in presets.items()} == preset_values()
    assert deployments.keys() >= {"evaluate/tiny", "nightly-evaluation/nightly", "collect-garbage/nightly"}
    assert deployments["nightly-evaluation/nightly"]["schedules"][0]["cron"] == "0 3 * * *"
    for deployment in deployments.values():
        assert deployment["work_pool"]["name"] == "troupe"
        executable, *options = shlex.split(deployment["work_pool"]["job_variables"]["command"])
        assert (executable, options) == (
            sys.executable,
            ["-P", "-m", "infra.services.prefect_server", "run", "prefect.engine"],
        )
        assert "pull" not in deployment, "Prefect fills in the folder in which it deploys"


def test_a_folders_own_deployments_come_first_and_those_of_other_pools_are_left_to_their_owner(folder: Path) -> None:
    troupes = set(found())
    (folder / "prefect.yaml").write_text(OWN)
    deployments = found()
    assert set(deployments) == {"train/bare", "report/here", *troupes}, (
        "`far` and the other reports are not ours to deploy"
    )
    assert len(local_deployments()) == len(deployments)
    assert deployments["train/bare"]["work_pool"]["name"] == "troupe"
    assert deployments["train/tiny"]["parameters"]["config"]["num_steps"] == 7
    assert deployments["train/tiny"]["pull"] == yaml.safe_load(OWN)["pull"]
    assert deployments["train/tiny"]["work_pool"]["job_variables"].keys() == {"command", "stream_output"}
    assert "pull" not in deployments["train/plan-path"]
    assert deployments["nightly-evaluation/nightly"]["schedules"] == [{"cron": "0 5 * * *", "slug": "every-night"}]
    assert deployments["report/here"]["schedules"] == [{"cron": "0 1 * * *", "slug": "schedule-0"}]


def test_files_of_data_are_found_from_the_folder_of_the_yaml_in_every_suite(folder: Path) -> None:
    (folder / "prefect.yaml").write_text(OWN)
    deployments = found()
    (night,) = deployments["nightly-evaluation/nightly"]["parameters"]["suites"]
    for suite in (deployments["evaluate/tiny"]["parameters"]["suite"], night["suite"]):
        assert suite["environment"]["options"]["test_source"]["path"] == str(folder / "sums.jsonl")


def test_what_is_written_is_what_prefect_reads(folder: Path) -> None:
    written = yaml.safe_load(write_deployments(folder / "home", local_deployments()).read_text())
    assert written["deployments"] == local_deployments()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("deployments:\n  - {name: tiny\n", r"prefect\.yaml:3:1"),
        ("deployments:\n  - {name: mine}\n", "deployment mine needs `name` and `entrypoint: module.flow`"),
        ("deployments:\n  - {name: mine, entrypoint: flows.train.train}\n", "deployment mine needs .*parameters"),
    ],
)
def test_a_slip_in_the_folders_file_is_told(text: str, line: str, folder: Path) -> None:
    (folder / "prefect.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=line):
        local_deployments()


def test_every_deployed_flow_comes_back_after_a_crash() -> None:
    deployments = yaml.safe_load(PREFECT_YAML.read_text())["deployments"]
    places = {each["entrypoint"].rpartition(".")[::2] for each in deployments}
    names = {getattr(import_module(module), name).name for module, name in places}
    assert names == set(RESUMED_FLOWS)

"""Files of one's own data: found from any folder once the run has its configuration, and named as the user set them."""

import json
from pathlib import Path
from typing import Any

import pytest

from components.config import RunConfig, parse_config
from components.environments.registry import anchor_options, family_options
from components.environments.shared.dataset_rows import DatasetSource, anchor_path
from components.errors import ConfigurationError
from components.session.scenario import scenario_of
from flows.own_files import with_environment_source, with_sources
from flows.presets import preset_config

MATH = """
num_steps: 1
environment: {name: math, options: {dataset: custom, train_source: SOURCE}}
agents: {tool_agent: {policy: p}, reasoner: {policy: p}}
policies: {p: {base: somewhere, prompt_format: chat}}
"""
ROWS = [{"question": f"What is {n} + 1?", "answer": n + 1} for n in range(20)]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of questions; another one is the current folder."""
    (tmp_path / "project" / "data").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project" / "data" / "mine.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "project"


def config_in(project: Path, source: str, *overrides: str) -> RunConfig:
    (project / "mine.yaml").write_text(MATH.replace("SOURCE", source))
    return preset_config(str(project / "mine.yaml"), overrides)


def question(config: RunConfig, split: Any = "test") -> str:
    scenario = scenario_of(with_environment_source(config))
    return str(scenario.family.problem(scenario.options, split=split, index=0, seed=0).payload["statement"])


@pytest.mark.parametrize("source", ["data/mine.jsonl", "{path: ./data/../data/mine.jsonl}"])
def test_a_run_on_own_data_is_played_from_any_folder(
    project: Path, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frozen = with_sources(config_in(project, source))
    again = parse_config(json.loads(frozen.model_dump_json()))
    assert question(again) in {row["question"] for row in ROWS}
    monkeypatch.chdir(tmp_path)
    assert with_sources(again) == frozen, "a run resumed in another folder is the same"


def test_a_path_on_the_command_line_is_seen_from_the_current_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_in(project, "nowhere.jsonl", "environment.options.train_source=mine.jsonl")
    monkeypatch.chdir(project / "data")
    assert with_sources(config).environment.options["train_source"] == str(project / "data" / "mine.jsonl")


def test_a_lost_file_is_named_by_the_option_that_was_set(project: Path) -> None:
    config = config_in(project, "data/mine.jsonl")
    (project / "data" / "mine.jsonl").unlink()
    with pytest.raises(
        ConfigurationError, match=rf"options\.train_source\.path '{project}/data/mine\.jsonl': No such file"
    ):
        question(config, "test")


def test_files_and_folders_are_told_from_names_on_the_hub(project: Path) -> None:
    (project / "copies" / "gsm8k").mkdir(parents=True)
    found = {path: anchor_path(path, project) for path in ("openai/gsm8k", "copies/gsm8k", "a.csv", "./b", "/c", "")}
    assert found == {
        "openai/gsm8k": "openai/gsm8k",
        "copies/gsm8k": f"{project}/copies/gsm8k",
        "a.csv": f"{project}/a.csv",
        "./b": f"{project}/b",
        "/c": "/c",
        "": "",
    }
    assert anchor_path("~/x.jsonl", project) == str(Path.home() / "x.jsonl")
    assert DatasetSource.model_validate("a.csv") == DatasetSource(path="a.csv")


def test_only_options_that_name_data_change(project: Path) -> None:
    (project / "custom").mkdir()  # a folder of a dataset's name
    options = {"dataset": "custom", "train_source": {"path": "a.jsonl", "split": 3}, "test_source": 5, "wrong": "b.csv"}
    given = anchor_options("math", options, project)
    assert given == {**options, "train_source": {"path": f"{project}/a.jsonl", "split": 3}}
    searched = anchor_options("search", {"corpus": "c.jsonl", "train": "openai/x", "test": "t.jsonl"}, project)
    assert searched == {"corpus": f"{project}/c.jsonl", "train": "openai/x", "test": f"{project}/t.jsonl"}
    assert anchor_options("guess:Guess", {"path": "c.jsonl"}, project) == {"path": "c.jsonl"}
    assert family_options("code", {"dataset": "custom", "source": "a.jsonl"}).source.is_file  # type: ignore[attr-defined]

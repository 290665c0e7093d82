"""Prompts from files in a run: read once at its start, and a changed file is a named drift."""

from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.config import RunConfig, parse_config
from components.errors import ConfigDrift, ConfigurationError
from components.runs.resume_checks import validate_start
from components.session.publishing import run_params
from flows.own_files import with_sources
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.tasks.stored_runs import store_run

CONFIG = """
num_steps: 1
environment: {name: plan_path}
agents:
  tool_agent: {policy: p}
  plan_agent: {policy: p, prompt: {extend_file: prompts/plan.txt}}
policies: {p: {base: somewhere, prompt_format: chat}}
store: {kind: local, root: ROOT}
tracking: {kind: none}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration and a prompt; another one is the current folder."""
    folder = tmp_path / "project"
    (folder / "prompts").mkdir(parents=True)
    (folder / "mine.yaml").write_text(CONFIG.replace("ROOT", str(tmp_path / "store")))
    (folder / "prompts" / "plan.txt").write_text("Plan the shortest path. " * 40)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return folder


def config_of(project: Path, *overrides: str) -> RunConfig:
    return with_sources(preset_config(str(project / "mine.yaml"), overrides))


def text_of(config: RunConfig) -> str | None:
    prompt = config.agents["plan_agent"].prompt
    assert prompt is not None
    assert prompt.extend_file is None
    return prompt.extend


def test_the_frozen_configuration_holds_the_text_and_needs_no_file(project: Path) -> None:
    config = config_of(project)
    assert text_of(config) == "Plan the shortest path. " * 40
    (project / "prompts" / "plan.txt").unlink()
    assert with_sources(parse_config(config.model_dump(mode="json"))) == config
    with pytest.raises(
        ConfigurationError, match=r"agents\.plan_agent\.prompt\.extend_file '/.*plan\.txt': there is no"
    ):
        config_of(project)


def test_a_changed_file_is_a_drift_that_names_the_field_and_the_place(project: Path, tmp_path: Path) -> None:
    store_run(tmp_path / "store", "r", num_finished=0, config=config_of(project))
    store = LocalArtifactStore(tmp_path / "store")
    assert validate_start(store, "r", config_of(project), PIPELINE).run_id == "r"
    (project / "prompts" / "plan.txt").write_text("Plan the shortest path. " * 39 + "Plan any path. ")
    with pytest.raises(
        ConfigDrift, match=r"agents\.plan_agent\.prompt\.extend: at character 941: '.*the shortest p"
    ) as e:
        validate_start(store, "r", config_of(project), PIPELINE)
    assert len(str(e.value)) < 500
    (project / "prompts" / "plan.txt").write_text("Plan the shortest path. " * 40)
    assert validate_start(store, "r", config_of(project), PIPELINE).run_id == "r"


def test_a_path_on_the_command_line_is_seen_from_the_current_folder(project: Path) -> None:
    Path("here.txt").write_text("From here.")
    assert text_of(config_of(project, "agents.plan_agent.prompt={extend_file: here.txt}")) == "From here."


def test_presets_of_a_folder_find_their_files(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = "".join(f"      {line}\n" for line in (project / "mine.yaml").read_text().splitlines())
    deployment = f"deployments:\n- name: mine\n  entrypoint: flows.train.train\n  parameters:\n    config:\n{config}"
    (project / "prefect.yaml").write_text(deployment)
    monkeypatch.chdir(project)
    assert text_of(with_sources(preset_config("mine"))) == "Plan the shortest path. " * 40


def test_parameters_tell_long_prompts_apart_in_few_characters(project: Path) -> None:
    def param() -> str:
        return run_params(config_of(project))["agents.plan_agent.prompt.extend"]

    first = param()
    assert first.startswith("Plan the shortest path. Plan")
    assert "(960 characters, sha256 " in first
    assert len(first) < 500
    (project / "prompts" / "plan.txt").write_text("Plan the shortest path. " * 39 + "Plan any path. ")
    assert param() != first
    (project / "prompts" / "plan.txt").write_text("Plan.")
    assert param() == "Plan."

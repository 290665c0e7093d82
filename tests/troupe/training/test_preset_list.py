"""What `troupe presets` lists, and what a shell completes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from troupe.cli import app
from troupe.cli.training import preset_names
from troupe.training.preset_list import preset_rows

PROJECT = """
deployments:
  - name: mine
    entrypoint: flows.train.train
    description: My team.
    tags: ["minutes:7"]
    parameters: {config: {generation: {device: cuda}}}
  - {name: bare, entrypoint: flows.train.train, parameters: {config: {}}}
  - {name: other, entrypoint: mine.flow, tags: ["minutes:1"]}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "prefect.yaml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_presets_tell_what_was_measured_and_nothing_else(project: Path) -> None:
    rows = {row.pop("name"): row for row in preset_rows()}
    assert list(rows)[:3] == ["mine", "bare", "plan-path"]
    assert rows["mine"] == {"description": "My team.", "minutes": "7", "hardware": "GPU"}
    assert rows["bare"] == {"description": "", "minutes": None, "hardware": "CPU"}
    assert rows["math-smollm"]["minutes"] == "8-24"
    assert {row["hardware"] for name, row in rows.items() if name.endswith("-qwen")} == {"1 GPU of 24 GB"}
    shown = CliRunner().invoke(app, ["presets"]).stdout
    assert "not measured" in next(line for line in shown.splitlines() if line.startswith("bare"))
    assert "next: troupe train mine" in shown


def test_a_shell_completes_commands_and_presets(project: Path) -> None:
    assert preset_names("m") == ["mine", "math-tiny", "math-smollm", "math-qwen"]
    asked = {"COMP_WORDS": "troupe train bar", "COMP_CWORD": "2", "_TROUPE_COMPLETE": "complete_bash"}
    assert CliRunner().invoke(app, [], prog_name="troupe", env=asked).stdout.split() == ["bare"]
    (project / "prefect.yaml").write_text("deployments: [")
    assert preset_names("tin") == []

"""What a person meets at the command line: help, one clear line for wrong input, exit codes, JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("train", "resume", "runs", "show", "play", "doctor", "up", "down", "status", "gc")


def troupe(*arguments: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a person without local services would."""
    foreign = ("PREFECT_", "MLFLOW_", "AWS_", "TROUPE_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    env |= {"TROUPE_HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true", "COLUMNS": "120", **variables}
    command = [sys.executable, "-c", "from flows.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)


def test_help_names_every_command(tmp_path: Path) -> None:
    shown = troupe("--help", home=tmp_path).stdout
    assert all(f" {command} " in shown for command in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["train", "plan-pth"], "preset 'plan-pth' does not exist; did you mean 'plan-path'?"),
        (
            ["train", "tiny", "--set", "rollout.group_sise=4"],
            "rollout.group_sise: unknown key; did you mean 'group_size'?",
        ),
        (["train", "tiny", "--set", "rollout.group_size=1"], "greater than or equal to 2 (got 1)"),
        (["train", "tiny", "--run-id", "No Spaces"], "run_id 'No Spaces': use 1 to 63 of"),
        (["train", "tiny", "--set", "environment.name=chess"], "environment.name 'chess': unknown environment"),
        (["resume", "x", "--step", "3"], "--from-stage and --step go together"),
        (["resume", "x", "--set", "seed=3"], "--set changes a run's configuration, which needs a restart"),
        (["show", "nothing", "--store", "file:///nowhere/at/all"], "there is no such directory"),
        (["show", "nothing", "--store", "file:///tmp"], "run 'nothing' is not in file:///tmp; runs there: none yet"),
        (["runs", "--store", "ftp://x"], "write file:///absolute/path or s3://bucket/prefix"),
        (["play", "chess", "--agent", "noop"], "environment.name 'chess'"),
        (["play", "plan_path", "--agent", "nop"], "agent 'nop'"),
        (["play", "plan_path", "--agent", "noop", "--set", "sise=3"], "did you mean 'size'?"),
    ],
)
def test_wrong_input_is_one_clear_line_and_exit_code_two(arguments: list[str], line: str, tmp_path: Path) -> None:
    # A Prefect that answers nothing: wrong input must be told before anybody asks it.
    ended = troupe(*arguments, home=tmp_path, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert ended.returncode == 2, ended.stderr
    assert line in ended.stderr
    assert ended.stderr.startswith("troupe: ")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("variables", "overrides", "line"),
    [
        ({}, [], "Prefect: no server is configured; start the local services with `troupe up`"),
        ({"PREFECT_API_URL": "http://127.0.0.1:9/api"}, [], "Prefect: http://127.0.0.1:9/api does not answer"),
    ],
)
def test_what_is_missing_is_told_with_the_remedy(
    variables: dict[str, str], overrides: list[str], line: str, tmp_path: Path
) -> None:
    ended = troupe("train", "tiny", *overrides, home=tmp_path, **variables)
    assert ended.returncode == 1
    assert line in ended.stderr
    assert "troupe up" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_missing_s3_credentials_are_told_with_the_remedy(tmp_path: Path) -> None:
    ended = troupe("runs", home=tmp_path)
    assert ended.returncode == 1
    assert "no AWS credentials found" in ended.stderr
    assert "for a local S3 server run `troupe up`" in ended.stderr


def test_an_expert_and_an_idle_agent_as_json(tmp_path: Path) -> None:
    for agent, rate in (("expert", 1.0), ("noop", 0.0)):
        ended = troupe("play", "plan_path", "--agent", agent, "--episodes", "20", "--json", home=tmp_path)
        document = json.loads(ended.stdout)
        assert set(document) == {"env", "agent", "success_rate", "n", "interval", "mean_reward"}
        assert (document["success_rate"], document["n"]) == (rate, 20)


def test_an_empty_store_has_no_runs_and_nothing_to_collect(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    store.probe()
    assert json.loads(troupe("runs", "--store", f"file://{tmp_path}/store", "--json", home=tmp_path).stdout) == []
    collected = json.loads(troupe("gc", "--store", f"file://{tmp_path}/store", "--json", home=tmp_path).stdout)
    assert collected["num_objects"] == 0


def test_status_is_null_where_nothing_runs(tmp_path: Path) -> None:
    document = json.loads(troupe("status", "--json", home=tmp_path).stdout)
    assert document == {"prefect": None, "mlflow": None, "s3": None, "worker": None}

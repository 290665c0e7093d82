"""What the parameters of a flow run of `train` ask for: the same as the command line, refused in the same words."""

from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.config import RunConfig
from components.errors import ConfigurationError
from components.runs.restarts import record_restart
from components.runs.run import Run
from flows.presets import preset_config, preset_values
from flows.starts import StartRequest, overridden_config, read_requested_restart, read_requested_run
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.tasks.stored_runs import config_in, store_run

SET = "rollout.group_size=2"


def request(
    run_id: str | None = "r", *, overrides: tuple[str, ...] = (), flow_run: str = "f", **restart: Any
) -> StartRequest:
    wanted = read_requested_restart(restart.get("from_stage"), restart.get("step"), flow_run)
    return StartRequest(run_id, restart.get("num_steps"), overrides, wanted)


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    """That of a stored run `r` with three finished steps."""
    store_run(tmp_path, "r")
    return config_in(tmp_path)


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("preset", sorted(preset_values()))
def test_overrides_of_a_parsed_preset_are_those_of_the_command_line(preset: str) -> None:
    lines = ["seed=7", "store={kind: local, root: /elsewhere}"]
    lines += [SET] if "rollout" not in preset_config(preset).method.unread else []
    assert overridden_config(preset_config(preset), lines, 5) == preset_config(preset, lines, num_steps=5)
    assert overridden_config(preset_config(preset), [], None) == preset_config(preset)


@pytest.mark.parametrize(
    ("overrides", "num_steps", "line"),
    [
        (["seed"], None, "overrides 'seed': write it as key=value"),
        (["seed=one"], None, "seed: .*'one'"),
        (["rollout.group_sise=8"], None, "rollout.group_sise.*group_size"),
        ([], -1, "num_steps: .*-1"),
    ],
)
def test_a_wrong_value_is_refused_by_field_and_value(overrides: list[str], num_steps: int | None, line: str) -> None:
    with pytest.raises(ConfigurationError, match=line):
        overridden_config(preset_config("tiny"), overrides, num_steps)


@pytest.mark.parametrize("half", [{"from_stage": "update_policy"}, {"step": 2}])
def test_half_a_restart_is_refused(half: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="a restart needs both"):
        request(**half)


def test_a_run_without_a_restart_has_the_configuration_with_its_overrides(config: RunConfig) -> None:
    run, restart, remarks = read_requested_run(config, request(None, overrides=("seed=1",)))
    assert (run.run_id, run.config.seed, restart, remarks) == ("tiny", 1, None, [])


def test_a_restart_has_the_runs_own_configuration_and_says_what_it_leaves_out(
    config: RunConfig, tmp_path: Path
) -> None:
    before = files(tmp_path)
    asked = request(overrides=(SET,), from_stage="update_policy", step=1)
    run, restart, remarks = read_requested_run(config.model_copy(update={"seed": 5}), asked)
    assert (run.config.seed, run.config.rollout.group_size) == (0, 2)
    assert restart == asked.restart
    (remark,) = remarks
    assert "seed: 0 -> 5; use overrides" in remark
    assert files(tmp_path) == before, "asking writes nothing"


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"from_stage": "update_policy", "step": 3}, "steps 0 to 2; ask for more"),
        ({"from_stage": "warm_start", "step": 1}, "stages are collect_rollouts"),
        ({"run_id": "q", "from_stage": "update_policy", "step": 1}, "run 'q' is not in"),
    ],
)
def test_an_impossible_restart_is_refused(asked: dict[str, Any], line: str, config: RunConfig, tmp_path: Path) -> None:
    before = files(tmp_path)
    with pytest.raises(ConfigurationError, match=line):
        read_requested_run(config, request(**asked))
    assert files(tmp_path) == before


def test_a_flow_run_restarts_once_whatever_happened_since(config: RunConfig, tmp_path: Path) -> None:
    def restart(asked: StartRequest) -> Run:
        run, wanted, _ = read_requested_run(config, asked)
        if wanted is not None:
            record_restart(LocalArtifactStore(tmp_path), run, wanted, PIPELINE)
        return run

    first = request(overrides=(SET,), from_stage="update_policy", step=1, flow_run="first")
    restart(first)
    restart(request(overrides=("loss.clip_low=0.1",), from_stage="update_policy", step=0, flow_run="second"))
    again = restart(first)
    assert [each.requested_by for each in again.lineages] == ["first", "second"]
    assert (again.config.loss.clip_low, again.config.rollout.group_size) == (0.1, 2), "as the second one left it"
    third = request(overrides=(SET,), from_stage="update_policy", step=0, flow_run="third")
    assert read_requested_run(config, third)[1] == third.restart, "another flow run is another wish"

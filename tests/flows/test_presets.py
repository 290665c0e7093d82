import re
from pathlib import Path
from typing import Any

import pytest

from components.errors import ConfigurationError
from flows.presets import (
    all_preset_values,
    file_values,
    find_named_values,
    preset_config,
    preset_values,
    with_overrides,
)
from flows.suites import bare_config

_TRAINS = "{name: a, entrypoint: flows.train.train, parameters: {config: {}}}"


def test_an_override_reaches_the_field_it_names() -> None:
    assert preset_config("tiny", ["rollout.group_size=6"]).rollout.group_size == 6


def test_an_override_leaves_the_given_values_alone() -> None:
    values = {"rollout": {"group_size": 4}}
    assert with_overrides(values, ["rollout.group_size=5", "seed=1"]) == {"rollout": {"group_size": 5}, "seed": 1}
    assert values == {"rollout": {"group_size": 4}}


@pytest.mark.parametrize(
    ("values", "override", "kept"),
    [
        ({"generation": {"vllm": {}, "device": "cpu"}}, "generation.engine=transformers", ["device", "engine"]),
        ({"generation": {"engine": "vllm", "vllm": {}}}, "generation.engine=vllm", ["engine", "vllm"]),
        ({"generation": {"vllm": {}, "dveice": "cpu"}}, "generation.engine=transformers", ["dveice", "engine"]),
        (
            {"loss": {"dual_clip": 3.0, "kl_coefficient": 1.0}},
            "loss.policy_loss=cispo",
            ["kl_coefficient", "policy_loss"],
        ),
        ({"loss": {"dual_clip": 3.0}}, "loss.policy_loss=mine:loss", ["dual_clip", "policy_loss"]),
        ({"method": {"opponents": {}}}, "method.type=team", ["type"]),
    ],
)
def test_another_variant_leaves_out_what_was_said_of_the_first(values: Any, override: str, kept: list[str]) -> None:
    (section,) = values
    assert sorted(with_overrides(values, [override])[section]) == kept


def test_another_variant_of_a_section_inside_of_another_leaves_out_too() -> None:
    values = {"method": {"type": "population", "weight_updates": {"type": "federated", "every": 2}}}
    (asked,) = with_overrides(values, ["method.weight_updates.type=selective"]).values()
    assert asked["weight_updates"] == {"type": "selective"}


def test_what_the_same_command_says_of_the_first_variant_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"generation.vllm: unknown key; engine vllm has it"):
        preset_config("tiny", ["generation.vllm.port=2000", "generation.engine=transformers"])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["rolout.group_size=4"], "rolout: unknown key; did you mean 'rollout'?"),
        (["training.dtype=bfloat16"], "training.dtype bfloat16: .* set loss.importance_cap, for example 2$"),
        (["generation.dtype=bfloat16"], "generation.dtype bfloat16: .* set loss.importance_cap"),
        (
            ["training.dtype=bfloat16", "loss.importance_cap=2"],
            r"loss.mismatch_tolerance 0.001 is for float32: set it to 2",
        ),
        (
            ["training.dtype=bfloat16", "loss={importance_cap: 2, mismatch_tolerance: 2}"],
            r"generation.probe_tolerance 0.0001 is for float32: set it to 0.5",
        ),
        (["rollout.mode=nested", "algorithm.advantage=c3"], "which plays all candidates to the end: set it to 0"),
        (
            ["policies.team.tiny.hiden_size=4"],
            "policies.team.tiny.hiden_size: unknown key; did you mean 'hidden_size'?",
        ),
    ],
)
def test_a_wrong_override_is_one_line_with_field_value_and_remedy(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        preset_config("tiny", overrides)
    assert "\n" not in str(caught.value)


def test_a_preset_that_is_a_file_or_a_folder_here_is_told_how_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/prefect.yaml").touch()
    (tmp_path / "other.yml").touch()
    with pytest.raises(ConfigurationError, match=r"did you mean the project in the folder mine\? `cd mine` first; "):
        find_named_values("mine")
    with pytest.raises(ConfigurationError, match=r"did you mean the file other\.yml\? "):
        find_named_values("other")


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'plan-path'"):
        preset_config("plan-pth")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("deployments:\n  - {name: a\n", r"prefect\.yaml:3:1: expected .*; correct that line"),
        ("deployments:\n  - name: a\n   b: c\n", r"prefect\.yaml:3:\d+: .*; correct that line"),
        ("deployments:\n\t- name: a\n", r"prefect\.yaml:2:1: found character .*; correct that line"),
        ("deployments:\n  - *nothing\n", r"prefect\.yaml:2:5: found undefined alias 'nothing'; correct that line"),
        (f"deployments: [{_TRAINS}, {_TRAINS}]\n", r"two deployments are called a; give each a name of its own"),
        ("deployment: []\n", r"`deployments` is not a list"),
        ("just words\n", r"`deployments` is not a list"),
        ("deployments: [words]\n", r"deployment number 1 needs `name`"),
        ("deployments: [{name: a, entrypoint: flows.train.train}]\n", r"deployment a needs .*parameters"),
        ("deployments: [{name: a, parameters: {config: {}}}]\n", r"deployment a needs .*entrypoint"),
    ],
)
def test_a_slip_in_the_file_is_told_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "prefect.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=message) as raised:
        preset_values(tmp_path / "prefect.yaml")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("stem", ["größe", "my file", "数据", "a+b", "-x", "x" * 64, "(copy)"])
def test_a_files_name_that_no_preset_can_have_is_said(stem: str, tmp_path: Path) -> None:
    file = tmp_path / f"{stem}.yaml"
    file.write_text("environment: {name: plan_path}\n")
    told = rf"the file's name is that of the preset, and {re.escape(repr(stem))} cannot be one: use 1 to 63 .*`preset: NAME`"
    with pytest.raises(ConfigurationError, match=told):
        file_values(file)
    file.write_text("preset: sizes\nenvironment: {name: plan_path}\n")
    assert file_values(file)["preset"] == "sizes"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"prefect\.yaml: No such file"):
        preset_values(tmp_path / "prefect.yaml")


OWN = """
deployments:
  - name: mine
    entrypoint: flows.train.train
    parameters: {config: {preset: mine, num_steps: 7, environment: {name: plan_path}, agents: {}, policies: {}}}
  - name: tiny
    entrypoint: flows.train.train
    parameters: {config: {preset: tiny, num_steps: 8, environment: {name: plan_path}, agents: {}, policies: {}}}
"""


def test_presets_of_the_current_folder_come_before_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prefect.yaml").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    found = all_preset_values()
    assert list(found)[:2] == ["mine", "tiny"]
    assert (found["mine"]["num_steps"], found["tiny"]["num_steps"]) == (7, 8)
    assert set(found) == {"mine", *preset_values()}
    with pytest.raises(ConfigurationError, match="did you mean 'mine'"):
        preset_config("mina")


@pytest.mark.parametrize(
    "text",
    [
        "deployments:\n- name: null\n  entrypoint: null\n",
        "name: other\n",
        "deployments: null\n",
        "- a\n",
        "deployments: [{name: theirs, entrypoint: pipeline.py:etl, parameters: {}}, words]\n",
    ],
)
def test_a_prefect_yaml_of_another_project_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "prefect.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert all_preset_values() == preset_values()


def test_a_preset_of_ones_own_without_an_environment_is_in_nobodys_way_until_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "deployments: [{name: mine, entrypoint: flows.train.train, parameters: {config: {num_steps: 1}}}]\n"
    (tmp_path / "prefect.yaml").write_text(own)
    monkeypatch.chdir(tmp_path)
    assert bare_config("plan_path", {}).environment.name == "plan_path"
    with pytest.raises(ConfigurationError, match="environment: required and missing"):
        preset_config("mine")


def test_a_file_is_a_configuration_called_as_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paths.yaml").write_text(
        "num_steps: 3\nenvironment: {name: plan_path}\npolicies: {team: {base: tiny}}\n"
        "agents: {tool_agent: {policy: team}, plan_agent: {policy: team}}\n"
    )
    config = preset_config("paths.yaml", ["seed=5"], num_steps=4)
    assert (config.preset, config.num_steps, config.seed) == ("paths", 4, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"no file nothing\.yaml here; `troupe presets`"),
        (
            "deployments: [{name: mine, entrypoint: flows.train.train, parameters: {config: {seed: 1}}}]",
            "name one of its presets: mine",
        ),
        ("- a\n", "holds no configuration; write its sections"),
        ("num_steps: [\n", r"nothing\.yaml:2:1: .*; correct that line"),
        ("seed: 1\nseed: 2\n", r"nothing\.yaml:2:1: 'seed' stands here and in line 1; correct that line"),
        ("\x00", r"nothing\.yaml:?.*; correct that line"),
        ("num_stps: 3\n", "num_stps: unknown key; did you mean 'num_steps'"),
    ],
)
def test_a_file_that_is_no_configuration_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "nothing.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        preset_config("nothing.yaml")

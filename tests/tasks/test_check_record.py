"""The reward stage's check of a shard's own record: when it is made, and that it repeats."""

from pathlib import Path
from typing import Any

import pytest

from components.config import RunConfig
from components.environments.base import NO_TOOLS
from components.errors import RecordRefuted
from components.schema import Execution, RolloutShard, ToolRecord
from components.session import toolbox
from components.session.scenario import scenario_of
from components.session.toolbox import SPOT_CHECK_FRACTION, Toolbox, spot_check_fraction
from flows.presets import preset_config
from flows.runners import _ray_settings
from tests.components.sandbox.scripted import ScriptedSandbox, make_printed

PROGRAMS = [Execution(program=f"print({number})") for number in range(30)]


def config(tmp_path: Path, *overrides: str) -> RunConfig:
    return preset_config("math-tiny", ["store.kind=local", f"store.root={tmp_path}", *overrides])


def toolbox_of(chosen: RunConfig) -> Toolbox:
    return Toolbox(scenario_of(chosen))


def play(monkeypatch: pytest.MonkeyPatch, chosen: RunConfig) -> tuple[RolloutShard, ScriptedSandbox]:
    """A shard as another host hands it over, and the sandbox of this one."""
    sandbox = ScriptedSandbox(lambda program, stdin: make_printed(program))
    monkeypatch.setattr(toolbox, "new_sandbox", lambda config, limits: sandbox)
    tools = toolbox_of(chosen).tools()
    for execution in PROGRAMS:
        tools.run(execution)
    sandbox.asked.clear()
    return RolloutShard(step=7, shard=3, policy_versions={}, episodes=(), tools=tools.take_record()), sandbox


def check(chosen: RunConfig, shard: RolloutShard) -> None:
    opened = toolbox_of(chosen)
    tools = opened.tools(known=shard.tools)
    for execution in PROGRAMS:
        tools.run(execution)
    opened.check_record(shard, tools)


def forge(shard: RolloutShard) -> RolloutShard:
    lies = {key: make_printed("solved") for key in shard.tools.executions}
    return RolloutShard(step=7, shard=3, policy_versions={}, episodes=(), tools=ToolRecord(executions=lies))


@pytest.mark.parametrize(
    ("overrides", "num_checked"),
    [
        ((), 0),
        (("sandbox.spot_check_fraction=0.1",), 3),
        (("sandbox.spot_check_fraction=1.0",), 30),
        (("resources.runner=ray", "resources.ray_address=ray://other:10001"), 2),
        (("resources.runner=ray",), 0),
        (("resources.runner=ray", "resources.ray_address=ray://other:10001", "sandbox.spot_check_fraction=0"), 0),
    ],
)
def test_records_of_other_hosts_are_checked_and_whatever_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...], num_checked: int
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    chosen = config(tmp_path, *overrides)
    shard, sandbox = play(monkeypatch, chosen)
    check(chosen, shard)
    assert len(sandbox.asked) == num_checked
    first = dict(sandbox.asked)
    check(chosen, shard)
    assert sandbox.asked == {call: 2 * count for call, count in first.items()}, "another attempt checks the same"
    if num_checked:
        with pytest.raises(RecordRefuted, match=r"shard 3 of step 7: program .*'solved'"):
            check(chosen, forge(shard))
    else:
        check(chosen, forge(shard))


def test_records_of_a_cluster_that_the_variable_names_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "other:6379")
    fractions = [spot_check_fraction(config(tmp_path, f"resources.runner={runner}")) for runner in ("ray", "thread")]
    assert fractions == [SPOT_CHECK_FRACTION, 0.0]
    sent = _ray_settings(config(tmp_path, "resources.runner=ray"))["runtime_env"]["env_vars"]
    assert sent["RAY_ADDRESS"] == "other:6379", "the reward stage runs in Ray's processes"


def test_an_environment_without_tools_has_nothing_to_check(tmp_path: Path) -> None:
    chosen: Any = config(tmp_path, "sandbox.spot_check_fraction=1.0")
    shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=(), tools=ToolRecord())
    toolbox_of(chosen).check_record(shard, NO_TOOLS)


def test_the_share_that_is_checked_decides_no_result(tmp_path: Path) -> None:
    assert config(tmp_path).result_fields() == config(tmp_path, "sandbox.spot_check_fraction=0.5").result_fields()

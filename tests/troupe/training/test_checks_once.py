"""`troupe train` resolves its scenario once and makes every check once, before the flow begins."""

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from components.session import scenario, session
from flows import train as training_flow
from flows.preflight import checks
from flows.presets import preset_config
from troupe.training import in_process

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect"), pytest.mark.timeout(300)]
CHECKS = [name for name in vars(checks) if name.startswith(("check_", "probe_"))]
OF_A_COMMAND_THAT_ENDS = {"check_base_names", "check_free", "check_before_trying"}
"""One is for a missing Prefect server alone, one looks at two folders, and one is of another command."""
OF_HYBRID_RUNS = {"check_hybrid", "check_cartridge"}


def test_the_command_checks_once_and_hands_its_session_to_the_flow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: Counter[str] = Counter()

    def count_calls(module: Any, name: str) -> None:
        real = getattr(module, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    for name in CHECKS:
        count_calls(checks, name)
        if hasattr(in_process, name):
            monkeypatch.setattr(in_process, name, getattr(checks, name))
    count_calls(scenario, "scenario_of")
    count_calls(training_flow, "first_look")
    for module in (session, in_process):
        monkeypatch.setattr(module, "scenario_of", scenario.scenario_of)
    monkeypatch.setattr(in_process, "join_local_services", lambda: None)
    monkeypatch.setattr(in_process, "is_without_services", lambda: False)
    monkeypatch.setattr(in_process, "require_prefect", lambda: None)
    local = ["store.kind=local", f"store.root={tmp_path / 'store'}", "tracking.kind=none"]
    quick = [
        "warm_start.max_steps=1",
        "warm_start.min_success=0",
        "warm_start.num_check_problems=2",
        "evaluation.num_problems=2",
    ]
    config = preset_config("tiny", [*local, *quick, "num_steps=0"])
    report = in_process.run_training(config, "once", console=Console(file=io.StringIO()))
    assert report.run_id == "once"
    assert calls["scenario_of"] == calls["first_look"] == 1
    counts = {name: calls[name] for name in CHECKS if name not in OF_A_COMMAND_THAT_ENDS | OF_HYBRID_RUNS}
    assert counts.pop("check_contract") == 2, "of an environment without tools, and of one with them"
    assert counts == dict.fromkeys(counts, 1)

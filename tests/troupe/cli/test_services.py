"""What `troupe down` does, and in which order."""

from pathlib import Path
from typing import Any

import pytest

from flows.prefect_runtime import active_runs
from infra import automations
from infra.services import client, stack, vllm_stack
from infra.services.environment import PrefectAddress, StackStatus
from troupe.cli.services import down

PREFECT = PrefectAddress(api_url="http://here/api", ui_url="http://here")


@pytest.mark.parametrize(("prefect", "paused"), [(PREFECT, ["paused http://here/api"]), (None, [])])
def test_runs_are_not_taken_up_again_after_they_are_ended_on_purpose(
    prefect: PrefectAddress | None, paused: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def noting(what: str, answer: Any = None) -> Any:
        def note(*_: Any) -> Any:
            done.append(what)
            return answer

        return note

    monkeypatch.setattr(client, "join_local_services", lambda: None)
    monkeypatch.setattr(client, "remove_prefect_toml", lambda home: None)
    monkeypatch.setattr(stack, "status", lambda home: StackStatus(home=Path("/home"), prefect=prefect))
    monkeypatch.setattr(automations, "pause_resumption", lambda home, url: done.append(f"paused {url}"))
    monkeypatch.setattr(active_runs, "end_active_runs", noting("ended", []))
    monkeypatch.setattr(stack, "down", noting("stopped", []))
    monkeypatch.setattr(vllm_stack, "down_vllm", noting("engines stopped", []))
    down()
    assert done == [*paused, "ended", "engines stopped", "stopped"]

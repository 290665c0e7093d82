"""The automations by which crashed flow runs of the local worker come back by themselves."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.prefect_runtime.resumption import MAX_RESUMPTIONS, RESUMING
from infra.services.loopback import basic, request
from infra.services.prefect_server import POOL
from infra.services.secrets import ensure_password

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.events.schemas.automations import Automation, AutomationCore, EventTrigger

RESUMED_FLOWS = ("train", "train-population", "train-hybrid", "evaluate", "nightly-evaluation", "collect-garbage")
"""Flows whose runs may be started again at any time: what they have finished is read, not computed again."""
SILENCE_SECONDS = 540.0
"""A flow run sends a heartbeat every 180 s; after three missed ones its machine is taken to be gone."""
QUIET_SECONDS = 30.0
"""A crash is told twice, by runner and worker, and a cancellation or a Retry may follow. The last word counts."""
RESUME = "troupe: resume crashed runs"
LOST = "troupe: crash runs without a heartbeat"


def automations() -> tuple[AutomationCore, ...]:
    """What the server shall do by itself for the flow runs of the local worker. A run that was cancelled is not crashed."""
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import AutomationCore

    # 0: its process never ran, and would not the next time. A heartbeat has no count and is no word.
    starts = {"prefect.run-count": [str(count) for count in range(1, MAX_RESUMPTIONS + 1)]}
    local = {"prefect.resource.role": "work-pool", "prefect.resource.name": POOL}
    deployed = {"prefect.resource.role": "deployment"}  # a heartbeat names no work pool
    message = f"It crashed, and is started again up to {MAX_RESUMPTIONS} times."
    return (
        AutomationCore(
            name=RESUME,
            description=message,
            enabled=True,  # an update sends only what is set
            trigger=_last_word("Crashed", QUIET_SECONDS, starts, local),
            actions=[ChangeFlowRunState(state=StateType.SCHEDULED, name=RESUMING, message=message)],
        ),
        AutomationCore(
            name=LOST,
            description="Its process or machine is gone.",
            enabled=True,
            trigger=_last_word("heartbeat", SILENCE_SECONDS, {}, deployed),
            actions=[ChangeFlowRunState(state=StateType.CRASHED, name="Crashed", message="Its heartbeat was lost.")],
        ),
    )


def _last_word(event: str, seconds: float, labels: dict[str, Any], related: dict[str, Any]) -> EventTrigger:
    """Fires for a run of `RESUMED_FLOWS` of which nothing is heard for so long after `event`, at most as long again later."""
    from prefect.events.schemas.automations import EventTrigger, Posture

    flows: Any = {"prefect.resource.role": "flow", "prefect.resource.name": list(RESUMED_FLOWS)}
    return EventTrigger(
        match={"prefect.resource.id": "prefect.flow-run.*", **labels},
        match_related=[flows, related],
        after={f"prefect.flow-run.{event}"},
        expect={"prefect.flow-run.*"},
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=timedelta(seconds=seconds),
    )


def automation_differences(client: SyncPrefectClient) -> list[str]:
    """One line per automation that is missing, changed or paused on the server."""
    return [line for wanted in automations() for line in _differences(wanted, _find(client, wanted.name))]


def ensure_automations(client: SyncPrefectClient) -> None:
    """Create, repair and resume the automations; one that is as it should be is left alone."""
    for wanted in automations():
        found = _find(client, wanted.name)
        if not found:
            client.create_automation(wanted)
        elif _differences(wanted, found):
            client.update_automation(found[0].id, wanted)
        for duplicate in found[1:]:
            client.delete_automation(duplicate.id)


def pause_resumption(home: Path, api_url: str) -> None:
    """Let runs that end now not come back by themselves; `ensure_automations` takes it back. A server that is away has none."""
    headers = {"Content-Type": "application/json", **basic(ensure_password(home))}
    wanted = json.dumps({"automations": {"name": {"any_": [RESUME]}}}).encode()
    with suppress(OSError):
        status, body = request("POST", f"{api_url}/automations/filter", body=wanted, headers=headers)
        for found in json.loads(body) if status == 200 else []:
            request("PATCH", f"{api_url}/automations/{found['id']}", body=b'{"enabled": false}', headers=headers)


def _find(client: SyncPrefectClient, name: str) -> list[Automation]:
    return client.read_automations_by_name(name)


def _differences(wanted: AutomationCore, found: list[Automation]) -> list[str]:
    if not found:
        return [f"automation {wanted.name!r}: missing"]
    lines = [f"automation {wanted.name!r}: {len(found)} of them"] if len(found) > 1 else []
    if not found[0].enabled:
        lines.append(f"automation {wanted.name!r}: paused")
    parts = ("description", "trigger", "actions")
    as_found, as_wanted = (_plain(each.model_dump(mode="json", include=set(parts))) for each in (found[0], wanted))
    lines += [f"automation {wanted.name!r}: another {part}" for part in parts if as_found[part] != as_wanted[part]]
    return lines


def _plain(value: Any) -> Any:
    """JSON without ids, with its lists, which are sets here, in order."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if key != "id"}
    return sorted(map(_plain, value), key=str) if isinstance(value, list) else value

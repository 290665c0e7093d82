"""What the Prefect server holds against what the files say: differences, and what `prefect deploy` leaves behind.

`prefect deploy` creates and updates. It removes neither a schedule that is no longer in its file nor a deployment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.config import differing_fields
from components.errors import ServiceMissing
from infra.automations import automation_differences, ensure_automations
from infra.deployments import deployment_title
from infra.services.environment import StackStatus
from infra.services.prefect_server import POOL
from infra.services.secrets import ensure_password, write_private
from infra.services.stack import outage

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.responses import DeploymentResponse

Key = tuple[str, str]
"""Entrypoint and name of a deployment."""
_PAGE = 200
RECORD = "deployed.json"
"""The file in the folder of Prefect's database that says what was deployed from which folder."""
_WHEN = ("cron", "interval", "rrule")


@contextmanager
def local_client(state: StackStatus) -> Iterator[SyncPrefectClient]:
    """A client of the local Prefect server, whatever server the environment names. Raises ServiceMissing if it is down."""
    if state.prefect is None:
        raise ServiceMissing(str(outage(state.home, "prefect")))
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_KEY, PREFECT_API_URL, temporary_settings

    local = {PREFECT_API_URL: state.prefect.api_url, PREFECT_API_AUTH_STRING: ensure_password(state.home)}
    with temporary_settings(local, restore_defaults={PREFECT_API_KEY}), get_client(sync_client=True) as client:
        yield client


def differences(client: SyncPrefectClient, wanted: Sequence[Mapping[str, Any]], record: Path) -> list[str]:
    """One line for each thing that differs between the server and the files, server first. Changes nothing.

    **Example** "nightly-evaluation/nightly: schedules.every-night.cron: '0 3 * * *' -> '0 4 * * *'".
    """
    from prefect.exceptions import ObjectNotFound

    try:
        client.read_work_pool(POOL)
    except ObjectNotFound:
        return [f"work pool {POOL}: missing"]
    found, lines = read_deployed(client), []
    for each in wanted:
        title, deployed = deployment_title(each), found.get(_key(each))
        if deployed is None:
            lines.append(f"{title}: not deployed")
            continue
        changes = differing_fields(_as_deployed(deployed, each), _as_written(each))
        # A template is filled in by Prefect.
        lines += [f"{title}: {change}" for change in changes if "{{" not in change]
    lines += [f"{deployment_title({'entrypoint': key[0], 'name': key[1]})}: in no file any more"
              for key in sorted(_find_removed(wanted, record) & found.keys())]  # fmt: skip
    return [*lines, *automation_differences(client)]


def tidy(client: SyncPrefectClient, wanted: Sequence[Mapping[str, Any]], record: Path) -> None:
    """After `prefect deploy`: remove schedules and deployments that are in the files no more, and ensure the automations.

    Only deployments that were deployed from the same folder before, as `record` says, are removed.
    """
    found, removed = read_deployed(client), _find_removed(wanted, record)
    for each in wanted:
        slugs = {schedule["slug"] for schedule in each["schedules"]}
        deployed = found[_key(each)]
        for schedule in deployed.schedules:
            if schedule.slug not in slugs:
                client.delete_deployment_schedule(deployed.id, schedule.id)
    for key in removed & found.keys():
        client.delete_deployment(found[key].id)
    ensure_automations(client)
    folders = _read_record(record) | {_folder(): sorted(map(_key, wanted))}
    write_private(record, json.dumps(folders, indent=1).encode())


def read_deployed(client: SyncPrefectClient) -> dict[Key, DeploymentResponse]:
    """Every deployment of the local worker's pool on the server."""
    found: list[DeploymentResponse] = []
    while True:
        page = client.read_deployments(limit=_PAGE, offset=len(found))
        found += page
        if len(page) < _PAGE:
            return {(each.entrypoint or "", each.name): each for each in found if each.work_pool_name == POOL}


def _as_written(deployment: Mapping[str, Any]) -> dict[str, Any]:
    limit = deployment.get("concurrency_limit")
    given = limit if isinstance(limit, Mapping) else {"limit": limit}
    values = {
        "tags": sorted(deployment.get("tags") or []),
        "parameters": deployment.get("parameters") or {},
        "enforce_parameter_schema": deployment.get("enforce_parameter_schema", True),
        "job_variables": deployment["work_pool"]["job_variables"],
        "concurrency_limit": {"limit": given.get("limit"), "collision_strategy": given.get("collision_strategy")},
        "schedules": {each["slug"]: _schedule(each) for each in deployment["schedules"]},
    }
    optional = {name: deployment[name] for name in ("description", "pull") if name in deployment}
    return _fill(values | optional)


def _as_deployed(deployed: DeploymentResponse, written: Mapping[str, Any]) -> dict[str, Any]:
    limit, options = deployed.global_concurrency_limit, deployed.concurrency_options
    values: dict[str, Any] = {
        "tags": sorted(deployed.tags),
        "parameters": deployed.parameters,
        "enforce_parameter_schema": deployed.enforce_parameter_schema,
        "job_variables": deployed.job_variables,
        "concurrency_limit": {
            "limit": limit.limit if limit else None,
            "collision_strategy": options.collision_strategy.value if options else None,
        },
        "schedules": {
            each.slug or str(each.id): _schedule(each.schedule.model_dump(mode="json") | {"active": each.active})
            for each in deployed.schedules
        },
    }
    found = {"description": deployed.description, "pull": deployed.pull_steps}
    return _fill(values | {name: value for name, value in found.items() if name in written})


def _fill(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` without empty sections, which are not told from absent ones."""
    return {name: value for name, value in values.items() if value not in ({}, [])}


def _schedule(values: Mapping[str, Any]) -> dict[str, Any]:
    """When a schedule starts a run. **Example** `{"cron": "0 3 * * *", "timezone": "UTC", "active": True}`."""
    when = {name: values[name] for name in _WHEN if values.get(name) is not None}
    return when | {"timezone": values.get("timezone") or "UTC", "active": values.get("active", True)}


def _find_removed(wanted: Sequence[Mapping[str, Any]], record: Path) -> set[Key]:
    """What was last deployed from the current folder and is in no file now."""
    return {(entrypoint, name) for entrypoint, name in _read_record(record).get(_folder(), [])} - set(map(_key, wanted))


def _read_record(record: Path) -> dict[str, list[Key]]:
    return json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}


def _folder() -> str:
    return str(Path.cwd())


def _key(deployment: Mapping[str, Any]) -> Key:
    return str(deployment["entrypoint"]), str(deployment["name"])

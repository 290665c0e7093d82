"""Makes a Prefect server know Troupe: the work pool, every deployment, and the automations by which crashed runs come back.

    python -P -m infra.register [process | kubernetes BASE_JOB_TEMPLATE.json]

The server is the one that PREFECT_API_URL names. What is registered already is brought up to date; nothing is removed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import ConfigurationError
from infra.automations import ensure_automations
from infra.deployments import local_deployments, write_deployments
from infra.services.prefect_server import POOL, prefect_command

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

TYPES = ("process", "kubernetes")


def register(pool_type: str, job_template: Path | None) -> int:
    """Register all; the number of deployments. Raises ConfigurationError."""
    from prefect.client.orchestration import get_client

    if pool_type not in TYPES or (pool_type == "kubernetes") != (job_template is not None):
        raise ConfigurationError("write `process`, or `kubernetes` with the file of a base job template")
    template = json.loads(job_template.read_text(encoding="utf-8")) if job_template else {}
    deployments = local_deployments()
    with get_client(sync_client=True) as client:
        ensure_pool(client, pool_type, template)
        with tempfile.TemporaryDirectory() as folder:
            file = write_deployments(Path(folder), deployments)
            command = prefect_command("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file))
            subprocess.run(command, check=True, stdout=sys.stderr)
        ensure_automations(client)
    return len(deployments)


def ensure_pool(client: SyncPrefectClient, pool_type: str, template: Mapping[str, Any]) -> None:
    """Create the work pool, or give an existing one of the same type this template. Raises ConfigurationError."""
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectNotFound

    try:
        found = client.read_work_pool(POOL)
    except ObjectNotFound:
        client.create_work_pool(WorkPoolCreate(name=POOL, type=pool_type, base_job_template=dict(template)))
        return
    if found.type != pool_type:
        raise ConfigurationError(
            f"the work pool {POOL} is of type {found.type}, not {pool_type}: `prefect work-pool delete {POOL}` first"
        )
    if template and found.base_job_template != template:
        client.update_work_pool(POOL, WorkPoolUpdate(base_job_template=dict(template)))


if __name__ == "__main__":
    arguments = sys.argv[1:] or ["process"]
    print(
        f"{register(arguments[0], Path(arguments[1]) if arguments[1:] else None)} deployments in the work pool {POOL}"
    )

"""The deployments of `troupe up`: those of Troupe's flows, of the current folder and of Troupe."""

import shlex
from pathlib import Path
from typing import Any

import yaml

from flows.presets import other_deployments, training_deployments
from infra.services.prefect_server import POOL, prefect_command


def write_deployments(home: Path) -> Path:
    """Write the deployments of the current folder and of Troupe for this machine as a `prefect.yaml`; its path."""
    path = home / "prefect" / "deployments.yaml"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = [*training_deployments().values(), *other_deployments()]
    deployments = [_deployed(each) for each in found if _pool(each)["name"] == POOL]
    path.write_text(yaml.safe_dump({"name": "troupe", "deployments": deployments}))
    return path


def _deployed(deployment: dict[str, Any]) -> dict[str, Any]:
    pool = _pool(deployment)
    variables = {"command": shlex.join(prefect_command("prefect.engine")), **(pool.get("job_variables") or {})}
    return {**deployment, "work_pool": {**pool, "job_variables": variables}}


def _pool(deployment: dict[str, Any]) -> dict[str, Any]:
    """The work pool of a deployment; this machine's worker by default."""
    return {"name": POOL, **(deployment.get("work_pool") or {})}

"""The deployments of `troupe up`: the presets that `troupe train` finds in the current folder."""

import shlex
from pathlib import Path
from typing import Any

import yaml

from flows.presets import training_deployments
from infra.services.prefect_server import POOL, prefect_command


def write_deployments(home: Path) -> Path:
    """Write the training deployments of the current folder and of Troupe for this machine as a `prefect.yaml`; its path."""
    path = home / "prefect" / "deployments.yaml"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    deployments = [_deployed(each) for each in training_deployments().values() if _pool(each)["name"] == POOL]
    path.write_text(yaml.safe_dump({"name": "troupe", "deployments": deployments}))
    return path


def _deployed(deployment: dict[str, Any]) -> dict[str, Any]:
    pool = _pool(deployment)
    variables = {"command": shlex.join(prefect_command("prefect.engine")), **(pool.get("job_variables") or {})}
    return {**deployment, "work_pool": {**pool, "job_variables": variables}}


def _pool(deployment: dict[str, Any]) -> dict[str, Any]:
    """The work pool of a deployment; this machine's worker by default."""
    return {"name": POOL, **(deployment.get("work_pool") or {})}

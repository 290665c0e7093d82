"""What `troupe up` deploys: the presets that `troupe train` finds in a folder, as deployments that run from there."""

import shlex
from pathlib import Path
from typing import Any

import yaml

from flows.presets import training_deployments
from infra.services.prefect_server import POOL, prefect_command

_NAME = "deployments.yaml"


def write_deployments(home: Path) -> Path:
    """Write the training deployments of the current folder and Troupe's own as one `prefect.yaml`; its path.

    Those of another work pool than that of this machine's worker are left to their owner.
    Their flow runs find Troupe's packages before files of the user's; own code is found in the folder after what is installed.
    """
    path = home / "prefect" / _NAME
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    deployments = [_deployed(each) for each in training_deployments().values() if _pool(each)["name"] == POOL]
    path.write_text(yaml.safe_dump({"name": "troupe", "deployments": deployments}))
    return path


def _deployed(deployment: dict[str, Any]) -> dict[str, Any]:
    pool = _pool(deployment)
    variables = {"command": shlex.join(prefect_command("prefect.engine")), **(pool.get("job_variables") or {})}
    return {**deployment, "work_pool": {**pool, "job_variables": variables}}


def _pool(deployment: dict[str, Any]) -> dict[str, Any]:
    """Where a deployment runs: on the worker of this machine unless it names another pool."""
    return {"name": POOL, **(deployment.get("work_pool") or {})}

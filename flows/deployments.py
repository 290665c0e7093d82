"""What `troupe up` deploys: the presets that `troupe train` finds in a folder, as deployments that run from there."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from flows.presets import training_deployments

_NAME = "deployments.json"


def write_deployments(home: Path) -> Path:
    """Write the training deployments of the current folder and Troupe's own as one `prefect.yaml` (JSON is YAML); its path.

    Their flow runs start without the folder on the module path, where Prefect puts it before all else: a `tasks.py` or
    `flows/` of the user's would hide Troupe's. Own code is still found there, after what is installed.
    """
    path = home / "prefect" / _NAME
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": "troupe", "deployments": [*map(_deployed, training_deployments().values())]}))
    return path


def _deployed(deployment: dict[str, Any]) -> dict[str, Any]:
    pool = dict(deployment.get("work_pool") or {})
    variables = {"command": shlex.join([sys.executable, "-P", "-m", "prefect.engine"]), **pool.get("job_variables", {})}
    return {**deployment, "work_pool": {**pool, "job_variables": variables}}

"""The deployments of `troupe up`: all that the current folder's `prefect.yaml` and Troupe's name for this machine's worker."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from flows.presets import all_deployments
from infra.services.prefect_server import POOL, prefect_command

OWN_FLOWS = ("flows.",)
"""How the entrypoints of Troupe's flows begin. Their deployments run on this machine's worker unless they name another."""


def local_deployments() -> list[dict[str, Any]]:
    """The deployments for this machine's worker, of any flow. Each schedule has a slug, by which it is found again.

    One of a user's own flow is among them if it names the work pool `troupe`. Raises ConfigurationError.
    """
    return [_make_deployment(each) for each in all_deployments() if _pool_name(each) == POOL]


def write_deployments(home: Path, deployments: Sequence[Mapping[str, Any]]) -> Path:
    """Write deployments as a `prefect.yaml`; its path."""
    path = home / "prefect" / "deployments.yaml"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"name": "troupe", "deployments": list(deployments)}), encoding="utf-8")
    return path


def deployment_title(deployment: Mapping[str, Any]) -> str:
    """**Example** "nightly-evaluation/nightly", as for `prefect deployment run`, if the flow is called as its function."""
    function = str(deployment["entrypoint"]).replace(":", ".").rpartition(".")[2]
    return f"{function.replace('_', '-')}/{deployment['name']}"


def _make_deployment(deployment: Mapping[str, Any]) -> dict[str, Any]:
    pool = deployment.get("work_pool") or {}
    variables = {"command": shlex.join(prefect_command("prefect.engine")), **(pool.get("job_variables") or {})}
    schedules = deployment.get("schedules") or []
    return {
        **deployment,
        "work_pool": {**pool, "name": POOL, "job_variables": variables},
        "schedules": [{"slug": f"schedule-{number}", **each} for number, each in enumerate(schedules)],
    }


def _pool_name(deployment: Mapping[str, Any]) -> str | None:
    """The work pool of a deployment; None for a user's own flow without one."""
    own = POOL if str(deployment["entrypoint"]).startswith(OWN_FLOWS) else None
    return (deployment.get("work_pool") or {}).get("name", own)

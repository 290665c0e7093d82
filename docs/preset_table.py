"""The deployments as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from flows.presets import PREFECT_YAML


def tables() -> str:
    """Each deployment of Troupe's `prefect.yaml`, as Markdown: first the presets, which train, then the others."""
    deployments = yaml.safe_load(PREFECT_YAML.read_text())["deployments"]
    flows = [str(each["entrypoint"]).rpartition(".")[2].replace("_", "-") for each in deployments]
    presets = [(each["name"], each) for flow, each in zip(flows, deployments, strict=True) if flow.startswith("train")]
    others = [
        (f"{flow}/{each['name']}", each)
        for flow, each in zip(flows, deployments, strict=True)
        if not flow.startswith("train")
    ]
    return (
        f"{_table('preset', presets)}\n\n## Other deployments\n\nRun one with `prefect deployment run` and its name.\n\n"
        f"{_table('deployment', others)}"
    )


def _table(title: str, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    lines = [f"| `{name}` | {each['description']} |" for name, each in rows]
    return "\n".join([f"| {title} | what it does, minutes and hardware |", "|---|---|", *lines])

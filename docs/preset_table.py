"""The presets as a table."""

import yaml

from flows.presets import PREFECT_YAML


def table() -> str:
    """Each deployment of Troupe's `prefect.yaml`, as Markdown."""
    deployments = yaml.safe_load(PREFECT_YAML.read_text(encoding="utf-8"))["deployments"]
    lines = [f"| `{each['name']}` | {each['description']} |" for each in deployments]
    return "\n".join(["| preset | what it trains, minutes and hardware |", "|---|---|", *lines])

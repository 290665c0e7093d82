"""What can be trained here: the presets of the current folder and of Troupe."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from flows.presets import training_deployments

NOT_MEASURED = "not measured"


def preset_rows() -> list[dict[str, Any]]:
    """Each preset with its description, and the minutes and hardware in its deployment's tags; without these None for minutes,
    and for hardware CPU or GPU.

    **Example** tags `["minutes:8-24", "hardware:2 cores"]` give `{"minutes": "8-24", "hardware": "2 cores", ...}`.
    """
    return [
        {
            "name": name,
            "description": str(deployment.get("description") or ""),
            "minutes": _tag(deployment, "minutes"),
            "hardware": _tag(deployment, "hardware") or _device(deployment["parameters"]["config"]),
        }
        for name, deployment in training_deployments().items()
    ]


def _tag(deployment: Mapping[str, Any], key: str) -> str | None:
    tags = deployment.get("tags")
    texts = [str(tag) for tag in tags] if isinstance(tags, list) else []
    return next((text.partition(":")[2].strip() for text in texts if text.startswith(f"{key}:")), None)


def _device(config: Mapping[str, Any]) -> str:
    sections = [config.get(name) for name in ("generation", "training")]
    devices = [section.get("device") for section in sections if isinstance(section, Mapping)]
    return "GPU" if "cuda" in devices else "CPU"


def presets_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """One line per preset."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("preset", "minutes", "hardware", "what it trains"):
        table.add_column(title, no_wrap=title == "preset")
    for row in rows:
        table.add_row(row["name"], row["minutes"] or NOT_MEASURED, row["hardware"], row["description"])
    return table

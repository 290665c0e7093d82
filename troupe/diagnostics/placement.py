"""`troupe doctor --preset P`: where a preset's workers would be, on this machine or on others."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from components.config import RunConfig
from components.machine.process_variables import read_variables
from components.models.memory import GIB, ModelNumbers
from components.placement.fit import check_plan, estimate_worker, find_sizes
from components.placement.inventory import parse_inventory, read_this_host
from components.placement.plan import Plan, Worker, plan
from flows.preflight.memory import read_sizes

MOST_TOKENS = 1 << 20
"""Of prompts and answers that an engine of this process may hold at once: it is asked for its largest batch."""


def describe_plan(config: RunConfig, inventory: str | None) -> dict[str, Any]:
    """The workers of `config` on `inventory`, or on this machine: `{hosts, workers, starts, uncounted}`.

    Raises ConfigurationError, one line, for what finds no place or does not fit.

    **Example** a worker: `{"worker": "engine 0 of team", "host": "host 0", "gpus": ["0"], "gib": 72.0, "parts": {...}}`.
    """
    hosts = (read_this_host(read_variables()),) if inventory is None else parse_inventory(inventory)
    found, sizes = plan(config, hosts), read_sizes(config)
    check_plan(config, found, sizes, num_tokens=MOST_TOKENS)
    unknown = {worker.model for worker in found.workers if find_sizes(config, worker, sizes) is None}
    return {
        "hosts": [
            {"name": host.name, "gpus": [round(each.num_bytes / GIB, 1) for each in host.devices]} for host in hosts
        ],
        "workers": [_describe_worker(config, found, worker, sizes) for worker in found.workers],
        "starts": [[str(worker) for worker in group] for group in found.group_starts()],
        "uncounted": sorted(unknown),
    }


def _describe_worker(
    config: RunConfig, found: Plan, worker: Worker, sizes: Mapping[str, ModelNumbers]
) -> dict[str, Any]:
    model = find_sizes(config, worker, sizes)
    held = {} if model is None else estimate_worker(config, found, worker, model, num_tokens=MOST_TOKENS)
    return {
        "worker": str(worker),
        "host": found.inventory[worker.host].name,
        "gpus": [device.name for device in found.list_devices(worker)],
        "gib": round(sum(held.values()) / GIB, 1) if held else None,
        "parts": {name: round(value / GIB, 1) for name, value in held.items()},
    }


def plan_table(document: Mapping[str, Any]) -> Table:
    """One line per worker."""
    table = Table(box=None)
    for title in ("worker", "host", "GPUs", "GiB of each", "of which"):
        table.add_column(title, justify="right" if title == "GiB of each" else "left")
    for row in document["workers"]:
        parts = ", ".join(f"{name} {value:g}" for name, value in row["parts"].items() if value)
        gib = "not known" if row["gib"] is None else f"{row['gib']:.1f}"
        table.add_row(row["worker"], row["host"], ", ".join(row["gpus"]) or "CPU", gib, parts)
    return table


def plan_notes(document: Mapping[str, Any]) -> Iterator[str]:
    """What the table does not say."""
    if len(document["starts"]) > 1:
        groups = ", then ".join(" and ".join(group) for group in document["starts"])
        yield f"started one after another, because they share a GPU: {groups}"
    if document["uncounted"]:
        yield (
            f"not counted: {', '.join(document['uncounted'])}, made here from a few layers, or with a base whose config.json "
            "is not on this machine"
        )

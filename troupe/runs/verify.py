"""`troupe verify`: what is missing or damaged in a run, and what heals it."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.text import Text

from components.artifacts.base import ArtifactStore
from components.identity import check_run_id, config_key
from components.runs.available_checkpoints import format_ranges
from components.runs.lineages import store_option
from components.runs.stored_runs import unknown_run
from components.runs.verify import Progress, verify_run

_MOST_SHOWN = 24


def verify_document(store: ArtifactStore, run_id: str, progress: Progress = lambda done, total: None) -> dict[str, Any]:
    """What was read and what is wrong with it; `next` is the command or deed that comes first, or None.

    Raises ConfigurationError for an unknown run.
    """
    if store.read(config_key(check_run_id(run_id))) is None and not any(store.list(f"runs/{run_id}/")):
        raise unknown_run(store, run_id)
    report = verify_run(store, run_id, progress)
    document = report.model_dump(mode="json")
    first = report.problems[0].remedy if report.problems else None
    return {
        "state": "whole" if report.is_whole else "damaged",
        **document,
        "next": first,
        "store_option": store_option(store),
    }


def verify_text(document: Mapping[str, Any]) -> Group:
    """The verdict in one line, then each problem with its remedy."""
    problems, removed = document["problems"], document["removed"]
    read = (
        f"{document['num_records']:,} records and {document['num_objects']:,} payloads and files, "
        f"{document['num_bytes'] / 2**20:,.1f} MiB"
    )
    if problems:
        verdict = Text(f"{document['run_id']}: {_count(problems)}, of {read}", style="red")
    else:
        verdict = Text(f"{document['run_id']} is whole: {read}", style="green")
    lines = [verdict]
    for each in problems[:_MOST_SHOWN]:
        lines += [Text(f"\n{each['key']}\n    {each['state']}: {each['what']}"), Text(f"    remedy: {each['remedy']}")]
    if len(problems) > _MOST_SHOWN:
        lines.append(Text(f"\nand {len(problems) - _MOST_SHOWN} more; --json names all"))
    lines += [
        Text(f"{policy}: `troupe gc` removed the checkpoints after {format_ranges(steps)} updates, on purpose")
        for policy, steps in removed.items()
    ]
    first = document["next"] or f"troupe show {document['run_id']}{document['store_option']}"
    return Group(*lines, Text(f"\nnext: {first}"))


def _count(problems: list[Mapping[str, Any]]) -> str:
    """**Example** "2 missing, 1 damaged"."""
    states = [each["state"] for each in problems]
    return ", ".join(f"{states.count(state)} {state}" for state in ("missing", "damaged") if state in states)

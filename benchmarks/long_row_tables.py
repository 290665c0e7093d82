"""Tables of what `memory` and `rows` measured."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.markdown import markdown


def write_layers(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each measurement, in Markdown."""
    titles = (
        "measured",
        "tokens x vocabulary x width",
        "CPU s, whole",
        "blocks",
        "ratio",
        "MiB, whole",
        "blocks",
        "apart",
    )
    return markdown(titles, [_line(row) for row in rows])


def _line(row: Mapping[str, Any]) -> list[str]:
    seconds, mib = ([row[what][way] for way in ("whole", "blocks")] for what in ("seconds", "mib"))
    times = [*(f"{each:.2f}" for each in seconds), f"{row['ratio']:.2f}"]
    return [
        f"{row['name']}, {row['dtype']}",
        row["shape"],
        *times,
        *(f"{each:,}" for each in mib),
        f"{row['apart']:.0e}",
    ]


def write_attention(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each row, in Markdown."""
    titles = ("columns", "CPU s, mask", "tree", "ratio", "MiB, mask", "tree", "apart")
    body = []
    for row in rows:
        seconds, mib = ([row[what][way] for way in ("mask", "tree")] for what in ("seconds", "mib"))
        times = [*(f"{each:.2f}" for each in seconds), f"{row['ratio']:.2f}"]
        body.append([f"{row['columns']:,}", *times, *(f"{each:,}" for each in mib), f"{row['apart']:.0e}"])
    return markdown(titles, body)

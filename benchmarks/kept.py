"""Files of finished parts of a benchmark, each whole or not there, and records of rows that an earlier version measured."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RECORD = "recorded.json"
"""In a folder of rows that are a record: the commit that measured them, and its stage versions. Rows there are found by what
they are of, whatever decides results today."""


def row_in(home: Path, name: str, *, pattern: str) -> Any | None:
    """The row called `name`, or in a record the only one whose name has `pattern`; None without one."""
    file = home / "rows" / f"{name}.json"
    if file.exists():
        return read(file)
    found = [] if read_record(home) is None else [*(home / "rows").glob(f"{pattern}.json")]
    assert len(found) <= 1, f"a record has one row of each kind, but here are {found}"
    return read(found[0]) if found else None


def read_record(home: Path) -> Mapping[str, Any] | None:
    """What measured the rows of a record; None if `home` is none."""
    file = home / RECORD
    return read(file) if file.exists() else None


def describe_record(home: Path, *, only_list: bool) -> str:
    """A line about the record in `home`, empty without one. Raises SystemExit where rows would be added to it."""
    if (measured_by := read_record(home)) is None:
        return ""
    if not only_list:
        raise SystemExit(
            f"{home} is a record of finished runs: add --list to print it, or name another --home to train"
        )
    stages = ", ".join(f"{stage} {version}" for stage, version in sorted(measured_by["stages"].items()))
    return f"a record, measured by commit {measured_by['commit']} (versions of stages: {stages})\n"


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def write(file: Path, content: Any) -> None:
    """Write bytes, or anything else as JSON; the file is whole or not there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    new.replace(file)

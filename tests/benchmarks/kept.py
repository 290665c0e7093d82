"""Files of finished parts of a benchmark, each whole or not there."""

import json
from pathlib import Path
from typing import Any


def read(file: Path) -> Any:
    return json.loads(file.read_text())


def write(file: Path, content: Any) -> None:
    """Write bytes, or anything else as JSON; the file is whole or not there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    new.replace(file)

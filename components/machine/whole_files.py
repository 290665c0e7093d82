"""Text files that appear whole or not at all."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path`, whose folder is made if it is missing. A reader, and a crash, see the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", encoding="utf-8", delete=False) as part:
        try:
            part.write(text)
            part.flush()
            os.fsync(part.fileno())
            os.replace(part.name, path)
        except BaseException:
            Path(part.name).unlink(missing_ok=True)
            raise

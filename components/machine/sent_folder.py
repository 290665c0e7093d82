"""The current folder of a cluster's driver, where a copy of it was sent to another host."""

from pathlib import Path

from components.machine.process_variables import read_variable

SENT_FOLDER = "TROUPE_SENT_FOLDER"
"""The variable of a worker that names the folder on the driver's host. Its current folder is the copy."""


def find_sent(path: str | Path) -> Path:
    """Where a file of the driver's host is on this one: in the copy of its folder, or under the same path.

    **Example** with /home/ann/mine sent, "/home/ann/mine/rows.jsonl" is rows.jsonl in the current folder of a worker.
    """
    path, sent = Path(path), read_variable(SENT_FOLDER)
    return Path.cwd() / path.relative_to(sent) if sent and path.is_relative_to(sent) else path

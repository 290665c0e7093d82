"""Lines by which commands break a silence off a terminal. How many there are is decided by how busy the machine is."""

import re

_WAIT = re.compile(
    r"(loading|looking|opening|checking|starting|deploying|building)\b.*: \d+ s"
    r"|(reading|verifying|evaluating|comparing|playing)\b [^:]*(: \d+ of \d+)?"
    r"|building the sandbox \(once\): .*|starting a private Docker daemon"
)


def lines_without_waits(text: str) -> list[str]:
    """The lines of what a command wrote to standard error, but for those."""
    return [line for line in text.splitlines() if not _WAIT.fullmatch(line)]

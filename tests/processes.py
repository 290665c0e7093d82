"""Looks at processes that may be gone by the time they are looked at."""

from contextlib import suppress

import psutil


def runs(process: psutil.Process) -> bool:
    """Whether a process is there and more than a zombie."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def alive(pid: int) -> bool:
    """The same of a pid."""
    with suppress(psutil.NoSuchProcess):
        return runs(psutil.Process(pid))
    return False


def read_name(process: psutil.Process) -> str:
    """The name of a process; empty when it is gone."""
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


def below(process: psutil.Process) -> list[psutil.Process]:
    """All that a process started and what those did, other sessions included; nothing when it is gone."""
    with suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


def tree(pid: int) -> list[psutil.Process]:
    """A process and all below it; empty when it is gone."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *below(process)]
    return []

"""The most memory that this process and its children have held."""

from collections.abc import Iterator
from pathlib import Path

_PROCESSES = Path("/proc")


def peak_memory_mib(processes: Path = _PROCESSES) -> float | None:
    """The peaks of the resident memory of this process and all its living descendants, added up, in MiB; None where the system
    does not tell.

    They need not have been at one time, so that it is at most too much.

    **Example** a process that has held 300 MiB and whose worker has held 900 MiB: 1200.
    """
    own = processes / "self"
    peaks = [_peak_kib(process) for process in (own, *_descendants(processes, own))]
    return None if peaks[0] is None else sum(peak or 0 for peak in peaks) / 1024


def _descendants(processes: Path, process: Path) -> Iterator[Path]:
    for file in process.glob("task/*/children"):
        try:
            children = file.read_text(encoding="utf-8").split()
        except OSError:
            continue  # it has ended
        for child in children:
            yield processes / child
            yield from _descendants(processes, processes / child)


def _peak_kib(process: Path) -> int | None:
    try:
        lines = (process / "status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)

"""Peaks of a process and its descendants."""

from pathlib import Path

from components.machine.peak_memory import peak_memory_mib


def test_peaks_of_a_process_and_its_descendants_are_added(tmp_path: Path) -> None:
    for process, peak_kib, children in (("self", 2048, "7 8"), ("7", 1024, "9"), ("9", 512, ""), ("1", 4096, "")):
        (tmp_path / process / "task" / process).mkdir(parents=True)
        (tmp_path / process / "status").write_text(f"Name: x\nVmHWM:\t {peak_kib} kB\n")
        (tmp_path / process / "task" / process / "children").write_text(children)
    assert peak_memory_mib(tmp_path) == (2048 + 1024 + 512) / 1024, "8 has ended, and 1 is no child"
    assert peak_memory_mib(tmp_path / "nowhere") is None


def test_what_was_held_and_freed_counts() -> None:
    before = peak_memory_mib()
    assert before is not None
    block = bytearray(64 << 20)
    block[::4096] = b"x" * len(block[::4096])
    del block
    after = peak_memory_mib()
    assert after is not None
    assert 10 < before <= after < before + 1024

"""Control groups: made with their limits, removed with what is inside, and found again when their owner is dead."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from components.machine.process_ids import this_process
from components.sandbox.box import BoxLimits
from components.sandbox.cgroups import CONTROLLERS, CPU_ACCOUNT, Cgroup, find_cgroups, remove_leftovers

LIMITS = BoxLimits(memory_mib=64, num_processes=7, num_cpus=0.5)
NOBODY = f"{this_process().kernel}-{2**22 + 1}-1-0"


def mount(folder: Path, version: int) -> Path:
    """A folder laid out as the kernel lays out its mount, as far as this module looks."""
    if version == 2:
        (folder / "troupe").mkdir()
        (folder / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        (folder / "cgroup.subtree_control").write_text("cpu memory pids\n")
        (folder / "troupe" / "cgroup.subtree_control").write_text("")
    else:
        for controller in CONTROLLERS:
            (folder / controller).mkdir()
            (folder / controller / "cgroup.procs").write_text("")
    return folder


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def read_files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_version_2_has_one_group_with_all_limits(tmp_path: Path, as_root: None) -> None:
    tree = find_cgroups(mount(tmp_path, 2))
    assert tree is not None
    cgroup = tree.make(LIMITS)
    [(place, folder)] = cgroup.folders.items()
    assert (place, folder.parent) == ("", tmp_path / "troupe")
    assert folder.name.startswith(f"{this_process()}-")
    assert read_files(folder) == {"memory.max": str(64 << 20), "pids.max": "7", "cpu.max": "50000 100000"}
    assert (tmp_path / "troupe" / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    cgroup.add(123)
    assert (folder / "cgroup.procs").read_text() == "123"


def test_version_1_has_a_group_for_each_controller(tmp_path: Path, as_root: None) -> None:
    tree = find_cgroups(mount(tmp_path, 1))
    assert tree is not None
    cgroup = tree.make(LIMITS)
    assert {place: folder.parent for place, folder in cgroup.folders.items()} == {
        controller: tmp_path / controller / "troupe" for controller in CONTROLLERS
    }
    assert read_files(cgroup.folders["memory"]) == {"memory.limit_in_bytes": str(64 << 20)}
    assert read_files(cgroup.folders["pids"]) == {"pids.max": "7"}
    assert read_files(cgroup.folders["cpu"]) == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}


@pytest.mark.parametrize("one_hierarchy", [True, False])
def test_version_1_counts_processor_time_in_a_group_too(tmp_path: Path, as_root: None, one_hierarchy: bool) -> None:
    mount(tmp_path, 1)
    if one_hierarchy:
        (tmp_path / CPU_ACCOUNT).symlink_to("cpu")
    else:
        (tmp_path / CPU_ACCOUNT).mkdir()
    (tmp_path / CPU_ACCOUNT / "cpuacct.usage").write_text("0")
    tree = find_cgroups(tmp_path)
    assert tree is not None
    folders = tree.make(LIMITS).folders
    assert set(folders) == {*CONTROLLERS, CPU_ACCOUNT}
    assert Cgroup(folders).counts_cpu
    assert not Cgroup(dict.fromkeys(CONTROLLERS, tmp_path)).counts_cpu
    assert Cgroup({"": tmp_path}).counts_cpu
    assert folders[CPU_ACCOUNT].samefile(folders["cpu"]) == one_hierarchy
    assert read_files(folders["cpu"]) == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}


def test_two_groups_have_two_names(tmp_path: Path, as_root: None) -> None:
    tree = find_cgroups(mount(tmp_path, 2))
    assert tree is not None
    assert tree.make(LIMITS).folders[""] != tree.make(LIMITS).folders[""]


@pytest.mark.parametrize("lacking", ["memory", "pids", "cpu"])
def test_groups_without_every_controller_are_no_use(tmp_path: Path, as_root: None, lacking: str) -> None:
    for version in (1, 2):
        folder = tmp_path / str(version)
        folder.mkdir()
        mount(folder, version)
    (tmp_path / "1" / lacking / "cgroup.procs").unlink()
    (tmp_path / "2" / "cgroup.controllers").write_text(" ".join({*CONTROLLERS} - {lacking}))
    assert find_cgroups(tmp_path / "1") is None
    assert find_cgroups(tmp_path / "2") is None
    assert find_cgroups(tmp_path / "absent") is None


def test_only_root_makes_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert find_cgroups(mount(tmp_path, 2)) is None


def test_groups_of_the_living_stay_and_those_of_the_dead_go(tmp_path: Path) -> None:
    parent = mount(tmp_path, 2) / "troupe"
    mine, strange = parent / f"{this_process()}-5", parent / "somebody-elses-group-here"
    dead = parent / NOBODY
    for folder in (mine, dead, strange):
        folder.mkdir()
    assert remove_leftovers(tmp_path) == 1
    assert not dead.exists()
    assert mine.exists()
    assert strange.exists()


def test_removing_a_real_group_kills_what_is_inside() -> None:
    tree = find_cgroups()
    if tree is None:
        pytest.skip("needs root and control groups that can be written")
    cgroup = tree.make(LIMITS)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        cgroup.add(process.pid)
        for folder in cgroup.folders.values():
            assert str(process.pid) in (folder / "cgroup.procs").read_text().split()
        # Reaped by a thread, because a group is let go of only when nobody in it is left, not even a zombie.
        reaper = threading.Thread(target=process.wait)
        reaper.start()
        cgroup.remove()
        reaper.join(5)
        assert process.returncode == -9
    assert not any(folder.exists() for folder in cgroup.folders.values())
    cgroup.remove()


MET, SPARE = 320 << 20, 200 << 20


@pytest.mark.parametrize(("peak", "met"), [(MET, True), (MET - 4096, True), (SPARE, False)])
def test_a_group_tells_what_the_kernel_ended_for_memory_and_whether_for_its_own_limit(
    tmp_path: Path, peak: int, met: bool
) -> None:
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    (tmp_path / "memory.limit_in_bytes").write_text(f"{MET}\n")
    (tmp_path / "memory.max_usage_in_bytes").write_text(f"{peak}\n")
    (tmp_path / "memory.events").write_text(f"low 0\nmax 9\noom {int(met)}\noom_kill 3\noom_group_kill 0\n")
    for place in ("memory", ""):
        group = Cgroup({place: tmp_path})
        assert (group.num_ended_for_memory(), group.has_met_memory_limit()) == (3, met)

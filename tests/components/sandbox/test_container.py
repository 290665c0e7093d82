"""Containers for real: the same answers as bubblewrap's boxes, and what is left after every kind of sudden death."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.errors import SandboxUnavailable, ServiceMissing
from components.sandbox.box import BoxLimits
from components.sandbox.bubblewrap import open_bubblewrap
from components.sandbox.container import open_containers
from components.sandbox.container_config import check_daemon, container_config, has_own_users
from components.sandbox.daemon import Daemon
from components.sandbox.docker_api import DockerApi
from components.sandbox.pool import BoxPool
from components.sandbox.reaper import OWNER_LABEL, OrphanSweeper, remove_leftovers
from components.sandbox.rootfs import find_or_build_rootfs
from components.sandbox.users import RANGE
from components.schema import ExecutionResult, Limits
from tests.components.sandbox.test_daemon import dockerd_pids

SHORT = Limits(wall_seconds=20.0, cpu_seconds=0.5, memory_mib=128, output_kib=4)
SHORTEST = replace(SHORT, wall_seconds=0.5)
PROGRAMS = {
    "sum": ("print(sum(map(int, input().split())))", "1 2 39"),
    "exit": ("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)", ""),
    "raises": ("1 / 0", ""),
    "syntax": ("def", ""),
    "imports": ("import json, re, sqlite3, decimal, ssl, zlib\nprint(json.dumps(sorted({3, 1})))", ""),
    "hash": ("print(hash('a text'), list({'x', 'y', 'z'}))", ""),
    "signal": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", ""),
    "endless": ("while True: pass", ""),
    "asleep": ("import time; time.sleep(60)", ""),
    "memory": ("x = bytearray(1 << 30)", ""),
    "flood": ("while True: print('a' * 1000)", ""),
    "unicode": ("print(input()[::-1])", "añ☃"),
    "devices": ("print(open('/dev/stdin').read(), file=open('/dev/stdout', 'w'))", "1 2"),
    "no network": ("import socket; socket.create_connection(('1.1.1.1', 53), 1)", ""),
    "no shell": ("import subprocess; subprocess.run(['/bin/sh', '-c', 'true'])", ""),
    "read-only": ("open('/runner.py', 'a')", ""),
}
DRIVER = """
import sys
from pathlib import Path
from components.sandbox.container import open_containers
from components.sandbox.daemon import Daemon
daemon = Daemon(host=sys.argv[1], private=True, version="")
pool = open_containers(daemon, num_boxes=2, state_folder=Path(sys.argv[2]))
pool.wait_ready()
print("ready", flush=True)
pool.run("import time; time.sleep(60)")
"""


@pytest.fixture
def api(daemon: Daemon) -> Iterator[DockerApi]:
    with DockerApi(daemon.host) as made:
        yield made


@pytest.fixture
def pool(daemon: Daemon, state_folder: Path) -> Iterator[BoxPool]:
    made = open_containers(daemon, num_boxes=2, state_folder=state_folder, run_label="test")
    yield made
    made.close()


def containers(api: DockerApi) -> dict[str, Any]:
    """Ours, by id, dead ones too."""
    with api.call("list") as docker:
        return {found["Id"]: found for found in docker.containers(all=True, filters={"label": OWNER_LABEL})}


def eventually(holds: Callable[[], bool], *, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def list_fields(result: ExecutionResult) -> tuple[object, ...]:
    return (result.status, result.stdout, result.stderr, result.exit_code, result.files)


def test_programs_end_alike_in_containers_and_in_bubblewrap(pool: BoxPool, state_folder: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: `apt-get install -y bubblewrap`")
    rootfs, digest = find_or_build_rootfs(state_folder)
    other = open_bubblewrap(rootfs, num_boxes=2, image_digest=digest, limits=BoxLimits.around(Limits()))
    try:
        assert pool.description.image_digest == other.description.image_digest
        statuses = {}
        for name, (program, stdin) in PROGRAMS.items():
            limits = SHORTEST if name == "asleep" else SHORT
            results = [sandbox.run(program, stdin=stdin, limits=limits) for sandbox in (pool, other)]
            assert list_fields(results[0]) == list_fields(results[1]), name
            statuses[name] = results[0].status
        assert statuses == dict.fromkeys(PROGRAMS, "nonzero_exit") | {
            **dict.fromkeys(("sum", "imports", "hash", "unicode", "devices"), "ok"),
            "endless": "cpu_timeout", "asleep": "wall_timeout", "memory": "memory", "flood": "output_limit",
        }  # fmt: skip
    finally:
        other.close()


def test_files_go_in_and_come_back(pool: BoxPool) -> None:
    program = "open('out.txt', 'w').write(open('in.txt').read().upper())"
    result = pool.run(program, files={"in.txt": "ä text"}, outputs=("out.txt", "missing"))
    assert (result.status, result.files) == ("ok", {"out.txt": "Ä TEXT"})


def test_containers_are_labelled_and_none_is_left_after_close(
    daemon: Daemon, state_folder: Path, api: DockerApi, pool: BoxPool
) -> None:
    pool.wait_ready()
    assert eventually(lambda: len(containers(api)) == 2)
    labels = [found["Labels"] for found in containers(api).values()]
    assert [label["troupe.run"] for label in labels] == ["test", "test"]
    pool.close()
    assert containers(api) == {}
    pool.close()


def test_closing_ends_a_job_in_flight(pool: BoxPool, api: DockerApi) -> None:
    pool.wait_ready()
    threading.Timer(0.5, pool.close).start()
    started = time.monotonic()
    with pytest.raises(SandboxUnavailable, match="closed"):
        pool.run("import time; time.sleep(60)", limits=Limits(wall_seconds=60))
    assert time.monotonic() - started < 15
    assert eventually(lambda: containers(api) == {})


def test_a_killed_box_costs_its_job_a_second_box(pool: BoxPool, api: DockerApi) -> None:
    pool.wait_ready()

    def kill() -> None:
        with api.call("kill") as docker:
            for found in containers(api):
                docker.kill(found)

    threading.Timer(0.3, kill).start()
    assert pool.run("import time; time.sleep(1); print('done')").stdout == "done\n"
    assert pool.num_replaced >= 1


def test_a_killed_daemon_is_started_again_under_a_job(
    pool: BoxPool, daemon: Daemon, state_folder: Path, api: DockerApi
) -> None:
    pool.wait_ready()
    before = set(containers(api))
    [pid] = dockerd_pids(state_folder)
    threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    result = pool.run("import time; time.sleep(1); print('done')")
    assert (result.status, result.stdout) == ("ok", "done\n")
    [again] = dockerd_pids(state_folder)
    assert again != pid
    assert pool.run("print(1)").stdout == "1\n"
    assert not before & set(containers(api))


def test_a_killed_driver_s_containers_end_and_a_living_owner_s_do_not(
    pool: BoxPool, daemon: Daemon, state_folder: Path, api: DockerApi
) -> None:
    pool.wait_ready()
    command = [sys.executable, "-c", DRIVER, daemon.host, str(state_folder)]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert driver.stdout is not None
    assert driver.stdout.readline() == b"ready\n"
    time.sleep(0.3)  # its job has begun
    theirs = {found for found, facts in containers(api).items() if f"-{driver.pid}-" in facts["Labels"][OWNER_LABEL]}
    assert remove_leftovers(api, local=True) == 0
    driver.kill()
    driver.wait()
    driver.stdout.close()
    next_pool = open_containers(daemon, num_boxes=1, state_folder=state_folder)
    try:
        assert theirs

        def are_gone() -> bool:
            remove_leftovers(api, local=True)  # a busy daemon may not remove one in time; whoever starts next does
            return not theirs & set(containers(api))

        assert eventually(are_gone, seconds=60)
        assert pool.run("print('alive')").stdout == "alive\n"
        assert pool.num_replaced == 0
    finally:
        next_pool.close()


def test_another_machine_s_owner_is_unknown_to_a_remote_daemon_and_dead_to_a_local_one(
    daemon: Daemon, api: DockerApi, pool: BoxPool
) -> None:
    pool.wait_ready()
    config = container_config(
        "troupe-sandbox:" + pool.description.image_digest[:16],
        limits=BoxLimits(),
        labels={OWNER_LABEL: "000000000000.1-1-1"},
    )
    with api.call("create") as docker:
        made = docker.create_container_from_config(config)["Id"]
    assert remove_leftovers(api, local=False) == 0
    assert made in containers(api)
    assert remove_leftovers(api, local=True) == 1
    assert made not in containers(api)


@pytest.mark.slow
def test_a_frozen_daemon_is_given_up_by_jobs_and_by_close_within_their_limits(
    daemon: Daemon, state_folder: Path, api: DockerApi
) -> None:
    others = set(threading.enumerate())
    pool = open_containers(daemon, num_boxes=4, state_folder=state_folder)
    assert eventually(lambda: len(pool._idle) == 4, seconds=60), "one that is not started does not end with its input"
    makers = {thread for thread in threading.enumerate() if thread.name == "sandbox-boxes"} - others
    assert makers
    [pid] = dockerd_pids(state_folder)
    os.kill(pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        threading.Timer(1.0, pool.close).start()
        with pytest.raises(SandboxUnavailable):
            pool.run("import time; time.sleep(1)")
        pool.close()
        assert eventually(lambda: not any(maker.is_alive() for maker in makers), seconds=30)
        assert time.monotonic() - started < 30
    finally:
        os.kill(pid, signal.SIGCONT)
    assert eventually(lambda: containers(api) == {}, seconds=90)


GOOD = {
    "OSType": "linux",
    "MemoryLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "SecurityOptions": ["name=seccomp,profile=default"],
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"MemoryLimit": False}, "memory limits"),
        ({"PidsLimit": False}, "process limits"),
        ({"CpuCfsQuota": False}, "CPU limits"),
        ({"SecurityOptions": ["name=rootless"]}, "a seccomp profile"),
        ({"OSType": "windows"}, "Linux containers"),
    ],
)
def test_an_daemon_that_ignores_a_limit_is_refused(change: dict[str, Any], words: str) -> None:
    check_daemon(GOOD)
    with pytest.raises(ServiceMissing, match=f"does not keep {words} here.*bubblewrap"):
        check_daemon({**GOOD, **change})


def test_containers_of_an_daemon_that_knows_all_users_have_one_each() -> None:
    assert has_own_users(GOOD)
    for option in ("name=userns", "name=rootless"):
        assert not has_own_users({**GOOD, "SecurityOptions": [*GOOD["SecurityOptions"], option]})


def test_each_container_has_a_user_of_its_own_and_programs_know_its_name(pool: BoxPool) -> None:
    source = "import getpass, os, time; print(os.getuid(), os.getgid(), getpass.getuser()); time.sleep(1)"
    with ThreadPoolExecutor(2) as threads:
        told = [result.stdout.split() for result in threads.map(lambda _: pool.run(source), range(2))]
    users = {int(uid) for uid, _, _ in told}
    assert len(users) == 2
    assert all(uid in RANGE for uid in users)
    assert all(uid == gid and name == "nobody" for uid, gid, name in told)


def test_a_patrol_walks_until_it_is_closed_and_survives_a_silent_daemon() -> None:
    visits: list[float] = []

    def visit() -> None:
        visits.append(time.monotonic())
        raise SandboxUnavailable("silent")

    patrol = OrphanSweeper(visit, pause_seconds=0.02)
    assert eventually(lambda: len(visits) >= 3)
    patrol.close()
    num_visits = len(visits)
    time.sleep(0.1)
    assert len(visits) == num_visits


def test_a_container_may_do_no_more_than_its_program_needs() -> None:
    config = container_config("image", limits=BoxLimits(), labels={})
    host = config["HostConfig"]
    assert host["MemorySwap"] == host["Memory"] == BoxLimits().memory_mib << 20
    assert not {"Binds", "Mounts", "Devices", "CapAdd", "VolumesFrom", "PidMode", "UTSMode"} & set(host)
    assert config["User"] == "65534:65534"
    assert (
        container_config("image", limits=BoxLimits(), labels={}, uid=RANGE.start)["User"]
        == f"{RANGE.start}:{RANGE.start}"
    )
    assert {"/proc/locks", "/proc/keys", "/proc/timer_list", "/sys/firmware"} <= set(host["MaskedPaths"])
    assert {"/dev/pts", "/dev/mqueue"} <= set(host["Tmpfs"])
    assert json.loads(json.dumps(config)) == config

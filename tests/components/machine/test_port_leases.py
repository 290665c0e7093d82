"""Reserved ports: never shared in one process, nor between two, and free again after a crash."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from components.errors import ConfigurationError
from components.machine.port_leases import is_free, lease_port

ROOT = Path(__file__).resolve().parents[2]
HOLDS = """
import sys, time
from pathlib import Path
from components.machine.port_leases import lease_port
print(lease_port(int(sys.argv[1]), folder=Path(sys.argv[2])).port, flush=True)
time.sleep(60)
"""


def a_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def test_two_holders_share_no_port_and_a_killed_ones_is_free_again(tmp_path: Path) -> None:
    first = a_free_port()
    mine = lease_port(first, folder=tmp_path)
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(first), str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        assert theirs > mine.port
        mine.release()
        mine.release()
        again = [lease_port(first, folder=tmp_path) for _ in range(3)]
        assert again[0].port == mine.port
        assert theirs not in {each.port for each in again}
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert lease_port(theirs, folder=tmp_path).port == theirs
    finally:
        other.kill()
        other.wait()
        assert other.stdout is not None
        other.stdout.close()
    for each in again:
        each.release()


def test_a_port_on_which_somebody_listens_is_left_out(tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        assert not is_free(port)
        lease = lease_port(port, folder=tmp_path)
        assert lease.port > port
        with pytest.raises(ConfigurationError, match="base_port"):
            lease_port(port, num_tries=1, folder=tmp_path)
        lease.release()

"""The end of a lease where nobody can be told of it."""

import subprocess
import sys


def test_a_host_that_is_cut_off_ends_what_nobody_wants() -> None:
    program = (
        "import time; from components.cluster import node; node._GIVE_UP_SECONDS = 0.1; "
        "node.remove_own_group = lambda: time.sleep(60); node.Lease(0.2); time.sleep(60)"
    )
    ended = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)
    assert ended.returncode == 0

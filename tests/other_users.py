"""Another user of this machine, who knows where everything is."""

import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

STRANGER = 65534
needs_another_user = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


def as_stranger(act: Callable[[], object]) -> str:
    """What `act` returns, as text, in a process of another user without a group of ours; the name of the error if it raises.

    A fork, because the interpreter may lie where that user cannot start it.
    """
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads: the child only makes system calls
        child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(STRANGER, STRANGER, STRANGER)
            os.setresuid(STRANGER, STRANGER, STRANGER)
            os.write(write_end, str(act()).encode())
        except BaseException as error:
            os.write(write_end, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as answer:
        text = answer.read().decode()
    os.waitpid(child, 0)
    return text


@contextmanager
def strangers_process(name: str, words: list[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process of another user that sleeps, with a name, a command line and an environment of its choice."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # pytest's own folders keep others out
        os.chmod(folder, 0o755)
        program = shutil.copy("/bin/sleep", f"{folder}/{name}")
        sleeper = subprocess.Popen(
            [*words, "600"], executable=program, env=env, user=STRANGER, group=STRANGER, extra_groups=[]
        )
        try:
            yield sleeper
        finally:
            sleeper.kill()
            sleeper.wait()

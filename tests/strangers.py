"""Another user of this machine, who knows where everything is."""

import os
import warnings
from collections.abc import Callable

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

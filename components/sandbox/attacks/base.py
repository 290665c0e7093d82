"""What an attack is: programs, in order, and a judge that tells from their results alone whether the sandbox held.

Most programs try several things and tell of each whether it got through. They are written by `probing`, read by `report`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.schema import Execution, ExecutionResult, Limits

SHORT = Limits(wall_seconds=6.0, cpu_seconds=3.0, memory_mib=192)
"""Enough for a program that tries a few things; attacks on a limit choose their own."""

PREAMBLE = """
import ctypes, errno, json, os, socket, sys, time

found = {}
libc = ctypes.CDLL(None, use_errno=True)

def attempt(name, act):
    try:
        value = act()
    except OSError as error:
        found[name] = [False, errno.errorcode.get(error.errno, str(error))]
    except BaseException as error:
        found[name] = [False, type(error).__name__]
    else:
        found[name] = [True, repr(value)[:200]]

def notice(name, seen, otherwise="none"):
    found[name] = [bool(seen), str(seen)[:200] if seen else otherwise]

def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result

def syscall(number, *arguments):
    ctypes.set_errno(0)
    return checked(libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)))

def read(path):
    with open(path, "rb") as file:
        return file.read(64)

def tell():
    try:
        with open("/proc/1/stat") as file:
            box = os.uname().nodename + "/" + file.read().rsplit(")", 1)[1].split()[19]
    except OSError:
        box = "?"
    print(json.dumps({"box": box, "found": found}), flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the sandbox held, and by what, in one line taken from the results."""

    stopped: bool
    by: str


Judge = Callable[[Sequence[ExecutionResult]], Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One thing that a hostile program may try.

    `jobs` run in their order, or all at once. `look`, where there is one, runs afterwards in every box of the pool and
    tells what the jobs left there. The judge gets the results of the jobs, then those of the looks.
    """

    name: str
    theme: str
    tries: str
    jobs: tuple[Execution, ...]
    judge: Judge
    look: Execution | None = None
    at_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a probing program told: `got` and `refused` by the name of the attempt, and which box it ran in."""

    box: str
    got: Mapping[str, str]
    refused: Mapping[str, str]


def probing(body: str, **values: object) -> str:
    """A program that runs `body`, where `attempt(name, act)` records whether `act()` got through, and tells at its end.

    `notice(name, seen)` records what should not be there, where `seen` is not empty. `values` are plain constants that
    the body finds under their names.
    """
    constants = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    return f"{PREAMBLE}{constants}{body}\ntell()\n"


def report(result: ExecutionResult) -> Report | None:
    """What the program told on its last line; None when it did not come so far."""
    lines = result.stdout.rstrip().splitlines()
    try:
        told: Any = json.loads(lines[-1]) if lines else None
        found = told["found"]
        return Report(
            box=told["box"],
            got={name: detail for name, (got, detail) in found.items() if got},
            refused={name: detail for name, (got, detail) in found.items() if not got},
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def ending(result: ExecutionResult) -> str:
    """How a program ended, for people."""
    code = "" if result.exit_code is None else f", exit code {result.exit_code}"
    detail = f": {result.detail}" if result.detail else ""
    return f"{result.status}{code} after {result.wall_seconds:.1f} s{detail}"

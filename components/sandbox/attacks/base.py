"""An attack: programs to run, and a judge that decides from their results alone whether the sandbox held.

Most programs attempt several things and report the outcome of each: `probing` writes such a program, `report` reads its output.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.schema import Execution, ExecutionResult, Limits

SHORT = Limits(wall_seconds=6.0, cpu_seconds=3.0, memory_mib=192)
"""Enough for a program that makes a few attempts; attacks on a limit choose their own limits."""

PREAMBLE = """
import ctypes, errno, json, os, socket, sys, time

found = {}
libc = ctypes.CDLL(None, use_errno=True)

def outcome(act):
    try:
        return True, repr(act())[:200]
    except OSError as error:
        return False, errno.errorcode.get(error.errno, str(error))
    except BaseException as error:
        return False, type(error).__name__

def attempt(name, act):
    found[name] = outcome(act)

def notice(name, seen, otherwise="none"):
    found[name] = bool(seen), str(seen)[:200] if seen else otherwise

def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result

def syscall(number, *arguments):
    ctypes.set_errno(0)
    return checked(libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)))

def call(x86_64, aarch64, *arguments):
    return syscall(x86_64 if os.uname().machine == "x86_64" else aarch64, *arguments)

def read(path):
    with open(path, "rb") as file:
        return file.read(64)

def write(path, text):
    with open(path, "w") as file:
        return file.write(text)

def rewrite(path):
    with open(path, "r+") as file:
        text = file.read()
        file.seek(0)
        file.write(text)
        return text

def fork(act):
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    return child

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
    """Whether the sandbox held, and what stopped the attack, in one line taken from the results."""

    stopped: bool
    by: str


Judge = Callable[[Sequence[ExecutionResult]], Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One thing that a hostile program may try.

    `jobs` run in order, or concurrently with `at_once`. `look`, if any, runs afterwards in every box of the pool and reports
    what the jobs left there. The judge gets the results of the jobs, then those of the looks.
    """

    name: str
    tries: str
    jobs: tuple[Execution, ...]
    judge: Judge
    look: Execution | None = None
    at_once: bool = False
    theme: str = ""
    """The name of its module; the catalogue sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The output of a probing program: its attempts that succeeded and those that were refused, and the box it ran in."""

    box: str
    got: Mapping[str, str]
    refused: Mapping[str, str]


def probing(body: str, **values: object) -> str:
    """A program that runs `body` and reports its attempts at the end.

    In `body`, `attempt(name, act)` records whether `act()` succeeded, and `notice(name, seen)` records a non-empty `seen` as a
    success of the attack. `values` are constants that `body` can use.
    """
    constants = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    return f"{PREAMBLE}{constants}{body}\ntell()\n"


def report(result: ExecutionResult) -> Report | None:
    """The report on the last line of the output; None if there is none."""
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
    """How a program ended, in words."""
    code = "" if result.exit_code is None else f", exit code {result.exit_code}"
    detail = f": {result.detail}" if result.detail else ""
    return f"{result.status}{code} after {result.wall_seconds:.1f} s{detail}"

"""Runs a command: its exit code, and one line on standard error for any error.

The line has the remedy of a known error, and names a file with the traceback if that helps.
"""

import errno
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import typer
from pydantic import ValidationError

from components.errors import ConfigurationError, PrefectUnavailable, ServiceMissing, TroupeError
from components.machine.home import HOME
from components.text.escaping import show_value
from troupe.cli.notices import notices
from troupe.cli.signals import LINE, LINE_OF_KEPT_WORK, interruptible, say

_MOST_REPORTS = 20
_MOST_LINES = 4
_KEEPING_WORK = {"train", "resume", "evaluate", "compare"}
"""The commands that go on where they were interrupted."""
_QUIET_PREFECT = {
    # Prefect's messages about each task go to its own pages; the terminal has the display and our own notices.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    "PREFECT_CLIENT_MAX_RETRIES": "2",
}
_SEVERAL_SETTINGS = re.compile(r"extra argument.*\([a-z_.]+=")
_NO_ACCESS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_NEARLY_FULL_BYTES = 50 * 2**20


@runtime_checkable
class _Misuse(Protocol):
    """The exception that typer raises for an invalid command line; its class is private."""

    exit_code: int

    def format_message(self) -> str: ...


def run_command(command: Callable[[], Any]) -> int:
    """Run `command`; its exit code is 2 for wrong input, 1 for a failure, 128 + the signal's number if interrupted."""
    for name, value in _QUIET_PREFECT.items():
        os.environ.setdefault(name, value)
    logging.raiseExceptions = False  # a log line that cannot be sent to a server is no error
    line = LINE_OF_KEPT_WORK if set(sys.argv[1:2]) & _KEEPING_WORK else LINE
    with notices(), interruptible(line) as interruption:
        try:
            code = command()
        except BaseException as error:  # the border of the command
            if interruption.signal_number is None and not isinstance(error, KeyboardInterrupt):
                return _report_end(error)
        else:
            if interruption.signal_number is None:
                return code if isinstance(code, int) else 0
        say(line)
        if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
            with suppress(OSError, ValueError):
                sys.stdout.flush()
            os._exit(interruption.exit_code)
        return interruption.exit_code


def _report_end(error: BaseException) -> int:
    """Report `error` in one line; the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, typer.Abort):
        say("troupe: no answer was given")
        return 1
    if isinstance(error, _Misuse):
        return _report_misuse(error)
    known = find_known_error(error)
    if isinstance(known, ConfigurationError):
        say(f"troupe: {_in_one_line(known)}")
        return 2
    if known is not None:
        has_more = known is not error or known.__cause__ is not None or _is_long(known)
        say(f"troupe: {_in_one_line(known)}{f'; details in {_report(error)}' if has_more else ''}")
        return 1
    message = f"{type(error).__name__}: {error}".splitlines()[0]
    say(f"troupe: internal error: {message}; traceback in {_report(error)}; this is a bug in Troupe")
    return 1


def _report_misuse(error: "_Misuse") -> int:
    """Report an invalid command line. **Example** "troupe: train: missing argument 'preset'; see `troupe train --help`"."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "troupe"
    if type(error).__name__ == "NoArgsIsHelpError":
        say(error.format_message())
    else:
        message = " ".join(error.format_message().split()).rstrip(".")
        command = path.removeprefix("troupe").strip()
        where = f"{command}: " if command else ""
        remedy = "; write --set before each" if _SEVERAL_SETTINGS.search(message) else ""
        say(f"troupe: {where}{message[:1].lower()}{message[1:]}{_read_given(error)}{remedy}; see `{path} --help`")
    return error.exit_code


def _read_given(error: object) -> str:
    """The refused value of an option or argument; typer names only the option."""
    fault = getattr(error, "__cause__", None)
    return f" (got {show_value(fault.errors()[0]['input'])})" if isinstance(fault, ValidationError) else ""


def find_known_error(error: BaseException) -> TroupeError | None:
    """`error`, or its cause, as an error of our tree; None for an unexpected one."""
    for cause in causes(error):
        if isinstance(cause, TroupeError):
            return cause
        if isinstance(cause, OSError) and (named := _of_the_system(cause)):
            return named
        if named := _of_prefect(cause):
            return named
    return None


def _of_prefect(error: BaseException) -> TroupeError | None:
    """A Prefect server that is down or refuses; recognized by class names, since its client takes seconds to import."""
    where = f"Prefect at {os.environ.get('PREFECT_API_URL')}"
    if "Unknown scheme for proxy URL" in str(error) or (isinstance(error, ImportError) and "socksio" in str(error)):
        return ConfigurationError(
            f"ALL_PROXY, HTTP_PROXY, HTTPS_PROXY: Prefect's client cannot use one of them ({error}); name an http:// proxy, or "
            "unset it for this command"
        )
    bases = {base.__name__ for base in type(error).__mro__ if base.__module__.partition(".")[0] in {"httpx", "prefect"}}
    if "HTTPStatusError" in bases:
        code = error.response.status_code  # type: ignore[attr-defined]
        access = code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        remedy = "set PREFECT_API_AUTH_STRING or PREFECT_API_KEY" if access else "the server's log says why"
        return ServiceMissing(f"{where} answers {code}; {remedy}")
    if "HTTPError" in bases:
        return PrefectUnavailable(
            f"{where} does not answer ({type(error).__name__}: {error}); start it with `troupe up`, then the same command "
            "continues from here"
        )
    return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and its causes, as kept by Python, Ray (`cause`) and exception groups."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        cause = waiting.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        inner = (cause.__cause__, getattr(cause, "cause", None), *getattr(cause, "exceptions", ()))
        waiting += [found for found in inner if isinstance(found, BaseException)]


def _of_the_system(error: OSError) -> TroupeError | None:
    """A full disk or a folder without permission; None for other system errors, which have no known remedy."""
    if isinstance(error, PermissionError) and error.errno is None:
        return ServiceMissing(str(error))  # our own error, which names the folder and the remedy
    place = error.filename2 or error.filename
    if error.errno in _NO_SPACE:
        return ServiceMissing(f"{place or 'a file'}: {error.strerror}; {disks_line()}")
    is_home = place is not None and Path(os.fsdecode(place)).is_relative_to(HOME)
    if is_home and error.errno in {*_NO_ACCESS, errno.ENOENT}:
        return ConfigurationError(
            f"TROUPE_HOME {HOME}: {place}: {error.strerror}; let TROUPE_HOME name a folder that this user may write"
        )
    if place is not None and error.errno in _NO_ACCESS:
        return ServiceMissing(f"{place}: {error.strerror}; use a folder that this user may write")
    return None


def disks_line() -> str:
    """The full disks among the folders that a command writes to. **Example** "TMPDIR /tmp has 0 MiB left"."""
    folders = {"TMPDIR": Path(tempfile.gettempdir()), "TROUPE_HOME": HOME, "the working directory": Path.cwd()}
    free = {name: (folder, shutil.disk_usage(folder).free) for name, folder in folders.items() if folder.exists()}
    full = [
        f"{name} {folder} has {left >> 20} MiB left"
        for name, (folder, left) in free.items()
        if left < _NEARLY_FULL_BYTES
    ]
    return f"{', '.join(full)}; free some space, or name another folder" if full else "free some space there"


def _is_long(error: TroupeError) -> bool:
    return len(str(error).splitlines()) > _MOST_LINES


def _in_one_line(error: TroupeError) -> str:
    """The message; only the first and last line of a long one, which the report has in full."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "No space left on device" in str(error):
        lines.append(disks_line())
    return "; ".join([lines[0], lines[-1]] if _is_long(error) else lines) or type(error).__name__


def _report(error: BaseException) -> Path | str:
    """Write the traceback with all causes to a private file; its path."""
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.txt"
    text = f"troupe {' '.join(sys.argv[1:])}\n\n{''.join(traceback.format_exception(error))}"
    for folder in (HOME / "errors", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = folder / (name if folder.parent == HOME else f"troupe-error-{name}")
            with open(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w", encoding="utf-8"
            ) as file:
                file.write(text)
        except OSError:
            continue
        if folder.parent == HOME:
            for old in sorted(folder.glob("*.txt"))[:-_MOST_REPORTS]:
                old.unlink(missing_ok=True)
        return path
    logging.getLogger(__name__).debug("no folder takes the traceback", exc_info=error)
    return "no file, since no folder can be written"

"""Where a command ends: one line and an exit code for every error, a file for its traceback, and order after a signal."""

import errno
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from components.errors import ConfigurationError, StoreGone, UpdateFailed
from components.reporting.progress import NEWS
from troupe.cli import errors
from troupe.cli.errors import find_known_error, run_command
from troupe.cli.notices import notices

ROOT = Path(__file__).resolve().parents[3]
LINE = "interrupted"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(errors, "HOME", tmp_path / "home")
    monkeypatch.setenv("PREFECT_API_URL", "http://here/api")
    monkeypatch.setattr(logging, "raiseExceptions", True)  # a command sets it
    for name in errors._QUIET_PREFECT:
        monkeypatch.setenv(name, os.environ.get(name, ""))
    return tmp_path / "home"


def run_and_end(error: BaseException, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and the only line of a command that raises `error`."""

    def command() -> None:
        raise error

    code = run_command(command)
    (line,) = capsys.readouterr().err.splitlines()
    return code, line


def from_(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


class RayTaskError(Exception):
    """Ray keeps what a task raised in `cause`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__("a page of another process's traceback\n" * 50)
        self.cause = cause


def make_prefect_refusal(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://here/api/flows")
    return httpx.HTTPStatusError("refused", request=request, response=httpx.Response(status, request=request))


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ConfigurationError("rollout.group_size: is 1; at least 2"), 2, "troupe: rollout.group_size: is 1; at least 2"),
        (ConfigurationError("a: wrong\nb: wrong, too"), 2, "troupe: a: wrong; b: wrong, too"),
        (RuntimeError("wrapped"), 1, "troupe: internal error: RuntimeError: wrapped; traceback in "),
        (from_(RuntimeError("a wrapper"), StoreGone("S3 is gone")), 1, "troupe: S3 is gone; details in "),
        (RayTaskError(ConfigurationError("x: y")), 2, "troupe: x: y"),
        (ExceptionGroup("several", [KeyError("k"), StoreGone("gone")]), 1, "troupe: gone; details in "),
        (
            httpx.ConnectError("refused"),
            1,
            "troupe: Prefect at http://here/api does not answer (ConnectError: refused); ",
        ),
        (make_prefect_refusal(401), 1, "troupe: Prefect at http://here/api answers 401; set PREFECT_API_AUTH_STRING"),
        (make_prefect_refusal(503), 1, "troupe: Prefect at http://here/api answers 503; the server's log says why"),
        (UpdateFailed("\n".join(f"line {number}" for number in range(100))), 1, "troupe: line 0; line 99"),
        (SystemExit(3), 3, None),
    ],
)
def test_every_error_is_one_line(
    error: BaseException, code: int, told: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if told is None:
        assert run_command(lambda: sys.exit(3)) == 3
        assert capsys.readouterr().err == ""
        return
    found, line = run_and_end(error, capsys)
    assert (found, line.startswith(told)) == (code, True), line


@pytest.mark.parametrize("proxy", ["socks://127.0.0.1:7890", "socks5://127.0.0.1:7890"])
def test_a_proxy_that_prefect_s_client_cannot_use_is_named(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises((ValueError, ImportError)) as refused:
        httpx.Client()
    assert "ALL_PROXY, HTTP_PROXY, HTTPS_PROXY: Prefect's client cannot use" in str(find_known_error(refused.value))


def test_a_bug_in_the_handling_of_a_known_error_is_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        try:
            raise ConfigurationError("known")
        except ConfigurationError:
            raise KeyError("a bug")  # noqa: B904

    assert run_command(command) == 1
    assert "internal error: KeyError: 'a bug'" in capsys.readouterr().err


def test_the_traceback_with_all_causes_is_in_the_file_that_the_line_names(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, line = run_and_end(from_(RuntimeError("outer"), KeyError("inner")), capsys)
    (report,) = (home / "errors").iterdir()
    assert str(report) in line
    text = report.read_text()
    assert "KeyError: 'inner'" in text
    assert "The above exception was the direct cause" in text
    assert report.stat().st_mode & 0o077 == 0


def test_the_users_mistakes_leave_no_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_and_end(ConfigurationError("x"), capsys)
    run_and_end(StoreGone("x"), capsys)
    assert not home.exists()


def test_only_the_newest_reports_are_kept(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "errors").mkdir(parents=True)
    for number in range(40):
        (home / "errors" / f"20000101T0000{number:02}-1.txt").write_text("old")
    run_and_end(RuntimeError("new"), capsys)
    assert len(list((home / "errors").iterdir())) == errors._MOST_REPORTS
    assert any("RuntimeError: new" in report.read_text() for report in (home / "errors").iterdir())


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 1, "troupe: a file: No space left on device; "),
        (PermissionError(errno.EACCES, "Permission denied", "/root/x"), 1, "troupe: /root/x: Permission denied; use a"),
        (PermissionError("/tmp/x is open to others; remove it"), 1, "troupe: /tmp/x is open to others; remove it; det"),
        (OSError(errno.EROFS, "Read-only file system", "/mnt/x"), 1, "troupe: /mnt/x: Read-only file system; use a"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/x/y"), 1, "troupe: internal error: FileNotFoundError"),
    ],
)
def test_errors_of_the_system_are_named(
    error: OSError, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, line = run_and_end(error, capsys)
    assert (found, line.startswith(told)) == (code, True), line


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(errors, "_NEARLY_FULL_BYTES", 1 << 62)
    _, line = run_and_end(UpdateFailed("OSError: [Errno 28] No space left on device"), capsys)
    assert "TMPDIR /" in line


def test_a_home_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(errors, "HOME", Path("/proc/x"))
    error = FileNotFoundError(errno.ENOENT, "No such file or directory", "/proc/x/services")
    assert run_and_end(error, capsys) == (
        2,
        "troupe: TROUPE_HOME /proc/x: /proc/x/services: No such file or directory; let TROUPE_HOME name a folder that this "
        "user may write",
    )
    code, line = run_and_end(RuntimeError("x"), capsys)
    assert code == 1
    Path(line.split("traceback in ")[1].split(";")[0]).unlink()  # the folder for temporary files took it


RUN = """
import signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from troupe.cli import signals
from troupe.cli.errors import find_known_error, run_command
from troupe.cli.notices import notices
{before}

def command():
    try:
        print("started", flush=True)
        time.sleep(600)
    finally:
        {ending}
sys.exit(run_command(command))
"""


@contextmanager
def start_process(
    before: str = "", ending: str = "print('in order')", name: str = "show"
) -> Iterator[subprocess.Popen[str]]:
    code = RUN.format(before=before, ending=ending)
    process = subprocess.Popen(
        [sys.executable, "-c", code, name], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_command_in_order(number: signal.Signals, code: int) -> None:
    with start_process() as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (code, "in order\n", f"{LINE}\n")


def test_a_command_that_keeps_its_work_says_so() -> None:
    with start_process(name="train") as process:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert err == f"{LINE}; nothing that was finished is lost, the same command continues from here\n"


@pytest.mark.parametrize("end", ["a second Ctrl-C", "time"])
def test_what_does_not_end_in_order_is_ended(end: str) -> None:
    before = "signals.ENDING_SECONDS = 0.5" if end == "time" else ""
    with start_process(before, ending="print('ending', flush=True); time.sleep(600)") as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "ending\n"
        if end != "time":
            process.send_signal(signal.SIGTERM)  # as service managers do right after
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, f"{LINE}\n")


def test_threads_that_still_work_hold_up_nobody() -> None:
    with start_process(before="threading.Thread(target=time.sleep, args=(600,)).start()") as process:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, f"{LINE}\n")


def test_nohup_is_obeyed() -> None:
    before = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    with start_process(before) as process:
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 143


def test_a_warning_is_one_line_and_not_said_again(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> Any:
        for _ in range(100):
            logging.getLogger("components.somewhere").warning("S3 is\naway")
        logging.getLogger("tasks.elsewhere").error("worse", exc_info=ValueError("x"))

    assert run_command(command) == 0
    assert capsys.readouterr().err == "warning: S3 is away\nerror: worse\n"


def test_news_is_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("components.sandbox.rootfs")
    with notices():
        log.warning("building the sandbox (once)", extra=NEWS)
        log.warning("something is odd")
    assert capsys.readouterr().err.splitlines() == ["building the sandbox (once)", "warning: something is odd"]

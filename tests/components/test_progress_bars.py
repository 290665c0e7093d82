"""Bars of libraries, in a terminal and in a log."""

import os
import pty
import subprocess
import sys
import termios

import pytest

HIDE = "from components.progress_bars import show_bars_in_terminals_only as hide; hide(); hide(); "
BAR = "import tqdm.auto; {hide}list(tqdm.auto.tqdm(range(3), desc='Loading weights'))"


def errors_in_a_log(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr


def errors_in_a_terminal(program: str) -> str:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        subprocess.run([sys.executable, "-c", program], stderr=theirs, check=True)
        os.close(theirs)
        return terminal.read(4096).decode()


def test_a_log_has_no_bar_even_of_a_library_that_was_imported_before() -> None:
    assert "Loading weights" in errors_in_a_log(BAR.format(hide=""))
    assert errors_in_a_log(BAR.format(hide=HIDE)) == ""


def test_a_terminal_shows_it() -> None:
    assert "Loading weights" in errors_in_a_terminal(BAR.format(hide=HIDE))


@pytest.mark.parametrize(("disable", "is_shown"), [(True, False), (False, True)])
def test_what_a_library_says_itself_counts(disable: bool, is_shown: bool) -> None:
    program = BAR.format(hide=HIDE).replace("range(3)", f"range(3), disable={disable}")
    assert ("Loading weights" in errors_in_a_log(program)) == is_shown

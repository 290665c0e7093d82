"""Bars of libraries, in a terminal and in a log."""

import os
import pty
import subprocess
import sys
import termios

import pytest

HIDDEN = """
import tqdm.auto
from components.reporting.progress_bars import bars_in_terminals_only
with bars_in_terminals_only(), bars_in_terminals_only():
    list(tqdm.auto.tqdm(range(3), desc='Loading weights'))
"""
AFTER = HIDDEN + "list(tqdm.auto.tqdm(range(3), desc='Another'))"


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
    told = errors_in_a_log(AFTER)
    assert "Loading weights" not in told
    assert "Another" in told  # only inside, and not for what else the process does


def test_a_terminal_shows_none_where_it_would_disturb() -> None:
    within = AFTER.replace("bars_in_terminals_only(), bars_in_terminals_only()", "no_bars()")
    told = errors_in_a_terminal(within.replace("bars_in_terminals_only", "no_bars"))
    assert "Loading weights" not in told
    assert "Another" in told


def test_a_terminal_shows_it() -> None:
    assert "Loading weights" in errors_in_a_terminal(HIDDEN)


@pytest.mark.parametrize(("disable", "is_shown"), [(True, False), (False, True)])
def test_what_a_library_says_itself_counts(disable: bool, is_shown: bool) -> None:
    program = HIDDEN.replace("range(3)", f"range(3), disable={disable}")
    assert ("Loading weights" in errors_in_a_log(program)) == is_shown

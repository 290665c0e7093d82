"""A process that calls a user's function: for one problem after another, JSON lines in and out, or once, for `problem.json`."""

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.errors import ConfigurationError
from components.machine.process_variables import set_variables
from components.user_code import import_object


def main(name: str) -> None:
    """Answer each line of standard input until it ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the function prints is no answer
    try:
        function = import_object("program().function", name)
    except ConfigurationError as error:
        answers.write(json.dumps([None, str(error)]) + "\n")
        return
    for line in sys.stdin:
        job = json.loads(line)
        set_variables(job["variables"])
        os.chdir(job["folder"])
        answer = call(function, job["problem"])
        os.chdir(Path.home().anchor)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main_once(name: str) -> None:
    """Print what the function returns, and nothing else, and exit as it ended."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    function = import_object("program().function", name)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
    code, output = call(function, json.loads(Path("problem.json").read_text(encoding="utf-8")))
    answers.write(output)
    answers.close()
    os._exit(code)  # as in a process that is kept, nothing that the function has left is waited for


def call(function: Callable[[Any], Any], problem: Any) -> tuple[int, str]:
    """The exit code of one call, and what it returned or the trace of its error."""
    try:
        return 0, str(function(problem))
    except Exception:  # the border to a user's function: how it ended is data
        return 1, traceback.format_exc()


if __name__ == "__main__":
    (main_once if sys.argv[2:] == ["once"] else main)(sys.argv[1])

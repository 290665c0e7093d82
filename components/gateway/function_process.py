"""A process that calls a user's function for one problem after another: JSON lines in and out."""

import json
import os
import sys
import traceback
from pathlib import Path

from components.errors import ConfigurationError
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
        os.environ.update(job["variables"])
        os.chdir(job["folder"])
        try:
            answer = [0, str(function(job["problem"]))]
        except Exception:  # the border to a user's function: how it ended is data
            answer = [1, traceback.format_exc()]
        finally:
            os.chdir(Path.home().anchor)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])

"""The python tool: the sandbox runs the tool agent's program on the board; its last line of output is the proposal."""

import json
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from components.environments.shared.json_text import parse_json, strip_fence
from components.environments.shared.text import quote_start
from components.errors import MalformedAction
from components.frozen import Settings
from components.schema import Execution, ExecutionResult, ExecutionStatus

MALFORMED_MARK = "!"
STATUS_MARKS: Mapping[ExecutionStatus, str] = {
    "nonzero_exit": "x",
    "wall_timeout": "t",
    "cpu_timeout": "t",
    "memory": "m",
    "output_limit": "o",
    "process_limit": "p",
}
NOT_JSON_MARK = "j"
MARKS_MEANING = (
    "x its program failed, t took too long, m took too much memory, o printed too much, p started too many processes, "
    "j printed no JSON"
)
"""The marks of failed programs, for the plan agent's instructions."""

_MAX_LINE_CHARACTERS = 4096
_SHOWN_STDERR = 120


class ToolOptions(Settings):
    """The options of every puzzle."""

    tool: Literal["moves", "python"] = "moves"
    """moves: the list itself. python: a program that reads the board and prints the list; it runs in the sandbox."""
    max_program_characters: int = Field(1000, ge=60, le=20_000)
    """Longest program; for tool python alone."""

    @model_validator(mode="after")
    def _program_needs_python(self) -> "ToolOptions":
        if self.tool == "moves" and "max_program_characters" in self.model_fields_set:
            raise ValueError("max_program_characters is for tool python: set tool to python, or remove it")
        return self

    @property
    def tool_payload(self) -> dict[str, Any]:
        """The tool in a problem's payload: nothing for moves, because problem ids depend on the payload."""
        if self.tool == "moves":
            return {}
        return {"tool": self.tool, "max_program_characters": self.max_program_characters}

    @property
    @abstractmethod
    def longest_list(self) -> int:
        """The maximum number of moves in one answer."""


class ProgramFailed(MalformedAction):
    """A program without a list of moves; `mark` tells the plan agent why."""

    def __init__(self, message: str, mark: str = MALFORMED_MARK) -> None:
        super().__init__(message)
        self.mark = mark


def execution_of(answer: str, board: Mapping[str, Any], *, max_characters: int) -> Execution:
    """The program of an answer, to be run on `board`. Raises ProgramFailed if it is missing, too long or not text."""
    program = strip_fence(answer).strip()
    if len(program) > max_characters:
        raise ProgramFailed(f"a program of {len(program)} characters; at most {max_characters} are allowed")
    if not program:
        raise ProgramFailed("no program")
    try:
        program.encode()
    except UnicodeEncodeError as error:
        raise ProgramFailed(f"{quote_start(program)} is not text: {error.reason}") from error
    return Execution(program=program + "\n", stdin=json.dumps(board, separators=(",", ":")))


def read_printed_moves(result: ExecutionResult) -> str:
    """The last line of a program's output as an answer in the puzzle's grammar: `"U, D"` for `["U", "D"]`.

    Raises ProgramFailed if the program failed, or its last line is neither a JSON list of strings nor a JSON string.
    """
    if result.status != "ok":
        raise ProgramFailed(_reason(result), STATUS_MARKS[result.status])
    last_line = result.stdout.rstrip().rpartition("\n")[2].strip()
    try:
        value = parse_json(last_line, max_characters=_MAX_LINE_CHARACTERS, max_depth=1)
    except MalformedAction as error:
        raise ProgramFailed(f"the last line of the output: {error}", NOT_JSON_MARK) from error
    if isinstance(value, list) and all(isinstance(move, str) for move in value):
        return ", ".join(value)
    if not isinstance(value, str):
        raise ProgramFailed(f"the last line {quote_start(last_line)} is no list of moves", NOT_JSON_MARK)
    return value


def _reason(result: ExecutionResult) -> str:
    """Why a program failed, with the end of its standard error, safe to show in a terminal."""
    said = result.stderr.strip().rpartition("\n")[2][-_SHOWN_STDERR:] or result.detail
    said = "".join(character if character.isprintable() else "?" for character in said)
    return f"the program ended with {result.status}{': ' if said else ''}{said}"


def printing_program(moves: str) -> str:
    """The shortest program that proposes `moves`: `print('"UD"')` for UD."""
    return f"print('{json.dumps(moves)}')"

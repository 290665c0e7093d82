"""The grammar of programs and answers. Text is extracted and never evaluated."""

import re

from components.environments.math.normalization import MAX_FINAL_CHARACTERS, around_box, boxed, plain
from components.environments.math.numbers import number
from components.environments.shared.answer_extraction import check_is_meant, is_joined
from components.environments.shared.text import is_text
from components.errors import MalformedAction
from components.schema import Execution, ExecutionResult

_FENCE = re.compile(r"```[ \t]*(?:(?:python3?|py)[ \t]*)?\n(.*?)(?:```|\Z)", re.DOTALL)
_UNIT = re.compile(r"[ \t$]*+(?:\\text\{)?[ \t]*+([^\W\d]+)")
_MAX_ERROR_CHARACTERS = 160


def parse_program(text: str, *, max_characters: int) -> Execution:
    """The program of an answer: the last fenced block, or the whole answer without one. Equal programs give equal executions.

    Raises MalformedAction if it is missing, too long or not text.

    **Example** "Let me see.\\n```python\\nprint(2)\\n```" runs `print(2)`.
    """
    blocks = _FENCE.findall(text)
    program = "\n".join(line.rstrip() for line in (blocks[-1] if blocks else text).strip("\n").splitlines()).rstrip()
    if not program.strip():
        raise MalformedAction("no program")
    if len(program) > max_characters:
        raise MalformedAction(f"a program of {len(program)} characters; at most {max_characters} are allowed")
    if "\0" in program or not is_text(program):
        raise MalformedAction("a program with characters that are no text")
    return Execution(program=program + "\n")


def parse_answer(text: str, *, max_characters: int, numbers_only: bool) -> str:
    r"""The final answer: the content of the last `\boxed{}`, or the whole text if it is one short line.

    Raises MalformedAction if there is none, if the text around the box says that it is not meant, or, with `numbers_only`, if
    it is not a number.

    **Example** `So it is \boxed{3/4}.` is `3/4`, and so is `3/4`; a page of text without a box is malformed.
    """
    found = boxed(text)
    if found is not None:
        _check_box(text, found)
    answer = text.strip() if found is None else found.strip()
    if not answer or (found is None and "\n" in answer):
        raise MalformedAction("no final answer: put it into \\boxed{}, or write it alone on one line")
    if len(answer) > max_characters:
        raise MalformedAction(f"an answer of {len(answer)} characters; at most {max_characters} are allowed")
    if not is_text(answer):
        raise MalformedAction("an answer with characters that are no text")
    if numbers_only and ((written := number(plain(answer))) is None or written.is_percent):
        raise MalformedAction(f"{answer!r} is no number")
    return answer


def _check_box(text: str, content: str) -> None:
    """Raise MalformedAction if the text around the last box makes another answer of it: a denial, a unit, another box."""
    before, after = around_box(text, content)
    check_is_meant(before, after)
    end = before.rfind("}") + 1
    earlier = boxed(before)
    if earlier not in (None, content) and before[:end].endswith(f"{earlier}}}") and is_joined(before[end:]):
        raise MalformedAction("two values in boxes, one after the other")
    counted = _UNIT.match(after)
    if counted and number(plain(content)) is not None and number(plain(content + counted[0])) is None:
        raise MalformedAction(f"{counted[0].strip()!r} follows the box")


def printed_answer(result: ExecutionResult) -> str | None:
    """A program's answer: the last line of its output; None if it failed or printed none. Standard error is ignored."""
    if result.status != "ok":
        return None
    last_line = result.stdout.rstrip().rpartition("\n")[2].strip()
    return last_line if 0 < len(last_line) <= MAX_FINAL_CHARACTERS else None


def failure(result: ExecutionResult) -> str:
    """Why a program gave no answer, such as `nonzero_exit: ZeroDivisionError: division by zero`."""
    if result.status == "ok":
        return "it printed no answer" if not result.stdout.strip() else "the last line that it printed is too long"
    said = result.stderr.strip().rpartition("\n")[2][-_MAX_ERROR_CHARACTERS:] or result.detail
    return f"{result.status}: {said}" if said else result.status

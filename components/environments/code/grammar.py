"""The tester's grammar: `INPUT => OUTPUT` lines, or blocks under `Input:` and `Output:`. Nothing is evaluated."""

import ast
import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from components.environments.code.problem import Case, CodeProblem, Kind
from components.environments.code.programs import escape_line, without_warnings
from components.environments.code.text import nests_deep, printable
from components.environments.shared.answer_extraction import last_lines, last_meant
from components.environments.shared.text import is_text
from components.errors import MalformedAction

ARROW = "=>"
MAX_READ = 256
"""Lines with an arrow, and blocks, that are read from one answer; further ones are ignored."""
MAX_TEST_CHARACTERS = 20_000
"""Limit of one input or output."""
_BULLET = re.compile(r"\A(?:[-+*] |[0-9]{1,2}[.)] )")
_HEADINGS = {
    "input": "input",
    "test input": "input",
    "output": "output",
    "test output": "output",
    "expected output": "output",
}
TESTS_ENDING = "the last tests, one a line, with at most blank lines between them."
"""How answers that reason first end, for the instructions."""
_NUMBERED = re.compile(r"\A[-+* ]{0,3}\**(?:test|case|example)(?: case)? ?\d{1,3}\**[:.)]\** *", re.IGNORECASE)
_REMARK = re.compile(r"(?<=\S) {1,8}(?:\([A-Za-z][^()]*\)|# (?s:.*))\Z")
_MAX_SENTENCE = 400
_LEAST_WORDS = 4
_HEADING = re.compile(r"^.*:[ *]*+$", re.MULTILINE)
_ESCAPE = re.compile(r"\\(.)")


def cases_in(answer: str, problem: CodeProblem) -> tuple[Case, ...]:
    """The first `max_cases` different tests in an answer; lines without a test are ignored.

    An input or output of several lines is written with `\\n`. The input of a function problem is the arguments as JSON or
    Python literals, alone or as in `f(1, "a")`. Raises MalformedAction without any test, or if the answer is too long.

    **Example** "3 4 => 7" is one test of a program that reads "3 4\\n" and must print 7.
    """
    bounds = problem.bounds
    if len(answer) > bounds.max_answer_characters:
        raise MalformedAction(f"{len(answer)} characters; at most {bounds.max_answer_characters} are allowed")
    if not is_text(answer):
        raise MalformedAction("the answer holds half a character")
    found: dict[str, Case] = {}
    for given, expected, escapes in (*_lines(answer), *_blocks(answer)):
        if case := _case(given, expected, problem, escapes=escapes):
            found.setdefault(case.given, case)
    if not found:
        raise MalformedAction(f"there is no test in the answer; write one a line as INPUT {ARROW} OUTPUT")
    return tuple(found.values())[: bounds.max_cases]


def final_tests(text: str, *, max_cases: int) -> str:
    """The last tests of `text`: `INPUT => OUTPUT` lines without a remark between them, or the last `max_cases` blocks under
    headings if they come later; `text` itself without tests.

    A line that is a whole sentence is a remark, also with an arrow in it. Left out are "Test 1:", and after the output what
    stands in brackets or behind #. Raises MalformedAction if the text says that the tests are not meant.

    **Example** `"3 => 5? No:\\n3 => 6\\n4 => 8\\nGood luck"` is `"3 => 6\\n4 => 8"`.
    """
    tests = last_lines(text, _test_in_line)
    headings = [each.start() for each in _HEADING.finditer(text) if heading_of(each[0]) == "input"][-max_cases:]
    if headings and (tests is None or headings[-1] > tests.end):
        return text[headings[0] :]
    return text if tests is None or last_meant(text, [tests]) is None else tests.content


def _test_in_line(line: str) -> str | None:
    """The test in a line with an arrow; None if the line is a sentence about one."""
    line = _NUMBERED.sub("", line, count=1)
    if ARROW not in line:
        return None
    quoted = next((part for part in line.split("`")[1::2] if ARROW in part), None)
    if quoted is not None or len(line) > _MAX_SENTENCE:
        return quoted or line
    if (
        line[-1] in ".!?:"
        and sum(len(word) > 1 and word.strip(",;").isalpha() for word in line.split()) >= _LEAST_WORDS
    ):
        return None
    given, arrow, expected = line.rpartition(ARROW)
    return f"{given}{arrow} {_REMARK.sub('', expected.strip())}"


def format_case(case: Case, kind: Kind) -> str:
    """`case` on one line, as `cases_in` reads it."""
    if kind == "stdin":
        return f"{escape_line(case.given)} {ARROW} {escape_line(case.expected)}"
    return printable(f"{case.given[1:-1]} {ARROW} {case.expected}")


def stdin_case(given: str, expected: str) -> Case:
    """A test of a program. Its input ends with a newline; empty last lines are kept, because a program may read them."""
    return Case(given=given if given.endswith("\n") else f"{given}\n", expected=expected.strip())


def function_case(arguments: list[Any], expected: Any) -> Case:
    """A test of a function. Raises ValueError or TypeError for values that JSON cannot represent."""
    return Case(given=json.dumps(arguments, allow_nan=False), expected=json.dumps(expected, allow_nan=False))


def _lines(answer: str) -> Iterator[tuple[str, str, bool]]:
    for line in islice((line for line in answer.splitlines() if ARROW in line), MAX_READ):
        given, arrow, expected = line.strip().strip("`").rpartition(ARROW)
        if arrow:
            yield _BULLET.sub("", given), expected, True


def _blocks(answer: str) -> Iterator[tuple[str, str, bool]]:
    return (
        (_strip_fence(given), _strip_fence(expected), False)
        for given, expected in islice(_split_at_headings(answer), MAX_READ)
    )


def _split_at_headings(answer: str) -> Iterator[tuple[str, str]]:
    """The texts under each input heading and the output headings that follow it."""
    part, parts = "", {"input": list[str](), "output": list[str]()}
    for line in (*answer.splitlines(), "input:"):
        heading = heading_of(line)
        if heading == "input":
            yield "\n".join(parts["input"]), "\n".join(parts["output"])
            parts = {"input": [], "output": []}
        if heading:
            part = heading
        elif part:
            parts[part].append(line)


def heading_of(line: str) -> str:
    """ "input" or "output" for a line that is such a heading, else empty."""
    return _HEADINGS.get(line.strip(" *#:_").lower(), "") if line.rstrip(" *").endswith(":") else ""


def _strip_fence(text: str) -> str:
    """The first fenced block of `text`, or its first paragraph."""
    if "```" in text:
        return text.split("```")[1].partition("\n")[2].strip("\n")
    return text.strip().partition("\n\n")[0]


def _case(given: str, expected: str, problem: CodeProblem, *, escapes: bool) -> Case | None:
    """The test, or None if the two texts are no test of this kind."""
    given, expected = given.strip(), expected.strip()
    if not expected or max(len(given), len(expected)) > MAX_TEST_CHARACTERS:
        return None
    if problem.kind == "stdin":
        return stdin_case(*map(_unescape, (given, expected))) if escapes else stdin_case(given, expected)
    if given.startswith(f"{problem.entry}(") and given.endswith(")"):
        given = given[len(problem.entry) + 1 : -1]
    try:
        return function_case(_literal(f"[{given}]"), _literal(expected))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _literal(text: str) -> Any:
    """The value of JSON or of a Python literal. Raises what the two parsers raise."""
    if nests_deep(text):
        raise ValueError("too many brackets inside one another")
    try:
        return json.loads(text)
    except ValueError:
        with without_warnings():
            return ast.literal_eval(text)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text)

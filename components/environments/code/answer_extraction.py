"""The tests in an answer that reasons first, as a reader sees them."""

import re

from components.environments.code.grammar import ARROW, MAX_READ, heading_of
from components.environments.shared.answer_extraction import MAX_LINES, check_is_meant

TESTS_ENDING = "the last tests, one a line, with at most blank lines between them."
PROGRAM_ENDING = "the last ```python block, with the whole program."
"""How answers that reason first end, for the instructions."""
_NUMBERED = re.compile(r"\A[-+* ]{0,3}\**(?:test|case|example)(?: case)? ?\d{1,3}\**[:.)]\** *", re.IGNORECASE)
_REMARK = re.compile(r"(?<=\S) {1,8}(?:\([A-Za-z][^()]*\)|# .*)\Z")
_MAX_SENTENCE = 400
_LEAST_WORDS = 4


def final_tests(text: str, *, max_cases: int) -> str:
    """The last tests of `text` in the tester's grammar: `INPUT => OUTPUT` lines without a remark between them, or the last
    `max_cases` blocks under headings if they come later; `text` itself without tests.

    A remark is a line that is neither empty nor a fence, nor indented or in brackets. A test in backticks goes to the next one.
    A line that is a whole sentence is a remark, also with an arrow in it. Left out are "Test 1:", and after the output what
    stands in brackets or behind #. Raises MalformedAction if the text says that the tests are not meant.

    **Example** `"3 => 5? No:\\n3 => 6\\n4 => 8\\nGood luck"` is `"3 => 6\\n4 => 8"`.
    """
    tests, headings, is_over, first, last = list[str](), list[int](), True, 0, 0
    lines = text.splitlines()[-MAX_LINES:]
    for number, line in enumerate(lines):
        if ARROW in line and (test := _test(line)):
            if is_over:
                tests, first = [], number
            tests.append(test)
            is_over, last = False, number
        elif line and not line.startswith(("```", " ", "\t", "(", "#")):
            is_over = True
            if line.rstrip(" *").endswith(":") and heading_of(line) == "input":
                headings.append(number)
    if headings and (not tests or headings[-1] > last):
        return "\n".join(lines[headings[-max_cases:][0] :])
    if not tests:
        return text
    check_is_meant("\n".join((*lines[:first], "")), "\n".join(lines[last + 1 :]))
    return "\n".join(tests[-MAX_READ:])


def _test(line: str) -> str:
    """The test in a line with an arrow; empty if the line is a sentence about one."""
    line = _NUMBERED.sub("", line.rstrip(), count=1)
    quoted = next((part for part in line.split("`")[1::2] if ARROW in part), None)
    if quoted is not None:
        return quoted
    is_sentence = len(line) <= _MAX_SENTENCE and line.rstrip()[-1] in ".!?:"
    if is_sentence and sum(len(word) > 1 and word.strip(",;").isalpha() for word in line.split()) >= _LEAST_WORDS:
        return ""
    given, arrow, expected = line.rpartition(ARROW)
    return f"{given}{arrow} {_REMARK.sub('', expected.strip())}" if len(line) <= _MAX_SENTENCE else line

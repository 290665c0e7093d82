"""A text that reasons first costs little to read at the greatest length: half a second of CPU with all that is done twice."""

import contextlib
from collections.abc import Iterator

import pytest

from components.environments.base import MAX_ANSWER_CHARACTERS
from components.errors import MalformedAction
from components.text.think_tags import without_thinking
from tests.components.environments.hostile import ENDS, LEADS, nests, repeat, simple_texts
from tests.components.environments.test_parser_bounds import AnyTools, playing
from tests.costs import MAX_CPU_SECONDS, Piece, assert_cheap

LISTS = (
    *("[U,", "[U, R] ", "[A, B] ", "U -> ", "U\n", "1. U\n", "- 123\n", "[123] ", "123 ", "**U**\n"),
    *("<answer>U", "\\boxed{U} "),
)
LABELS = (
    *("answer is ", "Answer: ", "answer ", "the answer (", "final ", "答案", "答案：", "moves: ", "answer: U "),
    *("so ", "= 1\n"),
)
CALLS = (
    *('{"tool":"pay"},', '{"tool":"pay"} x', '[{"tool":', '{"a":[1,', '{"a":{"a":1},', "{'tool':", '{"a\\"'),
    *('[{"a":1},', "[{},"),
)
PLANS = ("buy 1 pear;", "buy 1 pear\n", "pay; x\n", "`pay` ", "plan: pay\n", "pay x\n")
TESTS = ("1 => 2. Hm\n", "`1 => 2` ", "=> a b c d.\n", "Input:\n")
LINES = (
    *("? a\nb\n", "= a\nb\n", "final answer: b\n", "### a\nb\n", ":\n", "=\n", "#\n", "a\n", "\n", " \n"),
    *("#### 4\n", "\\boxed{1} "),
)
BLOCKS = ("```python\n1\n```\n", "```python\n", "```\n", "   ```\n")
THOUGHTS = (
    *("<think>", "</think>", "<think></think>", "</think>\n", '"</think>', "'</think>' "),
    *("`<think>` ", "```\n<think>\n"),
)
SEATS = {
    "plan_path-plan_agent": ({}, (*LISTS, *LABELS)),
    "sudoku-plan_agent": ({}, LISTS[5:9]),
    "sokoban-tool_agent": ({"tool": "python"}, BLOCKS),
    "math-reasoner": ({"prose": True}, (*LABELS, *LINES)),
    "search-searcher": ({}, LINES),
    "search-reasoner": ({}, (*LABELS, *LINES)),
    "code-tester": ({}, (*TESTS, *BLOCKS, *LINES)),
    "shop-planner": ({}, (*PLANS, *LINES)),
    "shop-tool_agent": ({}, CALLS),
}  # fmt: skip


EVERY = tuple(dict.fromkeys((*LISTS, *LABELS, *CALLS, *PLANS, *TESTS, *LINES, *BLOCKS)))


def hostile(seat: str) -> Iterator[str]:
    """All that a seat's own reader is made for, and a share of what others read, another one for each seat."""
    (_, own), turn = SEATS[seat], [*SEATS].index(seat)
    units = dict.fromkeys((" ", "\n", "a", "1", *own, *EVERY[turn :: len(SEATS)]))
    for number, unit in enumerate(units):
        yield repeat(unit, MAX_ANSWER_CHARACTERS, LEADS[number % len(LEADS)], ENDS[number % len(ENDS)])
    yield from simple_texts(MAX_ANSWER_CHARACTERS, 16, turn)
    yield from nests(MAX_ANSWER_CHARACTERS)


@pytest.mark.parametrize("seat", SEATS)
def test_a_reader_reads_the_longest_texts_cheaply(seat: str) -> None:
    name, _, role = seat.partition("-")
    env = playing(name, SEATS[seat][0], AnyTools())

    def read(text: str) -> None:
        with contextlib.suppress(MalformedAction):
            env.referee.rules.final_answer(env.position.state, role, text)

    def pieces() -> Iterator[Piece]:
        for text in hostile(seat):
            yield f"{text[:40]!r}...{text[-8:]!r}", lambda text=text: read(text)  # type: ignore[misc]

    assert_cheap(pieces(), most_cpu_seconds=MAX_CPU_SECONDS / 2)


def test_thinking_is_left_out_cheaply() -> None:
    def read(text: str) -> None:
        with contextlib.suppress(MalformedAction):
            without_thinking(text)

    assert_cheap(
        [
            (unit, lambda text=text: read(text))
            for unit in THOUGHTS
            for text in [repeat(unit, MAX_ANSWER_CHARACTERS), repeat(unit, MAX_ANSWER_CHARACTERS, "<think>", "\n")]
        ]
    )  # type: ignore[misc]

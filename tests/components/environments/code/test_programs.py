"""From an answer to a program, and from a run to a verdict."""

import time
from collections.abc import Callable
from random import Random
from threading import Thread

import pytest

from components.environments.code.problem import Case, CodeProblem, Grader
from components.environments.code.programs import (
    FRAME,
    agrees,
    execution,
    frame_value,
    program_in,
    syntax_fault,
    verdict,
)
from components.errors import MalformedAction
from components.schema import ExecutionResult, ExecutionStatus
from tests.components.environments.code.conftest import HostTools

Made = Callable[..., CodeProblem]


def make_result(stdout: str = "", *, status: ExecutionStatus = "ok", stderr: str = "") -> ExecutionResult:
    return ExecutionResult(status=status, stdout=stdout, stderr=stderr, exit_code=0, wall_seconds=0.0, cpu_seconds=0.0)


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        ("print(1)", "print(1)\n"),
        ("Sure!\n```python\nprint(1)\n```\nDone.", "print(1)\n"),
        ("```python\nprint(1)\n```\nbetter:\n```py\nprint(2)\n```", "print(2)\n"),
        ("```python\nprint(1)\n```\nrun it:\n```bash\npython x.py\n```", "print(1)\n"),
        ("```\nprint(1)\n```", "print(1)\n"),
        ("```python\nprint(1)", "print(1)\n"),
        ("x = '```'", "x = '```'\n"),
    ],
)
def test_the_program_in_an_answer(answer: str, program: str) -> None:
    assert program_in(answer, max_characters=200) == program


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "no program"),
        (" \n", "no program"),
        ("```python\n```", "no program"),
        ("I cannot do it", "syntax error: invalid syntax"),
        ("def f(:\n pass", r"syntax error: .*\(line 1\)"),
        ("print(1)\x00", "null bytes"),
        ("x = '\ud800'", "half a character"),
        ("x" * 201, "201 characters; at most 200"),
    ],
)
def test_what_is_no_program_is_malformed(answer: str, reason: str) -> None:
    with pytest.raises(MalformedAction, match=reason):
        program_in(answer, max_characters=200)


def test_a_doubtful_escape_is_no_fault() -> None:
    assert syntax_fault("x = '\\d'") is None
    assert syntax_fault("x is 1") is None


@pytest.mark.parametrize(
    "piece", ["-", "not ", "(", "[", "a.", "f'{", "lambda:", "1 if 1 else ", "1**", "if 1:\n ", "x=", "{1:", "\\\n"]
)
@pytest.mark.parametrize("size", [50, 2_500, 60_000])
def test_nothing_crashes_the_parser_and_it_says_the_same_at_every_depth(piece: str, size: int) -> None:
    program = piece * (size // len(piece)) + "1"
    seconds = []
    for _ in range(3):  # the parser has a thread of its own, and another thread of this process may compute meanwhile
        started = time.process_time()
        shallow = syntax_fault.__wrapped__(program)
        seconds.append(time.process_time() - started)
    assert min(seconds) < 1.0

    def deep(levels: int) -> str | None:
        return deep(levels - 1) if levels else syntax_fault.__wrapped__(program)

    assert deep(600) == shallow


def test_equal_programs_are_equal_text_on_every_test_and_hold_no_expected_output(doubling: Made) -> None:
    for parts in ({}, {"kind": "function", "entry": "f", "preamble": "import math\n"}):
        problem = doubling(**parts)
        runs = [execution(problem, "x = 1\n", case) for case in (*problem.visible, *problem.hidden)]
        assert len({run.program for run in runs}) == 1
        assert [run.stdin for run in runs] == [case.given for case in (*problem.visible, *problem.hidden)]
        assert not any(case.expected in run.program + run.stdin for run in runs for case in problem.hidden)
        assert not any(run.files for run in runs)


@pytest.mark.parametrize(
    "main",
    [
        "",
        "if __name__ == '__main__':\n    print(f(int(input())))",
        "if __name__ == '__main__': raise SystemExit(3)",
        "if __name__ == '__main__' or 1 > 2:\n    import sys; [print(f(int(line))) for line in sys.stdin]",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    a: list[int]\nassert A([1]).a == [1]",
        "assert len(str(10 ** 49_000)) == 49_001 and int('7' * 49_000) % 10 == 7",
        "assert __name__ in __import__('sys').modules",
    ],
)
@pytest.mark.parametrize(
    "first",
    ["", "from __future__ import annotations\n", '"""A text."""\n# more\nfrom __future__ import (\n division)\n'],
)
def test_a_function_is_called_as_by_its_authors_grader(
    doubling: Made, host_tools: HostTools, first: str, main: str
) -> None:
    problem = doubling(kind="function", entry="f", preamble="")
    program = f"{first}def f(n):\n    return 2 * n\n{main}\n"
    case = Case(given="[4]", expected="8")
    judged = verdict(host_tools.run(execution(problem, program, case)), case, "function")
    assert judged.passed, judged.got


def test_a_program_is_main_and_prints_large_integers(doubling: Made, host_tools: HostTools) -> None:
    case = Case(given="5000\n", expected="1" + "0" * 5000)
    for program in ("print(10 ** int(input()))", "if __name__ == '__main__':\n    print(10 ** int(input()))"):
        assert verdict(host_tools.run(execution(doubling(), program, case)), case, "stdin").passed


CASE = Case(given="[1]", expected='{"a": [1, 2.0]}')


@pytest.mark.parametrize(
    ("result", "passed", "got"),
    [
        (make_result(f'{FRAME}{{"a": [1.0, 2.0000001]}}\n'), True, ""),
        (make_result(f'noise\n{FRAME}{{"a": [1, 2]}}\n\n'), True, ""),
        (make_result(f'{FRAME}{{"a": [1, 3]}}\n'), False, '{"a": [1, 3]}'),
        (make_result(f'{FRAME}{{"a": [true, 2]}}\n'), False, '{"a": [true, 2]}'),
        (make_result(f'{FRAME}{{"a": [1, 2]}}\nlater'), False, "no result"),
        (make_result(f'{FRAME}{{"a": [1, 2]}}\n{FRAME}5\n'), False, "5"),
        (make_result(f'{FRAME}{{"a"\n'), False, "no result"),
        (make_result(FRAME + "[" * 5000), False, "no result"),
        (make_result(FRAME + "9" * 5000), False, "9" * 5000),
        (make_result(f'{FRAME}{{"a": [{"9" * 5000}, 2]}}'), False, f'{{"a": [{"9" * 5000}, 2]}}'),
        (make_result(""), False, "no result"),
        (
            make_result(f'{FRAME}{{"a": [1, 2]}}\n', status="nonzero_exit", stderr="T\nKeyError: 'x'\n"),
            False,
            "KeyError: 'x'",
        ),
        (make_result(f'{FRAME}{{"a": [1, 2]}}\n', status="cpu_timeout"), False, "time limit"),
        (make_result("", status="memory"), False, "memory limit"),
        (make_result("", status="nonzero_exit"), False, "an error"),
    ],
)
def test_verdicts_on_functions(result: ExecutionResult, passed: bool, got: str) -> None:
    judged = verdict(result, CASE, "function")
    assert (judged.passed, judged.got) == (passed, got)


@pytest.mark.parametrize("grader", ["usual", "exact"])
def test_integers_that_python_does_not_read_are_compared_exactly(grader: Grader) -> None:
    digits = "-" + "9" * 6000
    assert agrees(frame_value(f"{FRAME}[1, {digits}]") or "", f"[1, {digits}]", "function", grader)
    for other in ("8", digits[:-1] + "8", "-1e999", "true", '"9"', "1.5"):
        assert not agrees(digits, other, "function", grader)
        assert not agrees(other, digits, "function", grader)


@pytest.mark.parametrize(
    ("result", "passed", "got"),
    [
        (make_result("6\n"), True, ""),
        (make_result("6 \n\n"), True, ""),
        (make_result("7\n8\n"), False, "7\\n8"),
        (make_result(""), False, "nothing"),
        (make_result("6\n", status="nonzero_exit", stderr="SystemExit"), False, "SystemExit"),
        (make_result("6\n", status="output_limit"), False, "output limit"),
        (make_result("\x1b[31m\u00e9"), False, "\\x1b[31m\\xe9"),
    ],
)
def test_verdicts_on_programs(result: ExecutionResult, passed: bool, got: str) -> None:
    judged = verdict(result, Case(given="3\n", expected="6"), "stdin")
    assert (judged.passed, judged.got) == (passed, got)


@pytest.mark.parametrize("text", ['"\\"', "[", '["', "{", "[]", "\\", '""'])
def test_a_hostile_frame_is_read_in_less_than_a_second(text: str) -> None:
    started = time.thread_time()
    frame_value(FRAME + text * (65_536 // len(text)))
    assert time.thread_time() - started < 1.0


def test_brackets_inside_a_text_are_no_depth() -> None:
    assert frame_value(f'{FRAME}"{"(" * 5000}"') is not None


def test_many_threads_may_parse_at_once() -> None:
    found: list[str | None] = []
    threads = [Thread(target=lambda n=n: found.append(syntax_fault.__wrapped__(f"x = '\\d{n}'"))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [None] * 8


def test_ten_thousand_damaged_results_have_a_verdict_within_a_second_each() -> None:
    rng, slowest, num_passed = Random(0), 0.0, 0
    pieces = [
        *("", "\n", FRAME, "[", "{", '"', "9" * 400, "1e400", "NaN", "null", "-", "\\", "\ud800", "\x00"),
        *("true", ","),
    ]
    for _ in range(10_000):
        characters = [*f'{FRAME}{{"a": [1, 2.0]}}\n']
        for _ in range(rng.randrange(4)):
            place = rng.randrange(len(characters) + 1)
            characters[place : place + rng.randrange(3)] = rng.choice(pieces)
        started = time.process_time()
        judged = verdict(make_result("".join(characters)), CASE, "function")
        slowest = max(slowest, time.process_time() - started)
        assert judged.got.isascii()
        num_passed += judged.passed
    assert slowest < 1.0
    assert 1_000 < num_passed < 9_000

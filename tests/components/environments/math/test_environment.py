"""One problem being played: what agents read, what their actions do, and when the team is done."""

from typing import Any

import pytest

from components.environments.math.observations import COMPACT_ALPHABET
from components.environments.shared.text import PRINTABLE
from components.errors import ExecutionFailed
from components.schema import Execution
from tests.components.environments.math.conftest import SubprocessTools, playthrough

TOOL, REASONER = "tool_agent", "reasoner"


def payload(*, compact: bool = True, statement: str = "12+7*3", answer: str = "33") -> dict[str, Any]:
    return {
        "statement": statement,
        "answer": answer,
        "compact": compact,
        "max_program_characters": 200,
        "max_answer_characters": 40,
        "max_output_characters": 60,
    }


def test_the_short_line_tells_all(tools: SubprocessTools) -> None:
    env = playthrough(payload(), tools)
    assert env.observe(TOOL).state == "T12+7*3:"
    assert env.observe(REASONER).state == "R12+7*3:_>"
    env.apply(TOOL, "print(12+7*4)")
    assert env.observe(REASONER).state == "R12+7*3:40>"
    env.apply(REASONER, "41")
    assert env.observe(TOOL).state == "T12+7*3:40,41;"
    env.apply(TOOL, "print(12+")
    assert env.observe(REASONER).state == "R12+7*3:40,41;!>"
    env.apply(REASONER, "33")
    assert env.observe(TOOL).state == "T12+7*3:!,33;"


def test_whole_sentences_tell_program_output_and_failure(tools: SubprocessTools) -> None:
    env = playthrough(payload(compact=False, statement="What is $12+7*3$?"), tools)
    env.apply(TOOL, "Sure:\n```python\nprint(12 + 7 * 4)\n```")
    state = env.observe(REASONER).state
    assert state == "Problem:\nWhat is $12+7*3$?\n\nNow:\nThe program:\nprint(12 + 7 * 4)\nprinted:\n40"
    env.apply(REASONER, r"I get \boxed{41}")
    env.apply(TOOL, "1/0")
    state = env.observe(REASONER).state
    assert "Turn 1:\nThe program:\nprint(12 + 7 * 4)\nprinted:\n40\nThe reasoner's answer: 41" in state
    assert state.endswith("printed:\n(nothing)\nIt gave no answer: nonzero_exit: ZeroDivisionError: division by zero")


def test_agreement_ends_the_episode_and_being_right_decides_success(tools: SubprocessTools) -> None:
    env = playthrough(payload(), tools)
    assert env.apply(TOOL, "print(12+7*3)").local == {"correct": 1.0, "failed": 0.0, "malformed": 0.0}
    outcome = env.apply(REASONER, "33.0")
    assert (outcome.team, outcome.done, outcome.solves) == ({"solved": 1.0}, True, True)
    assert env.done
    assert env.success
    assert (env.team_reward, env.local_reward(TOOL), env.local_reward(REASONER)) == (1.0, 1.0, 0.0)

    wrong = playthrough(payload(), tools)
    wrong.apply(TOOL, "print(40)")
    outcome = wrong.apply(REASONER, "40")
    assert (outcome.team, outcome.done, wrong.success) == ({"solved": 0.0}, True, False)


def test_the_newest_answer_counts(tools: SubprocessTools) -> None:
    env = playthrough(payload(), tools)
    env.apply(TOOL, "print(40)")
    assert not env.apply(REASONER, "33").done
    assert env.success
    assert env.apply(TOOL, "print(1)").team == {"solved": 1.0}
    env.apply(REASONER, "34")
    assert not env.success


def test_a_warning_is_no_failure_and_an_error_is(tools: SubprocessTools) -> None:
    env = playthrough(payload(), tools)
    warned = env.apply(TOOL, "import warnings; warnings.warn('old'); print(33)")
    assert warned.local == {"correct": 1.0, "failed": 0.0, "malformed": 0.0}
    assert env.apply(TOOL, "print(33); raise SystemExit(3)").local == {"correct": 0.0, "failed": 1.0, "malformed": 0.0}
    assert env.apply(TOOL, "x = 33").local == {"correct": 0.0, "failed": 1.0, "malformed": 0.0}


@pytest.mark.parametrize("action", ["", "x" * 500, "\ud800", "```python\n```"])
def test_a_malformed_answer_is_an_outcome(tools: SubprocessTools, action: str) -> None:
    env = playthrough(payload(), tools)
    program, answer = env.apply(TOOL, action), env.apply(REASONER, action)
    assert program.local == {"correct": 0.0, "failed": 0.0, "malformed": 1.0}
    assert answer.local == {"malformed": 1.0}
    assert program.error
    assert answer.error
    assert tools.asked == []
    assert env.observe(TOOL).state == "T12+7*3:"
    assert env.observe(REASONER).state == "R12+7*3:!>"


def test_calls_are_what_apply_runs(tools: SubprocessTools) -> None:
    env = playthrough(payload(), tools)
    action = "```python\nprint(33)\n```"
    assert env.referee.calls(env.position, TOOL, action) == (Execution(program="print(33)\n"),)
    env.apply(TOOL, action)
    assert tuple(tools.asked) == env.referee.calls(env.position, TOOL, action)
    assert env.referee.calls(env.position, TOOL, "") == env.referee.calls(env.position, REASONER, "33") == ()
    env.apply(REASONER, "33")
    assert env.referee.calls(env.position, TOOL, action) == ()


def test_when_the_sandbox_fails_the_state_stays(tools: SubprocessTools) -> None:
    env = playthrough(payload(), tools)
    env.apply(TOOL, "print(40)")
    before = env.position
    tools.failing.add("print(33)\n")
    with pytest.raises(ExecutionFailed, match="the box broke"):
        env.apply(TOOL, "print(33)")
    assert env.position == before
    assert env.observe(REASONER).state == "R12+7*3:40>"


@pytest.mark.parametrize(
    "program", ["print('é☃\\x07' * 99)", "print('1' * 10**5)", "print('\\n' * 99 + 'x')", "print('\\t3\\r\\n4')"]
)
def test_output_is_bounded_and_within_the_alphabet(tools: SubprocessTools, program: str) -> None:
    for compact, alphabet, width in ((True, COMPACT_ALPHABET, 40), (False, PRINTABLE, 300)):
        env = playthrough(payload(compact=compact), tools)
        env.apply(TOOL, program)
        env.apply(REASONER, "12345678901234567890" if compact else r"\boxed{7}")
        env.apply(TOOL, "print(3)")
        for agent in (TOOL, REASONER):
            state = env.observe(agent).state
            assert set(state) <= {*alphabet}
            assert len(state) < width + len(program)


def test_the_end_of_a_long_output_is_shown(tools: SubprocessTools) -> None:
    env = playthrough(payload(compact=False), tools)
    env.apply(TOOL, "print('a' * 500 + 'end')")
    assert env.observe(REASONER).state.endswith(
        "printed:\n[...]" + "a" * 52 + "end\nIt gave no answer: the last line that it printed is too long"
    )


def test_the_picture_shows_each_turn(tools: SubprocessTools) -> None:
    env = playthrough(payload(), tools)
    env.apply(TOOL, "print(33)")
    env.apply(REASONER, "33")
    assert env.render(color=False) == "12+7*3\n-- turn 1\nThe program:\nprint(33)\nprinted:\n33\nanswer  33 (right)"
    assert "\x1b[1;32m" in env.render(color=True)

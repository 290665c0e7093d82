"""How a team plays a problem: what each role changes, earns and sees, and what a failing sandbox leaves."""

import time
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from components.environments.code.problem import Case, CodeProblem
from components.environments.play import Playthrough
from components.errors import ExecutionFailed
from components.schema import Execution, ExecutionResult, Limits
from tests.components.environments.code.conftest import playthrough

Made = Callable[..., CodeProblem]
TESTER, CODER = "tester", "coder"
RIGHT = "print(int(input()) * 2)"
WRONG = "print(int(input()) + 3)"
"""Passes the given test 3 => 6 alone."""
CHEAT = "print({'3': 6, '5': 10}.get(input(), 0))"


def everything(env: Playthrough) -> tuple[Any, ...]:
    seen = tuple(env.observe(role) for role in env.roles)
    return seen, env.done, env.success, env.render(color=False)


def rewards_of(env: Any) -> tuple[float, ...]:
    """What the newest outcomes earn."""
    return (env.team_reward, *map(env.local_reward, env.roles))


def test_the_agents_see_the_problem_then_tests_program_and_verdicts(doubling: Made, host_tools: Any) -> None:
    env = playthrough(doubling(), host_tools)
    assert env.observe(TESTER).state == "tester: Read n. Print 2*n.\ngiven:\n3 => 6\n5 => 10\n>"
    env.apply(TESTER, "7 => 14\n-1 => 5")
    assert env.observe(CODER).state == (
        "coder: Read n. Print 2*n.\ngiven:\n3 => 6\n5 => 10\ntests:\n7 => 14\n-1 => 5\n>"
    )
    env.apply(CODER, f"```python\n{WRONG}\n```")
    assert env.observe(TESTER).state == (
        "tester: Read n. Print 2*n.\ngiven:\n+ 3 => 6\n- 5 => 10; got 8\ntests:\n- 7 => 14; got 10\n- -1 => 5; got 2\n"
        f"program:\n{WRONG}\n>"
    )
    env.apply(TESTER, "-1 => -2")
    assert "tests:\n- -1 => -2; got 2\nprogram:" in env.observe(CODER).state


def test_the_newest_program_is_judged_by_hidden_tests_alone(doubling: Made, host_tools: Any) -> None:
    env = playthrough(
        doubling(hidden=(Case(given="9\n", expected="18"), Case(given="3000\n", expected="3003"))), host_tools
    )
    wrong = env.apply(CODER, WRONG)
    assert wrong.team == {"solved": 0.0, "passed": 0.5}
    assert wrong.local == {"visible": 0.5, "malformed": 0.0}
    assert (wrong.solves, wrong.done, env.done, env.success) == (False, False, False, False)


def test_passing_all_that_can_be_seen_ends_the_episode_and_is_no_success(doubling: Made, host_tools: Any) -> None:
    env = playthrough(doubling(), host_tools)
    outcome = env.apply(CODER, CHEAT)
    assert outcome.done
    assert outcome.team == {"solved": 0.0, "passed": 0.0}
    assert outcome.local["visible"] == 1.0
    assert not env.success
    before = everything(env)[0]
    later = env.apply(CODER, RIGHT)
    assert later.error == "the episode is over: all tests that the team can see pass"
    assert (later.team["passed"], later.done, env.success) == (0.0, True, False)
    assert env.referee.calls(env.position, CODER, RIGHT) == ()
    assert everything(env)[0][0] == before[0]


def test_a_generated_test_keeps_a_cheat_from_ending_and_a_wrong_one_keeps_everybody(
    doubling: Made, host_tools: Any
) -> None:
    env = playthrough(doubling(), host_tools)
    env.apply(TESTER, "7 => 14")
    assert not env.apply(CODER, CHEAT).done
    assert env.apply(CODER, RIGHT).done
    env = playthrough(doubling(), host_tools)
    env.apply(TESTER, "7 => 15")
    solved = env.apply(CODER, RIGHT)
    assert (solved.solves, solved.done, env.success) == (True, False, True)
    mended = env.apply(TESTER, "7 => 14")
    assert (mended.solves, mended.done, mended.team["solved"]) == (True, True, 1.0)


def test_without_any_test_to_see_nothing_ends(doubling: Made, host_tools: Any) -> None:
    env = playthrough(doubling(visible=()), host_tools)
    outcome = env.apply(CODER, RIGHT)
    assert (outcome.solves, outcome.done, outcome.local["visible"]) == (True, False, 0.0)


@pytest.mark.parametrize(
    ("answer", "valid", "killed"),
    [
        ("7 => 14", 1.0, 1.0),
        ("7 => 15", 0.0, 0.0),
        ("7 => 15\n8 => 16", 0.5, 1.0),
        ("3 => 6\n5 => 10", 0.0, 0.0),
        ("3 => 6\n7 => 14", 0.5, 1.0),
        ("0 => 0", 1.0, 0.5),
        ("one => two", 0.0, 0.0),
        ("7000 => 14000", 1.0, 1.0),
        ("7000 => 1", 0.0, 0.0),
        ("7 => 14.0", 1.0, 1.0),
        ("03 => 6", 0.0, 0.0),
        ("+3 => 6\n 5\\n1 => 10", 0.0, 0.0),
        ("30 => 60", 1.0, 1.0),
    ],
)
def test_the_tester_earns_new_tests_that_agree_with_the_reference_and_find_mutants(
    answer: str, valid: float, killed: float, doubling: Made, host_tools: Any
) -> None:
    """The two mutants are n * 3 and n + 2; an input of 0 finds the second alone."""
    outcome = playthrough(doubling(), host_tools).apply(TESTER, answer)
    assert outcome.local == {"valid": valid, "killed": killed, "malformed": 0.0}
    assert outcome.team == {"solved": 0.0, "passed": 0.0}


def test_a_mutant_that_passes_the_problems_own_tests_is_left_out(doubling: Made, host_tools: Any) -> None:
    """n * 2 with n > 0 or n > 1 differ at 1 alone, which no test of the problem asks."""
    reference = "n = int(input())\nprint(n * 2 if n > 0 else n * 2)\n"
    outcome = playthrough(doubling(reference=reference), host_tools).apply(TESTER, "7 => 14")
    assert outcome.local["killed"] == 1.0


@pytest.mark.parametrize(
    ("answer", "valid"), [("3.0 => 6", 0.0), ("f(3) => 6.0", 0.0), ("3, 1 => 6", 0.0), ("4.0 => 8", 1.0)]
)
def test_a_given_call_in_other_words_is_no_new_test(answer: str, valid: float, doubling: Made, host_tools: Any) -> None:
    visible = (Case(given="[3]", expected="6"),)
    problem = doubling(
        kind="function",
        entry="f",
        reference="def f(n, *more):\n    return n * 2\n",
        visible=visible,
        hidden=(Case(given="[9]", expected="18"),),
    )
    assert playthrough(problem, host_tools).apply(TESTER, answer).local["valid"] == valid


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        ("7 => 14", {}),
        ("7 => 15", {}),
        ("3 => 6", {}),
        ("7 => 14\n7000 => 14000", {"valid": 0.5}),
        ("7000 => 14000", {"valid": 1.0}),
        ("7000 => 1", {"valid": 0.0}),
        ("11 => 22", {"valid": 1.0}),
    ],
)
def test_without_a_reference_the_tester_earns_what_the_datasets_tests_tell_and_unknown_components_are_absent(
    answer: str, known: dict[str, float], doubling: Made, host_tools: Any
) -> None:
    """Whether 7 => 15 is right is not known without a correct program; a reward of 0 would call it wrong."""
    env = playthrough(doubling(reference=None), host_tools)
    assert env.referee.calls(env.position, TESTER, answer) == ()
    assert env.apply(TESTER, answer).local == {**known, "malformed": 0.0}
    assert env.apply(TESTER, "no test").local == {"malformed": 1.0}
    assert not host_tools.ran


def test_the_references_answers_to_known_inputs_are_not_asked_for_again(doubling: Made, host_tools: Any) -> None:
    problem = doubling(bounds=doubling().bounds.model_copy(update={"max_mutants": 0}))
    env = playthrough(problem, host_tools)
    assert env.apply(TESTER, "11 => 22\n7000 => 14000").local["valid"] == 1.0
    assert not host_tools.ran


@pytest.mark.parametrize("kind", ["stdin", "function"])
def test_calls_list_every_run_of_apply_and_none_that_is_never_used(kind: str, doubling: Made, host_tools: Any) -> None:
    parts: dict[str, Any] = {}
    if kind == "function":
        parts = {
            "kind": "function",
            "entry": "f",
            "reference": "def f(n):\n    return n * 2\n",
            "visible": (Case(given="[3]", expected="6"),),
            "hidden": (Case(given="[9]", expected="18"), Case(given="[40]", expected="80")),
            "spare": (),
        }
    env = playthrough(doubling(**parts), host_tools)
    right = RIGHT if kind == "stdin" else "f = lambda n: 2 * n"
    wrong = WRONG if kind == "stdin" else "def f(n): return n + 3"
    answered: set[tuple[str, str]] = set()
    for agent, answer in ((TESTER, "7 => 14\n8 => 17"), (CODER, wrong), (TESTER, "7 => 14"), (CODER, right)):
        host_tools.ran.clear()
        calls = [call for call in env.referee.calls(env.position, agent, answer) if isinstance(call, Execution)]
        assert not host_tools.ran
        env.apply(agent, answer)
        answered |= {*host_tools.ran}
        assert {*host_tools.ran} <= {(call.program, call.stdin) for call in calls} <= answered
    assert env.success


@pytest.mark.parametrize("agent", [TESTER, CODER])
@pytest.mark.parametrize("answer", ["", "I do not know", "3 =", "\ud800", "```python\n```", "x" * 401, "def f(:"])
def test_a_malformed_answer_changes_nothing_but_the_note_on_it(
    agent: str, answer: str, doubling: Made, host_tools: Any
) -> None:
    env = playthrough(doubling(), host_tools)
    env.apply(TESTER, "7 => 15")
    env.apply(CODER, WRONG)
    before, ran = env.position.state.work, dict(host_tools.ran)
    outcome = env.apply(agent, answer)
    assert outcome.error
    assert outcome.local["malformed"] == 1.0
    assert sum(outcome.local.values()) == 1.0
    assert outcome.team == {"solved": 0.0, "passed": 0.0}
    assert (outcome.solves, outcome.done) == (False, False)
    assert env.referee.calls(env.position, agent, answer) == ()
    assert host_tools.ran == ran
    work = env.position.state.work
    assert (work.program, work.cases, work.visible) == (before.program, before.cases, before.visible)
    assert "refused: " in env.observe(agent).state
    assert env.local_reward(agent) == pytest.approx(-0.1)
    other = CODER if agent == TESTER else TESTER
    assert "refused: " not in env.observe(other).state
    env.apply(agent, "7 => 14" if agent == TESTER else WRONG)
    assert "refused: " not in env.observe(agent).state


def test_a_failing_sandbox_passes_through_and_leaves_the_state_as_it_was(doubling: Made, host_tools: Any) -> None:
    env = playthrough(doubling(), host_tools)
    env.apply(TESTER, "7 => 15")
    env.apply(CODER, WRONG)
    before, rewards, snapshot = everything(env), rewards_of(env), env.position
    for failing, agent, answer in ((RIGHT, CODER, RIGHT), ("n * 2", TESTER, "70 => 140"), ("+ 3", TESTER, "70 => 140")):
        host_tools.failing_program = failing
        with pytest.raises(ExecutionFailed):
            env.apply(agent, answer)
        assert (everything(env), rewards_of(env)) == (before, rewards)
        assert env.position == snapshot
    host_tools.failing_program = None
    assert env.apply(CODER, RIGHT).solves


def test_long_tests_programs_and_outputs_are_cut_in_what_is_shown(doubling: Made, host_tools: Any) -> None:
    env = playthrough(doubling(visible=(Case(given="3\n" * 4000, expected="6" * 4000),)), host_tools)
    env.apply(TESTER, f"{'9' * 150} => {'8' * 150}")
    env.apply(CODER, "print('x' * 9000)")
    assert max(map(len, env.observe(TESTER).state.splitlines())) < 150
    assert "..." in env.observe(TESTER).state


def test_the_picture_has_colour_only_when_asked_and_shows_no_hidden_test(doubling: Made, host_tools: Any) -> None:
    env = playthrough(doubling(), host_tools)
    assert "4, none run yet" in env.render(color=False)
    env.apply(TESTER, "7 => 14")
    env.apply(CODER, WRONG)
    plain, coloured = env.render(color=False), env.render(color=True)
    assert plain.isascii()
    assert "\x1b" not in plain
    assert "\x1b[31m- 5 => 10; got 8\x1b[0m" in coloured
    assert "\x1b[32m+ 3 => 6\x1b[0m" in coloured
    assert "0 of 4 pass" in plain


def test_nothing_hidden_is_in_anything_that_agents_or_people_read(doubling: Made, host_tools: Any) -> None:
    """Also not where a program prints its whole input, or dies of a hidden one."""
    hidden = tuple(Case(given=f"{n}\n", expected=f"{2 * n}") for n in (770001, 770002))
    env = playthrough(doubling(hidden=hidden), host_tools)
    texts = []
    for agent, answer in (
        (TESTER, "7 => 14"),
        (CODER, "n = input()\nprint(n)\nraise ValueError(n)"),
        (TESTER, "8 => 16"),
        (CODER, "n = input()\nimport sys\nprint(n, file=sys.stderr)\nprint(n)"),
        (CODER, ""),
    ):
        outcome = env.apply(agent, answer)
        texts += [outcome.error or "", env.render(color=False)]
        texts += [one for role in env.roles for one in (env.observe(role).state, env.observe(role).instructions)]
    assert not any(part in text for text in texts for part in ("77000", "154000"))


class Echo:
    """Tools in which every program prints what it reads."""

    def run(self, execution: Execution) -> ExecutionResult:
        return ExecutionResult(
            status="ok", stdout=execution.stdin, stderr="", exit_code=0, wall_seconds=0.0, cpu_seconds=0.0
        )

    def retrieve(self, query: Any) -> Any:
        raise AssertionError(query)

    def prepare(self, calls: Any) -> None:
        raise AssertionError(calls)


PIECES = [
    *("=>", "\n", "Input:", "```", "```python\n", "[", "]", '"', "'", "(", ")", "\\n", "\\", "\ud800", "nan"),
    *(",", "\x00"),
]
PIECES += [
    *("def f(", "print(", ":", " ", "9" * 50, "-", "\u0660", "1e999", "{", "}", "\x0c", "\t", "if 1", "*", "="),
    *("f'", "#"),
]


@pytest.mark.parametrize("kind", ["stdin", "function"])
def test_ten_thousand_mutated_answers_are_outcomes_within_a_second_each(kind: str, doubling: Made) -> None:
    parts = {"kind": kind, "entry": "f", "visible": (Case(given="[3]", expected="6"),)} if kind == "function" else {}
    problem = doubling(**parts, reference=None, hidden=(Case(given="[9]", expected="18"),))
    rng, slowest, num_refused = Random(2), 0.0, 0
    right = {TESTER: "7 => 14\n```\nInput:\n8\nOutput:\n16\n```", CODER: "```python\nn = [int('2')]\nprint(n)\n```"}
    for number in range(10_000):
        agent = (TESTER, CODER)[number % 2]
        characters = [*right[agent]]
        for _ in range(rng.randrange(1, 6)):
            place = rng.randrange(len(characters) + 1)
            characters[place : place + rng.randrange(6)] = rng.choice(PIECES)
        env, answer = playthrough(problem, Echo()), "".join(characters)
        started = time.perf_counter()
        env.referee.calls(env.position, agent, answer)
        num_refused += env.apply(agent, answer).error is not None
        for role in env.roles:
            assert env.observe(role).state.isascii()
        slowest = max(slowest, time.perf_counter() - started)
    assert slowest < 1.0
    assert 1_000 < num_refused < 9_000


class ManyTools:
    """Tools that answer by rule: a program that says `slow` times out, any other prints twice its input."""

    def __init__(self) -> None:
        self.prepared: list[int] = []
        self.ran: list[Execution] = []

    def run(self, execution: Execution) -> ExecutionResult:
        self.ran.append(execution)
        is_slow = "slow" in execution.program and int(execution.stdin) >= 20
        printed = "" if is_slow else str(2 * int(execution.stdin))
        return ExecutionResult(
            status="cpu_timeout" if is_slow else "ok",
            stdout=printed,
            stderr="",
            exit_code=0,
            wall_seconds=0.0,
            cpu_seconds=0.0,
        )

    def retrieve(self, query: Any) -> Any:
        raise AssertionError(query)

    def prepare(self, calls: Any) -> None:
        self.prepared.append(len(calls))


def test_every_hidden_test_decides_and_a_program_that_only_times_out_is_not_run_on_all(doubling: Made) -> None:
    hidden = tuple(Case(given=f"{n}\n", expected=str(2 * n)) for n in range(100))
    tools = ManyTools()
    env = playthrough(doubling(visible=(), hidden=hidden), tools)
    assert len(env.referee.calls(env.position, CODER, "x = 1")) == 16
    assert env.apply(CODER, "x = 1").team == {"solved": 1.0, "passed": 1.0}
    assert tools.prepared == [16, 16, 16, 16, 16, 4]
    assert len(tools.ran) == 100
    one_wrong = (*hidden[:99], Case(given="99\n", expected="0"))
    assert playthrough(doubling(visible=(), hidden=one_wrong), ManyTools()).apply(CODER, "x = 1").team == {
        "solved": 0.0,
        "passed": 0.99,
    }
    slow = ManyTools()
    assert playthrough(doubling(visible=(), hidden=hidden), slow).apply(CODER, "slow = 1").team == {
        "solved": 0.0,
        "passed": 0.2,
    }
    assert len(slow.ran) == 32


def test_where_the_authors_count_shown_tests_a_program_must_pass_them_too(doubling: Made, host_tools: Any) -> None:
    all_but_three = "n = int(input())\nprint(2 * n if n != 3 else 0)"
    assert playthrough(doubling(), host_tools).apply(CODER, all_but_three).solves
    env = playthrough(doubling(num_visible_deciding=2), host_tools)
    outcome = env.apply(CODER, all_but_three)
    assert (outcome.solves, env.success, outcome.team) == (False, False, {"solved": 0.0, "passed": 1.0})
    env.apply(CODER, RIGHT)
    assert env.success
    three_is_second = (Case(given="5\n", expected="10"), Case(given="3\n", expected="6"))
    first_counts = doubling(visible=three_is_second, num_visible_deciding=1)
    assert playthrough(first_counts, host_tools).apply(CODER, all_but_three).solves


def test_a_datasets_limits_replace_the_runs_and_a_long_output_fits(doubling: Made) -> None:
    plain = playthrough(doubling(), ManyTools())
    assert {call.limits for call in plain.referee.calls(plain.position, CODER, RIGHT)} == {None}
    long = Case(given="1\n", expected="7" * 3_000_000)
    env = playthrough(
        doubling(cpu_seconds=6.0, memory_mib=64, hidden=(Case(given="9\n", expected="18"), long)), ManyTools()
    )
    limits = [call.limits_within(Limits()) for call in env.referee.calls(env.position, CODER, RIGHT)]
    assert limits[0] == Limits(wall_seconds=12.0, cpu_seconds=6.0, memory_mib=96)
    assert limits[-1] == replace(limits[0], output_kib=4096)


def test_a_datasets_memory_holds_below_that_of_the_run_whatever_the_run_has(doubling: Made) -> None:
    def within(run: Limits, **of_problem: Any) -> Limits:
        env = playthrough(doubling(**of_problem), ManyTools())
        (call, *_) = env.referee.calls(env.position, CODER, RIGHT)
        assert isinstance(call, Execution)
        return call.limits_within(run)

    assert within(Limits(), memory_mib=512, cpu_seconds=2.0) == Limits(cpu_seconds=2.0)
    large = Limits(wall_seconds=3.0, cpu_seconds=8.0, memory_mib=1024, output_kib=128)
    assert within(large, memory_mib=512) == replace(large, memory_mib=544)
    assert within(large, cpu_seconds=2.0) == replace(large, wall_seconds=4.0, cpu_seconds=2.0)
    assert within(large) == large


SUMS = 'a, b = map(int, open("output").read().split())\nassert a + b == int(open("input").read())\n'
"""A checker: two numbers that sum to the input."""


def test_a_checker_decides_where_several_outputs_are_right(doubling: Made, sandbox_tools: Any) -> None:
    cases = tuple(Case(given=f"{n}\n", expected=f"0 {n}") for n in (10, 20))
    parts = {"visible": cases[:1], "hidden": cases[1:], "spare": (), "checker": SUMS, "reference": None}
    for program, passed in (
        ("n = int(input())\nprint(n - 3, 3)", 1.0),
        ("n = int(input())\nprint(0, n)", 1.0),
        ("n = int(input())\nprint(n, 3)", 0.0),
        ("print('hello')", 0.0),
        ("print(open('expected').read())", 0.0),
    ):
        env = playthrough(doubling(**parts), sandbox_tools)
        env.apply(TESTER, "4 => 2 2")
        outcome = env.apply(CODER, program)
        assert (outcome.team["passed"], outcome.local["visible"]) == (passed, passed), program
        assert outcome.done == (passed == 1.0)
    known = playthrough(doubling(**parts), sandbox_tools)
    assert known.apply(TESTER, "20 => 8 12").local["valid"] == 1.0
    assert known.apply(TESTER, "20 => 8 13").local["valid"] == 0.0


def test_a_checker_judges_a_testers_outputs_beside_the_references(doubling: Made, sandbox_tools: Any) -> None:
    cases = tuple(Case(given=f"{n}\n", expected=f"0 {n}") for n in (10, 20))
    reference = "n = int(input())\nprint(0, n)\n"
    env = playthrough(
        doubling(visible=cases[:1], hidden=cases[1:], spare=(), checker=SUMS, reference=reference), sandbox_tools
    )
    assert env.apply(TESTER, "7 => 3 4\n8 => 3 4").local["valid"] == 0.5


def test_a_checker_that_refuses_the_expected_output_is_an_error(doubling: Made, sandbox_tools: Any) -> None:
    env = playthrough(doubling(checker="assert False"), sandbox_tools)
    before = env.position
    with pytest.raises(ExecutionFailed, match="refuses an expected output"):
        env.apply(CODER, WRONG)
    assert env.position == before

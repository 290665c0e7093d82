"""Conditions in Python run in a real box; what a program does there costs its own pay alone."""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from components.errors import ConfigurationError, SandboxUnavailable
from components.hybrid.condition_programs import Program, ProgramRunner
from components.hybrid.game_facts import no_facts
from components.hybrid.subgoals import read_programs, tried_lesson
from components.sandbox.backends import open_sandbox
from components.schema import ExecutionResult
from components.session.condition_programs import check_programs, program_runner, with_warnings

FACTS = no_facts(4) | {"x": np.array([2, 8, 9, 10]), "y": np.array([4, 4, 0, 5])}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProgramRunner]:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: `apt-get install -y bubblewrap`")
    sandbox = open_sandbox("bubblewrap", state_folder=tmp_path_factory.mktemp("sandbox"), num_boxes=1)
    yield program_runner(sandbox)
    sandbox.close()


def programs(*texts: str) -> list[Program]:
    return [Program(name=f"g{number}", text=text) for number, text in enumerate(texts)]


def test_each_state_has_its_own_answer(run: ProgramRunner) -> None:
    held = run(programs("abs(x - 8) <= 1", "any(y == n for n in (0, 5))", "10 // (y - 4) > 0", "True"), FACTS)
    assert held.held_R_G.T.tolist() == [
        [False, True, True, False],
        [False, False, True, True],
        [False, False, False, True],
        [True] * 4,
    ]
    assert held.failures_G == ("",) * 4, "to fail in some states is no failure"


def test_a_program_that_misbehaves_costs_its_own_pay_alone(run: ProgramRunner) -> None:
    wild = (
        "sum(range(10 ** 12)) > x",
        "[0] * 10 ** 12",
        "().__class__.__base__.__subclasses__()[0](1, 2, 3)",
        "[c for c in ().__class__.__base__.__subclasses__() if 'BuiltinI' in c.__name__][0].load_module('posix')._exit(0)",
    )
    held = run(programs("x >= 8", *wild), FACTS)
    assert held.held_R_G[:, 0].tolist() == [False, True, True, True]
    assert not held.held_R_G[:, 1:].any()
    assert held.failures_G[0] == ""
    assert all(held.failures_G[1:]), held.failures_G
    assert "timeout" in held.failures_G[1]


def test_a_long_step_is_run_in_parts(run: ProgramRunner) -> None:
    x = np.arange(70_000) % 251
    assert np.array_equal(run(programs("x % 7 == 3"), {"x": x}).held_R_G[:, 0], x % 7 == 3)


def test_a_lesson_is_tried_before_it_is_taught(run: ProgramRunner, caplog: pytest.LogCaptureFixture) -> None:
    lesson = tried_lesson(read_programs("far: len(x) > 1\nshare: hp / max_hp < 0.5\nnear: x < 3", LARGEST_NAMES), run)
    assert [each.name for each in lesson.programs] == ["share", "near"], "divided by 0 in one state of three"
    assert lesson.refusals == ("`len(x) > 1` failed: TypeError: object of type 'int' has no len()",)
    with pytest.raises(
        ConfigurationError, match=r"hybrid.subgoals: `len\(x\) > 1` failed: .*; write another condition"
    ):
        check_programs("far: len(x) > 1", run)
    with_warnings(run)(programs("len(x)"), FACTS)
    assert "subgoal g0: `len(x)` failed and counts as not met: TypeError" in caplog.text


LARGEST_NAMES = frozenset(no_facts(1))


class Lying:
    """A box that answers what it is told to."""

    def __init__(self, stdout: str, status: Any = "ok") -> None:
        self._result = ExecutionResult(
            status=status, stdout=stdout, stderr="", exit_code=0, wall_seconds=0.0, cpu_seconds=0.0, detail="gone"
        )

    def run(self, program: str, **_: Any) -> ExecutionResult:
        return self._result


@pytest.mark.parametrize(
    "told", ["", "[]", "null", "[1]", json.dumps([["ff", ""]]), json.dumps([["zz", ""]]), json.dumps([["1f", "", 3]])]
)
def test_what_is_no_answer_is_a_failure(told: str) -> None:
    held = program_runner(Lying(told))(programs("x > 1"), FACTS)  # type: ignore[arg-type]
    assert not held.held_R_G.any()
    assert held.failures_G[0]


def test_a_sandbox_that_fails_is_no_fault_of_a_teacher() -> None:
    with pytest.raises(SandboxUnavailable, match="subgoals in Python: gone"):
        program_runner(Lying("", "sandbox_error"))(programs("x > 1"), FACTS)  # type: ignore[arg-type]

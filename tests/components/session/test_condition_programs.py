"""Conditions in Python run in a real box; what a program does there costs its own pay alone."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.errors import ConfigurationError, SandboxUnavailable
from components.hybrid import language_model
from components.hybrid.condition_programs import Program, ProgramRunner
from components.hybrid.game_facts import no_facts
from components.hybrid.language_model import LanguageModelTeacher
from components.hybrid.subgoals import read_programs, tried_lesson
from components.runs.run import Run
from components.sandbox.backends import open_sandbox
from components.sandbox.pool import BoxPool
from components.schema import ExecutionResult
from components.session import toolbox
from components.session.condition_programs import check_programs, program_runner, with_warnings
from components.session.engines import Engines
from components.session.hybrid import initial_reflexes
from components.session.learner_checkpoints import lesson_in, read_learner
from components.session.session import Session
from flows.presets import preset_config

FACTS = no_facts(4) | {"x": np.array([2, 8, 9, 10]), "y": np.array([4, 4, 0, 5])}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoxPool]:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: `apt-get install -y bubblewrap`")
    sandbox = open_sandbox("bubblewrap", state_folder=tmp_path_factory.mktemp("sandbox"), num_boxes=1)
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module")
def run(sandbox: BoxPool) -> ProgramRunner:
    return program_runner(sandbox)


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


def opened(root: Path, *overrides: str) -> Session:
    local = ("store.kind=local", f"store.root={root}", "tracking.kind=none", "hybrid.starts=null", *overrides)
    return Session(Run(run_id="taught", config=preset_config("hybrid-tiny", [*local, "hybrid.conditions=python"])))


@pytest.fixture
def boxes(sandbox: BoxPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions have the sandbox of the module, which outlives them."""
    monkeypatch.setattr(sandbox, "close", lambda: None)
    monkeypatch.setattr(toolbox, "new_sandbox", lambda config, limits: sandbox)


def test_a_run_tries_its_own_subgoals_before_it_begins(boxes: None, tmp_path: Path) -> None:
    with opened(tmp_path, "hybrid.subgoals=['far: len(x) > 1']") as session:
        assert session.toolbox.image_digest() is not None, "the run's record names what its conditions ran in"
        with pytest.raises(ConfigurationError, match=r"hybrid.subgoals: `len\(x\) > 1` failed"):
            initial_reflexes(session, {})


def test_what_a_teacher_writes_in_python_is_tried_before_it_is_taught(
    boxes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Writing(LanguageModelTeacher):
        def write_lesson(self, situation: str, goal: str, *, seed: int, **_: Any) -> Any:
            return self._read("far: len(x) > 1\nnear: abs(x - 3) < 2", LARGEST_NAMES)

    monkeypatch.setattr(language_model, "LanguageModelTeacher", Writing)
    monkeypatch.setattr(Engines, "of", lambda self, policy: None)
    api = "{provider: openai, model: none, base_url: 'http://127.0.0.1:9/v1'}"
    policy = f"policies={{m: {{api: {api}, prompt_format: chat, trained: false}}}}"
    with opened(tmp_path, "hybrid.mode=teacher", "agents={player: {policy: m}}", policy) as session:
        assert lesson_in(read_learner(session, initial_reflexes(session, {}))) == "near: abs(x - 3) < 2"


class Lying:
    """A box that answers what it is told to."""

    def __init__(self, stdout: str, status: Any = "ok") -> None:
        self._result = ExecutionResult(
            status=status, stdout=stdout, stderr="", exit_code=0, wall_seconds=0.0, cpu_seconds=0.0, detail="gone"
        )

    def run(self, program: str, **_: Any) -> ExecutionResult:
        return self._result


@pytest.mark.parametrize(
    "told",
    [
        "",
        "[]",
        "null",
        "[1]",
        json.dumps([["ff", ""]]),
        json.dumps([["zz", ""]]),
        json.dumps([["1f", "", 3]]),
        "[" * 100_000,
    ],
)
def test_what_is_no_answer_is_a_failure(told: str) -> None:
    held = program_runner(Lying(told))(programs("x > 1"), FACTS)  # type: ignore[arg-type]
    assert not held.held_R_G.any()
    assert held.failures_G[0]


def test_what_a_box_or_a_teacher_writes_cannot_touch_a_terminal(caplog: pytest.LogCaptureFixture) -> None:
    lying = Lying(json.dumps([["1f", "\x1b[2J\n" + "a" * 100_000]]))
    named = Program(name="\x1b[31mfar\nwide", text="x > 1")
    (failure,) = with_warnings(program_runner(lying))([named], FACTS).failures_G  # type: ignore[arg-type]
    assert failure.startswith("\\x1b[2J\\x0a")
    assert len(failure) == 200
    assert "\x1b" not in caplog.text
    assert "subgoal \\x1b[31mfar\\x0awide: `x > 1` failed" in caplog.text


def test_a_sandbox_that_fails_is_no_fault_of_a_teacher() -> None:
    with pytest.raises(SandboxUnavailable, match="subgoals in Python: gone"):
        program_runner(Lying("", "sandbox_error"))(programs("x > 1"), FACTS)  # type: ignore[arg-type]

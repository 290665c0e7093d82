"""A record that its programs contradict is refuted; whatever an honest host may have seen is not."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import PermanentError, RecordRefuted
from components.schema import Execution, ExecutionResult, Limits, ToolRecord
from components.tool_calls.ledger import ExecutionLedger, ToolSources
from components.tool_calls.spot_check import NUM_ATTEMPTS, SpotCheck, spot_check
from tests.components.sandbox.scripted import ScriptedSandbox, make_printed, sandbox_failed


def answer(program: str, stdin: str) -> ExecutionResult:
    return make_printed(program[::-1] + stdin)


def make_ended(status: Any, stdout: str = "") -> ExecutionResult:
    return replace(make_printed(stdout), status=status, exit_code=None if status.endswith("timeout") else 1)


def ledger(sandbox: ScriptedSandbox, known: ToolRecord | None = None) -> ExecutionLedger:
    return ExecutionLedger(ToolSources(sandbox=lambda: sandbox, retriever=lambda: None, limits=Limits()), known=known)


def record(num_programs: int) -> tuple[list[Execution], ToolRecord]:
    """What an honest host hands over."""
    executions = [Execution(program=f"print({number})", stdin="x") for number in range(num_programs)]
    honest = ledger(ScriptedSandbox(answer))
    honest.prepare(executions)
    for execution in executions:
        honest.run(execution)
    return executions, honest.take_record()


def check(
    executions: list[Execution], known: ToolRecord, sandbox: ScriptedSandbox, *, fraction: float = 1.0, seed: int = 0
) -> SpotCheck:
    """The check of a replay that is answered from `known`."""
    replay = ledger(ScriptedSandbox(answer), known)
    for execution in executions:
        replay.run(execution)
    return spot_check(
        replay.recall_results(), sandbox, limits=Limits(), fraction=fraction, seed=seed, title="shard 3 of step 7"
    )


def one(recorded: ExecutionResult, respond: Any) -> SpotCheck:
    sandbox = ScriptedSandbox(respond)
    recalled = {"k": (Execution(program="p"), recorded)}
    return spot_check(recalled, sandbox, limits=Limits(), fraction=1.0, seed=0, title="shard 3 of step 7")


def test_an_honest_record_is_confirmed_and_each_program_runs_once_more() -> None:
    executions, known = record(40)
    sandbox = ScriptedSandbox(answer)
    assert check(executions, known, sandbox, fraction=0.25) == SpotCheck(num_confirmed=10, num_undecided=0)
    assert sorted(sandbox.asked.values()) == [1] * 10


def test_a_forged_ledger_is_refuted_with_shard_program_and_both_ends() -> None:
    executions, known = record(20)
    honest = ExecutionLedger(
        ToolSources(sandbox=lambda: ScriptedSandbox(answer), retriever=lambda: None, limits=Limits()), known=known
    )
    forged_key = sorted(known.executions)[7]
    for execution in executions:
        honest.run(execution)
    program = honest.recall_results()[forged_key][0].program
    forged = replace(known, executions={**known.executions, forged_key: make_printed("all tests passed")})
    with pytest.raises(RecordRefuted) as caught:
        check(executions, forged, ScriptedSandbox(answer))
    message = str(caught.value)
    assert isinstance(caught.value, PermanentError)
    assert all(part in message for part in ("shard 3 of step 7", forged_key, "all tests passed", program[::-1]))
    assert f"{NUM_ATTEMPTS} times of {NUM_ATTEMPTS}" in message


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**60), fraction=st.floats(0.01, 1.0))
def test_the_sample_follows_from_the_seed_and_is_never_empty(seed: int, fraction: float) -> None:
    executions, known = record(12)
    asked = []
    for _ in range(2):
        sandbox = ScriptedSandbox(answer)
        check(executions, known, sandbox, fraction=fraction, seed=seed)
        asked.append(sandbox.asked)
    assert asked[0] == asked[1]
    assert max(1, int(fraction * 12)) <= len(asked[0]) <= 12


def test_a_forger_of_a_tenth_is_found_as_often_as_the_sample_allows() -> None:
    """Closed form: 4 of 40 are forged and 10 are sampled, so C(36,10) / C(40,10) = 0.30 of the records escape."""
    executions, known = record(40)
    lies = dict.fromkeys(sorted(known.executions)[::10], make_printed("lie"))
    forged = replace(known, executions={**known.executions, **lies})
    refuted = 0
    for seed in range(60):
        try:
            check(executions, forged, ScriptedSandbox(answer), fraction=0.25, seed=seed)
        except RecordRefuted:
            refuted += 1
    assert 27 <= refuted <= 55


@pytest.mark.parametrize("status", ["wall_timeout", "cpu_timeout", "memory", "process_limit"])
def test_a_limit_of_the_machine_is_no_lie(status: Any) -> None:
    assert one(make_ended(status), lambda program, stdin: make_printed("1")) == SpotCheck(
        num_confirmed=0, num_undecided=0
    )


def test_what_ends_in_several_ways_is_undecided_and_stands() -> None:
    draws = itertools.count()
    assert one(make_printed("0.1"), lambda program, stdin: make_printed(f"{next(draws)}")).num_undecided == 1


def test_a_slow_host_accuses_nobody_whose_program_ends_with_more_time() -> None:
    ends = iter([make_ended("wall_timeout"), make_ended("cpu_timeout"), make_ended("wall_timeout"), make_printed("7")])
    assert one(make_printed("7"), lambda program, stdin: next(ends)).num_confirmed == 1


def test_a_program_that_never_ends_is_not_believed_to_have_ended() -> None:
    asked: list[str] = []

    def respond(program: str, stdin: str) -> ExecutionResult:
        asked.append(program)
        return make_ended("cpu_timeout" if len(asked) % 2 else "wall_timeout")

    with pytest.raises(RecordRefuted, match=r"cpu_timeout|wall_timeout"):
        one(make_printed("7"), respond)
    assert len(asked) == 4, "each attempt takes long"


def test_times_and_standard_error_may_differ_and_files_may_not() -> None:
    recorded = replace(make_printed("7"), files={"out.txt": "a"})
    slower = replace(recorded, stderr="<object at 0x7f>", wall_seconds=9.0, cpu_seconds=3.0)
    assert one(recorded, lambda program, stdin: slower).num_confirmed == 1
    with pytest.raises(RecordRefuted):
        one(recorded, lambda program, stdin: replace(slower, files={"out.txt": "b"}))


def test_a_failing_sandbox_accuses_nobody() -> None:
    assert one(make_printed("7"), lambda program, stdin: sandbox_failed("box died")).num_undecided == 1


def test_more_output_than_is_kept_may_be_cut_anywhere() -> None:
    recorded = make_ended("output_limit", "x" * 100)
    assert one(recorded, lambda program, stdin: make_ended("output_limit", "x" * 90)).num_confirmed == 1
    with pytest.raises(RecordRefuted):
        one(make_printed("x" * 100), lambda program, stdin: make_ended("output_limit", "x" * 90))

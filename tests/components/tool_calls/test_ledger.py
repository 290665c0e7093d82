"""The ledger asks the world once for each different call, loses nothing, and never calls a failure an answer."""

import threading
import time
from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.errors import DeadlineExceeded, ExecutionFailed, RetrieverUnavailable, SandboxUnavailable
from components.schema import Execution, ExecutionResult, Limits, Passage, ProblemLimits, Query
from components.tool_calls.journal import ToolJournal
from components.tool_calls.ledger import ExecutionLedger, ToolSources
from tests.components.sandbox.scripted import Respond, ScriptedSandbox, make_printed, sandbox_failed


def echo(program: str, stdin: str) -> ExecutionResult:
    return make_printed(f"{program}<{stdin}")


class ScriptedRetriever:
    def __init__(self, digest: str = "corpus") -> None:
        self.digest = digest
        self.asked: list[Query] = []
        self.is_away = False

    def search(self, query: Query) -> tuple[Passage, ...]:
        self.asked.append(query)
        if self.is_away:
            raise RetrieverUnavailable("away")
        return tuple(Passage(title=query.text, text=str(i), score=-i) for i in range(query.num_passages))


def world(
    sandbox: ScriptedSandbox, retriever: ScriptedRetriever | None = None, limits: Limits | None = None
) -> ToolSources:
    return ToolSources(sandbox=lambda: sandbox, retriever=lambda: retriever, limits=limits or Limits())


def programs(num: int) -> list[Execution]:
    return [Execution(program=f"p{i}") for i in range(num)]


def test_equal_calls_are_asked_once_however_they_come() -> None:
    sandbox = ScriptedSandbox(echo)
    ledger = ExecutionLedger(world(sandbox))
    ledger.prepare([*programs(5), *programs(3)])
    assert [ledger.run(execution).stdout for execution in programs(6)] == [f"p{i}<" for i in range(6)]
    ledger.prepare(programs(6))
    assert sandbox.asked == {(f"p{i}", ""): 1 for i in range(6)}
    assert ledger.num_asked == 6


@pytest.mark.parametrize(
    "other",
    [
        Execution(program="p", stdin="1"),
        Execution(program="p "),
        Execution(program="p", files={"a": ""}),
        Execution(program="p", outputs=("a",)),
        Execution(program="p", limits=Limits(cpu_seconds=1.0)),
    ],
)
def test_a_call_that_differs_in_anything_is_another_call(other: Execution) -> None:
    ledger = ExecutionLedger(world(ScriptedSandbox(echo)))
    ledger.run(Execution(program="p"))
    ledger.run(other)
    assert ledger.num_asked == 2


def test_the_runs_own_limits_are_the_limits_of_a_call_that_names_none() -> None:
    ledger = ExecutionLedger(world(ScriptedSandbox(echo), limits=Limits(memory_mib=64)))
    ledger.run(Execution(program="p"))
    ledger.run(Execution(program="p", limits=Limits(memory_mib=64)))
    ledger.run(Execution(program="p", limits=ProblemLimits(memory_mib=512)))
    assert ledger.num_asked == 1


def test_the_record_of_one_ledger_answers_for_another_unless_the_image_is_another() -> None:
    first = ExecutionLedger(world(ScriptedSandbox(echo)))
    first.prepare(programs(3))
    assert first.take_record().executions == {}, "prepared is not yet used"
    for execution in programs(2):
        first.run(execution)
    record = first.take_record()
    assert len(record.executions) == 2
    assert first.take_record().executions == {}, "a record is taken once"

    same, other = ScriptedSandbox(echo), ScriptedSandbox(echo, image_digest="newer")
    again = ExecutionLedger(world(same), known=record)
    assert [again.run(execution).stdout for execution in programs(2)] == ["p0<", "p1<"]
    assert again.take_record() == record
    assert same.asked == {}
    ExecutionLedger(world(other), known=record).run(programs(1)[0])
    assert other.asked == {("p0", ""): 1}


def test_a_failure_of_the_sandbox_is_no_answer_and_is_not_tried_again_by_the_same_ledger(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)
    broken = ScriptedSandbox(
        lambda program, stdin: sandbox_failed("box gone") if program == "p1" else echo(program, "")
    )
    ledger = ExecutionLedger(world(broken), journal=ToolJournal(store, "runs/r/k"))
    ledger.prepare(programs(3))
    ledger.prepare(programs(3))
    assert ledger.run(programs(3)[2]).stdout == "p2<"
    with pytest.raises(ExecutionFailed, match="box gone"):
        ledger.run(programs(2)[1])
    assert broken.asked["p1", ""] == 1
    assert len(ledger.take_record().executions) == 1

    mended = ScriptedSandbox(echo)
    later = ExecutionLedger(world(mended), journal=ToolJournal(store, "runs/r/k"))
    later.prepare(programs(3))
    assert mended.asked == {("p1", ""): 1}, "only what failed is run by the next attempt"


def test_what_was_answered_before_a_crash_is_not_asked_again(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)

    def dies_at(number: int) -> Respond:
        def respond(program: str, stdin: str) -> ExecutionResult:
            if int(program[1:]) >= number:
                time.sleep(0.05)
                raise SandboxUnavailable("the daemon is gone")
            return echo(program, stdin)

        return respond

    first = ExecutionLedger(world(ScriptedSandbox(dies_at(300), num_boxes=1)), journal=ToolJournal(store, "k"))
    with pytest.raises(SandboxUnavailable):
        first.prepare(programs(400))
    second = ScriptedSandbox(echo)
    ExecutionLedger(world(second), journal=ToolJournal(store, "k")).prepare(programs(400))
    assert sorted(second.asked) == sorted((f"p{i}", "") for i in range(300, 400))


def test_two_ledgers_over_one_journal_agree_after_a_restart(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)
    rivals = [
        ExecutionLedger(
            world(ScriptedSandbox(lambda program, stdin, name=name: make_printed(name))),  # type: ignore[misc]
            journal=ToolJournal(store, "k"),
        )
        for name in ("first", "second")
    ]
    assert [rival.run(Execution(program="p")).stdout for rival in rivals] == ["first", "second"]
    answers = {
        ExecutionLedger(world(ScriptedSandbox(echo)), journal=ToolJournal(store, "k"))
        .run(Execution(program="p"))
        .stdout
        for _ in range(3)
    }
    assert len(answers) == 1


def test_as_many_programs_run_at_once_as_there_are_boxes() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def respond(program: str, stdin: str) -> ExecutionResult:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return make_printed("")

    ExecutionLedger(world(ScriptedSandbox(respond, num_boxes=3))).prepare(programs(12))
    assert most == 3


def test_a_deadline_is_for_the_whole_stage_and_keeps_what_was_answered(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)

    def respond(program: str, stdin: str) -> ExecutionResult:
        time.sleep(0.0 if int(program[1:]) < 4 else 0.3)
        return echo(program, stdin)

    ledger = ExecutionLedger(
        world(ScriptedSandbox(respond, num_boxes=2)), journal=ToolJournal(store, "k"), deadline_seconds=0.15
    )
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"rewards\.deadline_seconds"):
        ledger.prepare(programs(60))
    assert time.monotonic() - started < 2.0
    with pytest.raises(DeadlineExceeded):
        ledger.run(Execution(program="p99"))
    resumed = ExecutionLedger(world(ScriptedSandbox(echo)), journal=ToolJournal(store, "k"))
    resumed.prepare(programs(4))
    assert resumed.num_asked == 0


def test_passages_are_recorded_under_query_number_and_corpus() -> None:
    retriever = ScriptedRetriever()
    ledger = ExecutionLedger(world(ScriptedSandbox(echo), retriever))
    query = Query(text="who", num_passages=2)
    ledger.prepare([query, query, Query(text="who", num_passages=3)])
    assert [passage.text for passage in ledger.retrieve(query)] == ["0", "1"]
    assert len(retriever.asked) == 2
    record = ledger.take_record()
    silent, newer = ScriptedRetriever(), ScriptedRetriever(digest="newer corpus")
    silent.is_away = newer.is_away = True
    assert ExecutionLedger(world(ScriptedSandbox(echo), silent), known=record).retrieve(query)
    with pytest.raises(RetrieverUnavailable):
        ExecutionLedger(world(ScriptedSandbox(echo), newer), known=record).retrieve(query)

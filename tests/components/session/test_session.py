"""What a session owns is its own: two of them in one process share nothing, and the end of one ends nothing of the other."""

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from components.reporting import progress
from components.runs.run import Run
from components.schema import Execution
from components.session import session, toolbox
from components.session.engines import Engines
from components.session.session import Session
from flows.presets import preset_config
from tests.components.sandbox.scripted import ScriptedSandbox, make_printed
from tests.integration.trainings import workers_of


class Boxes(ScriptedSandbox):
    """Scripted boxes that answer until they are closed."""

    def __init__(self) -> None:
        super().__init__(lambda program, stdin: make_printed(program))
        self.are_open = True

    def close(self) -> None:
        super().close()
        self.are_open = False


def open_session(root: Path, run_id: str, preset: str = "tiny", *overrides: str) -> Session:
    local = ("store.kind=local", f"store.root={root}", "tracking.kind=none")
    return Session(Run(run_id=run_id, config=preset_config(preset, [*local, *overrides])))


def await_workers(run_id: str) -> None:
    deadline = time.monotonic() + 30
    while not workers_of(run_id):
        assert time.monotonic() < deadline, f"no worker of {run_id} has begun"
        time.sleep(0.02)


def test_the_end_of_a_session_ends_its_workers_and_boxes_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes: list[Boxes] = []
    monkeypatch.setattr(toolbox, "new_sandbox", lambda config, limits: boxes.append(Boxes()) or boxes[-1])
    ending, staying = (open_session(tmp_path, name, "math-tiny") for name in ("ending", "staying"))
    with staying:
        for each in (ending, staying):
            each.trainers.warm_up()
            assert each.toolbox.tools().run(Execution(program="1")).stdout == "1"
            await_workers(each.run.run_id)
        ending.close()
        assert [each.are_open for each in boxes] == [False, True]
        assert workers_of("ending") == []
        assert workers_of("staying")
        assert staying.toolbox.tools().run(Execution(program="2")).stdout == "2"
        assert len(boxes) == 2, "and were not opened again"
    assert [each.are_open for each in boxes] == [False, False]
    assert workers_of("staying") == []


def test_one_policy_name_in_two_sessions_is_two_engines_and_two_folders_of_copies(tmp_path: Path) -> None:
    with open_session(tmp_path, "one") as one, open_session(tmp_path, "other") as other:
        assert one.engines.of("team") is one.engines.of("team")
        assert one.engines.of("team") is not other.engines.of("team")
        assert one.trainers.of("team") is not other.trainers.of("team")
        mine, theirs = one.copies.work_folder(0), other.copies.work_folder(0)
        one.close()
        assert (mine.exists(), theirs.exists()) == (False, True)
    assert not theirs.exists()


def test_threads_that_ask_at_once_are_given_one_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Boxes] = []

    def slowly(*_: object) -> Boxes:
        threading.Event().wait(0.05)
        made.append(Boxes())
        return made[-1]

    monkeypatch.setattr(toolbox, "new_sandbox", slowly)
    with open_session(tmp_path, "r", "math-tiny") as asked, ThreadPoolExecutor(4) as threads:
        assert len({id(each.result()) for each in [threads.submit(asked.toolbox.sandbox) for _ in range(4)]}) == 1
    assert len(made) == 1


def test_all_is_closed_even_when_some_of_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closing = open_session(tmp_path, "r")
    work = closing.copies.work_folder(0)

    def fail(self: Engines) -> None:
        raise RuntimeError("the engine does not end")

    monkeypatch.setattr(Engines, "close", fail)
    with pytest.raises(RuntimeError, match="does not end"):
        closing.close()
    assert not work.exists()


def test_in_another_process_a_session_is_that_process_s_own_of_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_of_this_worker", {})  # as a process has it that has just begun
    sent = [pickle.dumps(open_session(tmp_path, name)) for name in ("r7", "r7", "r8")]
    first, again, other = (pickle.loads(each) for each in sent)
    assert first is again
    assert (first.run.run_id, other.run.run_id) == ("r7", "r8")
    changed = pickle.loads(pickle.dumps(open_session(tmp_path, "r7", "tiny", "seed=5")))
    assert changed is not first, "another configuration is another session"
    for each in (first, other, changed):
        each.close()


def test_each_thread_hears_of_its_own_work_alone() -> None:
    both_listen = threading.Barrier(2, timeout=20)

    def heard(stage: str) -> list[str]:
        found: list[str] = []
        with progress.subscribe(lambda told: found.append(told.stage)):
            both_listen.wait()
            progress.report(stage, 0, 1, 1)
            both_listen.wait()
        return found

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(heard, ["one", "other"])) == [["one"], ["other"]]

"""Updates of several policies side by side: the next one begins when any of those under way has ended."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prefect.futures import PrefectConcurrentFuture
from prefect.states import Completed, Failed, State

from flows import updates as module


class Updates:
    """A task whose every call waits until the test releases it."""

    def __init__(self) -> None:
        self.begun = {policy: threading.Event() for policy in "abc"}
        self.released = {policy: threading.Event() for policy in "abc"}
        self.failing: set[str] = set()
        self.threads = ThreadPoolExecutor(8)

    def for_threads(self) -> "Updates":
        return self

    def submit(self, run: Any, step: int, policy: str, checkpoint: Any, ref: Any) -> PrefectConcurrentFuture[str]:
        return PrefectConcurrentFuture(uuid4(), self.threads.submit(self.update, policy))

    def update(self, policy: str) -> State[Any]:
        self.begun[policy].set()
        assert self.released[policy].wait(60)
        return Failed(data=ValueError(policy)) if policy in self.failing else Completed(data=policy.upper())


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> Iterator[Updates]:
    stub = Updates()
    monkeypatch.setattr(module, "update_policy", stub)
    yield stub
    for event in stub.released.values():
        event.set()
    stub.threads.shutdown()


def update(at_once: int) -> dict[str, Any]:
    resources = SimpleNamespace(runner="thread", max_updates_at_once=at_once)
    run: Any = SimpleNamespace(config=SimpleNamespace(resources=resources))
    batches: Any = SimpleNamespace(batches=dict.fromkeys("abc"))
    return dict(module.update_policies(run, 0, dict.fromkeys("abc"), batches))  # type: ignore[arg-type]


def test_a_slow_policy_holds_up_no_other(updates: Updates) -> None:
    with ThreadPoolExecutor(1) as caller:
        answer = caller.submit(update, 2)
        assert updates.begun["a"].wait(60)
        assert updates.begun["b"].wait(60)
        assert not updates.begun["c"].wait(0.05)
        updates.released["b"].set()
        assert updates.begun["c"].wait(60), "the third waits for the slowest of the first two"
        for event in updates.released.values():
            event.set()
        assert answer.result(60) == {"a": "A", "b": "B", "c": "C"}


def test_after_a_failure_no_update_begins(updates: Updates) -> None:
    updates.failing.add("a")
    updates.released["a"].set()
    with pytest.raises(ValueError, match="a"):
        update(2)
    assert not updates.begun["c"].is_set()

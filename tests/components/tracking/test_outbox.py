"""Each report arrives exactly once, whichever process dies in between."""

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.artifacts.base import ArtifactStore
from components.artifacts.local import LocalArtifactStore
from components.errors import PermanentError
from components.schema import IterationReport
from components.tracking.base import ProblemSet
from components.tracking.outbox import DrainReport, Outbox
from tests.components.tracking.faults import FaultyStore, FaultyTracker, Killed
from tests.components.tracking.memory import InMemoryTracker
from tests.components.tracking.reports import evaluation, iteration, team, trace

REWARD = "reward/plan_agent/mean"


def ticking() -> Callable[[], int]:
    """A clock that never repeats a time, so that a second timestamp of a report would be visible."""
    return itertools.count(1_000).__next__


def outbox_on(store: Any, now_ms: Callable[[], int] | None = None) -> Outbox:
    return Outbox(
        cast(ArtifactStore, store), "r", params={"seed": "0"}, tags={"preset": "t"}, now_ms=now_ms or ticking()
    )


@pytest.fixture
def store(tmp_path: Path) -> FaultyStore:
    return FaultyStore(LocalArtifactStore(tmp_path))


def test_everything_that_was_posted_arrives(store: FaultyStore) -> None:
    tracker, outbox = InMemoryTracker(), outbox_on(store)
    outbox.post_iteration(iteration("r", 0))
    outbox.post_evaluation(evaluation(0))
    outbox.post_checkpoint(team(1, "aa", other="bb"))
    outbox.post_traces(0, [trace("a", error="exit 1"), trace("b")])
    outbox.post_file(0, "episodes/000000-sample.gif", store.put_bytes(b"GIF89a", kind="EpisodePicture"))
    assert outbox.num_pending == 5
    assert outbox.drain(tracker) == DrainReport(num_published=5, num_pending=0)
    run = tracker.runs["r"]
    assert (run.params, run.tags) == ({"seed": "0"}, {"preset": "t"})
    assert tracker.history("r", REWARD) == [(0, 2.0)]
    assert tracker.history("r", "eval/greedy_success_rate") == [(0, 0.75)]
    assert [c.team for c in run.checkpoints] == [team(1, "aa", other="bb")]
    assert run.files == {"episodes/000000-sample.gif": b"GIF89a"}
    assert run.traces == {"a": trace("a", error="exit 1"), "b": trace("b")}
    assert outbox.drain(tracker) == DrainReport(num_published=0, num_pending=0)


def test_a_file_that_is_gone_holds_up_no_other_and_is_named(store: FaultyStore) -> None:
    tracker, outbox = InMemoryTracker(), outbox_on(store)
    picture = store.put_bytes(b"GIF89a", kind="EpisodePicture")
    outbox.post_file(0, "a.gif", picture)
    outbox.post_iteration(iteration("r", 1))
    store.inner.delete(picture.key)
    report = outbox.drain(tracker)
    assert (report.num_published, report.num_pending, report.may_recover) == (1, 1, False)
    assert f"000000-file-a.gif: {picture.key}: not in" in str(report.error)


def test_checkpoints_are_registered_in_the_order_of_steps(store: FaultyStore) -> None:
    tracker, outbox = InMemoryTracker(), outbox_on(store)
    for step in (12, 3, 100):
        outbox.post_checkpoint(team(step, str(step)))
    outbox.drain(tracker)
    assert [(c.team.step, c.version) for c in tracker.runs["r"].checkpoints] == [(3, 1), (12, 2), (100, 3)]


def test_a_report_keeps_the_time_at_which_it_was_first_posted(store: FaultyStore) -> None:
    outbox_on(store, lambda: 1).post_iteration(iteration("r", 0))
    later, tracker = outbox_on(store, lambda: 2), InMemoryTracker()
    later.post_iteration(iteration("r", 0))
    later.drain(tracker)
    assert {timestamp for _, _, timestamp, _ in tracker.runs["r"].points} == {1}


def test_a_restarted_step_is_a_new_report(store: FaultyStore) -> None:
    tracker, outbox = InMemoryTracker(), outbox_on(store)
    outbox.post_iteration(iteration("r", 0))
    outbox.post_iteration(iteration("r", 0), lineage=2)
    assert outbox.drain(tracker).num_published == 2


def test_a_tracker_that_is_away_is_reported_and_loses_nothing(store: FaultyStore) -> None:
    tracker, outbox = InMemoryTracker(available=False), outbox_on(store)
    outbox.post_iteration(iteration("r", 0))
    report = outbox.drain(tracker)
    assert (report.num_published, report.num_pending) == (0, 1)
    assert "switched off" in str(report.error)
    tracker.available = True
    assert outbox.drain(tracker) == DrainReport(num_published=1, num_pending=0)


def test_a_store_that_is_away_is_reported_and_loses_nothing(store: FaultyStore) -> None:
    tracker, outbox = InMemoryTracker(), outbox_on(store)
    outbox.post_iteration(iteration("r", 0))
    outbox.drain(tracker)
    outbox.post_iteration(iteration("r", 1))
    store.is_away = True
    assert outbox.drain(tracker) == DrainReport(
        num_published=0, num_pending=1, error="the store is away", may_recover=True
    )
    store.is_away = False
    assert outbox.drain(tracker) == DrainReport(num_published=1, num_pending=0)
    assert tracker.history("r", REWARD) == [(0, 2.0), (1, 3.0)]


class Refusing(InMemoryTracker):
    def publish_iteration(self, report: IterationReport, *, timestamp_ms: int) -> None:
        if report.step == 0:
            raise PermanentError("no such name")
        super().publish_iteration(report, timestamp_ms=timestamp_ms)


def test_a_refused_report_holds_up_no_other_and_is_named(store: FaultyStore) -> None:
    tracker, outbox = Refusing(), outbox_on(store)
    for step in range(3):
        outbox.post_iteration(iteration("r", step))
    expected = DrainReport(num_published=2, num_pending=1, error="000000-iteration: no such name")
    assert outbox.drain(tracker) == expected
    assert tracker.history("r", REWARD) == [(1, 3.0), (2, 4.0)]
    assert outbox.finish(tracker, succeeded=True).num_pending == 1
    assert tracker.runs["r"].status == "RUNNING"
    assert outbox.refusal == "000000-iteration: no such name"


class Closed(InMemoryTracker):
    def open_run(
        self, run_id: str, params: Mapping[str, str], tags: Mapping[str, str], problems: Sequence[ProblemSet] = ()
    ) -> None:
        raise PermanentError("the experiment was deleted")


def test_a_run_that_cannot_be_opened_is_reported_and_loses_nothing(store: FaultyStore) -> None:
    outbox = outbox_on(store)
    outbox.post_iteration(iteration("r", 0))
    expected = DrainReport(num_published=0, num_pending=1, error="the experiment was deleted")
    assert outbox.drain(Closed()) == expected
    assert outbox.finish(Closed(), succeeded=True) == expected
    assert outbox.refusal == "the experiment was deleted"
    tracker = InMemoryTracker()
    assert outbox.drain(tracker).num_published == 1


def test_an_end_without_news_says_so(store: FaultyStore) -> None:
    tracker = InMemoryTracker()
    for _ in range(2):
        outbox = outbox_on(store)
        outbox.post_iteration(iteration("r", 0))
        outbox.finish(tracker, succeeded=True)
    assert tracker.runs["r"].ends == [True, False]


def test_finishing_marks_the_end_once_all_has_arrived(store: FaultyStore) -> None:
    tracker, outbox = InMemoryTracker(), outbox_on(store)
    outbox.post_iteration(iteration("r", 0))
    assert outbox.finish(tracker, succeeded=True) == DrainReport(num_published=1, num_pending=0)
    assert tracker.runs["r"].status == "FINISHED"


def test_published_reports_cost_one_listing_and_no_reading(store: FaultyStore) -> None:
    tracker, outbox = FaultyTracker(), outbox_on(store)
    for step in range(300):
        outbox.post_iteration(iteration("r", step))
        if step % 50 == 0:
            outbox.drain(tracker)
    outbox.drain(tracker)
    assert (store.num_lists, store.num_reads, tracker.num_publishes) == (1, 0, 300)
    resumed = outbox_on(store)
    resumed.post_iteration(iteration("r", 300))
    resumed.drain(tracker)
    assert (store.num_lists, store.num_reads, tracker.num_publishes) == (2, 0, 301)


CRASHES = {
    "after an entry is written": ("store", 1),
    "after a publish, before its mark": ("tracker", 1),
    "after a mark": ("store", 4),
    "after the last publish": ("tracker", 3),
}


@pytest.mark.parametrize("crash", CRASHES)
def test_a_process_killed_at_any_point_is_made_good_by_the_next(store: FaultyStore, crash: str) -> None:
    where, count = CRASHES[crash]
    tracker = FaultyTracker()

    def work() -> None:
        outbox = outbox_on(store)
        for step in range(3):
            outbox.post_iteration(iteration("r", step))
        outbox.drain(tracker)

    (store if where == "store" else tracker).dies_after = count
    with pytest.raises(Killed):
        work()
    work()
    assert_each_arrived_once(tracker, 3)


@settings(max_examples=30, deadline=None)
@given(
    deaths=st.lists(st.tuples(st.sampled_from(["store", "tracker"]), st.integers(1, 14)), max_size=5),
    outages=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_each_report_arrives_once_over_any_deaths_and_outages(
    deaths: list[tuple[str, int]], outages: list[bool]
) -> None:
    num_steps, clock, tracker = 6, ticking(), FaultyTracker()
    with tempfile.TemporaryDirectory() as root:
        store = FaultyStore(LocalArtifactStore(Path(root)))

        def work() -> None:
            outbox = outbox_on(store, clock)
            for step in range(num_steps):
                outbox.post_iteration(iteration("r", step))
                if step % 2:
                    outbox.drain(tracker)

        for (where, count), is_away in zip(deaths, outages, strict=False):
            tracker.available = not is_away
            (store if where == "store" else tracker).dies_after = count
            try:
                work()
            except Killed:
                continue
        store.dies_after = tracker.dies_after = None
        tracker.available = True
        work()
        assert_each_arrived_once(tracker, num_steps)


def assert_each_arrived_once(tracker: InMemoryTracker, num_steps: int) -> None:
    """One point for each (metric, step): a second timestamp for a step would be a second point."""
    assert tracker.history("r", REWARD) == [(step, 2.0 + step) for step in range(num_steps)]
    assert len(tracker.runs["r"].points) == 4 * num_steps

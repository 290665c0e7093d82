"""Plays the blocks of a suite one after the other in this process, or where the configuration places shards."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from prefect import flow

from components.config import ResourceConfig
from components.evaluation.suite_play import SuitePlay
from components.reporting import progress as progress_events
from components.session.session import Session
from flows.runners import check_ray, one_cluster, task_runner
from flows.shards import run_all
from tasks.play_suite import play_suite

Progress = Callable[[float, int], None]
"""Told how many of how many problems are done."""
Call = tuple[Any, ...]
"""The arguments of `play_suite` for one block."""


def play_here(session: Session, calls: Sequence[Call], *, title: str, progress: Progress) -> list[SuitePlay]:
    """The play of each block, in this process and without a word to Prefect."""
    total, num_done, plays = sum(len(_problems(call)) for call in calls), 0, []
    for call in calls:
        with count_block(progress, num_done, total):
            plays.append(play_suite.within(*call))
        num_done += len(_problems(call))
        progress(num_done, total)
    return plays


def play_in_flow(session: Session, calls: Sequence[Call], *, title: str, progress: Progress) -> list[SuitePlay]:
    """The play of each block as a task of the current flow run; of a child of it, called `title`, where blocks are played
    apart."""
    resources = session.config.resources
    if not are_apart(resources):
        return [play_suite(*call) for call in calls]
    check_ray(resources)
    with one_cluster(session.config):
        apart = flow(name="suite", flow_run_name=lambda: title, task_runner=task_runner(resources))(
            lambda: run_all(play_suite, calls, resources)
        )
        return apart()


def are_apart(resources: ResourceConfig) -> bool:
    """Whether shards, and so blocks, are played in other processes or several at once."""
    return resources.runner == "ray" or resources.max_shards_at_once > 1


@contextmanager
def count_block(progress: Progress, num_done: int, total: int) -> Iterator[None]:
    """Within the block the progress of one block of problems is told as that of the whole suite."""

    def tell(each: progress_events.Progress) -> None:
        if each.stage == play_suite.stage.name and each.total > 1:
            progress(num_done + each.done, total)

    with progress_events.subscribe(tell):
        yield


def _problems(call: Call) -> Sequence[Any]:
    plan = call[2]
    return plan.problems  # type: ignore[no-any-return]

"""Plays and scores a step's shards: with which weights, where, and when."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from prefect import flow
from prefect.futures import wait

from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import ResourceConfig
from components.evaluation.suite_play import SuitePlay
from components.methods.population.credits import choose_played_checkpoints, seat_versions, seatings
from components.reporting import progress as progress_events
from components.runs.steps import checkpoints_before
from components.session.session import Session
from flows.runners import ask_cluster, check_ray, one_cluster, start_engines_on_cluster, task_runner
from tasks.collect_rollouts import collect_rollouts
from tasks.compute_rewards import compute_rewards
from tasks.play_suite import play_suite
from tasks.refresh_weights import refresh_weights


def sampling_checkpoints(
    session: Session, step: int, checkpoints: dict[str, CheckpointRef]
) -> dict[str, CheckpointRef]:
    """The checkpoints that play a step which starts from `checkpoints`.

    With `rollout.overlap` one_step the step is played during the previous update, so by the weights before that update.
    """
    if session.config.rollout.overlap == "none" or step == 0:
        return checkpoints
    return checkpoints_before(session.store, session.run, step - 1)


def collect_matches(
    session: Session, step: int, checkpoints: dict[str, CheckpointRef], state: ArtifactRef | None
) -> list[ArtifactRef]:
    """The RolloutShards of a population's step, in order, each played by those whom the state before it seats there."""
    versions = refresh_weights(session, step, choose_played_checkpoints(session, step, checkpoints))
    seated = enumerate(seatings(session, step, state))
    calls = [
        (session, step, shard, seat_versions(session, seating, state, versions), seating) for shard, seating in seated
    ]
    return run_all(collect_rollouts, calls, session.config.resources)


def collect_all(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> list[ArtifactRef]:
    """The RolloutShards of a step, in order."""
    versions = refresh_weights(session, step, checkpoints)
    calls = [(session, step, shard, versions) for shard in range(session.config.rollout.num_shards)]
    return run_all(collect_rollouts, calls, session.config.resources)


def score_all(session: Session, step: int, rollouts: Sequence[ArtifactRef]) -> list[ArtifactRef]:
    """The ScoredShards of a step, in order."""
    calls = [(session, step, shard, ref) for shard, ref in enumerate(rollouts)]
    return run_all(compute_rewards, calls, session.config.resources)


@contextmanager
def prefetch_rollouts(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> Iterator[None]:
    """With `rollout.overlap` one_step, play the next step during the block, with the weights from before this step's update.

    The rollouts are committed, so the next step finds them, and repeats any that failed.
    """
    if session.config.rollout.overlap == "none" or step + 1 >= session.config.num_steps:
        yield
        return
    versions = refresh_weights(session, step + 1, checkpoints)
    calls = [(session, step + 1, shard, versions) for shard in range(session.config.rollout.num_shards)]
    futures = submit_all(collect_rollouts, calls, session.config.resources)
    try:
        yield
    except Exception:
        wait(futures)
        raise
    wait(futures)  # not after an interruption


def run_all(task: Any, calls: Sequence[tuple[Any, ...]], resources: ResourceConfig) -> list[Any]:
    """The task's results for each of `calls`, in order: computed here, or by the flow's task runner."""
    if resources.runner == "thread" and resources.max_shards_at_once == 1:
        return [task(*call) for call in calls]
    return [future.result() for future in submit_all(task, calls, resources)]


def submit_all(task: Any, calls: Sequence[tuple[Any, ...]], resources: ResourceConfig) -> list[Any]:
    """Futures of the calls, of which `resources.max_shards_at_once` run at a time."""
    task = task.for_threads() if resources.runner == "thread" else task
    at_once = resources.max_shards_at_once
    futures: list[Any] = []
    with ask_cluster(calls[0][0]) if resources.runner == "ray" else nullcontext():
        for number, call in enumerate(calls):
            # A call starts when the one `at_once` places before it has ended.
            ahead = futures[number - at_once : number - at_once + 1] if number >= at_once else []
            futures.append(task.submit(*call, wait_for=ahead))
    return futures


Progress = Callable[[float, int], None]
"""Told how many of how many problems are done."""
Call = tuple[Any, ...]
"""The arguments of `play_suite` for one block."""


def play_here(session: Session, calls: Sequence[Call], *, title: str, progress: Progress) -> list[SuitePlay]:
    """The play of each block, in this process and without a word to Prefect."""
    total, num_done, plays = sum(len(_problems(call)) for call in calls), 0, []
    for call in calls:
        with count_block(progress, num_done, total):
            plays.append(play_suite.in_lineage(*call))
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
    with one_cluster(session):
        start_engines_on_cluster(session)
        apart = flow(name="suite", flow_run_name=lambda: title, task_runner=task_runner(session.config))(
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

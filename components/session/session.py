"""The resources of one run in one process, passed to every stage."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any

from components.artifacts.base import ArtifactStore
from components.artifacts.payload_cache import KeptPayloads
from components.artifacts.refs import StageManifest
from components.artifacts.write_behind import WriteBehindStore
from components.config import RunConfig
from components.machine.closeable import Closeable
from components.machine.outages import is_interrupted
from components.rollout.router import Router
from components.runs.run import Run
from components.runs.step_records import step_of
from components.schema import IterationReport, PolicyVersion
from components.session.checkpoint_cache import CheckpointCache, open_copies
from components.session.engines import Engines
from components.session.publishing import Publishing
from components.session.scenario import Scenario, scenario_of
from components.session.stores import open_store
from components.session.toolbox import Toolbox, open_agent_boxes
from components.session.trackers import tracker_of
from components.session.trainers import Trainers
from components.stage_roles import Roles
from components.tracking.base import Tracker

if TYPE_CHECKING:
    from components.gateway.programs import ProgramRunner

_SHUTDOWN_GRACE_SECONDS = 10.0


class Session(Closeable):
    """The owner of a run's store, engines, trainers, tools and tracker. Each is opened when it is first needed.

    Closing it ends its own workers, boxes and engines, and no others. Prefect passes it by reference; in a Ray worker it
    arrives as that process's own session of the run.
    """

    # Without a __dict__ Prefect does not try to serialise it.
    __slots__ = (
        "_copies",
        "_is_on_cluster",
        "_kept",
        "_opening",
        "_programs",
        "_store",
        "_tracker",
        "computes_all",
        "engines",
        "looking",
        "manifests",
        "on_step",
        "prefetch",
        "publishing",
        "roles",
        "run",
        "scenario",
        "started_ms",
        "toolbox",
        "trainers",
        "warned",
    )

    def __init__(
        self, run: Run, *, scenario: Scenario | None = None, computes_all: bool = False, is_on_cluster: bool = False
    ) -> None:
        """Raises ConfigurationError for an environment that cannot be used. `scenario`: that of the run, if it is known.

        `computes_all`: this process computes all stages itself, so a thread may write their results behind them.
        `is_on_cluster`: it shares what it fetches with the other processes of its host.
        """
        self.run = run
        self.computes_all = computes_all
        self._is_on_cluster = is_on_cluster
        self.scenario = scenario or scenario_of(run.config)
        self.engines = Engines(run.config, sign=lambda folder: self.copies.sign(folder), run_id=run.run_id)
        self.trainers = Trainers(run)
        self.toolbox = Toolbox(self.scenario)
        self.started_ms = round(time() * 1000)
        """When it began, since 1970."""
        self.publishing: Publishing | None = None
        """None until the run's configuration is frozen."""
        self.roles = Roles()
        """Those of the stages of the pipeline that trains the run."""
        self.on_step: Callable[[IterationReport], None] | None = None
        """Called with the report of each step that this session finishes, once it is durable."""
        self.prefetch: Future[Any] | None = None
        """The `components.session.step_snapshot.StepSnapshot` being taken at the next step."""
        self.looking = ThreadPoolExecutor(1, thread_name_prefix="look")
        self.manifests: dict[str, StageManifest] = {}
        """By key: stages this session has committed or read since the last report."""
        self.warned: set[str] = set()
        """What the user has been warned of."""
        self._store: ArtifactStore | None = None
        self._tracker: Tracker | None = None
        self._copies: CheckpointCache | None = None
        self._kept: KeptPayloads | None = None
        self._programs: ProgramRunner | None = None
        self._opening = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return session_of_worker, (self.run,)

    @property
    def config(self) -> RunConfig:
        """The run's configuration."""
        return self.run.config

    @property
    def store(self) -> ArtifactStore:
        """The run's store."""
        if self._store is None:
            opened = open_store(self.config.store)
            self._store = WriteBehindStore(opened) if self.computes_all else opened
        return self._store

    @property
    def copies(self) -> CheckpointCache:
        """Local copies of the run's checkpoints."""
        if self._copies is None:
            self._copies = open_copies(self.config, self.store, is_shared=self._is_on_cluster)
        return self._copies

    @property
    def kept(self) -> KeptPayloads:
        """Payloads passed between stages of this process, stored and kept in memory."""
        if self._kept is None:
            self._kept = KeptPayloads(self.store)
        return self._kept

    @property
    def tracker(self) -> Tracker:
        """The run's tracker."""
        if self._tracker is None:
            self._tracker = tracker_of(self.config.tracking)
        return self._tracker

    @property
    def published(self) -> Publishing:
        """The run's publishing. Only after its configuration is frozen."""
        assert self.publishing is not None, f"run {self.run.run_id} publishes before its configuration is frozen"
        return self.publishing

    def note_manifest(self, key: str, manifest: StageManifest) -> None:
        """Remember a committed stage for its step's report. Ray workers report nothing and remember nothing."""
        if self.publishing is not None:
            self.manifests[key] = manifest

    def forget_manifests(self, step: int) -> None:
        """Forget the stages of this and earlier steps."""
        for key in [key for key in self.manifests if step_of(key) <= step]:
            del self.manifests[key]

    def router(
        self, versions: dict[str, PolicyVersion], seating: Mapping[str, str] | None = None, *, calls: str | None = None
    ) -> Router:
        """Routes roles to policies and their engines, at the given versions; with a `seating`, to the players that it names.

        What programs ask is kept in the store below the prefix `calls`; None: it is not kept.
        """
        seats, programs = self.scenario.seats if seating is None else self.scenario.fill_seats(seating), None
        players = {*self.config.policies, *(seat.policy for seat in seats.values())}
        engines = {player: self.engines.of(player) for player in players}
        if self.scenario.family.is_played_by_programs:
            from components.gateway.program_play import open_program_play

            recorded = None if calls is None else (self.store.durable, calls)
            programs = open_program_play(
                engines, seats, versions, runner=self.programs, config=self.config, calls=recorded
            )
        return Router(engines, seats=seats, versions=versions, programs=programs)

    @property
    def programs(self) -> "ProgramRunner":
        """Runs the programs of agents."""
        from components.gateway.program_play import open_runner

        with self._opening:  # shards may be played at once
            boxes = partial(open_agent_boxes, self.config.sandbox)
            self._programs = self._programs or open_runner(self.config, (self.store.uri, self.run.run_id), boxes)
        return self._programs

    def close_store(self) -> None:
        """Wait for pending writes, a limited time after an interruption; drop those that fail."""
        if self._store is not None:
            self._store.close(timeout_seconds=_SHUTDOWN_GRACE_SECONDS if is_interrupted() else None)

    def close(self) -> None:
        """End workers and boxes, release engines and local copies. Each of them, even if another one fails."""
        with ExitStack() as last_first:
            last_first.callback(self.close_store)
            if self._copies is not None:
                last_first.callback(self._copies.close)
            last_first.callback(self.engines.close)
            if self._programs is not None:
                last_first.callback(self._programs.close)
            last_first.callback(self.toolbox.close)
            last_first.callback(self.trainers.close)
            last_first.callback(self.looking.shutdown, wait=False, cancel_futures=True)


_of_this_worker: dict[str, Session] = {}
"""The only sessions that are looked up rather than passed: Ray calls stages in its own processes. They end with the process,
which ends with the training process's connection to the cluster."""


def session_of_worker(run: Run) -> Session:
    """This Ray worker's session of a run."""
    name = run.model_dump_json()
    if name not in _of_this_worker:
        _of_this_worker[name] = Session(run, is_on_cluster=True)
    return _of_this_worker[name]

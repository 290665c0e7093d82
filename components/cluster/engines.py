"""A run's engines on a cluster: one vLLM server a replica, each beside an actor that its driver keeps alive."""

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.artifacts.refs import CheckpointRef
from components.cluster.engine_actor import EngineOrder, EngineReplica
from components.cluster.node import LEASE_SECONDS
from components.cluster.room import read_cluster, share_gpus
from components.errors import ServiceMissing, TroupeError
from components.generation.vllm.addresses import vllm_generation
from components.generation.vllm.cluster_servers import ASK_GROUP, NAMESPACE, list_actors, name_engine
from components.machine.closeable import Closeable
from components.models.model_groups import name_served_models
from components.placement.fit import memory_fraction
from components.placement.plan import plan
from components.reporting import progress
from components.runs.run import Run

_RENEW_SECONDS = 10.0
_PLACED_SECONDS = 300.0
"""How long a replica may wait for its devices, besides the time of its start."""
_AGAIN_SECONDS = 60.0
"""Between two starts of a replica that does not come up."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Replica:
    """An actor, and the call that starts its server; None once it serves."""

    actor: Any
    starting: Any
    began: float


class ClusterEngines(Closeable):
    """The servers of all models of a run, from `start` to `close`. A lost one is started anew, on another host if need be.

    Actors are named by run, model and number: a driver that comes back takes over those that serve the same.
    """

    def __init__(self, run: Run, checkpoints: Mapping[str, CheckpointRef]) -> None:
        """`checkpoints` are those of all policies before training."""
        self._run = run
        self._orders = order_engines(run, checkpoints)
        self._replicas: dict[str, _Replica] = {}
        self._key = secrets.token_urlsafe(32)
        self._ending = threading.Event()
        self._keeping = threading.Thread(target=self._keep, name="cluster-engines", daemon=True)

    def start(self) -> None:
        """Return when all serve. Raises ServiceMissing if the cluster has no room for one, and what a start raised."""
        try:
            self._take_over()
            for name in self._orders.keys() - self._replicas.keys():
                self._replicas[name] = self._place(name)
            deadline = time.monotonic() + vllm_generation(self._run.config).vllm.start_timeout_seconds + _PLACED_SECONDS
            while waiting := [name for name, replica in self._replicas.items() if not self._has_started(replica)]:
                self._renew()
                progress.report("vLLM servers", 0, len(self._replicas) - len(waiting), len(self._replicas))
                if time.monotonic() > deadline:
                    raise ServiceMissing(
                        f"resources.placement.replicas: {', '.join(waiting)} did not come up in time; look at `ray status` for "
                        "room, or lower the number"
                    )
        except BaseException:
            self.close()
            raise
        self._keeping.start()

    def close(self) -> None:
        """End the servers with their actors."""
        import ray

        self._ending.set()
        if self._keeping.is_alive():
            self._keeping.join()
        if ray.is_initialized():  # otherwise leases end them; a call would start another Ray
            for replica in self._replicas.values():
                ray.kill(replica.actor)
        self._replicas.clear()

    def _take_over(self) -> None:
        """Keep what an earlier driver of this run left if it serves the same, and end the rest."""
        import ray
        from ray.exceptions import RayError

        for name, actor in list_actors(name_engine(self._run.run_id, "", 0).removesuffix("/0")).items():
            ask = actor.read_order.options(concurrency_group=ASK_GROUP)
            try:
                same = name in self._orders and ray.get(ask.remote(), timeout=_RENEW_SECONDS) == self._orders[name]
                described = ray.get(
                    actor.describe.options(concurrency_group=ASK_GROUP).remote(), timeout=_RENEW_SECONDS
                )
            except RayError:
                continue  # it is gone, or will be with its lease
            if same and described is not None:
                self._key = described["key"]
                self._replicas[name] = _Replica(actor, None, time.monotonic())
            else:
                ray.kill(actor)
                _wait_for_end(name)

    def _place(self, name: str) -> _Replica:
        """A new actor, which starts its server as soon as there is room."""
        import ray

        order = EngineOrder.model_validate_json(self._orders[name])
        generation = vllm_generation(self._run.config)
        on_gpu = generation.device == "cuda"
        share = share_gpus(self._run.config, "engine", order.model) * generation.vllm.tensor_parallel_size
        remote: Any = ray.remote(concurrency_groups={ASK_GROUP: 2})(EngineReplica)  # type: ignore[call-overload]
        actor = remote.options(
            # It works while shards wait for it, so it takes no place of theirs.
            num_cpus=0,
            num_gpus=share if on_gpu else 0,
            max_restarts=0,
            lifetime="detached",
            name=name,
            namespace=NAMESPACE,
            scheduling_strategy="SPREAD" if on_gpu else self._choose_node(name),
        ).remote(LEASE_SECONDS)
        return _Replica(
            actor,
            actor.start.remote(self._orders[name], self._run.config.model_dump_json(), self._key),
            time.monotonic(),
        )

    def _choose_node(self, name: str) -> Any:
        """Where a replica on CPUs is placed: they take turns at the nodes that do work at all."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        working = sorted(node["NodeID"] for node in nodes if node["Alive"] and node["Resources"].get("CPU", 0) > 0)
        if not working:
            raise ServiceMissing("resources.placement: no node of the cluster has a CPU; look at `ray status`")
        return NodeAffinitySchedulingStrategy(working[list(self._orders).index(name) % len(working)], soft=False)

    def _has_started(self, replica: _Replica) -> bool:
        """Whether it serves. Waits a moment; raises what its start raised."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        if replica.starting is None:
            return True
        ready, _ = ray.wait([replica.starting], timeout=_RENEW_SECONDS)
        if not ready:
            return False
        try:
            ray.get(replica.starting)
        except RayTaskError as error:
            raise error.cause from error
        except RayError as error:
            raise ServiceMissing(f"a vLLM server's actor or its host was lost while it started: {error}") from error
        replica.starting = None
        return True

    def _renew(self) -> None:
        for replica in self._replicas.values():
            replica.actor.renew.options(concurrency_group=ASK_GROUP).remote()

    def _keep(self) -> None:
        """Renew leases, and start lost replicas anew, until `close`."""
        while not self._ending.wait(_RENEW_SECONDS):
            for name, replica in list(self._replicas.items()):
                try:
                    self._look_after(name, replica)
                except Exception as error:  # the run goes on with the others; requests say if none is left
                    _log.warning("%s: %s; it is started again in %.0f s", name, error, _AGAIN_SECONDS)

    def _look_after(self, name: str, replica: _Replica) -> None:
        import ray
        from ray.exceptions import GetTimeoutError, RayActorError

        try:
            if replica.starting is not None:
                self._has_started(replica)
            call = replica.actor.renew.options(concurrency_group=ASK_GROUP).remote()
            with contextlib.suppress(GetTimeoutError):  # its host may be cut off; Ray tells when it is lost
                ray.get(call, timeout=_RENEW_SECONDS)
        except (RayActorError, TroupeError):
            if time.monotonic() - replica.began > _AGAIN_SECONDS:
                with contextlib.suppress(Exception):
                    ray.kill(replica.actor)
                _wait_for_end(name)
                self._replicas[name] = self._place(name)
            raise


def start_engines(run: Run, checkpoints: Mapping[str, CheckpointRef]) -> ClusterEngines:
    """The engines of a run, all of which serve. Raises what `ClusterEngines.start` raises."""
    engines = ClusterEngines(run, checkpoints)
    engines.start()
    return engines


def order_engines(run: Run, checkpoints: Mapping[str, CheckpointRef]) -> dict[str, str]:
    """Name of an actor -> its EngineOrder as JSON."""
    config = run.config
    placed = plan(config, read_cluster())
    orders = {}
    for model, policies in name_served_models(config).items():
        ranks = [adapter.rank for policy in policies if (adapter := config.policies[policy].adapter)]
        has_adapters = bool(ranks) and not vllm_generation(config).vllm.merge_adapters
        for engine in placed.select("engine", model):
            orders[name_engine(run.run_id, model, engine.number)] = EngineOrder(
                generation=vllm_generation(config),
                model=model,
                number=engine.number,
                checkpoint=checkpoints[policies[0]],
                num_adapters=len(ranks) if has_adapters else 0,
                max_rank=max(ranks) if has_adapters else 0,
                memory_fraction=memory_fraction(config, placed, engine) if engine.devices else None,
            ).model_dump_json()
    return orders


def _wait_for_end(name: str) -> None:
    """Until the name of an actor that was ended is free."""
    deadline = time.monotonic() + _RENEW_SECONDS
    while list_actors(name) and time.monotonic() < deadline:
        time.sleep(0.1)

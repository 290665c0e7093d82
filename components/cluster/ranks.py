"""A trainer on a cluster: one rank an actor, in a placement group that is given up whole when a rank is lost."""

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.cluster.node import LEASE_SECONDS
from components.cluster.rank_actor import Rank, RankAnswer, RankOrder
from components.cluster.room import share_gpus
from components.errors import ServiceMissing, WorkerDied
from components.generation.vllm.cluster_servers import NAMESPACE
from components.machine.closeable import Closeable
from components.machine.package_files import package_file
from components.reporting.progress_share import report_share
from components.runs.run import PolicyUpdate, Run
from components.session.trainers import training_of
from components.training.base import UpdateOrder
from components.training.deepspeed_config import complete_config, read_deepspeed_config
from components.training.worker_protocol import error_of

_LEASE = "lease"
_RENEW_SECONDS = 5.0
_RANK_CPUS = 0.01
"""What a rank reserves of a host's CPUs: it is warm while shards are played there, and works while they are not."""
_PLACED_SECONDS = 300.0
"""How long a group may wait for its hosts: those of a lost one are missed after a minute."""
_START_SECONDS = 900.0


@dataclass(slots=True)
class _Group:
    """The placed and joined actors."""

    placement: Any
    actors: Sequence[Any]
    is_held: bool = True


class ClusterTrainer(Closeable):
    """Runs the updates of one model's policies on the connected Ray cluster. Calls are made one at a time.

    Groups are named by run and model: a driver that comes back gives up what an earlier one left before it places its own.
    """

    def __init__(self, run: Run, model: str, policy: str) -> None:
        self._run = run
        self._training = training_of(run.config, policy)
        self._model = model
        self._policy = policy
        self._name = f"{run.run_id}/trainer/{model}"
        self._deepspeed = read_deepspeed_config(
            package_file("infra", f"deepspeed/zero{self._training.zero_stage}.json")
        )
        complete_config(self._deepspeed, self._training)
        self._group: _Group | None = None

    def update(self, order: UpdateOrder) -> PolicyUpdate:
        """The policy's next checkpoint, stored. Raises WorkerDied when a rank is lost, and the error that a rank reported."""
        deadline = time.monotonic() + self._training.update_timeout_seconds
        try:
            group = self._find_group()
            answers = self._ask(group, "update", [(order.model_dump_json(),)] * len(group.actors), deadline)
            parts = [RankAnswer.model_validate_json(answer) for answer in answers]
            failures = [part.failure for part in parts if part.failure is not None]
            if failures:
                if not all(part.is_usable for part in parts):
                    self.close()
                causes = [failure for failure in failures if failure.kind != "lost_rank"]
                raise error_of((causes or failures)[0])
            whole = {path: file for part in parts for path, file in part.listing.items()}
            refs = self._ask(group, "publish", [(whole,)] * len(group.actors), deadline)
        except WorkerDied:
            self.close()
            raise
        except BaseException as error:
            if not isinstance(error, Exception):
                self.close()  # a worker in the middle of a step must not survive
            raise
        result = parts[0].result
        assert result is not None, "rank 0 gave no result"
        assert len({*refs}) == 1, f"ranks agree on no folder: {refs}"
        manifest = result.manifest
        checkpoint = CheckpointRef(
            policy=manifest.policy,
            step=manifest.step,
            folder=ArtifactRef.model_validate_json(refs[0]),
            weights_digest=manifest.weights_digest,
            optimizer_digest=manifest.optimizer_digest,
            base=order.checkpoint.base,
        )
        return PolicyUpdate(checkpoint=checkpoint, metrics=dict(result.metrics))

    def describe_ranks(self) -> list[tuple[str, str | None]]:
        """The host of each rank of the placed group, and the devices that it was given; none before the first update."""
        if self._group is None:
            return []
        calls = [()] * len(self._group.actors)
        return self._ask(self._group, "describe", calls, time.monotonic() + _START_SECONDS)

    def close(self) -> None:
        """Give the group up: its actors end with it."""
        group, self._group = self._group, None
        if group is not None:
            self._give_up(group)

    def _find_group(self) -> _Group:
        """The group, or a new one where a rank was lost since the last update."""
        try:
            self.describe_ranks()
        except WorkerDied:
            self.close()
        if self._group is None:
            self._group = self._join(self._place())
        return self._group

    def _place(self) -> _Group:
        """A new group, in place. Raises ServiceMissing if the cluster has no room for it."""
        import ray
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self._remove_left()
        training, size = self._training, self._training.num_ranks
        bundle = {"CPU": _RANK_CPUS}
        if training.device == "cuda":
            bundle["GPU"] = share_gpus(self._run.config, "rank", self._model)
        strategy = "STRICT_SPREAD" if self._run.config.resources.placement.ranks == "spread" else "STRICT_PACK"
        placement = placement_group([bundle] * size, strategy=strategy, name=self._name, lifetime="detached")
        if not placement.wait(_PLACED_SECONDS):
            self._remove(placement)
            raise ServiceMissing(
                f"resources.placement: the cluster has had no place for {size} ranks of {bundle} ({strategy}) for "
                f"{_PLACED_SECONDS:.0f} s; look at `ray status`"
            )
        # A lease is renewed while the one thread of all else is in an update.
        remote: Any = ray.remote(concurrency_groups={_LEASE: 1})(Rank)  # type: ignore[call-overload]
        actors = [
            remote.options(
                num_cpus=bundle["CPU"],
                num_gpus=bundle.get("GPU", 0),
                max_restarts=0,
                lifetime="detached",
                name=f"{self._name}/{rank}-{time.time_ns()}",
                namespace=NAMESPACE,
                scheduling_strategy=PlacementGroupSchedulingStrategy(placement, placement_group_bundle_index=rank),
                runtime_env={"env_vars": {"RAY_worker_niceness": "0", "OMP_NUM_THREADS": str(training.num_threads)}},
            ).remote(LEASE_SECONDS)
            for rank in range(size)
        ]
        group = _Group(placement, actors)
        threading.Thread(target=self._renew, args=(group,), name=f"{self._name} leases", daemon=True).start()
        return group

    def _join(self, group: _Group) -> _Group:
        """The group once its ranks have met at the first one's address."""
        size, deadline = len(group.actors), time.monotonic() + _START_SECONDS
        try:
            (rendezvous,) = self._ask(group, "choose_rendezvous", [()], deadline)
            orders = [self._order(rank, size) for rank in range(size)]
            self._ask(group, "join", [(order.model_dump_json(), rendezvous) for order in orders], deadline)
        except BaseException:
            self._give_up(group)
            raise
        return group

    def _order(self, rank: int, size: int) -> RankOrder:
        return RankOrder(
            rank=rank,
            num_ranks=size,
            config=self._run.config.model_dump_json(),
            policy=self._policy,
            deepspeed=self._deepspeed,
        )

    def _ask(self, group: _Group, method: str, arguments: Sequence[tuple[Any, ...]], deadline: float) -> list[Any]:
        """What each actor, or each of the first ones, answers to a call. Raises WorkerDied for a lost one, or in time."""
        import ray
        from ray.exceptions import RayActorError, RayError

        calls = [getattr(actor, method).remote(*each) for actor, each in zip(group.actors, arguments, strict=False)]
        waiting = list(calls)
        try:
            while waiting:
                ready, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=_RENEW_SECONDS)
                for call in ready:
                    ray.get(call)  # an actor that is gone is met at once, though others may wait for it
                if waiting:
                    share = group.actors[0].renew.options(concurrency_group=_LEASE).remote()
                    with contextlib.suppress(ray.exceptions.GetTimeoutError):
                        report_share(ray.get(share, timeout=_RENEW_SECONDS))
                if waiting and time.monotonic() > deadline:
                    raise WorkerDied(f"{self._name}: {method} took longer than training.update_timeout_seconds")
            return list(ray.get(calls))
        except RayActorError as error:
            raise WorkerDied(f"{self._name}: a rank or its host was lost: {error}") from error
        except RayError as error:
            raise WorkerDied(f"{self._name}: {method}: {error}") from error

    def _renew(self, group: _Group) -> None:
        """Renew the leases of a group's actors while it is held: from one update to the next there may be hours of play."""
        import ray

        while group.is_held and ray.is_initialized():
            for actor in group.actors:
                actor.renew.options(concurrency_group=_LEASE).remote()
            time.sleep(_RENEW_SECONDS)

    def _give_up(self, group: _Group) -> None:
        group.is_held = False
        self._remove(group.placement)

    def _remove_left(self) -> None:
        """Give up what an earlier driver of this run left under this name."""
        from ray.util.placement_group import get_placement_group

        with contextlib.suppress(ValueError):
            self._remove(get_placement_group(self._name))

    def _remove(self, placement: Any) -> None:
        import ray
        from ray.util.placement_group import remove_placement_group

        if ray.is_initialized():  # otherwise its leases end it; a call would start another Ray
            remove_placement_group(placement)

"""A rank of a trainer as a Ray actor: files only of its own host, state by references, met at rank 0's address."""

import os
import shutil
import socket
import traceback
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from components.artifacts import layout
from components.cluster.node import Lease, NodeAddress
from components.cluster.orders import place_order
from components.config.older import StoredConfig
from components.frozen import Frozen
from components.reporting.progress_share import share_listener
from components.session.checkpoint_cache import open_copies
from components.session.stores import open_store
from components.session.trainers import training_of
from components.training.base import UpdateOrder, UpdateResult
from components.training.worker_protocol import Failure


class RankOrder(Frozen):
    """What a rank needs before its first update, as JSON."""

    rank: int
    num_ranks: int
    config: str
    """The run's configuration, as JSON."""
    policy: str
    """A policy of the trainer's model: the training section with its values."""
    deepspeed: Mapping[str, Any]


class RankAnswer(Frozen):
    """A rank's part of an update: what it computed and which files it wrote, or why it failed."""

    result: UpdateResult | None = None
    listing: Mapping[str, tuple[str, int]] = {}
    failure: Failure | None = None
    is_usable: bool = True
    """False after an error about which ranks may disagree: the group is given up."""


class Rank:
    """Made in its place in a placement group; `join` once, then `update` and `publish`."""

    def __init__(self, lease_seconds: float) -> None:
        self._lease = Lease(lease_seconds)
        self._share = 0.0
        self._address = NodeAddress.read()
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = self._address.interface

    def renew(self) -> float:
        """The share of the update under way that is done; renews the lease."""
        self._lease.renew()
        return self._share

    def choose_rendezvous(self) -> str:
        """This host's address and a port that was free just now; a lost race is a new group, not a hang."""
        with socket.socket() as probe:
            probe.bind((self._address.address, 0))
            return f"tcp://{self._address.address}:{probe.getsockname()[1]}"

    def describe(self) -> tuple[str, str | None]:
        """This host's name, and the devices that it was given."""
        return socket.gethostname(), os.environ.get("CUDA_VISIBLE_DEVICES")

    def join(self, order: str, rendezvous: str) -> None:
        """Meet the other ranks."""
        placed = RankOrder.model_validate_json(order)
        os.environ.update(RANK=str(placed.rank), WORLD_SIZE=str(placed.num_ranks), LOCAL_RANK="0")
        config = TypeAdapter(StoredConfig).validate_json(placed.config)
        training = training_of(config, placed.policy)
        if training.device == "cpu":
            os.environ["DS_ACCELERATOR"] = "cpu"
        else:
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        import torch

        from components.training.deepspeed_backend import RealDeepSpeed, choose_device, import_models, join_ranks
        from components.training.worker import Worker

        torch.set_num_threads(training.num_threads)
        if training.device == "cuda":
            choose_device()
            torch.use_deterministic_algorithms(True)
        import_models()
        self._store = open_store(config.store)
        self._copies = open_copies(config, self._store, is_shared=True)
        self._ranks = join_ranks(training, rendezvous)
        self._worker = Worker(training, self._ranks, RealDeepSpeed(training, dict(placed.deepspeed)))

    def update(self, order: str) -> str:
        """A RankAnswer as JSON: rank 0's result and this rank's listing, or the failure of this rank."""
        from components.training.rank_failures import describe_failure, do_ranks_agree

        self._lease.renew()
        self._share = 0.0
        wanted = UpdateOrder.model_validate_json(order)
        self._work = self._copies.work_folder(wanted.step)
        try:
            with share_listener(self._note_share):
                job = place_order(wanted, self._copies, self._store, self._work)
                if not self._ranks.first:  # where hosts are apart, rank 0 makes none of these here
                    (job.output_folder / "training").mkdir(parents=True)
                result = self._worker.update(job)
            self._output = job.output_folder
            return RankAnswer(result=result, listing=layout.list_folder(job.output_folder)).model_dump_json()
        # The process boundary: every error is reported to the driver.
        except Exception as error:
            traceback.print_exc()
            shutil.rmtree(self._work, ignore_errors=True)
            failure, is_usable = describe_failure(error, self._ranks.rank), do_ranks_agree(error, self._ranks)
            return RankAnswer(failure=failure, is_usable=is_usable).model_dump_json()

    def publish(self, whole: Mapping[str, tuple[str, int]]) -> str:
        """Store this rank's files of the folder whose files on all ranks are `whole`; the folder's reference, as JSON."""
        ref = self._store.put_parts(self._output, whole)
        self._copies.adopt(self._output, ref)
        shutil.rmtree(self._work, ignore_errors=True)
        return ref.model_dump_json()

    def _note_share(self, share: float) -> None:
        self._share = share

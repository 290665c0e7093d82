"""The process of one rank of a training worker, alive between updates.

The trainer starts one for each rank. Rank 0 receives jobs from a Unix socket and
passes them to the other ranks; all run the update; rank 0 answers. A job identifies its initial state, and a rank that holds
another one loads it first. An error after which ranks may disagree ends the process; the trainer starts a new one.
"""

import argparse
import logging
import os
import traceback
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path

import torch
import torch.distributed as dist

from components.machine.process_ids import ProcessId
from components.reporting.progress_share import share_listener
from components.training.base import UpdateJob
from components.training.deepspeed_backend import RealDeepSpeed, choose_device, join_ranks
from components.training.parent_watchdog import exit_with_parent
from components.training.rank_failures import describe_failure, do_ranks_agree
from components.training.ranks import Ranks
from components.training.worker import LOGGER, Worker
from components.training.worker_protocol import (
    MAX_MESSAGE_BYTES,
    Answer,
    Handover,
    read_handover,
    report_failure,
    socket_address,
)

_log = logging.getLogger(LOGGER)
_FAILED_EXIT_CODE = 1


def serve(worker: Worker, ranks: Ranks, connection: Connection | None, folder: Path) -> None:
    """Run jobs until the trainer disconnects."""

    def send(answer: Answer) -> None:
        if connection is not None:
            connection.send_bytes(answer.model_dump_json().encode())

    def tell(share: float) -> None:
        with suppress(
            OSError
        ):  # a trainer that is gone ends this process by the watchdog, which also removes the folder
            send(Answer(share=share))

    while (text := ranks.broadcast(_next_job(connection))) is not None:
        try:
            with share_listener(tell):
                answer = Answer(result=worker.update(UpdateJob.model_validate_json(text)))
        # The process boundary: every error is reported to the trainer.
        except Exception as error:
            traceback.print_exc()
            answer = Answer(failure=describe_failure(error, ranks.rank))
            if not do_ranks_agree(error, ranks):
                assert answer.failure is not None
                report_failure(folder, ranks.rank, answer.failure)
                os._exit(_FAILED_EXIT_CODE)
        send(answer)


def _next_job(connection: Connection | None) -> str | None:
    if connection is None:
        return None
    try:
        return connection.recv_bytes(MAX_MESSAGE_BYTES).decode()
    except EOFError:
        return None


def main() -> None:
    """The process of one rank."""
    parser = argparse.ArgumentParser(description="A training worker; started by DeepSpeedTrainer.")
    parser.add_argument("--handover", type=Path, required=True)
    arguments = parser.parse_args()
    handover, folder = read_handover(arguments.handover), arguments.handover.parent
    with ExitStack() as at_the_end:
        owner = ProcessId.parse(handover.owner)
        assert owner is not None, f"{handover.owner!r} names no process"
        at_the_end.callback(exit_with_parent(owner, folder=folder))
        run_rank(handover, folder)


def run_rank(handover: Handover, folder: Path) -> None:
    """Join the other ranks and run jobs until the trainer disconnects."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    _log.setLevel(logging.INFO)
    torch.set_num_threads(handover.training.num_threads)
    if handover.training.device == "cuda":
        choose_device()
        # With `warn_only` the gradients of attention would not repeat.
        torch.use_deterministic_algorithms(True)
    ranks = join_ranks(handover.training, handover.rendezvous)
    connection = None
    if ranks.first:
        key = handover.key.get_secret_value().encode()
        with socket_address(folder) as address, Listener(address, "AF_UNIX", authkey=key) as listener:
            connection = listener.accept()
    _log.info("rank %d of %d is ready", ranks.rank, ranks.size)
    deepspeed = RealDeepSpeed(handover.training, dict(handover.deepspeed))
    worker = Worker(handover.training, ranks, deepspeed, own_code_folder=handover.own_code_folder)
    serve(worker, ranks, connection, folder)
    dist.destroy_process_group()

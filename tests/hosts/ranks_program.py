"""On the head: updates of one policy by ranks on several hosts, against as many ranks on this one. Prints JSON.

python -m tests.hosts.ranks_program ZERO_STAGE NUM_STEPS
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import ray
from ray.util.placement_group import placement_group

from components.artifacts.codec import encode
from components.cluster.ranks import ClusterTrainer
from components.models.loading import prepare_model_folder
from components.runs.run import Run
from components.schema import TrainBatch
from components.session.session import Session
from components.session.trainers import training_of
from components.training.base import UpdateOrder
from components.training.checkpoint import write_initial_checkpoint
from flows.presets import preset_config
from tasks.update_policy import place_update
from tests.components.training.conftest import random_groups

WORKERS = ("10.77.0.11", "10.77.0.12")


def pin(addresses: tuple[str, ...]) -> None:
    """Put rank n of the next group on the n-th address."""

    def pinned(bundles: list[dict[str, float]], **options: Any) -> Any:
        placed = [{**bundle, f"node:{address}": 0.001} for bundle, address in zip(bundles, addresses, strict=True)]
        return placement_group(placed, **options)

    # `ray.util` has a function of the module's name.
    vars(import_module("ray.util.placement_group"))["placement_group"] = pinned


def main(stage: int, num_steps: int) -> None:
    settings = [
        *(
            "tracking.kind=none",
            "training.num_ranks=2",
            f"training.zero_stage={stage}",
            "resources.placement.ranks=spread",
        ),
        *("loss.mismatch_tolerance=null", "store.kind=s3", "resources.runner=ray"),
    ]
    config = preset_config("tiny", settings)
    ray.init(address="auto", log_to_driver=False, namespace="troupe")
    work = Path(mkdtemp())
    found: dict[str, list[list[str]]] = {"hosts": [], "here": []}
    with Session(Run(run_id="hosts", config=config)) as session:
        alphabet = "".join(chr(33 + number) for number in range(60))
        prepare_model_folder(config.policies["team"], alphabet=alphabet, seed=0, into=work / "model")
        write_initial_checkpoint(work / "model", work / "first", "team")
        first = session.copies.store(work / "first", base=None)
        batch = TrainBatch(
            policy="team", step=0, groups=tuple(random_groups(8)), num_groups_without_signal=0, agents=("a", "b")
        )
        stored = session.store.put_bytes(encode(batch), kind="TrainBatch")

        def order(checkpoint: Any, step: int) -> UpdateOrder:
            return UpdateOrder(
                policy="team", step=step, seed=0, total_steps=num_steps, checkpoint=checkpoint, reference=None, batch=stored,
                weights_digest=checkpoint.weights_digest, optimizer_digest=checkpoint.optimizer_digest, temperature=1.0,
                training=training_of(config, "team"), loss=config.loss,
            )  # fmt: skip

        checkpoint, places = first, []
        for step in range(num_steps):
            pin(WORKERS if step % 2 == 0 else WORKERS[::-1])
            with ClusterTrainer(session.run, "team", "team") as trainer:
                checkpoint = trainer.update(order(checkpoint, step)).checkpoint
                places.append([host for host, _ in trainer.describe_ranks()])
            found["hosts"].append([checkpoint.weights_digest, checkpoint.optimizer_digest])
        checkpoint = first
        for step in range(num_steps):
            with place_update(session, order(checkpoint, step)) as job:
                session.trainers.of("team").update(job)
                checkpoint = session.copies.store(job.output_folder, base=None)
            found["here"].append([checkpoint.weights_digest, checkpoint.optimizer_digest])
    print(json.dumps({**found, "places": places}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

"""Updates ordered by reference, and their files where the ranks are."""

from pathlib import Path

from components.artifacts.base import ArtifactStore
from components.session.checkpoint_cache import CheckpointCache
from components.training.base import UpdateJob, UpdateOrder, UpdateTerms


def place_order(order: UpdateOrder, copies: CheckpointCache, store: ArtifactStore, work: Path) -> UpdateJob:
    """The job of an order: checkpoints among this host's copies, the batch and the output in the folder `work`."""
    batch_file = work / "batch"
    batch_file.write_bytes(store.get_bytes(order.batch))
    return UpdateJob(
        **{name: getattr(order, name) for name in UpdateTerms.model_fields},
        checkpoint_folder=copies.path(order.checkpoint),
        base_digest=copies.manifest(order.checkpoint).base_digest,
        reference_folder=None if order.reference is None else copies.path(order.reference),
        batch_file=batch_file,
        output_folder=work / "checkpoint",
    )

"""Make the engines hold the weights of a step, and prove that they do."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from components.artifacts.adapters import ADAPTER_FOLDER
from components.artifacts.refs import CheckpointRef
from components.generation.refresh import refresh
from components.schema import PolicyVersion
from components.training.base import MODEL_FOLDER
from components.training.checkpoint import read_manifest
from tasks import progress, wiring
from tasks.checkpoints import checkpoint_folder
from tasks.options import stage_options
from tasks.run import Run


# An engine forgets its weights with its process, so a refresh is an effect: never cached, cheap to repeat.
@task(**stage_options("refresh_weights", version=1, cached=False), cache_policy=NO_CACHE)
def refresh_weights(run: Run, step: int, checkpoints: dict[str, CheckpointRef]) -> dict[str, PolicyVersion]:
    """The policy versions that the engines hold now, each verified by digest and by a log-probability probe."""
    progress.tell("refresh_weights", step, 0, 1)
    versions = wiring.fixed_versions(run.config)
    for policy, checkpoint in checkpoints.items():
        folder = checkpoint_folder(run.config, checkpoint)
        version = PolicyVersion(policy=policy, step=checkpoint.step, weights_digest=checkpoint.weights_digest)
        difference = refresh(
            wiring.generator(run.config, policy),
            folder=folder / MODEL_FOLDER,
            version=version,
            adapter=folder / ADAPTER_FOLDER if checkpoint.base is not None else None,
            probe=read_manifest(folder).probe,
            tolerance=run.config.generation.probe_tolerance,
        )
        versions[policy] = version
        progress.tell("refresh_weights", step, 1, 1, probe_difference=difference)
    return versions

"""One policy's update: a function from a checkpoint and a batch to the next checkpoint."""

from components.artifacts.refs import ArtifactRef, CheckpointRef
from tasks import wiring
from tasks.checkpoints import stored_checkpoint, update_job
from tasks.run import PolicyUpdate, Run
from tasks.stage_task import stage_task


@stage_task("update_policy", version=1)
def update_policy(run: Run, step: int, part: str, checkpoint: CheckpointRef, batch: ArtifactRef) -> PolicyUpdate:
    """The next checkpoint of policy `part`, whole in the store before this returns."""
    with update_job(run, step, checkpoint, batch) as job:
        result = wiring.trainer(run, part).update(job)
        stored = stored_checkpoint(run.config, job.output_folder, base=checkpoint.base)
        return PolicyUpdate(checkpoint=stored, metrics=dict(result.metrics))

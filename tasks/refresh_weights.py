"""Loads a step's weights into the engines and verifies them."""

from components.artifacts.refs import CheckpointRef
from components.population.seating import member_and_step
from components.reporting import progress
from components.runs.recovery_hints import with_recovery_hints
from components.runs.steps import checkpoints_before
from components.schema import PolicyVersion
from components.session.checkpoint_loading import load_checkpoint
from components.session.engines import list_fixed_versions
from components.session.session import Session
from tasks.stage import effect


@effect(
    "refresh_weights", retries=5, delay_seconds=2, timeout_seconds=600
)  # an engine loses its weights with its process
def refresh_weights(session: Session, step: int, checkpoints: dict[str, CheckpointRef]) -> dict[str, PolicyVersion]:
    """The policy versions now loaded, each verified by digest and by a log-probability probe."""
    progress.report("refresh_weights", step, 0, 1)
    versions = list_fixed_versions(session.config)
    for policy, checkpoint in checkpoints.items():
        with with_recovery_hints(session.store, session.run.run_id):
            versions[policy], difference = load_checkpoint(session, checkpoint)
        progress.report("refresh_weights", step, 1, 1, probe_difference=difference)
    return versions


def ensure_loaded(session: Session, versions: dict[str, PolicyVersion]) -> None:
    """Load `versions` unless they are loaded: a shard may be played in a process that had no refresh, or by past selves."""
    for player, version in versions.items():
        member, _ = member_and_step(player)
        if session.config.policies[member].api is None and session.engines.of(player).version != version:
            checkpoint = checkpoints_before(session.store, session.run, version.step)[member]
            found, _ = load_checkpoint(session, checkpoint.model_copy(update={"policy": player}))
            assert found == version, f"step {version.step} of {session.run.run_id} left {found}, not {version}"

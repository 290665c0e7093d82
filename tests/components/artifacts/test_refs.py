"""What a reference to a checkpoint says of where it comes from."""

from components.artifacts.refs import ArtifactRef, CheckpointRef


def test_parents_are_kept_and_a_checkpoint_without_any_is_written_as_before() -> None:
    folder = ArtifactRef(kind="folder", key="k", sha256="s", num_bytes=0)
    alone = CheckpointRef(policy="a", step=1, folder=folder, weights_digest="w", optimizer_digest="o")
    assert "parents" not in alone.model_dump_json()
    mixed = alone.model_copy(update={"parents": ("w1", "w2")})
    assert CheckpointRef.model_validate_json(mixed.model_dump_json()).parents == ("w1", "w2")

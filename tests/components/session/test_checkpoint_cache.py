"""A checkpoint's manifest is read with its copy, and must be the one that the run's record names."""

from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.errors import ArtifactCorrupt
from components.session.checkpoint_cache import CheckpointCache
from components.training.base import CheckpointManifest, Probe
from components.training.checkpoint import write_manifest

PROBE = Probe(prompt_tokens=(1, 2), completion_tokens=(3,), trainer_logprobs=(-0.5,))
MANIFEST = CheckpointManifest(
    policy="p", step=4, weights_digest="w", optimizer_digest="o", probe=PROBE, base_digest="b"
)


@pytest.mark.parametrize("field", ["weights_digest", "optimizer_digest"])
def test_the_manifest_of_another_checkpoint_is_refused(field: str, tmp_path: Path) -> None:
    copies = CheckpointCache(LocalArtifactStore(tmp_path / "store"), num_policies=1)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    write_manifest(folder, MANIFEST)
    stored = copies.store(folder, base=None)
    assert copies.manifest(stored) == MANIFEST
    with pytest.raises(ArtifactCorrupt, match=rf"{field.partition('_')[0]} [wo], but the run's record has another"):
        copies.manifest(stored.model_copy(update={field: "another"}))
    (copies.path(stored) / "checkpoint.json").write_text("{}")
    with pytest.raises(ArtifactCorrupt, match=r"checkpoint\.json"):
        copies.manifest(stored)
    copies.close()

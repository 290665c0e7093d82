"""A checkpoint's manifest is read with its copy, and must be the one that the run's record names."""

import subprocess
import sys
from pathlib import Path

import pytest

from components.artifacts import layout
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
    asked: list[tuple[str, str]] = []
    copies._store.sign_folder = lambda ref, *, under, seconds: asked.append((ref.sha256, under)) or ()  # type: ignore[method-assign, func-returns-value]
    for part in (copies.path(stored) / "model", tmp_path / "elsewhere" / "model"):
        assert copies.sign(part) == ()
    assert asked == [(stored.folder.sha256, "model/")], "nobody knows what is elsewhere"
    (copies.path(stored) / "checkpoint.json").write_text("{}")
    with pytest.raises(ArtifactCorrupt, match=r"checkpoint\.json"):
        copies.manifest(stored)
    copies.close()


FETCH = """
import sys
from pathlib import Path
from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import ArtifactRef
from components.session.checkpoint_cache import CheckpointCache

store, root, told, ref = *map(Path, sys.argv[1:4]), ArtifactRef.model_validate_json(sys.argv[4])

class Counting(LocalArtifactStore):
    def get_folder(self, *arguments, **options):
        with told.open("a") as file:
            file.write("fetched\\n")
        return super().get_folder(*arguments, **options)

copies = CheckpointCache(Counting(store), num_policies=1, root=root)
print((copies._copy(ref) / "weights").read_text())
copies.close()
"""


def test_processes_of_a_host_share_what_one_of_them_fetched(tmp_path: Path) -> None:
    made, root, told = tmp_path / "made", tmp_path / "copies", tmp_path / "told"
    for folder in (made, root):
        folder.mkdir()
    (made / "weights").write_text("one two")
    ref = LocalArtifactStore(tmp_path / "store").put_folder(made)
    command = [sys.executable, "-c", FETCH, str(tmp_path / "store"), str(root), str(told), ref.model_dump_json()]
    several = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [each.communicate()[0] for each in several] == ["one two\n"] * 3
    assert told.read_text() == "fetched\n"
    assert (root / ref.sha256).is_dir(), "it stays for the next one"


def test_hosts_that_hold_parts_of_a_checkpoint_store_them_under_one_key(tmp_path: Path) -> None:
    """Afterwards each host fetches only what it lacks."""
    store = LocalArtifactStore(tmp_path / "store")
    parts = {name: tmp_path / name for name in ("a", "b")}
    for name, folder in parts.items():
        folder.mkdir()
        (folder / f"optimizer-{name}").write_text(name)
    whole = {path: file for folder in parts.values() for path, file in layout.list_folder(folder).items()}
    first, second = (store.put_parts(folder, whole) for folder in parts.values())
    assert first == second == layout.folder_ref(whole)
    (tmp_path / "copies").mkdir()
    copies = CheckpointCache(store, num_policies=1, root=tmp_path / "copies")
    copies.adopt(parts["a"], first)
    fetched: list[str] = []
    download = store._download
    store._download = lambda key, target: (fetched.append(key), download(key, target))[1]  # type: ignore[method-assign]
    assert sorted(path.name for path in copies._copy(first).iterdir()) == ["optimizer-a", "optimizer-b"]
    assert fetched == [f"{first.key}/optimizer-b"]

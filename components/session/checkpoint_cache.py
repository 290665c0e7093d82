"""Local copies of a session's newest checkpoints. The store has them all."""

import fcntl
import os
import shutil
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from components.artifacts import layout
from components.artifacts.base import ArtifactStore, SignedFile
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import RunConfig
from components.errors import ArtifactCorrupt
from components.machine.scratch import private_folder, scratch_folder
from components.training.base import MODEL_FOLDER, CheckpointManifest

_KEPT_PER_POLICY = 3
"""The checkpoint an update reads, the one it writes, and the policy before training."""
_LEAST_KEPT = 6
_SIGNED_SECONDS = 3600.0
"""How long a server may take to begin with a file of a checkpoint."""
SHARED_SECONDS = 3600.0
"""How long no process may have used a copy that others share before it is removed."""


class CheckpointCache:
    """Folders named by digest, fetched from the store on first use and kept until `close`.

    Several processes of a host may share `root`: each folder is fetched by one of them, and stays after `close`.
    """

    def __init__(self, store: ArtifactStore, *, num_policies: int, root: Path | None = None) -> None:
        self._store = store
        self._num_kept = max(_LEAST_KEPT, 1 + _KEPT_PER_POLICY * num_policies)
        self._is_shared = root is not None
        self._root = root or Path(mkdtemp(prefix="checkpoints-", dir=scratch_folder()))
        self._refs: dict[str, ArtifactRef] = {}
        self._one_at_a_time = threading.RLock()

    def path(self, checkpoint: CheckpointRef) -> Path:
        """A local folder with the checkpoint's files. An adapter's folder links to one shared copy of its base model."""
        folder = self._copy(checkpoint.folder)
        if checkpoint.base is not None:
            base, link = self._copy(checkpoint.base) / MODEL_FOLDER, folder / MODEL_FOLDER
            with self._one_at_a_time:
                if not link.is_symlink():
                    link.symlink_to(base)
        return folder

    def manifest(self, checkpoint: CheckpointRef) -> CheckpointManifest:
        """What the checkpoint's folder says of it. Raises ArtifactCorrupt if it is another checkpoint."""
        from components.training.checkpoint import read_manifest  # imports torch

        folder = self.path(checkpoint)
        manifest = read_manifest(folder)
        for kind, found, wanted in (
            ("weights", manifest.weights_digest, checkpoint.weights_digest),
            ("optimizer", manifest.optimizer_digest, checkpoint.optimizer_digest),
        ):
            if found != wanted:
                raise ArtifactCorrupt(f"{folder}: {kind} {found}, but the run's record has {wanted}")
        return manifest

    def store(self, folder: Path, *, base: ArtifactRef | None, parents: tuple[str, ...] = ()) -> CheckpointRef:
        """A reference to the checkpoint written to `folder`, which becomes the local copy; `parents` as in the reference."""
        from components.training.checkpoint import read_manifest  # imports torch

        manifest = read_manifest(folder)
        listing = layout.list_folder(folder)
        kept = self._root / layout.folder_ref(listing).sha256
        with self._one_at_a_time:
            if not kept.exists():
                shutil.move(folder, kept)
            self._forget_old_ones()
        ref = self._refs[kept.name] = self._store.put_folder(kept, listing)
        return CheckpointRef(
            base=base,
            parents=parents,
            policy=manifest.policy,
            step=manifest.step,
            folder=ref,
            weights_digest=manifest.weights_digest,
            optimizer_digest=manifest.optimizer_digest,
        )

    def sign(self, folder: Path) -> tuple[SignedFile, ...]:
        """The files of a part of a copy (its model, its adapter) for other hosts; none if the store has no addresses."""
        part = folder.resolve()
        ref = self._refs.get(part.parent.name)
        return () if ref is None else self._store.sign_folder(ref, under=f"{part.name}/", seconds=_SIGNED_SECONDS)

    def adopt(self, folder: Path, ref: ArtifactRef) -> None:
        """Keep the files of `folder`, some of those of `ref`: the first use of `ref` fetches only what is missing."""
        with self._alone(ref.sha256):
            unfinished = self._root / f"{ref.sha256}.unfinished"
            if not (self._root / ref.sha256).exists():
                shutil.copytree(folder, unfinished, copy_function=shutil.move, dirs_exist_ok=True)

    def work_folder(self, step: int) -> Path:
        """A new folder for an update's files, on the same disk as the copies."""
        return Path(mkdtemp(prefix=f"step-{step:06d}-", dir=self._root))

    def close(self) -> None:
        """Remove the copies, unless other processes share them."""
        if not self._is_shared:
            shutil.rmtree(self._root, ignore_errors=True)

    def _copy(self, ref: ArtifactRef) -> Path:
        folder = self._root / ref.sha256
        with self._alone(ref.sha256):
            if not folder.exists():
                unfinished = self._root / f"{ref.sha256}.unfinished"
                self._store.get_folder(ref, unfinished).rename(folder)
            os.utime(folder)
            self._refs[ref.sha256] = ref
        if self._is_shared:
            self._forget_old_ones()
        return folder

    @contextmanager
    def _alone(self, digest: str) -> Iterator[None]:
        """Within the block no other thread, and no other process of this host, fills the folder of a digest."""
        with self._one_at_a_time, (self._root / f".turn-{digest}").open("w", encoding="utf-8") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    def _forget_old_ones(self) -> None:
        folders = [
            path
            for path in self._root.iterdir()
            if path.is_dir() and not path.name.startswith("step-") and "." not in path.name
        ]
        for folder in sorted(folders, key=lambda path: path.stat().st_mtime)[: -self._num_kept]:
            if not self._is_shared or time.time() - folder.stat().st_mtime > SHARED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def open_copies(config: RunConfig, store: ArtifactStore, *, is_shared: bool = False) -> CheckpointCache:
    """This process's copies of a run's checkpoints, or those that all processes of this host share on a cluster."""
    root = None
    if is_shared:
        root = private_folder("troupe-copies") / f"{zlib.crc32(store.uri.encode()):08x}"
        root.mkdir(exist_ok=True)
    return CheckpointCache(store, num_policies=len(config.policies) + len(config.method.own_policies), root=root)

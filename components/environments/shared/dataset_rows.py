"""Rows of a dataset on the Hugging Face hub or in a local file."""

import logging
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import model_validator

from components.errors import ConfigurationError
from components.frozen import Settings
from components.machine.scratch import scratch_folder
from components.machine.sent_folder import find_sent

_PROBE_TIMEOUT_SECONDS = 5.0
_ROWS_PER_BATCH = 1000
_BYTES_PER_BATCH = 64 << 20
"""Some datasets have megabytes of tests in each row."""
_LOADERS: Mapping[str, str] = {".json": "json", ".jsonl": "json", ".parquet": "parquet", ".csv": "csv"}
"""File suffix -> the loader of the `datasets` library that reads it."""
DATA_SUFFIXES = frozenset({*_LOADERS, ".ndjson", ".tsv", ".arrow", ".txt", ".xml"})
"""Of files in a folder of data; others may follow them, as .gz."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_log = logging.getLogger("troupe.environments.data")
_settings_lock = threading.RLock()
"""The library's settings belong to the process, so one thread loads at a time."""


class DatasetSource(Settings):
    """A dataset on the Hugging Face hub, or a local file or folder. A text alone is its path."""

    path: str
    """A .json, .jsonl, .parquet or .csv file, or a folder from `hf download`; anything else is `owner/name` on the hub. Files
    and folders are seen from the folder of the file with the configuration; on the command line, from the current one."""
    name: str | None = None
    """The configuration of a hub dataset or folder."""
    split: str | None = None
    """The split of a hub dataset or folder; None: its only one. A file is one split."""
    revision: str | None = None
    """Commit, branch or tag on the hub. Only a commit (40 hex digits) pins the rows: anything else is resolved when the rows
    are loaded, and the commit is logged, so that it can be set here."""

    @model_validator(mode="before")
    @classmethod
    def _text_is_a_path(cls, values: Any) -> Any:
        return {"path": values} if isinstance(values, str) else values

    @property
    def is_file(self) -> bool:
        """Whether `path` names a data file."""
        return _names_a_file(self.path)

    def check_is_one_split(self, named: str) -> None:
        """Raise ConfigurationError, beginning with `named`, if fields are set that a file does not have."""
        if (self.name, self.split, self.revision) != (None, None, None):
            raise ConfigurationError(f"{named}: a file is one split; leave name, split and revision out")


@dataclass(frozen=True, slots=True)
class DataFile:
    """Marks an option that is the path of a file: `Annotated[str, DataFile()]`."""


def anchor_path(path: str, folder: Path) -> str:
    """`path` as an absolute one, seen from `folder`, if it names a file or folder; the name of a dataset on the hub as it is.

    **Example** "mine.jsonl" in /home/ann is "/home/ann/mine.jsonl", and "openai/gsm8k" stays unless it is a folder there.
    """
    seen = os.path.normpath(folder / os.path.expanduser(path))
    is_local = _names_a_file(path) or path.startswith((".", "/", "~")) or (path != "" and os.path.isdir(seen))
    return seen if is_local else path


def _names_a_file(path: str) -> bool:
    return Path(path).suffix in _LOADERS


def load_rows(source: DatasetSource, field: str) -> Sequence[Mapping[str, Any]]:
    """The rows of `source`, loaded once per process. Rows stay on disk until they are read.

    Raises ConfigurationError naming `field`, the value and the remedy: no such file, an unknown dataset, split or
    configuration, unreadable content, or an unreachable hub without a cached copy.
    """
    with _settings_lock:
        return _load(source, field)


@cache
def _load(source: DatasetSource, field: str) -> Sequence[Mapping[str, Any]]:
    import datasets

    loaded = _read(source, field)
    if not isinstance(loaded, datasets.Dataset):
        raise ConfigurationError(
            f"{field}.split None: {source.path!r} has the splits {', '.join(sorted(loaded))}; name one of them"
        )
    return _Rows(loaded)


def columns_of(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Each of `rows` with at least those of the columns `names` that it has. Of a loaded dataset no other column is read, which
    may be gigabytes of tests.
    """
    return rows.with_columns(names) if isinstance(rows, _Rows) else iter(rows)


class _Rows(Sequence[Mapping[str, Any]]):
    """A dataset as a plain sequence; iteration reads whole batches, many times faster than rows."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._dataset[number] for number in range(len(self))[index]]
        return self._dataset[range(len(self))[index]]

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return _iterate(self._dataset)

    def with_columns(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """The rows with only those of the columns `names` that exist."""
        known = [name for name in names if name in self._dataset.column_names]
        return _iterate(self._dataset.select_columns(known)) if known else ({} for _ in range(len(self)))


def _iterate(dataset: Any) -> Iterator[Mapping[str, Any]]:
    bytes_per_row = 1 + dataset.data.nbytes // max(1, len(dataset))
    num_rows = max(1, min(_ROWS_PER_BATCH, _BYTES_PER_BATCH // bytes_per_row))
    for columns in dataset.iter(batch_size=num_rows):
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))


def _read(source: DatasetSource, field: str) -> Any:
    """The library's dataset of `source`: one split, or several by name."""
    import datasets

    path = find_sent(source.path)
    if source.is_file:
        source.check_is_one_split(f"{field}.path {source.path!r}")
    if not os.path.exists(path) and (source.is_file or path.is_absolute() or source.path.startswith(".")):
        raise ConfigurationError(f"{field}.path {source.path!r}: no such file or folder; correct the path")
    try:
        if source.is_file:
            with _settings(offline=True):
                return _read_file(path)
        if path.is_dir():
            with _settings(offline=True):
                return _only_split(datasets.load_dataset(str(path), source.name, split=source.split))
        return _read_hub(source, field)
    except ConfigurationError:
        raise
    except Exception as error:  # the border to the library, whose exceptions have no common base
        raise ConfigurationError(
            f"{field} {source.model_dump(exclude_none=True)}: cannot be read as a dataset: {type(error).__name__}: {error}; "
            "check path, name and split, and that every row has the same columns"
        ) from error


def _read_file(path: Path) -> Any:
    """The rows of one file. The library's copy is deleted at once; its memory map stays valid."""
    import datasets

    with tempfile.TemporaryDirectory(prefix="rows-", dir=scratch_folder()) as folder:
        loader = _LOADERS[path.suffix]
        return datasets.load_dataset(loader, data_files=[str(path.resolve())], split="train", cache_dir=folder)


def _read_hub(source: DatasetSource, field: str) -> Any:
    """The rows of a hub dataset at one commit, from the library's cache if the hub does not answer."""
    import datasets

    commit, fault = _hub_commit(source, field)
    if not _COMMIT.fullmatch(source.revision or ""):
        _log.warning(
            "%s.revision %r: the rows of %s may change; set it to %s, so that every run reads the same ones",
            field,
            source.revision,
            source.path,
            f"{commit!r}, which is read here"
            if commit
            else "a commit (the hub does not answer: the newest cached copy is read)",
        )
    try:
        with _settings(offline=commit is None):
            return _only_split(
                datasets.load_dataset(source.path, source.name, split=source.split, revision=commit or source.revision)
            )
    except ConnectionError as error:
        raise ConfigurationError(
            f"{field}.path {source.path!r}: no such file or folder, not in the local cache, and the hub does not "
            f"answer ({fault or error}); on a machine with a network run `hf download --repo-type dataset {source.path} "
            f"--local-dir FOLDER`, and give FOLDER or a file of it as {field}.path"
        ) from error


def _hub_commit(source: DatasetSource, field: str) -> tuple[str | None, str | None]:
    """The commit of `source`, or why the hub cannot be reached. One request without retries, with a time-out.

    Raises ConfigurationError if the hub has no such dataset or revision.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        known = HfApi().dataset_info(source.path, revision=source.revision, timeout=_PROBE_TIMEOUT_SECONDS)
    except GatedRepoError as error:
        raise ConfigurationError(
            f"{field}.path {source.path!r}: access needs an account; accept its terms on the hub and run "
            "`hf auth login`"
        ) from error
    except RepositoryNotFoundError as error:
        raise ConfigurationError(
            f"{field}.path {source.path!r}: the hub has no such dataset; correct the name"
        ) from error
    except RevisionNotFoundError as error:
        raise ConfigurationError(
            f"{field}.revision {source.revision!r}: {source.path!r} has no such revision"
        ) from error
    except Exception as error:  # the border to the network: refused, unresolved, timed out, or switched off
        return None, f"{type(error).__name__}: {error}"
    return known.sha, None if known.sha else "it names no commit"


def _only_split(loaded: Any) -> Any:
    return next(iter(loaded.values())) if isinstance(loaded, dict) and len(loaded) == 1 else loaded


@contextmanager
def _settings(*, offline: bool) -> Iterator[None]:
    """The library's settings for one call: no progress bars, no download counting, and no network if `offline`."""
    import datasets
    from datasets.utils.logging import is_progress_bar_enabled

    settings, had_bars = datasets.config, is_progress_bar_enabled()
    before = settings.HF_HUB_OFFLINE, settings.HF_UPDATE_DOWNLOAD_COUNTS
    settings.HF_HUB_OFFLINE, settings.HF_UPDATE_DOWNLOAD_COUNTS = offline or before[0], False
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        settings.HF_HUB_OFFLINE, settings.HF_UPDATE_DOWNLOAD_COUNTS = before
        if had_bars:
            datasets.enable_progress_bars()

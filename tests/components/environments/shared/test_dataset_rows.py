"""Rows of local files and folders, and what is said when there are none."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.environments.shared.dataset_rows import DatasetSource, load_rows
from components.errors import ConfigurationError

ROWS = [{"question": f"What is {n}+{n}?", "answer": str(2 * n), "tags": {"levels": [n]}} for n in range(5)]
FIELD = "environment.options.train"


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    from pyarrow import Table, parquet

    parquet.write_table(Table.from_pylist(rows), path)


def write_rows(folder: Path, suffix: str) -> Path:
    path = folder / f"rows{suffix}"
    if suffix == ".json":
        path.write_text(json.dumps(ROWS))
    elif suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in ROWS))
    elif suffix == ".parquet":
        write_parquet(path, ROWS)
    else:
        path.write_text("question,answer\n" + "\n".join(f"{row['question']},{row['answer']}" for row in ROWS))
    return path


@pytest.fixture
def unanswering_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A hub address that takes connections and says nothing, and an empty cache."""
    import datasets
    import huggingface_hub.hf_api

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
        monkeypatch.setattr(huggingface_hub.hf_api.constants, "ENDPOINT", address)
        monkeypatch.setattr(datasets.config, "HF_ENDPOINT", address)
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
        monkeypatch.setattr("components.environments.shared.dataset_rows._PROBE_TIMEOUT_SECONDS", 0.3)
        yield


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".parquet"])
def test_a_file_gives_its_rows(tmp_path: Path, suffix: str) -> None:
    rows = load_rows(DatasetSource(path=str(write_rows(tmp_path, suffix))), field=FIELD)
    assert len(rows) == 5
    assert list(rows) == ROWS
    assert [rows[index] for index in range(5)] == ROWS
    assert rows[1:4] == ROWS[1:4]
    assert rows[-1] == ROWS[-1]


def test_a_table_of_text_gives_numbers_where_it_holds_numbers(tmp_path: Path) -> None:
    rows = load_rows(DatasetSource(path=str(write_rows(tmp_path, ".csv"))), field=FIELD)
    assert rows[2] == {"question": "What is 2+2?", "answer": 4}


def test_rows_can_be_read_after_the_file_is_gone(tmp_path: Path) -> None:
    path = write_rows(tmp_path, ".jsonl")
    rows = load_rows(DatasetSource(path=str(path)), field=FIELD)
    path.unlink()
    assert list(rows) == ROWS


def test_a_folder_gives_the_split_that_is_asked_for(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train-00000-of-00001.parquet", ROWS[:3])
    write_parquet(tmp_path / "test-00000-of-00001.parquet", ROWS[3:])
    assert list(load_rows(DatasetSource(path=str(tmp_path), split="test"), field=FIELD)) == ROWS[3:]
    with pytest.raises(ConfigurationError, match=r"train\.split None: .* has the splits test, train; name one of them"):
        load_rows(DatasetSource(path=str(tmp_path)), field=FIELD)
    with pytest.raises(ConfigurationError, match="check path, name and split"):
        load_rows(DatasetSource(path=str(tmp_path), split="dev"), field=FIELD)


def test_many_threads_may_load_one_source(tmp_path: Path) -> None:
    source, found = DatasetSource(path=str(write_rows(tmp_path, ".json"))), list[Any]()
    threads = [threading.Thread(target=lambda: found.append(load_rows(source, field=FIELD))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(rows) for rows in found}) == 1
    assert len(found) == 6


@pytest.mark.parametrize("path", ["missing.jsonl", "./missing", "/missing/folder"])
def test_a_missing_file_is_named(path: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{FIELD}\.path '{path}': no such file or folder"):
        load_rows(DatasetSource(path=path), field=FIELD)


def test_a_file_has_no_splits(tmp_path: Path) -> None:
    source = DatasetSource(path=str(write_rows(tmp_path, ".json")), split="train")
    with pytest.raises(ConfigurationError, match="a file is one split"):
        load_rows(source, field=FIELD)


def test_content_that_is_no_table_is_an_error_with_the_path(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("not json at all\n")
    with pytest.raises(ConfigurationError, match=r"rows\.jsonl.* cannot be read as a dataset"):
        load_rows(DatasetSource(path=str(path)), field=FIELD)


@pytest.mark.usefixtures("unanswering_hub")
def test_a_hub_that_does_not_answer_is_an_error_within_seconds_and_names_the_remedy() -> None:
    import datasets

    before = datasets.config.HF_HUB_OFFLINE
    started = time.monotonic()
    with pytest.raises(
        ConfigurationError, match=r"train\.path 'troupe/none': .*hf download --repo-type dataset troupe/none"
    ):
        load_rows(DatasetSource(path="troupe/none", name="main", split="train"), field=FIELD)
    assert time.monotonic() - started < 5
    assert before == datasets.config.HF_HUB_OFFLINE


@pytest.mark.parametrize(("revision", "told"), [(None, True), ("main", True), ("b" * 40, False)])
def test_a_hub_dataset_is_read_at_one_commit_and_says_which(
    revision: str | None, told: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import datasets
    import huggingface_hub

    asked: list[Any] = []
    commit = "b" * 40 if revision == "b" * 40 else "c" * 40

    def dataset_info(self: Any, path: str, *, revision: str | None, timeout: float) -> Any:
        asked.append(revision)
        return SimpleNamespace(sha=commit)

    def load_dataset(path: str, name: str | None, *, split: str | None, revision: str | None) -> Any:
        asked.append(revision)
        return datasets.Dataset.from_list([{"path": path}])

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", dataset_info)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    source = DatasetSource(path=f"troupe/{revision}", split="train", revision=revision)
    assert list(load_rows(source, field=FIELD)) == [{"path": source.path}]
    assert asked == [revision, commit]
    assert any(f"set it to '{commit}'" in message for message in caplog.messages) == told

"""Published versions of an adapter: whole, numbered by one, and checked when they are read."""

import threading
from pathlib import Path

import pytest

from components.errors import ArtifactCorrupt, ArtifactMissing
from components.generation.adapter_versions import newest_version, publish_adapter, read_version, version_numbers


def adapter_files(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").write_text(text)
    return folder


def test_versions_are_numbered_by_one_and_checked(tmp_path: Path) -> None:
    root = tmp_path / "lora1"
    assert newest_version(root) is None
    for number in range(1, 12):
        info, folder = publish_adapter(
            root, adapter_files(tmp_path / "new", str(number)), lora_id=1, metrics={"reward": number}
        )
        assert (info.version, info.parent) == (number, number - 1 or None)
        assert read_version(root, number) == (info, folder)
    assert version_numbers(root) == list(range(1, 12))
    with pytest.raises(ArtifactMissing, match="has no version 12"):
        read_version(root, 12)
    (root / "v000003" / "adapter_model.safetensors").write_text("changed")
    with pytest.raises(ArtifactCorrupt, match=r"adapter_model\.safetensors differs"):
        read_version(root, 3)
    (root / "v000004" / "pickle.bin").write_text("added")
    with pytest.raises(ArtifactCorrupt, match="pickle"):
        read_version(root, 4)
    assert [each.name for each in root.iterdir() if each.name.startswith(".")] == []


def test_publishers_at_once_each_get_a_number(tmp_path: Path) -> None:
    files, found = adapter_files(tmp_path / "new", "x"), []
    threads = [
        threading.Thread(target=lambda: found.append(publish_adapter(tmp_path / "r", files, lora_id=1)[0].version))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 9))

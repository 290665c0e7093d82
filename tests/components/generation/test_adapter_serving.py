"""Which adapter answers, by hand, and published versions: whole, numbered by one, and checked when they are read."""

import threading
from collections import Counter
from math import exp, log, sqrt
from pathlib import Path

import pytest

from components.errors import ArtifactCorrupt, ArtifactMissing, ConfigurationError
from components.generation.adapter_selection import AdapterRecord, performance, selected_adapter, upper_bound
from components.generation.adapter_versions import newest_version, publish_adapter, read_version, version_numbers


def record(rewards: list[float], **values: float) -> AdapterRecord:
    made = AdapterRecord(**values)  # type: ignore[arg-type]
    for reward in rewards:
        made = made.after_reward(reward)
    return made


def test_each_strategy_by_hand() -> None:
    records = {1: record([0.2, 0.4]), 2: record([0.9] * 6), 3: record([0.5])}
    turns = [selected_adapter("round_robin", records, number=n, now_seconds=0) for n in range(4)]
    assert turns == [1, 2, 3, 1]
    drawn = Counter(selected_adapter("weighted_random", records, number=n, now_seconds=0) for n in range(3000))
    total = exp(0.3) + exp(0.9) + exp(0.5)
    assert drawn[2] / 3000 == pytest.approx(exp(0.9) / total, abs=0.03)
    bounds = {key: each.mean_reward + sqrt(2 * log(9) / each.num_rewards) for key, each in records.items()}
    assert {key: upper_bound(each, 9) for key, each in records.items()} == pytest.approx(bounds)
    assert (
        selected_adapter("rl_optimized", records, number=0, now_seconds=0) == max(bounds, key=bounds.__getitem__) == 3
    )
    assert selected_adapter("rl_optimized", {**records, 4: AdapterRecord()}, number=0, now_seconds=0) == 4
    with pytest.raises(ConfigurationError, match="none is ready"):
        selected_adapter("adaptive", {}, number=0, now_seconds=0)
    with pytest.raises(ConfigurationError, match="reward"):
        AdapterRecord().after_reward(1.5)


def test_performance_is_bounded_and_adaptive_uses_it_for_what_is_urgent() -> None:
    good = AdapterRecord().after_request(seconds=1.0, failed=False, now_seconds=100.0)
    bad = AdapterRecord().after_request(seconds=1.0, failed=True, now_seconds=100.0)
    assert performance(good, 100.0) == pytest.approx(0.6)
    assert performance(bad, 100.0) == pytest.approx(0.2)
    assert performance(good, 1e9) == pytest.approx(0.8)
    assert selected_adapter("adaptive", {1: bad, 2: good}, number=0, now_seconds=100.0, priority=1.0) == 2
    assert selected_adapter("adaptive", {1: bad, 2: good}, number=0, now_seconds=100.0, priority=0.6) == 1


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

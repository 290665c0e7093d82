"""Policies that answer while they change: nothing lost, nothing mixed, and bad weights never answer."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from components.config import AdapterConfig
from components.errors import ArtifactCorrupt, ConfigurationError
from components.methods.population.served_models import Answer, LivePolicy, Question, ServedModel
from components.models.adapters import write_adapter
from tests.components.generation.tiny_models import random_model, save_model

ADAPTER = AdapterConfig(rank=2, alpha=8.0, targets=("k_proj", "q_proj", "v_proj"))
ASKED = Question(prompt="A B", max_new_tokens=3, temperature=0.0)


def random_adapter(policy: LivePolicy, folder: Path, seed: int) -> Path:
    draw = torch.Generator().manual_seed(seed)
    tensors = {name: 0.5 * torch.randn(each.shape, generator=draw) for name, each in policy.tensors().items()}
    write_adapter(tensors, ADAPTER, folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedModel]:
    folder = tmp_path_factory.mktemp("base")
    save_model(random_model(seed=1), folder)
    with ServedModel(str(folder)) as served:
        yield served


def test_requests_of_many_threads_over_swaps_are_all_answered_each_by_one_version(
    model: ServedModel, tmp_path: Path
) -> None:
    policy = model.policy("live", ADAPTER)
    folders = [random_adapter(policy, tmp_path / str(step), step) for step in range(1, 6)]
    alone = {0: policy.answer(ASKED)}
    with ServedModel(str(model.settings.base)) as other:  # where nothing disturbs it
        still = other.policy("still", ADAPTER)
        for step, folder in enumerate(folders, start=1):
            still.swap(folder)
            alone[step] = still.answer(ASKED)
    assert len({(each.text, each.confidence) for each in alone.values()}) == 6, "every version answers differently"
    answers: list[Answer] = []
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            answers.append(policy.answer(ASKED))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for step in range(6):
        while not any(each.version.step == step for each in list(answers)):
            threads[0].join(0.005)
        if step < 5:
            policy.swap(folders[step])
    ended.set()
    for thread in threads:
        thread.join()
    for each in answers:
        expected = alone[each.version.step]
        assert (each.text, each.confidence) == (expected.text, pytest.approx(expected.confidence, abs=1e-5))


def test_bad_adapters_never_serve_and_the_version_before_goes_on(model: ServedModel, tmp_path: Path) -> None:
    policy = model.policy("guarded", ADAPTER)
    before, answer = policy.version, policy.answer(ASKED)
    good = random_adapter(policy, tmp_path / "good", 3)
    tensors = load_file(good / "adapter_model.safetensors")
    nan = random_adapter(policy, tmp_path / "nan", 3)
    save_file(
        {name: torch.full_like(each, float("nan")) for name, each in tensors.items()}, nan / "adapter_model.safetensors"
    )
    with pytest.raises(ArtifactCorrupt, match="holds NaN or infinity; the version before answers on"):
        policy.swap(nan)
    cut = random_adapter(policy, tmp_path / "cut", 3)
    (cut / "adapter_model.safetensors").write_bytes((good / "adapter_model.safetensors").read_bytes()[:100])
    with pytest.raises(ArtifactCorrupt, match="cannot be read"):
        policy.swap(cut)
    write_adapter({name: each[:1] for name, each in tensors.items()}, ADAPTER, tmp_path / "shape")
    with pytest.raises(ArtifactCorrupt, match="other layers or shapes"):
        policy.swap(tmp_path / "shape")
    write_adapter(tensors, ADAPTER.model_copy(update={"rank": 4}), tmp_path / "rank")
    with pytest.raises(ArtifactCorrupt, match="rank"):
        policy.swap(tmp_path / "rank")
    assert (policy.version, policy.answer(ASKED)) == (before, answer)
    assert policy.swap(good) == policy.version != before


def test_an_update_changes_the_adapter_and_the_answers_and_only_then(model: ServedModel) -> None:
    policy, other = model.policy("learns", ADAPTER), model.policy("stays", ADAPTER)
    before, start = policy.answer(ASKED), policy.tensors()
    with pytest.raises(ConfigurationError, match="NaN"):
        policy.update({name: torch.full_like(each, float("nan")) for name, each in start.items()}, 0.1)
    assert policy.version == before.version
    for _ in range(3):
        policy.update({name: torch.ones_like(each) for name, each in start.items()}, 0.2)
    after = policy.answer(ASKED)
    assert after.version.step == 3
    assert after.confidence != before.confidence
    assert other.answer(ASKED).confidence == before.confidence
    with pytest.raises(ConfigurationError, match="no adapter"):
        model.policy("plain").update(start, 0.1)


def test_a_prompt_without_room_is_refused_and_length_is_kept(model: ServedModel) -> None:
    policy = model.policy("short")
    assert policy.answer(Question(prompt="ABCD", max_length=6, temperature=1.0)).num_answer_tokens <= 2
    with pytest.raises(ConfigurationError, match="max_length"):
        policy.answer(Question(prompt="ABCDEF", max_length=6))

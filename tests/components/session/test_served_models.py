"""Hot swap under load in the in-process engine: nothing lost, nothing mixed, and bad weights never serve."""

import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from components.config import AdapterConfig
from components.errors import ArtifactCorrupt, ConfigurationError, LogprobMismatch
from components.generation.base import GenerationRequest
from components.generation.hot_swap import HotSwap
from components.methods.population.served_models import Answer, Question, ServedModel, ServedPolicy
from components.models.adapters import write_adapter
from components.schema import PolicyVersion
from tests.components.generation.scripted import CharacterTokenizer, ScriptedGenerator
from tests.components.generation.tiny_models import random_model, saved

ADAPTER = AdapterConfig(rank=2, alpha=8.0, targets=("k_proj", "q_proj", "v_proj"))
ASKED = Question(prompt="A B", max_new_tokens=3, temperature=0.0)


def random_adapter(policy: ServedPolicy, folder: Path, seed: int) -> Path:
    draw = torch.Generator().manual_seed(seed)
    tensors = {name: 0.5 * torch.randn(each.shape, generator=draw) for name, each in policy.tensors().items()}
    write_adapter(tensors, ADAPTER, folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    folder = tmp_path_factory.mktemp("base")
    saved(random_model(seed=1), folder)
    return ServedModel(str(folder))


@pytest.mark.slow
def test_a_thousand_requests_over_twenty_swaps_are_all_answered_each_by_one_version(
    model: ServedModel, tmp_path: Path
) -> None:
    policy = model.policy("live", ADAPTER)
    folders = [random_adapter(policy, tmp_path / str(step), step) for step in range(1, 21)]
    alone = {0: policy.answer(ASKED)}
    with ServedModel(str(model.settings.base)) as other:  # where nothing disturbs it
        still = other.policy("still", ADAPTER)
        for step, folder in enumerate(folders, start=1):
            still.swap(folder, step)
            alone[step] = still.answer(ASKED)
    assert len({(each.text, each.confidence) for each in alone.values()}) == 21, "every version answers differently"
    answers: list[Answer] = []
    left = list(range(1000))

    def ask() -> None:
        while True:
            try:
                left.pop()
            except IndexError:
                return
            answers.append(policy.answer(ASKED))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for step, folder in enumerate(folders, start=1):
        while len(answers) < step * 1000 // 22:
            threads[0].join(0.005)
        policy.swap(folder, step)
    for thread in threads:
        thread.join()
    assert len(answers) == 1000
    by_version = {each.version.step for each in answers}
    assert by_version == set(range(21)), "requests were under way at every swap"
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
    with pytest.raises(LogprobMismatch, match="the version before serves on"):
        policy.swap(nan, 1)
    cut = random_adapter(policy, tmp_path / "cut", 3)
    (cut / "adapter_model.safetensors").write_bytes((good / "adapter_model.safetensors").read_bytes()[:100])
    with pytest.raises(ArtifactCorrupt, match="cannot be read"):
        policy.swap(cut, 1)
    write_adapter({name: each[:1] for name, each in tensors.items()}, ADAPTER, tmp_path / "shape")
    with pytest.raises(ArtifactCorrupt, match="other layers or shapes"):
        policy.swap(tmp_path / "shape", 1)
    write_adapter(tensors, ADAPTER.model_copy(update={"rank": 4}), tmp_path / "rank")
    with pytest.raises(ArtifactCorrupt, match="rank"):
        policy.swap(tmp_path / "rank", 1)
    assert (policy.version, policy.answer(ASKED)) == (before, answer)
    assert policy.swap(good, 1) == policy.version != before


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


def test_the_idle_engine_is_loaded_only_after_its_last_request() -> None:
    """With engines that can be held still: the answer under way keeps its version, the second swap waits for it."""
    entered, release = threading.Event(), threading.Event()

    def slow(prompt: str, _: int) -> str:
        if prompt == "b":
            entered.set()
            assert release.wait(20)
        return prompt

    tokenizer = CharacterTokenizer("ab")
    swap = HotSwap((ScriptedGenerator(slow, tokenizer), ScriptedGenerator(slow, tokenizer)), check=lambda _: None)
    versions = [PolicyVersion(policy="p", step=step, weights_digest=str(step)) for step in range(3)]
    with pytest.raises(ConfigurationError, match="no weights yet"):
        swap.generate([])
    swap.swap(Path(), versions[0])
    asked = GenerationRequest(prompt_tokens=(2,), seeds_K=(1,), max_new_tokens=4, temperature=1.0)
    answers: list[PolicyVersion] = []
    held = threading.Thread(target=lambda: answers.append(swap.generate([asked])[0][0].version))
    held.start()
    assert entered.wait(20)
    swap.swap(Path(), versions[1])
    second = threading.Thread(target=swap.swap, args=(Path(), versions[2]))
    second.start()
    second.join(0.1)
    assert second.is_alive()
    assert swap.version == versions[1]
    release.set()
    held.join(20)
    second.join(20)
    assert (answers, swap.version) == ([versions[0]], versions[2])

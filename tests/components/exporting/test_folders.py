"""Folders for plain libraries: the tokens of training, its sampling, and weights that nobody touched."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from components.config import AdapterConfig
from components.errors import ArtifactCorrupt, ArtifactMissing, LogprobMismatch
from components.exporting.folders import complete_adapter_folder, complete_model_folder
from components.exporting.merging import merge
from components.models.adapters import adapter_tensors, add_adapter, write_adapter
from components.models.character_tokenizer import character_tokenizer
from components.models.model_folder import write_model_folder
from components.models.tokenizer import HuggingFaceTokenizer
from components.training.base import Probe
from components.training.checkpoint import compute_probe, load_model
from tests.components.generation.tiny_models import random_model
from tests.components.models.test_tokenizer import byte_tokenizer

ALPHABET = "\n .#AG<end>paTé漢"
"""Spells out the special tokens, too."""


def folder_of(tokenizer: object, folder: Path, *, vocab_size: int, seed: int = 0) -> Path:
    write_model_folder(random_model(seed=seed, vocab_size=vocab_size), tokenizer, folder)
    return folder


@pytest.fixture(scope="module")
def characters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder of characters, completed."""
    folder = folder_of(
        character_tokenizer(ALPHABET), tmp_path_factory.mktemp("characters"), vocab_size=len(ALPHABET) + 2
    )
    complete_model_folder(folder, temperature=0.7)
    return folder


@pytest.fixture(scope="module")
def plain(characters: Path) -> object:
    return AutoTokenizer.from_pretrained(characters)


@given(text=st.text(ALPHABET, max_size=40) | st.lists(st.sampled_from(["<end>", "<pad>", "A", "\n"])).map("".join))
def test_a_character_tokenizer_means_the_same_everywhere(characters: Path, plain, text: str) -> None:
    ours = HuggingFaceTokenizer.from_folder(characters)
    tokens = plain(text)["input_ids"]
    assert tuple(tokens) == ours.encode(text)
    assert plain.decode(tokens, skip_special_tokens=True) == ours.decode(tokens) == text
    assert plain.decode([*tokens, ours.end_token, ours.pad_token], skip_special_tokens=True) == text


def test_without_completion_a_spelled_end_would_be_the_end(tmp_path: Path) -> None:
    """What the completion is for."""
    character_tokenizer(ALPHABET).save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path)("<end>")["input_ids"] == [1]


def test_subword_tokenizers_stay_as_they_are(tmp_path: Path) -> None:
    folder = folder_of(byte_tokenizer(), tmp_path, vocab_size=300)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    tokenizer = complete_model_folder(folder, temperature=1.0)
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {name for name in after if after[name] != before.get(name)} == {"generation_config.json"}
    assert AutoTokenizer.from_pretrained(folder)("a<|end|>b")["input_ids"][1] == tokenizer.end_token


def test_the_sampling_is_that_of_training_whatever_the_base_brings(tmp_path: Path) -> None:
    folder = folder_of(character_tokenizer("AB"), tmp_path, vocab_size=4)
    foreign = {"top_p": 0.8, "top_k": 20, "repetition_penalty": 1.1, "eos_token_id": [0, 1, 2], "temperature": 0.6}
    (folder / "generation_config.json").write_text(json.dumps(foreign))
    weights = (folder / "model.safetensors").read_bytes()
    complete_model_folder(folder, temperature=0.7)
    read = GenerationConfig.from_pretrained(folder)
    assert (read.do_sample, read.temperature, read.top_k, read.top_p) == (True, 0.7, 0, 1.0)
    assert (read.repetition_penalty, read.eos_token_id, read.pad_token_id) == (None, [0, 1, 2], 0)
    assert (folder / "model.safetensors").read_bytes() == weights
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokens = AutoTokenizer.from_pretrained(folder)("ABBA", return_tensors="pt")
    assert model.generate(**tokens, max_new_tokens=3).shape[1] <= 7


def test_a_damaged_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactCorrupt, match="tokenizer"):
        complete_model_folder(tmp_path, temperature=1.0)


SHAPE = AdapterConfig(rank=2, alpha=6.0, targets=("q_proj", "down_proj"), freeze_a=True)


def adapter_on(base: Path, folder: Path) -> Probe:
    """Write an adapter that changes much; the probe of base and adapter together."""
    model = load_model(base)
    add_adapter(model, "plan", SHAPE, seed=1)
    for tensor in adapter_tensors(model, "plan").values():
        tensor.data.normal_(std=0.3)
    write_adapter(adapter_tensors(model, "plan"), SHAPE, folder)
    return compute_probe(model)


def test_an_adapter_folder_names_its_base_and_has_the_tokenizer(characters: Path, tmp_path: Path) -> None:
    adapter_on(characters, tmp_path / "plan")
    weights = (tmp_path / "plan" / "adapter_model.safetensors").read_bytes()
    complete_adapter_folder(tmp_path / "plan", base=characters, base_place=characters)
    assert (tmp_path / "plan" / "adapter_model.safetensors").read_bytes() == weights
    assert not (tmp_path / "plan" / "config.json").exists()
    told = json.loads((tmp_path / "plan" / "adapter_config.json").read_text())
    assert told["base_model_name_or_path"] == str(characters)
    assert "freeze_a" not in told
    assert AutoTokenizer.from_pretrained(tmp_path / "plan")("A<end>")["input_ids"] == [6, 8, 9, 10, 11, 12]


def test_a_merge_is_proved_by_the_probe(characters: Path, tmp_path: Path) -> None:
    probe = adapter_on(characters, tmp_path / "plan")
    known = {"tolerance": 1e-4, "trained_in": "float32"}
    assert merge(characters, tmp_path / "plan", tmp_path / "whole", probe=probe, **known) <= 1e-5
    assert compute_probe(load_model(tmp_path / "whole")).trainer_logprobs == pytest.approx(
        probe.trainer_logprobs, abs=1e-5
    )
    other = compute_probe(load_model(characters))
    with pytest.raises(LogprobMismatch, match="export it as an adapter, without --merged"):
        merge(characters, tmp_path / "plan", tmp_path / "again", probe=other, **known)


def test_an_adapter_of_another_model_is_refused(characters: Path, tmp_path: Path) -> None:
    probe = adapter_on(characters, tmp_path / "plan")
    (tmp_path / "base").mkdir()
    with pytest.raises(ArtifactMissing, match="safetensors"):
        merge(tmp_path / "base", tmp_path / "plan", tmp_path / "w", probe=probe, tolerance=1e-4, trained_in="float32")

import json
import shutil

import pytest
import torch

from components.errors import ArtifactCorrupt, ConfigurationError
from components.models.digests import model_digest, model_tensors
from components.training.base import MODEL_FOLDER
from components.training.checkpoint import (
    MANIFEST_FILE,
    NO_OPTIMIZER,
    compute_probe,
    load_model,
    read_manifest,
    write_initial_checkpoint,
)


def test_the_initial_checkpoint_holds_the_model_its_tokenizer_and_a_true_manifest(initial, make_model) -> None:
    folder, manifest = initial
    assert read_manifest(folder) == manifest
    assert manifest.step == 0
    assert manifest.optimizer_digest == NO_OPTIMIZER
    assert manifest.weights_digest == model_digest(make_model()) == model_digest(load_model(folder / MODEL_FOLDER))
    assert (folder / MODEL_FOLDER / "tokenizer.json").is_file()


def test_the_probe_is_what_a_plain_forward_gives(initial, make_model) -> None:
    probe = initial[1].probe
    assert (len(probe.prompt_tokens), len(probe.completion_tokens)) == (16, 8)
    with torch.no_grad():
        logits = make_model()(input_ids=torch.tensor([probe.prompt_tokens + probe.completion_tokens])).logits[0]
    wanted = logits[15:-1].log_softmax(-1)[torch.arange(8), torch.tensor(probe.completion_tokens)]
    assert torch.tensor(probe.trainer_logprobs) == pytest.approx(wanted, abs=1e-5)


def test_another_models_probe_differs(initial, make_model) -> None:
    other = compute_probe(make_model(seed=1))
    assert other.prompt_tokens == initial[1].probe.prompt_tokens
    assert max(abs(a - b) for a, b in zip(other.trainer_logprobs, initial[1].probe.trainer_logprobs, strict=True)) > 0.1


def test_a_tied_head_is_digested_once(make_model) -> None:
    names = model_tensors(make_model())
    assert "model.embed_tokens.weight" in names
    assert "lm_head.weight" not in names
    assert "lm_head.weight" in model_tensors(make_model(kind="llama"))


def test_a_changed_weight_changes_the_digest(make_model) -> None:
    model = make_model()
    before = model_digest(model)
    with torch.no_grad():
        model.model.norm.weight[0] += 1e-6
    assert model_digest(model) != before


@pytest.mark.parametrize("content", [None, "{", json.dumps({"policy": "p"}), "\xff"])
def test_a_broken_manifest_is_named(tmp_path, content) -> None:
    if content is not None:
        (tmp_path / MANIFEST_FILE).write_text(content, encoding="latin-1")
    with pytest.raises(ArtifactCorrupt, match=MANIFEST_FILE):
        read_manifest(tmp_path)


def test_torn_weights_are_named(tmp_path, initial) -> None:
    folder = shutil.copytree(initial[0] / MODEL_FOLDER, tmp_path / "model")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ArtifactCorrupt, match="cannot be read as a model"):
        load_model(folder)


def test_a_folder_without_a_model_is_the_users_mistake(tmp_path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(ConfigurationError, match=r"no config\.json"):
        write_initial_checkpoint(tmp_path / "model", tmp_path / "checkpoint", "p")

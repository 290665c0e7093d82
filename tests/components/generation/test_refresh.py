from pathlib import Path

import pytest
import torch

from components.errors import ArtifactCorrupt, LogprobMismatch, StaleEngine
from components.generation.local.engine import TransformersGenerator
from components.generation.refresh import refresh
from components.models.character_tokenizer import character_tokenizer
from components.models.tokenizer import HuggingFaceTokenizer
from components.schema import PolicyVersion
from components.training.base import Probe
from tests.components.generation.scripted import ScriptedGenerator
from tests.components.generation.tiny_models import full_logprobs, random_model, save_model
from tests.sections import choose_generation

TOLERANCE = 1e-4
PROMPT, COMPLETION = (2, 5, 3, 9), (4, 4, 6, 1)


def probe_of(model: object) -> Probe:
    """What a trainer holding `model` would write beside its checkpoint."""
    logprobs = tuple(full_logprobs(model, PROMPT, COMPLETION))
    return Probe(prompt_tokens=PROMPT, completion_tokens=COMPLETION, trainer_logprobs=logprobs)


def test_a_faithful_engine_agrees_with_the_trainer(tmp_path: Path) -> None:
    model, engine = random_model(), TransformersGenerator(choose_generation())
    version = save_model(model, tmp_path)
    difference = refresh(engine, folder=tmp_path, version=version, probe=probe_of(model), tolerance=TOLERANCE)
    assert 0 <= difference <= 1e-5
    assert engine.version == version


def test_it_loads_only_when_another_version_is_held(tmp_path: Path) -> None:
    model, engine = random_model(), TransformersGenerator(choose_generation())
    version = save_model(model, tmp_path)
    refresh(engine, folder=tmp_path, version=version, probe=probe_of(model), tolerance=TOLERANCE)
    nowhere = tmp_path / "removed"
    refresh(engine, folder=nowhere, version=version, probe=probe_of(model), tolerance=TOLERANCE)


def test_new_weights_under_the_old_name_trip_the_probe(tmp_path: Path) -> None:
    model, engine = random_model(), TransformersGenerator(choose_generation())
    version = save_model(model, tmp_path)
    refresh(engine, folder=tmp_path, version=version, probe=probe_of(model), tolerance=TOLERANCE)
    with torch.no_grad():
        engine._model.model.layers[0].mlp.down_proj.weight.add_(0.05)
    with pytest.raises(LogprobMismatch, match=r"step 0: .* differ by .* \(tolerance 0\.0001\)"):
        refresh(engine, folder=tmp_path, version=version, probe=probe_of(model), tolerance=TOLERANCE)


def test_a_stale_output_head_trips_the_probe(tmp_path: Path) -> None:
    old, new = random_model(seed=1, tied=False), random_model(seed=2, tied=False)
    engine = TransformersGenerator(choose_generation())
    version = save_model(new, tmp_path)
    engine.load(tmp_path, version)
    with torch.no_grad():
        engine._model.lm_head.weight.copy_(old.lm_head.weight)
    with pytest.raises(LogprobMismatch):
        refresh(engine, folder=tmp_path, version=version, probe=probe_of(new), tolerance=TOLERANCE)


@pytest.mark.parametrize("stale", ["lm_head", "model.embed_tokens", "model.layers.1.mlp.down_proj"])
def test_the_tolerance_of_bfloat16_allows_its_rounding_and_no_stale_tensor(stale: str, tmp_path: Path) -> None:
    old, new = (random_model(seed=seed, tied=False) for seed in (1, 2))
    with torch.no_grad():
        for model in (old, new):
            model.lm_head.weight.mul_(5.0)  # log-probabilities as far apart as a trained model's
    config = choose_generation(dtype="bfloat16")
    engine, version = TransformersGenerator(config), save_model(new, tmp_path)
    tolerance = config.probe_tolerance
    difference = refresh(engine, folder=tmp_path, version=version, probe=probe_of(new), tolerance=tolerance)
    assert 1e-3 < difference < tolerance / 2
    with torch.no_grad():
        engine._model.get_submodule(stale).weight.copy_(old.get_submodule(stale).weight)
    with pytest.raises(LogprobMismatch):
        refresh(engine, folder=tmp_path, version=version, probe=probe_of(new), tolerance=tolerance)


def test_an_engine_that_keeps_its_old_version_is_stale(tmp_path: Path) -> None:
    class Stubborn(ScriptedGenerator):
        def load(self, folder: Path, version: PolicyVersion, adapter: Path | None = None) -> None:
            return None

    old = PolicyVersion(policy="team", step=3, weights_digest="a")
    new = PolicyVersion(policy="team", step=4, weights_digest="b")
    engine = Stubborn(lambda prompt, seed: "A", HuggingFaceTokenizer(character_tokenizer("AB")), old)
    with pytest.raises(StaleEngine, match=r"step=3.*step=4"):
        refresh(engine, folder=tmp_path, version=new, probe=probe_of(random_model()), tolerance=TOLERANCE)


def test_weights_of_another_version_in_the_folder_are_corrupt(tmp_path: Path) -> None:
    model, engine = random_model(), TransformersGenerator(choose_generation())
    save_model(model, tmp_path)
    wrong = PolicyVersion(policy="team", step=0, weights_digest="0" * 64)
    with pytest.raises(ArtifactCorrupt, match="digest"):
        refresh(engine, folder=tmp_path, version=wrong, probe=probe_of(model), tolerance=TOLERANCE)
    assert engine.version is None


def test_numbers_that_are_not_finite_never_pass(tmp_path: Path) -> None:
    model, engine = random_model(), TransformersGenerator(choose_generation())
    version = save_model(model, tmp_path)
    engine.load(tmp_path, version)
    with torch.no_grad():
        engine._model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(LogprobMismatch, match="nan"):
        refresh(engine, folder=tmp_path, version=version, probe=probe_of(model), tolerance=TOLERANCE)

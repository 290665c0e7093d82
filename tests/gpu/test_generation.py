"""The in-process engine on a CUDA device agrees with the trainer's own forward pass."""

from pathlib import Path

import pytest
import torch

from components.config import PolicyConfig, TinyModelConfig
from components.generation.base import GenerationRequest
from components.generation.local.engine import TransformersGenerator
from components.generation.refresh import refresh
from components.models.loading import prepare_model_folder
from components.schema import PolicyVersion
from components.training.base import MODEL_FOLDER
from components.training.checkpoint import write_initial_checkpoint
from tests.sections import choose_generation

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("bfloat16", 0.2)])
def test_the_refresh_probe_holds_and_sampling_repeats(dtype: str, tolerance: float, tmp_path: Path) -> None:
    shape = TinyModelConfig(hidden_size=64, num_layers=2, num_heads=4, intermediate_size=128)
    prepare_model_folder(PolicyConfig(tiny=shape), alphabet="UDLR .#\n", seed=0, into=tmp_path / "made")
    manifest = write_initial_checkpoint(tmp_path / "made", tmp_path / "checkpoint", "team")
    version = PolicyVersion(policy="team", step=0, weights_digest=manifest.weights_digest)
    engine = TransformersGenerator(choose_generation(device="cuda", dtype=dtype, probe_tolerance=tolerance))
    folder = tmp_path / "checkpoint" / MODEL_FOLDER
    difference = refresh(engine, folder=folder, version=version, probe=manifest.probe, tolerance=tolerance)
    print(f"{dtype}: largest difference to the trainer {difference:.2e}")
    request = GenerationRequest(prompt_tokens=(2, 3, 4), seeds_K=tuple(range(8)), max_new_tokens=9, temperature=1.0)
    assert engine.generate([request], version) == engine.generate([request], version)

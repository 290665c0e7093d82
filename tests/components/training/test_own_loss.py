"""A policy loss of one's own in the training worker: found in the user's folder, held to its source, its mistakes told."""

from pathlib import Path
from typing import Any

import pytest

from components.config import LossConfig
from components.errors import ConfigurationError
from tests.sections import choose_loss

SURROGATE = """
import torch
from own_bounds import bounded

def surrogate(inputs, config):
    ratios_N = (inputs.logprobs_N - inputs.old_logprobs_N).exp()
    clipped_N = bounded(ratios_N, config)
    return -torch.minimum(ratios_N * inputs.advantages_N, clipped_N * inputs.advantages_N)
"""
BOUNDS = "def bounded(ratios_N, config): return ratios_N.clamp(1.0 - config.clip_low, 1.0 + config.clip_high)\n"


def loss(name: str, **changes: Any) -> LossConfig:
    return choose_loss(policy_loss=name, mismatch_tolerance=None, **changes)


def test_the_surrogate_written_out_ends_in_the_weights_of_the_built_in_one(
    trainer: Any, jobs: Any, make_groups: Any, own_folder: Path
) -> None:
    (own_folder / "own_surrogate.py").write_text(SURROGATE)
    (own_folder / "own_bounds.py").write_text(BOUNDS)
    groups = make_groups(4)
    built_in = trainer.update(jobs.first(groups, loss=loss("clip"))).manifest.weights_digest
    own = trainer.update(jobs.first(groups, loss=loss("own_surrogate:surrogate"))).manifest.weights_digest
    other = trainer.update(
        jobs.first(groups, loss=loss("own_surrogate:surrogate", clip_low=0.01))
    ).manifest.weights_digest
    assert own == built_in != other


def test_a_mistake_crosses_with_its_file_and_line_and_the_worker_goes_on(
    trainer: Any, jobs: Any, make_groups: Any, own_folder: Path
) -> None:
    file = own_folder / "own_mistakes.py"
    file.write_text("def broken(inputs, config):\n    return inputs.logprobs\n\ndef nan(inputs, config):\n")
    file.write_text(file.read_text() + "    return inputs.logprobs_N * float('nan')\n")
    groups = make_groups(2)
    for name, told in (
        ("own_mistakes:broken", rf"{file}:2: AttributeError: 'LossInputs' object has no attribute 'logprobs'"),
        ("own_mistakes:nan", rf"{file}:4: returned \d+ of \d+ losses that are not finite"),
        ("own_mistakes:missing", r"own_mistakes\.py has no 'missing'"),
        ("own_nowhere:loss", r"there is no module 'own_nowhere'"),
    ):
        with pytest.raises(ConfigurationError, match=told) as caught:
            trainer.update(jobs.first(groups, loss=loss(name)))
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="the run works with 0123; bring the same files to every host"):
        trainer.update(jobs.first(groups, loss=loss("own_mistakes:broken", source="0123")))
    assert trainer.update(jobs.first(groups)).metrics["num_updates"] == 2

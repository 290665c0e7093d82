"""What the doc strings of fields say."""

import pytest

from components.config import EvaluationConfig, GenerationConfig, RolloutConfig, TrainingConfig, TransformersGeneration
from components.frozen import Frozen

ROUNDING = [
    (GenerationConfig, "num_threads"),
    (TransformersGeneration, "max_batch_tokens"),
    (RolloutConfig, "num_shards"),
    (RolloutConfig, "problems_per_block"),
    (TrainingConfig, "num_threads"),
    (TrainingConfig, "num_ranks"),
    (TrainingConfig, "tokens_per_micro_batch"),
    (TrainingConfig, "share_prompts"),
    (EvaluationConfig, "problems_per_block"),
]
"""Fields that say how something is computed and not what, and yet decide how it is rounded: they set which rows are computed
together, or in which order sums are taken."""


@pytest.mark.parametrize(("section", "name"), ROUNDING)
def test_fields_that_decide_how_results_are_rounded_say_so(section: type[Frozen], name: str) -> None:
    assert "Affects results" in (section.model_fields[name].description or "")

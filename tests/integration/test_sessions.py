"""Two runs in one process: other models under one policy's name, each what it is alone."""

from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings, await_no_workers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SMALLER = (
    "policies={team: {tiny: {hidden_size: 48, num_layers: 2, num_heads: 2, intermediate_size: 96}}}",
    "evaluation={num_problems: 8, problems_per_block: 8}",
    "num_steps=1",
)


@pytest.mark.long
def test_two_runs_of_one_process_are_each_what_they_are_alone(
    trainings: Trainings, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    places = {name: tmp_path / name for name in ("whole", "smaller", "alone")}
    for place in places.values():
        place.mkdir()
    alone = order(places["alone"], "smaller", overrides=SMALLER)
    assert trainings.run(alone).code == 0, trainings.log()
    both = order(places["whole"], "whole", shorter=order(places["smaller"], "smaller", overrides=SMALLER))
    assert trainings.run(both).code == 0, trainings.log()
    whole, smaller, expected = (
        outcome(LocalArtifactStore(places[place] / "store"), run_id)
        for place, run_id in (("whole", "whole"), ("smaller", "smaller"), ("alone", "smaller"))
    )
    assert whole == uninterrupted
    assert smaller == expected
    assert whole["steps"][0]["checkpoint_digest"] != smaller["steps"][0]["checkpoint_digest"]
    for run_id in ("whole", "smaller"):
        await_no_workers(run_id)

"""What a scenario adds to the options of its environment."""

from typing import Any

from components.session.scenario import scenario_of
from flows.presets import preset_config


def test_search_knows_the_last_turn_of_its_episodes() -> None:
    config = preset_config("search-tiny", [])
    options: Any = scenario_of(config).options
    assert options.num_reasoner_turns == config.environment.max_turns
    problem = scenario_of(config).family.problem(options, split="train", index=0, seed=0)
    assert problem.payload["num_reasoner_turns"] == config.environment.max_turns

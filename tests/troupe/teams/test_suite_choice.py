"""A run's team is read as it learned to answer, also where it plays something else."""

import pytest

from components.config import RunConfig, parse_config
from troupe.teams.suite_choice import played_config, read_as


def learned(answers: str) -> RunConfig:
    return parse_config(
        {
            "num_steps": 1,
            "environment": {"name": "plan_path", "answers": answers},
            "agents": {"tool_agent": {"policy": "team"}, "plan_agent": {"policy": "team"}},
            "policies": {"team": {}},
        }
    )


@pytest.mark.parametrize("answers", ["compact", "reasoned"])
@pytest.mark.parametrize("name", [None, "plan_path", "sokoban"])
def test_a_team_is_read_as_it_learned(name: str | None, answers: str) -> None:
    own = learned(answers)
    assert played_config(name, {}, own=own).environment.answers == answers
    assert read_as(learned("compact"), own).environment == own.environment


def test_without_a_run_the_environment_decides() -> None:
    assert played_config("sokoban", {}, own=None).environment.answers == "compact"
    assert read_as(learned("reasoned"), None) == learned("reasoned")

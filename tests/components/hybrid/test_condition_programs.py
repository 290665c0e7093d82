"""Conditions in Python are read, never run here, and pay as comparisons do."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from components.errors import ConfigurationError
from components.hybrid.agent import AgentRule
from components.hybrid.arbitration import ArbitrationRule
from components.hybrid.condition_programs import Program, ProgramsHeld, read_program
from components.hybrid.control import ControlRule
from components.hybrid.errors import ConditionRefused
from components.hybrid.experience import (
    HybridSettings,
    collect_experience,
    digest_state,
    new_learner_state,
    update_learner,
)
from components.hybrid.game_facts import LARGEST, Facts
from components.hybrid.masked_ppo import PPORule
from components.hybrid.rewards import RewardWeights
from components.hybrid.subgoals import read_lesson, read_programs

LESSON = "start: x == 4 and y == 5\nsouth: y >= 6\nwest or north: x <= 2 or y <= 3\nlate: party_count > 0"
SETTINGS = HybridSettings(
    num_games=5,
    max_steps=17,
    weights=RewardWeights(subgoals=0.7),
    learner=PPORule(steps=24, minibatch=40, epochs=2),
)


def evaluated(programs: Any, facts: Facts) -> ProgramsHeld:
    """An oracle: Python itself, state by state."""
    states = [
        dict(zip(facts, values, strict=True))
        for values in zip(*(each.tolist() for each in facts.values()), strict=True)
    ]
    held = [[bool(eval(each.text, {}, state)) for each in programs] for state in states]
    return ProgramsHeld(held_R_G=np.array(held), failures_G=("",) * len(programs))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("open('/etc/passwd')", r"`open` may not be called: use abs, all, any, "),
        ("__import__('os').system('true')", r"`__import__` may not be called"),
        ("altitude > 3", r"`altitude` is neither a fact nor a function that may be called: facts are"),
        ("levle > 3", r"did you mean `level`\?"),
        ("x := 3", r"is not an expression"),
        ("import os", r"is not an expression"),
        ("x > 1 " * 60, r"a condition of 360 characters: use at most 200"),
        ("1and x", r"is not an expression"),
    ],
)
def test_what_is_no_expression_over_facts_is_refused_with_the_remedy(text: str, said: str) -> None:
    with pytest.raises(ConditionRefused, match=said):
        read_program("goal", text, LARGEST)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("any(x == n for n in (1, 2))", {"any", "x"}),
        ("(lambda a: a > y)(x)", {"x", "y"}),
        ("map_number in (3, 4) and abs(x - 8) <= 2", {"map_number", "abs", "x"}),
    ],
)
def test_a_program_knows_what_it_uses(text: str, names: set[str]) -> None:
    assert read_program("goal", text, LARGEST).names == names


def test_a_lesson_of_programs_is_written_as_it_is_read() -> None:
    lesson = read_programs("near: abs(x - 8) <= 2\nwin: fight()\n", LARGEST)
    assert lesson.programs == (Program(name="near", text="abs(x - 8) <= 2"),)
    assert (lesson.size, len(lesson.refusals)) == (1, 1)
    assert read_programs(lesson.text, LARGEST).programs == lesson.programs


def test_programs_teach_exactly_what_equal_comparisons_teach() -> None:
    compared = replace(SETTINGS, subgoals=read_lesson(LESSON, LARGEST).subgoals)
    programs = replace(SETTINGS, programs=read_programs(LESSON, LARGEST).programs)
    unpaid = replace(programs, weights=RewardWeights(subgoals=0.0))
    states = [new_learner_state(settings, 3) for settings in (compared, programs, unpaid)]
    for step in range(2):  # episodes of 17 buttons end within and across the steps of 24
        for number, settings in enumerate((compared, programs, unpaid)):
            experience = collect_experience(settings, states[number], 3, step, run_programs=evaluated)
            states[number], _ = update_learner(settings, states[number], experience, 3)
    met = states[1].pop("met_programs")
    learned = [digest_state({k: v for k, v in each.items() if k.startswith("weights.")}) for each in states]
    assert learned[0] == learned[1] != learned[2]
    assert np.array_equal(met, states[0]["games._met_N_G"]), "and open episodes remember the same"


def test_programs_do_not_go_with_what_reads_rewards_while_it_is_played() -> None:
    adaptive = AgentRule(control=ControlRule(arbitration=ArbitrationRule()))
    settings = replace(SETTINGS, programs=read_programs("south: y >= 6", LARGEST).programs, agent=adaptive)
    with pytest.raises(ConfigurationError, match="1 programs: they pay after a step"):
        collect_experience(settings, new_learner_state(settings, 3), 3, 0, adviser=object(), run_programs=evaluated)  # type: ignore[arg-type]

"""What clones are shown of teams with an order of their own, of teams that branch, and of agents side by side."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from components.config import WarmStartConfig
from components.environments.base import Step
from components.environments.environment import Environment
from components.errors import ConfigurationError
from components.training.demonstrations import Student, Teacher
from components.turn_order import BRANCHING, TurnOrder
from tests.components.generation.scripted import CharacterTokenizer
from tests.components.rollout.own_teams import Desk, Votes, family_of


def prompts(environment: type[Environment], role: str, order: TurnOrder, *, max_turns: int = 1) -> set[str]:
    """What `role` is shown in twenty lessons without noise."""
    family = family_of(environment)
    tokenizer = CharacterTokenizer(family.alphabet(family.options_type()))
    config = WarmStartConfig(noise=0.0, prompts_per_step=20, demonstrations_per_prompt=1)
    teacher = Teacher(
        family=family, turn_order=order, options=family.options_type(), config=config, seed=0, max_turns=max_turns
    )
    student: Any = Student(
        folder=Path("nowhere"), roles=(role,), tokenizer=tokenizer, encode=lambda seen: tokenizer.encode(seen.state)
    )
    groups = teacher.lesson(student, role, 0)
    assert {group.group.agent for group in groups} == {role}
    return {tokenizer.decode(group.prompt_tokens) for group in groups}


def test_those_side_by_side_see_nothing_of_each_other_and_the_next_one_sees_all() -> None:
    assert prompts(Votes, "bob", Votes.turn_order) == {"bob sees []"}
    assert prompts(Votes, "judge", Votes.turn_order) == {"judge sees ['6', '6']"}
    assert prompts(Votes, "bob", Votes.roles) == {"bob sees ['6']"}


def test_a_role_that_acts_twice_is_taught_both_times() -> None:
    shown = prompts(Votes, "ann", ("ann", "bob", "ann", "judge"))
    assert shown == {"ann sees []", "ann sees ['6', '6']"}


def test_in_a_team_that_branches_each_role_is_taught_where_it_comes_to_act() -> None:
    assert prompts(Desk, "left", BRANCHING, max_turns=3) == {"left left None"}
    assert prompts(Desk, "checker", BRANCHING, max_turns=3) == {"checker left left", "checker right right"}
    with pytest.raises(ConfigurationError, match=r"agents\.checker: it never acted in 200 episodes of desk's expert"):
        prompts(Desk, "checker", BRANCHING, max_turns=2)


def test_nobody_is_taught_where_the_episode_is_over() -> None:
    class Short(Votes):
        def step(self, state: Any, agent: str, answer: str) -> Step:
            state["votes"].append(answer)
            return Step(state=state, done=Random(state["secret"]).random() < 0.5)

    class Never(Votes):
        def step(self, state: Any, agent: str, answer: str) -> Step:
            return Step(state=state, done=True)

    shown = prompts(Short, "judge", ("ann", "judge"))
    assert shown == {"judge sees ['6']"}
    with pytest.raises(ConfigurationError, match="it never acted"):
        prompts(Never, "judge", ("ann", "judge"))

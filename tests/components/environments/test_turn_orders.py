"""Whose turn order holds, and how a wrong one is told."""

from typing import Any

import pytest

from components.config import differing_fields, parse_config
from components.environments.environment import Environment
from components.environments.family import Family
from components.environments.registry import family
from components.environments.turn_orders import check_team, turn_order_of
from components.errors import ConfigurationError
from components.turn_order import BRANCHING, agents_of
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.components.rollout.own_teams import Desk, Votes, family_of

ENVIRONMENT = "environment.name 'x:Team'"


def make_config(**environment: Any) -> Any:
    agents = {role: {"policy": "team"} for role in ("tool_agent", "plan_agent")}
    values = {"name": "plan_path", **environment}
    return parse_config({"num_steps": 1, "environment": values, "agents": agents, "policies": {"team": {}}})


def test_a_configuration_goes_before_the_environment_and_that_before_its_roles() -> None:
    plan_path = family("plan_path")
    assert turn_order_of(plan_path, None) == plan_path.roles == ("tool_agent", "plan_agent")
    assert turn_order_of(plan_path, ("plan_agent", "tool_agent", "plan_agent"))[0] == "plan_agent"
    assert turn_order_of(family_of(Votes), None) == (("ann", "bob"), "judge")
    assert turn_order_of(family_of(Votes), ("judge", "ann")) == ("judge", "ann")
    assert turn_order_of(family_of(Desk), None) == BRANCHING
    assert agents_of((("b", "a"), "b"), ("a", "b", "c")) == ("b", "a")
    assert agents_of(BRANCHING, ("a", "b", "c")) == ("a", "b", "c")


def test_an_order_that_does_not_fit_the_environment_is_told() -> None:
    with pytest.raises(ConfigurationError, match="'plan_agnt' is no role of plan_path; did you mean 'plan_agent'"):
        turn_order_of(family("plan_path"), (("tool_agent", "plan_agnt"),))
    with pytest.raises(ConfigurationError, match=r"chooses the next agent itself \(next_role\); leave turn_order out"):
        turn_order_of(family_of(Desk), ("router",))


@pytest.mark.parametrize(
    "order", [[], "tool_agent", [[]], [["tool_agent", []]], [1], [["tool_agent", ["plan_agent"]]], {"tool_agent": 1}]
)
def test_what_is_no_order_is_told_in_one_line(order: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"environment\.turn_order: write it as \[first, second\]") as caught:
        make_config(turn_order=order)
    assert "\n" not in str(caught.value)


def test_an_order_of_its_own_is_part_of_what_stages_depend_on_and_none_changes_nothing() -> None:
    plain = make_config()
    ordered = make_config(turn_order=[["tool_agent", "tool_agent"], "plan_agent"])
    assert ordered.environment.turn_order == (("tool_agent", "tool_agent"), "plan_agent")
    assert parse_config(ordered.model_dump(mode="json")) == ordered
    for stage in ("warm_start", "collect_rollouts", "compute_rewards", "evaluate_policy"):
        assert "turn_order" not in PIPELINE[stage].config_fields(plain)["environment"]
        assert PIPELINE[stage].config_fields(ordered) != PIPELINE[stage].config_fields(plain)
    assert PIPELINE["update_policy"].config_fields(ordered) == PIPELINE["update_policy"].config_fields(plain)


def test_how_answers_are_read_is_part_of_what_stages_depend_on_and_the_default_changes_nothing() -> None:
    plain, reasoned = make_config(), make_config(answer_format="free")
    assert make_config(answer_format="strict") == plain
    for stage in ("warm_start", "collect_rollouts", "compute_rewards", "evaluate_policy"):
        assert PIPELINE[stage].config_fields(reasoned)["environment"]["answer_format"] == "free"
        assert "answers" not in PIPELINE[stage].config_fields(plain)["environment"]
    changed = differing_fields(plain.result_fields(), reasoned.result_fields())
    assert changed == ["environment.answer_format: 'strict' -> 'free'"]


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"roles": ("a", "b", "a")}, "roles names 'a' twice; name each role once, and set turn_order to who acts when"),
        ({"roles": ()}, 'name its agents, as roles = \\("first", "second"\\)'),
        ({"turn_order": ("a", "bb")}, "turn_order: 'bb' is no role of roles; did you mean 'b'"),
        ({"turn_order": ["a", "b"]}, r"turn_order \['a', 'b'\]: write it as \(\(\"first\", \"second\"\), \"third\"\)"),
        ({"turn_order": ("a", ())}, "write it as"),
        ({"turn_order": "a"}, "write it as"),
        (
            {"turn_order": ("a",), "next_role": lambda self, state: "a"},
            rf"{__file__}:\d+: both next_role and turn_order define who acts; remove one of them",
        ),
    ],
)
def test_a_team_that_is_none_is_told_when_it_is_named(members: dict[str, Any], told: str) -> None:
    team = type("Team", (Environment,), {"roles": ("a", "b"), **members})
    with pytest.raises(ConfigurationError, match=told) as caught:
        check_team("x:Team", team)
    assert str(caught.value).startswith(ENVIRONMENT)
    assert "\n" not in str(caught.value)


def test_a_team_without_an_order_acts_as_its_roles_stand() -> None:
    class Plain(Votes):
        turn_order: Any = ()

    check_team("x:Plain", Plain)
    assert Family("x:Plain", Plain()).turn_order == ("ann", "bob", "judge")

"""Defaults of teams of pretrained chat models: fitting, never over what is given, and nowhere else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.config import RunConfig, parse_config
from components.config.chat_defaults import with_chat_defaults

CHAT = {"base": "smollm2-135m", "prompt_format": "chat"}
API = {"api": {"provider": "openai", "model": "m"}, "trained": False, "prompt_format": "chat"}


def values(*policies: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return {
        "num_steps": 1,
        "environment": {"name": "math"},
        "agents": {f"a{number}": {"policy": f"p{number}"} for number in range(len(policies))},
        "policies": {f"p{number}": policy for number, policy in enumerate(policies)},
    } | sections


def test_a_team_of_chat_models_reasons_in_bfloat16_with_a_limit_and_few_problems() -> None:
    config = parse_config(values(CHAT, {**CHAT, "adapter": {}}))
    assert config.environment.answer_format == "free"
    assert (config.generation.dtype, config.training.dtype) == ("bfloat16", "bfloat16")
    assert (config.loss.importance_cap, config.loss.mismatch_tolerance, config.generation.probe_tolerance) == (
        2,
        2,
        0.5,
    )
    assert [agent.max_new_tokens for agent in config.agents.values()] == [256, 256]
    assert (config.rollout.num_problems, config.evaluation.num_problems, config.evaluation.sampling) == (
        8,
        40,
        ("sample",),
    )
    assert (config.training.learning_rate, config.policies["p0"].learning_rate) == (1e-5, None)
    assert config.policies["p1"].learning_rate == 1.5e-4


def test_what_is_given_wins() -> None:
    given = values(
        {**CHAT, "adapter": {}},
        agents={"a0": {"policy": "p0", "max_new_tokens": None}},
        environment={"name": "math", "answer_format": "strict"},
        generation={"dtype": "float32"},
        training={"learning_rate": 0.5},
        rollout={"num_problems": 32},
        evaluation={"num_problems": 500, "sampling": ["greedy"]},
        loss={"mismatch_tolerance": 1e-3},
    )
    filled, config = with_chat_defaults(given), parse_config(given)
    assert {name: filled[name] for name in given} == given
    assert config.training.dtype == "float32", "one dtype given: both are the user's"
    assert (config.loss.importance_cap, config.policies["p0"].learning_rate) == (None, None)
    assert parse_config(values(CHAT, training={"device": "cuda"})).training.dtype == "float32"
    assert parse_config(values(CHAT, training={"dtype": "bfloat16"})).loss.importance_cap == 2


@pytest.mark.parametrize("policies", [[{}], [CHAT, {}], [API]])
def test_other_teams_are_as_they_were(policies: list[dict[str, Any]]) -> None:
    assert with_chat_defaults(values(*policies)) == values(*policies)


def test_a_model_behind_an_api_has_no_limit_beside_one_with_weights() -> None:
    config = parse_config(values(CHAT, API))
    assert [agent.max_new_tokens for agent in config.agents.values()] == [256, None]


@given(st.lists(st.sampled_from([CHAT, API, {}, {**CHAT, "adapter": {}}]), min_size=1, max_size=3))
def test_a_frozen_configuration_is_read_as_it_is(policies: list[dict[str, Any]]) -> None:
    config = parse_config(values(*policies))
    assert RunConfig.model_validate(config.model_dump(mode="json")) == config


@pytest.mark.parametrize("wrong", [None, [], {"p": None}, {"p": 3}, "chat"])
def test_wrong_values_are_left_to_their_own_errors(wrong: Any) -> None:
    assert with_chat_defaults({"policies": wrong}) == {"policies": wrong}

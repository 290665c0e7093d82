"""Settings of agents and chat templates: what is refused and how it is told, and whose results they change."""

from typing import Any

import pytest

from components.config import AgentConfig, RunConfig, parse_config
from components.errors import ConfigurationError
from flows.steps import TEAM_PIPELINE as PIPELINE


def config(agent: dict[str, Any] | None = None, policy: dict[str, Any] | None = None, **sections: Any) -> RunConfig:
    values = {
        "num_steps": 1,
        "environment": {"name": "math"},
        "agents": {"solver": {"policy": "p", **(agent or {})}},
        "policies": {"p": {"base": "somewhere", "prompt_format": "chat", **(policy or {})}},
    }
    return parse_config(values | sections)


COMPACT = {"prompt_format": "compact"}
OPENAI = {"api": {"provider": "openai", "model": "m"}, "trained": False}
FIXED = {"api": {"provider": "openai", "model": "m", "fixed_temperature": True}, "trained": False}
ANTHROPIC = {"api": {"provider": "anthropic", "model": "m"}, "trained": False}


@pytest.mark.parametrize(
    ("agent", "policy", "message"),
    [
        ({"prompt": "Be brief."}, {}, r"agents\.solver\.prompt: write it as {replace: TEXT}, .* \(got 'Be brief\.'\)"),
        ({"prompt": {}}, {}, r"agents\.solver\.prompt: nothing given: set exactly one of replace"),
        ({"prompt": {"replace": "a", "extend": "b"}}, {}, "replace, extend given: set exactly one"),
        ({"prompt": {"replace": " \n"}}, {}, r"prompt\.replace: is blank; write"),
        ({"prompt": {"extend": "x" * 65537}}, {}, r"prompt\.extend: has 65537 bytes; use at most 65536 \(got"),
        ({"prompt": {"extend": "\ud800"}}, {}, "position 0 is half of a surrogate pair; remove it"),
        ({"prompt": {"extend_file": "a\0b"}}, {}, "a path has no null character"),
        ({"prompt": {"replcae": "x"}}, {}, r"prompt\.replcae: unknown key; did you mean 'replace'"),
        (
            {"prompt": {"extend": "x"}},
            COMPACT,
            r"agents\.solver\.prompt: policy p has prompt_format compact, .*set pol",
        ),
        ({"max_thinking_tokens": 5}, COMPACT, r"max_thinking_tokens 5: policy p has prompt_format compact"),
        (
            {"max_thinking_tokens": 5},
            OPENAI,
            "max_thinking_tokens 5: the model of policy p is behind an api.*leave it out",
        ),
        ({"temperature": float("nan")}, {}, r"temperature: .*\(got nan\)"),
        ({"temperature": 0.5}, FIXED, r"temperature 0\.5: .*fixed_temperature says.*leave one of them out"),
        ({"stop": "END"}, {}, r"stop: write it as a list, as \[STRING\] \(got 'END'\)"),
        ({"stop": [""]}, {}, r"stop\.0: is empty, and would end every answer .*remove it"),
        ({"stop": ["ok", "x" * 129]}, {}, r"stop\.1: has 129 characters; use at most 128"),
        ({"stop": ["\ufffd"]}, {}, r"stop\.0: holds U\+FFFD"),
        ({"stop": ["\n\n"]}, ANTHROPIC, r"stop '\\n\\n': the anthropic api takes no blank stop strings"),
        ({}, {"chat_template_arguments": {"tokenize": True}}, "tokenize: is set by Troupe itself; remove it"),
        ({}, {"chat_template_arguments": {"a b": 1}}, "a b: is no argument's name"),
        (
            {},
            {"chat_template_arguments": {"a": float("nan")}},
            "arguments.a.float: Input should be a finite number",
        ),
        ({}, {"chat_template_arguments": {"a": object()}}, r"chat_template_arguments\.a: .*not a valid JSON value"),
        ({}, {"chat_template_arguments": {"a": 1}, **COMPACT}, "are for prompt_format chat, and it is compact"),
        (
            {},
            {"chat_template_arguments": {"a": 1}, **OPENAI},
            "the provider of an api applies the template; leave them",
        ),
    ],
)
def test_a_wrong_setting_is_one_line_with_field_value_and_remedy(
    agent: dict[str, Any], policy: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        config(agent, policy)
    assert "\n" not in str(caught.value)


def test_limits_of_thinking_are_part_of_the_longest_answer() -> None:
    agent = {"max_thinking_tokens": 30, "max_new_tokens": 10}
    with pytest.raises(
        ConfigurationError, match=r"fixed_length 39 is below agents\.solver\.max_new_tokens 10 and max_th"
    ):
        config(agent, loss={"aggregation": "fixed_length", "fixed_length": 39})
    config(agent, loss={"aggregation": "fixed_length", "fixed_length": 40})
    with pytest.raises(ConfigurationError, match=r"overlong_buffer 5 counts back from the one limit .* leave it out"):
        config(agent, rewards={"overlong_buffer": 5})


OWN: dict[str, Any] = {
    "prompt": {"extend": "Be brief."},
    "temperature": 0.7,
    "max_thinking_tokens": 9,
    "stop": ["END"],
}


def test_settings_that_are_not_used_leave_every_key_as_it_was() -> None:
    plain = config()
    assert PIPELINE["collect_rollouts"].config_fields(plain)["agents"] == {
        "solver": {"policy": "p", "max_new_tokens": 256}
    }
    assert "chat_template_arguments" not in PIPELINE["update_policy"].config_fields(plain)["policies"]["p"]
    assert set(AgentConfig.model_fields) == {"policy", "max_new_tokens", *OWN}


@pytest.mark.parametrize("name", OWN)
def test_a_setting_of_an_agent_is_part_of_the_keys_of_play(name: str) -> None:
    changed = config({name: OWN[name]})
    for stage in ("collect_rollouts", "evaluate_policy"):
        assert PIPELINE[stage].config_fields(changed) != PIPELINE[stage].config_fields(config())
    assert PIPELINE["compute_rewards"].config_fields(changed) == PIPELINE["compute_rewards"].config_fields(config())


def test_template_arguments_are_part_of_the_keys_of_play() -> None:
    on, off = (config(policy={"chat_template_arguments": {"enable_thinking": value}}) for value in (True, False))
    keys = [PIPELINE["collect_rollouts"].config_fields(each) for each in (on, off, config())]
    assert keys[0] != keys[1] != keys[2] != keys[0]

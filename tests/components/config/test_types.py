"""Names and addresses that could leave their folder, inject markup or contain a password are refused."""

from typing import Any

import pytest

from components.config import parse_config
from components.errors import ConfigurationError
from flows.presets import preset_values, with_overrides

HOSTILE_NAMES = ("../../OUTSIDE", "a/b", "..", "<img src=x>", "a\x1b[31m", "", "x" * 64, "-rf", "a b", "é\u202e")


def expect_refusal(*overrides: str, **sections: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_config(with_overrides(preset_values()["tiny"], overrides) | sections)
    return str(caught.value)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_policy_is_called_by_a_name(name: str) -> None:
    agents = {role: {"policy": name} for role in ("tool_agent", "plan_agent")}
    message = expect_refusal(policies={name: {}}, agents=agents)
    assert message.startswith("policies.")
    assert "use 1 to 63 letters" in message
    assert message.isprintable()


@pytest.mark.parametrize("field", ["preset", "store.bucket"])
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_what_becomes_a_label_or_a_bucket_is_a_name(field: str, name: str) -> None:
    section, _, leaf = field.partition(".")
    message = expect_refusal(**({section: {leaf: name}} if leaf else {section: name}))
    assert message.startswith(f"{field}: use 1 to 63 letters")
    assert message.isprintable()


@pytest.mark.parametrize(
    "field",
    ["store.endpoint_url", "tracking.url", "policies.team.api.base_url", "generation.vllm.urls"],
)
@pytest.mark.parametrize("url", ["http://me:secret@host/x", "http://secret@host", "http://host/?token=secret"])
def test_an_address_holds_no_password_and_the_error_does_not_show_it(field: str, url: str) -> None:
    api = ["policies.team.api.provider=openai", "policies.team.api.model=m", "policies.team.trained=false"]
    value = f"['{url}']" if field.endswith("urls") else url
    engine = ["generation.engine=vllm"] if "vllm" in field else []
    message = expect_refusal(*(api if "api" in field else []), *engine, f"{field}={value}")
    assert field in message
    assert "must hold no user, password or query" in message
    assert "secret" not in message


@pytest.mark.parametrize("prefix", ["../other", "a/../b", "a\\b", "a\x00"])
def test_a_prefix_stays_below_its_bucket(prefix: str) -> None:
    assert expect_refusal(store={"kind": "s3", "prefix": prefix}).startswith("store.prefix: must be a key prefix")


@pytest.mark.parametrize("label", ["<b>", "a\nb", "\x1b[2J", ""])
def test_an_experiment_is_one_plain_line(label: str) -> None:
    assert expect_refusal(tracking={"experiment": label}).startswith("tracking.experiment: must be one line")

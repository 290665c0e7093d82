"""What an API's configuration refuses, and the version that it makes."""

from typing import Any

import pytest
from pydantic import ValidationError

from components.config import ApiConfig
from components.generation.api.chat import api_version


def config(**settings: Any) -> ApiConfig:
    return ApiConfig.model_validate({"provider": "openai", "model": "m", **settings})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"base_url": "localhost:8000/v1"}, "http:// or https://"),
        ({"base_url": "https://user:hunter2@example.com/v1"}, "no user, password or query"),
        ({"base_url": "https://example.com/v1?key=hunter2"}, "no user, password or query"),
        ({"max_cost": 1.0}, "max_cost needs input_price or output_price"),
        ({"provider": "anthropic", "max_choices": 4}, "max_choices is for provider openai"),
        ({"provider": "anthropic", "sends_seed": False}, "sends_seed is for provider openai"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        config(**settings)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_whole_dump_can_be_read_again(provider: str) -> None:
    written = config(provider=provider, base_url="http://h:1/v1", max_cost=1.0, input_price=1.0)
    assert ApiConfig.model_validate(written.model_dump()) == written


def test_the_version_names_provider_model_and_server_and_nothing_else() -> None:
    version = api_version("p", config())
    assert (version.policy, version.step, len(version.weights_digest)) == ("p", 0, 64)
    assert api_version("p", config(base_url="https://api.openai.com/v1/")) == version
    assert api_version("p", config(output_price=3.0, max_retries=1, fixed_temperature=True)) == version
    others = [config(model="n"), config(provider="anthropic"), config(base_url="http://h/v1")]
    digests = {version.weights_digest, *(api_version("p", other).weights_digest for other in others)}
    assert len(digests) == 4

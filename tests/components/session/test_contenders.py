"""Models are asked as the configuration that they play asks models of their kind."""

from pathlib import Path

import pytest

from components.config import RunConfig, StoreConfig, parse_config
from components.errors import ConfigurationError
from components.evaluation.subjects import parse_subject
from components.methods.open_subjects import ResultsStore, find_team, open_subject
from components.models.character_tokenizer import character_tokenizer
from components.models.model_folder import write_model_folder
from flows.presets import preset_config
from tests.integration.vllm_servers import tiny_model

TEMPLATE = "{% for each in messages %}{{ each.content }}{% endfor %}{{ thinking }}"


def chat_team(**arguments: object) -> RunConfig:
    """Boards for chat models, whose policies' templates have `thinking` as in `arguments`, by role."""
    values = preset_config("tiny").model_dump(mode="json", exclude_unset=True)
    policies = {
        role: {"prompt_format": "chat", "base": "smollm2-135m", "chat_template_arguments": {"thinking": thinking}}
        for role, thinking in arguments.items()
    }
    agents = {role: {"policy": role} for role in arguments}
    return parse_config({**values, "policies": policies, "agents": agents, "warm_start": {}})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a model with a chat template."""
    folder = tmp_path_factory.mktemp("chat") / "model"
    write_model_folder(tiny_model(0), character_tokenizer("ABC"), folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return str(folder)


def arguments_by_role(subject: str, played: RunConfig, root: Path) -> dict[str, dict[str, object]]:
    team = find_team(parse_subject(subject), lambda _: pytest.fail("no run is named"), title=subject)
    store = ResultsStore(config=StoreConfig(kind="local", root=str(root)))
    with open_subject(team, played, store=store) as opened_subject:
        seats = opened_subject.session.scenario.seats
    return {role: dict(seat.chat_template_arguments) for role, seat in seats.items()}


def test_a_models_chat_template_has_the_arguments_of_the_role_it_plays(model: str, tmp_path: Path) -> None:
    alike = chat_team(tool_agent=True, plan_agent=True)
    assert arguments_by_role(model, alike, tmp_path) == {
        "tool_agent": {"thinking": True},
        "plan_agent": {"thinking": True},
    }
    differing = chat_team(tool_agent=True, plan_agent=False)
    by_role = f"tool_agent={model},plan_agent={model}"
    assert arguments_by_role(by_role, differing, tmp_path) == {
        "tool_agent": {"thinking": True},
        "plan_agent": {"thinking": False},
    }
    with pytest.raises(
        ConfigurationError, match=rf"tool_agent, plan_agent have different .* as tool_agent={model},plan"
    ):
        arguments_by_role(model, differing, tmp_path)
    compact = preset_config("tiny")
    assert arguments_by_role(model, compact, tmp_path) == {"tool_agent": {}, "plan_agent": {}}
    mixed = arguments_by_role(f"tool_agent=openai:any,plan_agent={model}", differing, tmp_path)
    assert mixed == {"tool_agent": {}, "plan_agent": {"thinking": False}}, "a provider applies its own template"

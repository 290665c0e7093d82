"""What a configuration says of prompts and answers is checked against the model before it is loaded."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from components.config import RunConfig, parse_config
from components.errors import ConfigurationError
from components.session.scenario import scenario_of
from flows.preflight import checks
from flows.preflight.prompts import check_prompts, longest_first_prompt
from flows.presets import preset_config
from tests.components.generation.tiny_models import make_tagged_tokenizer


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder without weights, which are not looked at: 600 positions, a token a byte."""
    folder = tmp_path_factory.mktemp("base")
    make_tagged_tokenizer().save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"text_config": {"max_position_embeddings": 600}}))
    return folder


def config(base: Path, agent: dict[str, Any], policy: dict[str, Any] | None = None, **sections: Any) -> RunConfig:
    values = preset_config("plan-path").model_dump(mode="json")
    values["policies"] = {"p": {"base": str(base), "prompt_format": "chat", **(policy or {})}}
    asked = {"policy": "p", "max_new_tokens": 20, **agent}
    values["agents"] = {"tool_agent": asked, "plan_agent": {**asked}}
    return parse_config(values | sections)


VLLM = {"engine": "vllm", "vllm": {"max_model_tokens": 100}}


@pytest.mark.parametrize(
    ("agent", "policy", "sections", "message"),
    [
        ({"prompt": {"extend": "x" * 600}}, {}, {}, r"agents\.tool_agent: its prompt of \d+ tokens and an answer of max_n"),
        ({"max_thinking_tokens": 590}, {}, {}, "after max_thinking_tokens 590 exceed the 600 tokens of max_position_embedd"),
        ({"stop": ["x"]}, {}, {"generation": VLLM}, r"exceed the 100 tokens of generation\.vllm\.max_model_tokens; shorten"),
        ({"stop": ["<|end|>"]}, {}, {}, r"agents\.tool_agent\.stop '<\|end\|>': it is a special token .* remove it"),
        ({}, {"chat_template_arguments": {"thinkin": True}}, {}, r"thinkin: .*reads no such argument; did you mean 'thinking'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_model_is_one_line_with_field_value_and_remedy(
    base: Path, agent: dict[str, Any], policy: dict[str, Any], sections: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        check_prompts(scenario_of(config(base, agent, policy, **sections)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("agent", "policy", "instructions", "is_told"),
    [
        ({}, {"prompt_format": "chat"}, None, True),
        ({}, {"prompt_format": "chat"}, "'  '", True),
        ({}, {"prompt_format": "chat"}, "'Write SQL.'", False),
        ({"prompt": {"extend": "Write SQL."}}, {"prompt_format": "chat"}, None, False),
        ({"prompt": {"replace": "Write SQL."}}, {"prompt_format": "chat"}, None, False),
        ({}, {"prompt_format": "compact"}, None, False),
        ({}, {"prompt_format": "chat", "trained": False, "api": {"provider": "openai", "model": "m"}}, None, True),
    ],
)
def test_a_chat_model_that_is_told_nothing_is_named(
    agent: dict[str, Any],
    policy: dict[str, Any],
    instructions: str | None,
    is_told: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
) -> None:
    name = f"silent_{abs(hash(request.node.name))}"
    told = "" if instructions is None else f"    def instructions(self, state, agent): return {instructions}\n"
    (tmp_path / f"{name}.py").write_text(
        "from troupe import Environment, Step\n\nclass Sql(Environment):\n    roles = ('writer',)\n"
        "    def draw(self, options, rng): return {'n': rng.randrange(1000)}\n"
        "    def observe(self, state, agent): return str(state['n'])\n"
        f"    def step(self, state, agent, answer): return Step(state=state)\n{told}"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    values = {
        "num_steps": 1,
        "environment": {"name": f"{name}:Sql"},
        "agents": {"writer": {"policy": "p", **agent}},
        "policies": {"p": {"base": "smollm2-135m", **policy}},
    }
    if "api" in policy:
        values["policies"]["p"].pop("base")  # type: ignore[index]
    checks.warn_of_instructions(scenario_of(parse_config(values)))
    assert [f"{name}:Sql has no instructions for writer" in line for line in caplog.messages] == [True] * is_told
    assert all("agents.writer.prompt={replace: TEXT}" in line for line in caplog.messages)


def test_what_fits_passes_to_the_last_token(base: Path) -> None:
    own = {"prompt": {"replace": "x"}, "stop": ["END"], "max_thinking_tokens": 9}
    check_prompts(scenario_of(config(base, own, {"chat_template_arguments": {"thinking": True}})))
    with pytest.raises(ConfigurationError, match=r"its prompt of (\d+) tokens") as caught:
        check_prompts(scenario_of(config(base, {"max_thinking_tokens": 600})))
    num_prompt_tokens = int(str(caught.value).split("its prompt of ")[1].split()[0])
    room = 600 - 20 - num_prompt_tokens
    check_prompts(scenario_of(config(base, {"max_thinking_tokens": room})))
    with pytest.raises(ConfigurationError, match="exceed the 600 tokens"):
        check_prompts(scenario_of(config(base, {"max_thinking_tokens": room + 1})))


@pytest.mark.parametrize(
    ("stop", "message"),
    [("é", "tiny model of policy team has no character 'é'"), ("U" * 99, r"answers have at most \d+ characters")],
)
def test_a_stop_string_that_no_answer_of_a_tiny_model_holds_is_refused(stop: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"agents\.plan_agent\.stop '{stop[:3]}.*{message}.*remove it"):
        checks.check_configuration(scenario_of(preset_config("tiny", [f"agents.plan_agent.stop=[{stop}]"])))


@pytest.mark.parametrize("damaged", ["config.json", "tokenizer.json"])
def test_a_damaged_folder_is_left_to_the_check_of_bases(base: Path, damaged: str, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(base, folder)
    (folder / damaged).write_text("{")
    check_prompts(scenario_of(config(folder, {"stop": ["x"]})))


def test_a_model_that_is_not_here_is_left_to_its_loading() -> None:
    check_prompts(scenario_of(config(Path("nobody/has-this-model"), {"stop": ["x"], "max_thinking_tokens": 10**9})))


def test_the_longest_first_prompt_is_that_of_the_first_agent_in_tokens_of_its_model(base: Path) -> None:
    asked = config(base, {"prompt": {"replace": "x" * 50}})
    board = 5 * 6 + 2  # T, five rows of five cells with their line feeds, a colon
    # "system:", 50 x, the end token, "user:", the board, the end token, "bot:"
    assert longest_first_prompt(scenario_of(asked)) == 7 + 50 + 1 + 5 + board + 1 + 4
    api = {"api": {"provider": "openai", "model": "m"}, "trained": False}
    by_api = asked.model_copy(update={"policies": {"p": asked.policies["p"].model_copy(update=api)}})
    assert longest_first_prompt(scenario_of(by_api)) == 0
    assert longest_first_prompt(scenario_of(preset_config("plan-path"))) == board, (
        "a character is a token of a tiny model"
    )


def test_without_a_tokenizer_three_characters_count_as_a_token(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, damaged := tmp_path / "damaged")
    (damaged / "tokenizer.json").write_text("{")
    for folder in (damaged, Path("nobody/has-this-model")):
        asked = config(folder, {"prompt": {"replace": "x" * 50}})
        assert longest_first_prompt(scenario_of(asked)) == 28  # 50 x and a board of 32


def test_the_longest_of_several_first_prompts_counts() -> None:
    first, several = (
        scenario_of(preset_config("math-tiny", [f"rollout.num_problems={number}"])) for number in (1, 100)
    )
    assert longest_first_prompt(first) < longest_first_prompt(several)


@pytest.mark.parametrize("nested", [True, False])
def test_the_positions_of_a_model_of_texts_and_of_one_of_pictures_too_are_read(
    base: Path, tmp_path: Path, nested: bool
) -> None:
    shutil.copytree(base, folder := tmp_path / "model")
    bound = {"max_position_embeddings": 30}
    (folder / "config.json").write_text(json.dumps({"text_config": bound} if nested else bound))
    with pytest.raises(ConfigurationError, match="exceed the 30 tokens of max_position_embeddings"):
        check_prompts(scenario_of(config(folder, {"stop": ["x"]})))

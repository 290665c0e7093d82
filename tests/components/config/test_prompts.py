"""Prompts from files: where they are looked for, what is refused, and what becomes of them."""

import os
from pathlib import Path

import pytest

from components.config import PromptConfig
from components.config.prompts import anchor_prompts
from components.errors import ConfigurationError


def test_a_prompt_replaces_or_extends_the_environments_instructions() -> None:
    assert PromptConfig(replace="Plan.").apply("You are a tool.") == "Plan."
    assert PromptConfig(extend="Be brief.").apply("You plan.") == "You plan.\n\nBe brief."
    assert PromptConfig(extend="Be brief.").apply("") == "Be brief."


def test_a_file_becomes_its_text(tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text("Plane. Grüße\n")
    for name in ("replace", "extend"):
        read = PromptConfig.model_validate({f"{name}_file": "plan.txt"}).read("agents.a.prompt", tmp_path)
        assert read == PromptConfig.model_validate({name: "Plane. Grüße\n"})
    (tmp_path / "plan.txt").write_bytes(b"\xef\xbb\xbfOf an editor that marks UTF-8.")
    marked = PromptConfig.model_validate({"replace_file": "plan.txt"}).read("agents.a.prompt", tmp_path)
    assert marked.replace == "Of an editor that marks UTF-8."
    inline = PromptConfig(extend="x")
    assert inline.read("agents.a.prompt", tmp_path / "nowhere") == inline


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file"),
        (b"", "it is blank or too long"),
        (b" \n\t", "it is blank or too long"),
        (b"x" * 65537, "it is blank or too long"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        ("a folder", "there is no such file"),
        ("a pipe", "there is no such file"),
    ],
)
def test_a_file_that_holds_no_prompt_is_named_with_a_remedy(
    content: bytes | str | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "p.txt"
    if content == "a folder":
        file.mkdir()
    elif content == "a pipe":
        os.mkfifo(file)
    elif isinstance(content, bytes):
        file.write_bytes(content)
    with pytest.raises(
        ConfigurationError, match=rf"agents\.a\.prompt\.extend_file 'p\.txt': {message}.*name a UTF-8"
    ) as e:
        PromptConfig(extend_file="p.txt").read("agents.a.prompt", tmp_path)
    assert "\n" not in str(e.value)


def test_paths_are_seen_from_the_folder_of_the_configuration() -> None:
    agents = {
        "a": {"policy": "p", "prompt": {"extend_file": "x/y.txt"}},
        "b": {"policy": "p", "prompt": {"replace_file": "/z.txt"}},
        "c": {"policy": "p", "prompt": {"replace": "x/y.txt"}},
    }
    anchored = anchor_prompts({"seed": 1, "agents": agents}, Path("/home/me"))
    assert [anchored["agents"][role]["prompt"] for role in "abc"] == [
        {"extend_file": "/home/me/x/y.txt"},
        {"replace_file": "/z.txt"},
        {"replace": "x/y.txt"},
    ]
    assert agents["a"]["prompt"] == {"extend_file": "x/y.txt"}


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"agents": 3},
        {"agents": {"a": None}},
        {"agents": {"a": {"prompt": "x"}}},
        {"agents": {"a": {"prompt": {"extend_file": 3}}}},
    ],
)
def test_what_is_no_path_is_left_to_the_validation(values: dict[str, object]) -> None:
    assert anchor_prompts(values, Path("/home/me")) == values

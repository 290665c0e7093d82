"""What names mean: runs, models, scripts, and teams of several."""

from pathlib import Path

import pytest

from components.errors import ConfigurationError
from components.evaluation.subjects import (
    ApiSubject,
    ModelSubject,
    RegisteredSubject,
    RoleMap,
    RunSubject,
    ScriptedSubject,
    Subject,
    models_in,
    parse_subject,
    subjects_in,
)


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("expert", ScriptedSubject("expert")),
        ("plan-path", RunSubject("plan-path")),
        ("plan-path@0", RunSubject("plan-path", 0)),
        ("x" * 5000, RunSubject("x" * 5000)),
        ("\u00e9" * 255, RunSubject("\u00e9" * 255)),
        ("models:/plan-path@best", RegisteredSubject("plan-path@best")),
        ("openai:gpt-4o", ApiSubject("openai", "gpt-4o")),
        ("anthropic:a/b:c", ApiSubject("anthropic", "a/b:c")),
        ("org/model", ModelSubject("org/model")),
        ("./expert", ModelSubject("./expert")),
        ("smollm2-135m", ModelSubject("smollm2-135m")),
        ("a=b@3,c=openai:m", {"a": RunSubject("b", 3), "c": ApiSubject("openai", "m")}),
        ("out/a=b", ModelSubject("out/a=b")),
    ],
)
def test_a_name_means_one_subject(
    text: str, subject: Subject | RoleMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_subject(text) == subject


def test_a_bare_name_is_a_folder_only_if_models_are_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("out/tool", "out/plan", "out/_base", "notes"):
        (tmp_path / name).mkdir(parents=True)
    assert parse_subject("out") == RunSubject("out")
    (tmp_path / "out/tool/config.json").touch()
    (tmp_path / "out/plan/adapter_config.json").touch()
    (tmp_path / "out/_base/config.json").touch()
    assert models_in(tmp_path / "out") == ["plan", "tool"]
    assert parse_subject("out") == ModelSubject("out")
    assert parse_subject("out@3") == RunSubject("out", 3)
    assert parse_subject("notes") == RunSubject("notes")
    monkeypatch.chdir(tmp_path / "out")
    assert parse_subject("tool") == ModelSubject("tool")


def test_the_subjects_of_a_team_are_those_of_its_roles() -> None:
    assert subjects_in(parse_subject("a=b,c=d@1")) == (RunSubject("b"), RunSubject("d", 1))
    assert subjects_in(parse_subject("noop")) == (ScriptedSubject("noop"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plan-path@", "'' is no step; write RUN@STEP, as plan-path@100"),
        ("plan-path@-1", "'-1' is no step"),
        (f"plan-path@{'9' * 5000}", "is no step"),
        ("expert@3", "only a run has steps, and 'expert' is none; write expert"),
        ("a=noop", "a cannot be 'noop', which plays every role"),
        ("a=b,a=c", "a is named twice"),
        ("a=b,c", "'c' is no role with its subject"),
        ("a=", "'a=' is no role with its subject"),
        ("a=b,=c", "'=c' is no role with its subject"),
        ("a=b=c", "'a=b=c' is no role with its subject"),
        ("a=b@x", "'x' is no step"),
    ],
)
def test_a_name_that_means_nothing_is_told(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_subject(text)

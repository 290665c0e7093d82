"""What a stage declares decides its key, and what follows from a flow's stages."""

import json
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from components.config import RunConfig, parse_config
from components.errors import ConfigurationError
from components.runs.pipeline import Pipeline, Stage, When
from components.runs.run import Run, stage_key
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE

DEFAULTS = Path(__file__).with_name("defaults.json")


def declare(name: str, **fields: Any) -> Stage:
    return Stage(**{"name": name, "version": 1, "retries": 0, "delay_seconds": 0, "timeout_seconds": 1, **fields})


def config(**values: Any) -> RunConfig:
    return preset_config("tiny", [f"{path.replace('__', '.')}={json.dumps(value)}" for path, value in values.items()])


THREE = Pipeline(
    (
        declare("start", scope="shared"),
        declare("load", version=None),
        declare("play", reads=("rollout",)),
        declare(
            "score", version=4, reads=("rewards", When(path="rollout", applies=lambda config: True)), needs=("play",)
        ),
    )
)


def test_order_versions_and_restarts_follow_from_the_stages() -> None:
    assert THREE.versions == {"start": 1, "play": 1, "score": 4}
    assert THREE.restartable == ("play", "score"), "neither what runs share nor what stores nothing"
    assert THREE.repeats("play") == ("play", "score")
    assert THREE["score"].needs == ("play",)
    assert (THREE.first_reader("rollout"), THREE.first_reader("rewards")) == ("play", "score")
    with pytest.raises(ConfigurationError, match="stage 'rest' is not known; stages are start, load, play, score"):
        THREE.repeats("rest")


def test_a_pipeline_that_cannot_run_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"score needs .'play'., which no earlier stage makes"):
        Pipeline((declare("score", needs=("play",)), declare("play")))
    with pytest.raises(AssertionError, match="two stages are called play"):
        Pipeline((declare("play"), declare("play")))


def test_a_stage_reads_what_it_names_and_only_what_differs_from_a_default() -> None:
    stage = declare("s", reads=("rollout", "rewards.team_credit", "loss.trains_silent_groups"))
    plain = stage.config_fields(config())
    assert plain["rollout"] == config().model_dump(mode="json", exclude_defaults=True)["rollout"]
    assert "rewards.team_credit" not in plain, "it stands at its default"
    assert plain["loss.trains_silent_groups"] is False, "a property has no default"
    credited = stage.config_fields(config(rewards__team_credit="turn_end"))
    assert credited == plain | {"rewards.team_credit": "turn_end"}
    assert stage.config_fields(config(training__learning_rate=0.5)) == plain
    assert stage.config_fields(config(rollout__temperature=0.5)) != plain


def test_a_condition_decides_whether_a_part_is_read() -> None:
    by_seed = declare("s", reads=(When(path="training", applies=lambda config: config.seed == 5),))
    assert by_seed.config_fields(config()) == {}
    assert by_seed.config_fields(config(seed=5)).keys() == {"training"}


def test_the_servers_of_an_engine_decide_no_result() -> None:
    stage = declare("s", reads=("generation",))
    moved = parse_config(
        config().model_dump() | {"generation": {"engine": "vllm", "vllm": {"urls": ["http://elsewhere:8000"]}}}
    )
    assert stage.config_fields(moved) == stage.config_fields(
        parse_config(config().model_dump() | {"generation": "vllm"})
    )


def test_scope_decides_whose_key_it_is() -> None:
    run = Run(run_id="r7", config=config())
    assert stage_key(declare("s", scope="shared"), run).path.startswith("runs/_shared/steps/000000/s-v1/all/l0-")
    assert stage_key(declare("s"), run, {"step": 3, "part": "a"}).path.startswith("runs/r7/steps/000003/s-v1/a/l0-")


def test_a_changed_default_raises_the_versions_of_the_stages_that_read_it() -> None:
    """Keys leave out defaults. After a change: raise the versions, then run this file to record both."""
    assert list_defaults() == json.loads(DEFAULTS.read_text())


def list_defaults() -> dict[str, Any]:
    """Stage -> its version, and the defaults of all that it reads."""
    found = {}
    for stage in PIPELINE.stages:
        paths = [each if isinstance(each, str) else each.path for each in stage.reads]
        defaults = {
            section: _defaults(RunConfig, section) for section in sorted({path.split(".")[0] for path in paths})
        }
        found[stage.name] = {"version": stage.version, "defaults": defaults}
    plain: dict[str, Any] = json.loads(json.dumps(found, default=_plain))
    return plain


def _defaults(owner: type[BaseModel], name: str) -> Any:
    """What a key leaves out of a field: its default; of the sections in it, those of all their fields."""
    field = owner.model_fields[name]
    sections = _sections(field.annotation)
    if not sections:
        return "required" if field.is_required() else field.default
    return {
        section.__name__: {each: _defaults(section, each) for each in section.model_fields} | _constants(section)
        for section in sections
    }


def _constants(section: type[BaseModel]) -> dict[str, Any]:
    """What a variant fixes of the fields that others have."""
    fields = {name for owner in section.__mro__ if issubclass(owner, BaseModel) for name in owner.model_fields}
    return {name: getattr(section, name) for name in sorted(fields - section.model_fields.keys())}


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """The classes of sections in a type. **Example** `Mapping[str, AgentConfig]`: AgentConfig."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in typing.get_args(annotation) for section in _sections(part)]


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return dict(value) if isinstance(value, Mapping) else str(value)


if __name__ == "__main__":
    DEFAULTS.write_text(json.dumps(list_defaults(), indent=1, sort_keys=True) + "\n")

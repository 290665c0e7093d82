"""The experiment of a run."""

import pytest

from components.config import RunConfig, TrackingConfig
from components.errors import ConfigurationError
from flows.presets import preset_config


@pytest.mark.parametrize(
    ("overrides", "experiment"),
    [
        ([], "troupe/plan_path"),
        (["tracking={url: 'http://host:5000'}"], "troupe/plan_path"),
        (["tracking.experiment=mine"], "mine"),
        (["tracking.experiment=mine/{environment}/a"], "mine/plan_path/a"),
    ],
)
def test_each_environment_has_its_experiment_unless_one_is_named(overrides: list[str], experiment: str) -> None:
    config = preset_config("tiny", overrides)
    assert config.tracking.experiment == experiment
    assert RunConfig.model_validate(config.model_dump(mode="json")) == config, "as frozen and read again"
    values = {**config.model_dump(), "tracking": TrackingConfig()}
    assert RunConfig.model_validate(values).tracking.experiment == "troupe/plan_path"


def test_a_run_of_an_earlier_start_keeps_its_experiment() -> None:
    frozen = preset_config("tiny").model_dump(mode="json")
    frozen["tracking"] = {"kind": "mlflow", "url": None, "experiment": "troupe", "register_models": True}
    assert RunConfig.model_validate(frozen).tracking.experiment == "troupe"


@pytest.mark.parametrize("tracking", ["tracking=7", "tracking.experiment=7", "tracking.traces_per_step=-1"])
def test_a_section_that_is_wrong_is_told(tracking: str) -> None:
    with pytest.raises(ConfigurationError, match="tracking"):
        preset_config("tiny", [tracking])

"""The training part of a configuration: rollouts, advantage, loss and optimizer, without environment and models."""

from typing import Any

from flows.api.petting import run_configs
from flows.api.petting.settings import SETTINGS

_SECTIONS = ("rollout", "algorithm", "loss", "training")


def get_config(config_name: str = "games_single_policy", **settings: Any) -> dict[str, Any]:
    """The training keys of a configuration, for `train(..., **get_config())`. Raises ConfigurationError."""
    whole = run_configs.get_config(config_name, **settings)
    return {key: whole[key] for key, setting in SETTINGS.items() if setting.places[0].partition(".")[0] in _SECTIONS}

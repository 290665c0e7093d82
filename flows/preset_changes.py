"""In which parameters a run differs from its preset."""

import logging

from components.config import RunConfig, parse_config
from components.errors import ConfigurationError
from components.session.publishing import run_params
from components.session.user_sources import with_sources
from flows.presets import all_preset_values

_log = logging.getLogger(__name__)


def list_changes_from_preset(config: RunConfig) -> dict[str, str]:
    """The parameters of `config` that its preset sets otherwise, by name; empty for one that belongs to no preset.

    **Example** preset tiny with `--set rollout.group_size=8` gives `{"rollout.group_size": "8"}`.
    """
    try:
        values = all_preset_values().get(config.preset)
        if values is None:
            return {}
        preset = run_params(with_sources(parse_config(values)))
    except ConfigurationError as error:
        _log.warning("MLflow will not say what differs from preset %s: %s", config.preset, error)
        return {}
    return {name: value for name, value in run_params(config).items() if preset.get(name) != value}

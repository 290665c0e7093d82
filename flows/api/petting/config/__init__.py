"""The named configurations, by domain."""

from flows.api.petting.configs import config_names as config_names
from flows.api.petting.run_configs import get_config as get_config

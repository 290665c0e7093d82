"""A configuration that is known by its name."""

from dataclasses import dataclass
from typing import Any

from flows.api.petting.configs import LEVELS
from flows.api.petting.run_configs import get_config


@dataclass(frozen=True, slots=True)
class NamedConfig:
    """**Example** `NamedConfig("code_single_policy").get_config()["batch_size"]` is 16."""

    name: str

    def get_config(self, **settings: Any) -> dict[str, Any]:
        """The configuration, to be edited, with `settings` in place of its own values. See `get_config`."""
        return get_config(self.name, **settings)


def named_configs(domain: str) -> tuple[NamedConfig, ...]:
    """A domain's configurations: single policy, two policies, and the levels l0 to l3."""
    return tuple(NamedConfig(f"{domain}{end}") for end in LEVELS)

"""The named configurations, a module for each domain, with `single_policy`, `two_policy`, `l0` to `l3`; and `ppo_trainer`."""

from functools import partial

from flows.api.petting.configs import DOMAINS, LEVELS, get_config, training_keys
from flows.api.petting.module_paths import add_module

add_module(f"{__name__}.ppo_trainer", "The training part of a configuration.", get_config=training_keys)
for _domain in DOMAINS:
    add_module(f"{__name__}.{_domain}", f"Configurations of {_domain}.")
    for _end in LEVELS:
        _name = f"{_domain}{_end}"
        add_module(
            f"{__name__}.{_domain}.{_end[1:]}", f"The configuration {_name}.", get_config=partial(get_config, _name)
        )

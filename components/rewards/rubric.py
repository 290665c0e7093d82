"""The rubric of a run: the default weights of the environment and of custom functions, overridden by the configuration."""

from components.config import RewardConfig
from components.environments.family import Family
from components.errors import ConfigurationError
from components.rewards.base import Rubric
from components.text.suggestions import suggest


def rubric_for(family: Family, config: RewardConfig, *, from_start: bool = False) -> Rubric:
    """`family`'s weights, and 1 for each custom function, overridden by `config`.

    With `from_start` it is the rubric of whole episodes: progress counts from their start, and the family's `return_weights`
    apply. Raises ConfigurationError for an unknown component, with the nearest known one.
    """
    of_episodes = family.return_weights if from_start else {}
    known = {**family.default_weights, **of_episodes, **dict.fromkeys(config.own_components, 1.0)}
    for component, weight in config.weights.items():
        if component not in known:
            remedy = suggest(component, known, otherwise=f"{family.name} has {', '.join(sorted(known))}")
            raise ConfigurationError(f"rewards.weights.{component} = {weight}: unknown component; {remedy}")
    return Rubric(team_weight=config.team_weight, weights={**known, **config.weights}, from_start=from_start)

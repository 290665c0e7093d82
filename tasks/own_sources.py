"""Source digests of the user's own code in a configuration, so that a changed file has other stage keys."""

from components.config import RunConfig
from components.environments.registry import source_of
from components.own_code import is_own, own_source


def with_sources(config: RunConfig) -> RunConfig:
    """`config` with the source digests of the own code that it names. Raises ConfigurationError."""
    functions, advantage, loss = config.rewards.functions, config.algorithm.advantage, config.loss.policy_loss
    rewards = {name: own_source("rewards.functions", name) for name in functions}
    of_advantage = own_source("algorithm.advantage", advantage) if is_own(advantage) else None
    of_loss = own_source("loss.policy_loss", loss) if is_own(loss) else None
    return with_environment_source(config).model_copy(
        update={
            "rewards": config.rewards.model_copy(update={"sources": rewards}),
            "algorithm": config.algorithm.model_copy(update={"source": of_advantage}),
            "loss": config.loss.model_copy(update={"source": of_loss}),
        }
    )


def with_environment_source(config: RunConfig) -> RunConfig:
    """`config` with the source digest of its environment only, for evaluation, which uses no other own code."""
    section = config.environment
    return config.model_copy(update={"environment": section.model_copy(update={"source": source_of(section.name)})})

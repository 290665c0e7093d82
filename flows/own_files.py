"""What a configuration takes from the user's own files.

Of these it holds digests of code and data and the texts of prompts, so that a changed file has other stage keys. Paths of data
become absolute, so that a run is played and evaluated from any folder.
"""

from pathlib import Path
from typing import TypeVar

from components.config import AgentConfig, AlgorithmConfig, LossConfig, RunConfig
from components.environments.registry import anchor_options, check_files_are_current, digest_data, source_of
from components.user_code import is_custom, read_current_source

Section = TypeVar("Section", AlgorithmConfig, LossConfig)


def with_sources(config: RunConfig) -> RunConfig:
    """`config` with the source digests of the own code and data that it names, and its prompts read, for a start.

    Raises ConfigurationError, also for files that have changed since this process read them.
    """
    rewards = {name: read_current_source("rewards.functions", name) for name in config.rewards.functions}
    return with_environment_source(config).model_copy(
        update={
            "agents": {role: _with_prompt(role, agent) for role, agent in config.agents.items()},
            "rewards": config.rewards.model_copy(update={"sources": rewards}),
            "algorithm": _with_source("algorithm", config.algorithm),
            "loss": _with_source("loss", config.loss),
        }
    )


def _with_source(section: str, config: Section) -> Section:
    name = getattr(config, config.chosen_by)
    if not is_custom(name):
        return config
    return config.model_copy(update={"source": read_current_source(f"{section}.{config.chosen_by}", name)})


def _with_prompt(role: str, agent: AgentConfig) -> AgentConfig:
    if agent.prompt is None:
        return agent
    return agent.model_copy(update={"prompt": agent.prompt.read(f"agents.{role}.prompt", Path.cwd())})


def with_environment_source(config: RunConfig) -> RunConfig:
    """`config` with the digests of its environment's source and data, and absolute paths of data; evaluation uses no other
    files. Raises ConfigurationError."""
    section = config.environment
    options = anchor_options(section.name, section.options, Path.cwd())
    check_files_are_current(section.name, options)
    digests = {"source": source_of(section.name, options), "data": digest_data(section.name, options)}
    return config.model_copy(update={"environment": section.model_copy(update={**digests, "options": options})})

"""What a configuration takes from the user's own files, so that a changed file has other stage keys: source digests of own
code, and the texts of prompts. Paths of data become absolute, so that a run is played and evaluated from any folder."""

from pathlib import Path

from components.config import AgentConfig, RunConfig
from components.environments.registry import anchored_options, source_of
from components.user_code import is_own, own_source


def with_sources(config: RunConfig) -> RunConfig:
    """`config` with the source digests of the own code that it names, and its prompts read. Raises ConfigurationError."""
    functions, advantage, loss = config.rewards.functions, config.algorithm.advantage, config.loss.policy_loss
    rewards = {name: own_source("rewards.functions", name) for name in functions}
    of_advantage = own_source("algorithm.advantage", advantage) if is_own(advantage) else None
    of_loss = own_source("loss.policy_loss", loss) if is_own(loss) else None
    return with_environment_source(config).model_copy(
        update={
            "agents": {role: _with_prompt(role, agent) for role, agent in config.agents.items()},
            "rewards": config.rewards.model_copy(update={"sources": rewards}),
            "algorithm": config.algorithm.model_copy(update={"source": of_advantage}),
            "loss": config.loss.model_copy(update={"source": of_loss}),
        }
    )


def _with_prompt(role: str, agent: AgentConfig) -> AgentConfig:
    if agent.prompt is None:
        return agent
    return agent.model_copy(update={"prompt": agent.prompt.read(f"agents.{role}.prompt", Path.cwd())})


def with_environment_source(config: RunConfig) -> RunConfig:
    """`config` with its environment's source digest and absolute paths of data; evaluation uses no other files."""
    section = config.environment
    options = anchored_options(section.name, section.options, Path.cwd())
    changed = section.model_copy(update={"source": source_of(section.name), "options": options})
    return config.model_copy(update={"environment": changed})

"""Whether a run fits into memory, asked before any weights are loaded."""

from collections import Counter

from components.config import RunConfig
from components.training.memory import Device, check_fits, engine_bytes, host_bytes, training_bytes
from components.training.model_numbers import numbers_of
from components.training.sharing import starting_models

_PROMPT_TOKENS = 512
"""Tokens of a prompt, which no field limits."""


def check_memory(config: RunConfig) -> None:
    """Raise ConfigurationError if weights, optimizer, activations and engines need more than the devices have.

    Models of base "tiny", and those that are not on this machine yet, are not counted. One update runs at a time per base.
    """
    parts: dict[Device, Counter[str]] = {"cpu": Counter(), "cuda": Counter()}
    for names in starting_models(config.policies).values():
        policies = [config.policies[name] for name in names]
        if policies[0].base == "tiny" or (model := numbers_of(policies)) is None:
            continue
        available = available_bytes(config.generation.device)
        sampled = engine_bytes(model, config.generation, num_tokens=tokens_at_once(config), device_bytes=available)
        parts[config.generation.device].update(sampled)
        if any(policy.trained for policy in policies):
            with_reference = config.loss.kl_coefficient > 0
            parts[config.training.device].update(training_bytes(model, config.training, with_reference=with_reference))
    for device, needed in parts.items():
        if needed:
            check_fits(needed, available_bytes(device), device=device)


def tokens_at_once(config: RunConfig) -> int:
    """The most tokens that the engine holds while a block of problems is played."""
    longest = max((agent.max_new_tokens or 0) for agent in config.agents.values())
    rollout = config.rollout
    return min(rollout.problems_per_block, rollout.num_problems) * (_PROMPT_TOKENS + rollout.group_size * longest)


def available_bytes(device: Device) -> int:
    """The memory of this host, or of its first GPU."""
    if device == "cpu":
        return host_bytes()
    import torch

    return int(torch.cuda.get_device_properties(0).total_memory)

"""Changes of the user's own code in a configuration: its source digests, and the first stage that depends on each."""

from collections.abc import Sequence

from components.config.run import RunConfig

_FIRST_STAGES = {
    "environment.source": "collect_rollouts",
    "rewards.sources": "compute_rewards",
    "algorithm.source": "compute_advantages",
    "loss.source": "update_policy",
}


def changed_sources(config: RunConfig, changes: Sequence[str]) -> dict[str, str]:
    """Name of own code -> the first stage that it changes; empty if `changes` (`path: old -> new`) name any other field.

    **Example** a change of "rewards.sources.mine:brevity" alone is {"mine:brevity": "compute_rewards"}.
    """
    names = {
        "environment.source": config.environment.name,
        "algorithm.source": config.algorithm.advantage,
        "loss.source": config.loss.policy_loss,
        **{f"rewards.sources.{name}": name for name in config.rewards.functions},
    }
    paths = [change.partition(": ")[0] for change in changes]
    if not set(paths) <= names.keys():
        return {}
    return {names[path]: _FIRST_STAGES[path.removesuffix(f".{names[path]}")] for path in paths}

"""Changes of the user's own code in a configuration: its source digests, and the section of each."""

from collections.abc import Sequence

from components.config.run import RunConfig


def changed_sources(config: RunConfig, changes: Sequence[str]) -> dict[str, str]:
    """Name of own code -> its section; empty if `changes` (`path: old -> new`) name any other field.

    **Example** a change of "rewards.sources.mine:brevity" alone is {"mine:brevity": "rewards"}.
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
    return {names[path]: path.partition(".")[0] for path in paths}

"""Environments in these tests tell the rewards of their newest outcomes."""

from tests.components.environments.newest_rewards import keep_newest_rewards

keep_newest_rewards()
